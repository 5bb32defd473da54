"""The results of changed tests, and the findings from them."""

from __future__ import annotations

from rlm_ci.canary.forms import ALTERED, INVERTED, REWORDED, STOPPED
from rlm_ci.report.findings import Finding, Location, Severity
from rlm_ci.text.printable import count, printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rlm_ci.canary.forms import FoundTest
    from rlm_ci.validators.outcomes import TestOutcomes

RULE = "tamper/disarmed"
#: Wrong results of a changed test.
PASSES, FAILS, MISSING, SILENT = "passes", "fails", "missing", "silent"
#: The most findings about tests: all are alike if nothing can fail any more.
_MOST = 5
_NAME = 200
_HINT = f"remove the code that decides how tests end; --allow {RULE} accepts it"
_UNTOLD = "fails, but not with the message that its changed claim prints"
_MANNERS = {
    (ALTERED, PASSES): "passes where it expects something else",
    (INVERTED, PASSES): "passes with its claim reversed",
    (STOPPED, PASSES): "passes with a failing statement in it",
    (REWORDED, FAILS): "fails where only its wording changed",
    (ALTERED, SILENT): _UNTOLD,
    (INVERTED, SILENT): _UNTOLD,
    (STOPPED, SILENT): _UNTOLD,
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
    """A wrong result: ``what`` a test did, in which copy, and in how many cases (``shown``)."""

    subject: TargetTest
    copy: int
    form: str
    what: str
    shown: str = ""


class CanaryResult(Value):
    """Findings, one line for people, and changed texts to look at, by path."""

    findings: tuple[Finding, ...]
    line: str
    texts: Mapping[str, str]


def findings(
    doubts: Iterable[FailedProbe], whole: Iterable[str], texts: Mapping[str, str]
) -> tuple[Finding, ...]:
    """Findings for doubts about tests, and about ``whole`` runs of them.

    High if one of the tests failed at the start, else medium.
    """
    by_test = {one.subject.key: one for one in doubts}
    whole = list(dict.fromkeys(whole))
    is_high = any(one.subject.was_red for one in by_test.values()) or bool(whole)
    severity = Severity.HIGH if is_high else Severity.MEDIUM
    found = [_finding(severity, what) for what in whole]
    for one in by_test.values():
        path, test = one.subject.path, one.subject.test
        lines = texts[path].split("\n")
        quote = lines[test.line - 1].rstrip("\r") if test.line <= len(lines) else None
        name, manner = printable(test.name)[:_NAME], _MANNERS[one.form, one.what]
        message = f"{printable(path)[:_NAME]}: {name} {manner}{one.shown}"
        place = Location(path, test.line, test.line, "old", None, quote)
        found.append(_finding(severity, message, place).replace(subject=name))
    if len(found) > _MOST:
        found[_MOST:] = [_finding(severity, f"and {count(len(found) - _MOST, 'more test')}")]
    return tuple(found)


def _finding(severity: Severity, message: str, *places: Location) -> Finding:
    return Finding(RULE, severity, message, hint=_HINT, evidence=places, domain="tamper")
