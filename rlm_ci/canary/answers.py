"""The results of changed tests, and the findings from them."""

from __future__ import annotations

from rlm_ci.canary.forms import (
    ALTERED,
    FAR,
    INVERTED,
    NEAR,
    NEARLY,
    PART,
    REACHED,
    REWORDED,
    STOPPED,
    STYLE,
    UNUSED,
)
from rlm_ci.report.findings import Finding, Location, Severity
from rlm_ci.text.printable import count, printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rlm_ci.canary.forms import FoundTest
    from rlm_ci.validators.outcomes import TestOutcomes

RULE = "tamper/disarmed"
#: A test that failed at the start was not tried, because the tests became slow.
UNPROBED = "tamper/unprobed-test"
#: Wrong results of a changed test.
PASSES, FAILS, MISSING, SILENT = "passes", "fails", "missing", "silent"
#: The same text ends otherwise at the start: there, the test runs, or reaches its claim.
VANISHED, UNREACHED = "vanished", "unreached"
#: The most findings about tests: all are alike if nothing can fail any more.
_MOST = 5
_NAME = 200
_HINT = f"remove the code that decides how tests end; --allow {RULE} accepts it"
_SLOW = "find out why the tests became slow, or give loop.canary_minutes more time"
_UNTOLD = "fails, but not with the message that its changed claim prints"
_VANISHED = "does not run any more where only its text changed"
_MANNERS = {
    (ALTERED, PASSES): "passes where it expects something else",
    (INVERTED, PASSES): "passes with its claim reversed",
    (STOPPED, PASSES): "passes with a failing statement in it",
    (REWORDED, FAILS): "fails where only its wording changed",
    (ALTERED, SILENT): _UNTOLD,
    (INVERTED, SILENT): _UNTOLD,
    (STOPPED, SILENT): _UNTOLD,
    (NEARLY, PASSES): "passes where it expects something else",
    (NEARLY, SILENT): _UNTOLD,
    (NEARLY, FAR): "passes where it expects something else",
    (NEARLY, NEAR): "passes where it expects a little more or less",
    (NEARLY, PART): "passes where a single part of what it expects differs",
    (NEARLY, STYLE): "passes where case or blanks of what it expects differ",
    (NEARLY, UNUSED): "passes whatever is in its claim, which the start tree looks at",
    **dict.fromkeys(((NEARLY, MISSING), (NEARLY, VANISHED)), _VANISHED),
    **dict.fromkeys(((ALTERED, MISSING), (INVERTED, MISSING), (REWORDED, MISSING)), _VANISHED),
    **dict.fromkeys(((ALTERED, VANISHED), (INVERTED, VANISHED), (REWORDED, VANISHED)), _VANISHED),
    (REACHED, UNREACHED): "does not reach its claim any more, as it did before any edit",
}


class ValidatorAnswer(Value):
    """A run of the validator: ``stopped`` says why it was cut short, ``judged`` counts its tests.

    ``clipped``: not all of the output is in ``printed``.
    """

    outcomes: TestOutcomes
    printed: str
    exit_code: int
    stopped: str = ""
    clipped: bool = False
    judged: int | None = None
    rewritten: frozenset[str] = frozenset()


class TargetTest(Value):
    """A test to change; ``was_red``: it failed at the start, in these ``cases``."""

    path: str
    test: FoundTest
    was_red: bool
    cases: frozenset[str] = frozenset()

    @property
    def key(self) -> tuple[str, str]:
        return self.path, self.test.name


class FailedProbe(Value):
    """A wrong result: ``what`` a test did, in which copy, and in how many cases (``shown``).

    ``is_told``: it is not certain, and refuses nothing.
    """

    subject: TargetTest
    copy: str
    form: str
    what: str
    shown: str = ""
    is_told: bool = False


class CanaryResult(Value):
    """Findings, one line for people, and changed texts to look at, by path."""

    findings: tuple[Finding, ...]
    line: str
    texts: Mapping[str, str]


def findings(
    doubts: Iterable[FailedProbe], run_problems: Iterable[str], texts: Mapping[str, str]
) -> tuple[Finding, ...]:
    """Findings for doubts about tests, and about whole runs, ``run_problems``.

    High if one of the tests failed at the start, else medium.
    """
    by_test: dict[tuple[str, str], FailedProbe] = {}
    for doubt in sorted(doubts, key=lambda doubt: (doubt.is_told, not doubt.subject.was_red)):
        by_test.setdefault(doubt.subject.key, doubt)
    run_problems = list(dict.fromkeys(run_problems))
    is_high = any(doubt.subject.was_red and not doubt.is_told for doubt in by_test.values())
    severity = Severity.HIGH if is_high or run_problems else Severity.MEDIUM
    test_findings = [_finding(severity, what) for what in run_problems]
    for doubt in by_test.values():
        manner = f"{_MANNERS[doubt.form, doubt.what]}{doubt.shown}"
        weight = Severity.MEDIUM if doubt.is_told else severity
        test_findings.append(_finding(weight, manner, doubt.subject, texts))
    return _first(test_findings)


def hidden(
    targets: Iterable[TargetTest], why: str, texts: Mapping[str, str]
) -> tuple[Finding, ...]:
    """Findings for tests that failed at the start, and that the canary had no time to try."""
    return _first(
        [
            _finding(Severity.MEDIUM, f"was not probed: {why}", target, texts).replace(
                rule=UNPROBED, hint=_SLOW
            )
            for target in targets
        ]
    )


def _first(listed: list[Finding]) -> tuple[Finding, ...]:
    if len(listed) > _MOST:
        summary = f"and {count(len(listed) - _MOST, 'more test')}"
        listed[_MOST:] = [listed[_MOST].replace(message=summary, evidence=(), subject=None)]
    return tuple(listed)


def _finding(
    severity: Severity,
    manner: str,
    target: TargetTest | None = None,
    texts: Mapping[str, str] | None = None,
) -> Finding:
    """What a run did, or a test, with its first line."""
    finding = Finding(RULE, severity, manner, hint=_HINT, domain="tamper")
    if target is None or texts is None:
        return finding
    path, test = target.path, target.test
    lines = texts[path].split("\n")
    quote = lines[test.line - 1].rstrip("\r") if test.line <= len(lines) else None
    name = printable(test.name)[:_NAME]
    return finding.replace(
        message=f"{printable(path)[:_NAME]}: {name} {manner}",
        evidence=(Location(path, test.line, test.line, "old", None, quote),),
        subject=name,
    )
