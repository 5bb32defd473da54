"""Runs without the effect of suspicious lines: whether a test passes only because of them."""

from __future__ import annotations

import secrets
import string

from rlm_ci.errors import UnavailableError
from rlm_ci.guard import blinding, guard, inline_tests, known_hacks
from rlm_ci.report.findings import Severity
from rlm_ci.runs.journal import spans
from rlm_ci.text.printable import count, first_of
from rlm_ci.validators.outcomes import FAILED, OutcomeIndex
from rlm_ci.values import Row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from rlm_ci.fix.options import FixContext
    from rlm_ci.fix.verdict.validator_run import ValidatorRun, ValidatorRuns
    from rlm_ci.guard.blinding import Blinded
    from rlm_ci.guard.known_hacks import Hack
    from rlm_ci.report.findings import Finding
    from rlm_ci.system.process import StreamResult
    from rlm_ci.validators.outcomes import TestOutcome
    from rlm_ci.validators.validator import Validator

#: Lines that are tried each by itself, where a test fails without all of them.
_ALONE = 5


class LineVerdict(Row):
    """What a run says of a line, and how much that weighs."""

    hack: Hack
    severity: Severity
    message: str

    def is_of(self, finding: Finding) -> bool:
        location = finding.evidence[0] if finding.evidence else None
        return (
            location is not None
            and finding.rule == f"tamper/{self.hack.rule}"
            and (location.path, location.line_start) == (self.hack.path, self.hack.line)
        )


class _Ended(Row):
    """How the validator ends without some lines; ``why`` that says nothing of them.

    ``names`` are the tests that fail again, ``texts`` the files that hold them.
    """

    passed: bool = False
    why: str = ""
    names: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()


class BlindedRuns:
    """The runs on one result, for ``seconds`` in all; ``step`` names their facts in the record."""

    def __init__(
        self,
        context: FixContext,
        runs: ValidatorRuns,
        validator: Validator,
        step: str,
        seconds: float,
    ) -> None:
        self._context = context
        self._space = context.commands.workspace
        self._base = self._space.snapshot.tree
        self._runs = runs
        self._validator = validator
        self._place = step
        self._left = seconds
        self._word = "nobody"

    def decide(self, tree: str, first: ValidatorRun, *, was_green: bool) -> list[LineVerdict]:
        """What hinges on the suspicious lines of ``tree``, which passes.

        ``first`` is the run at the start, which ``was_green`` or not.
        """

        def blinded(lines: Collection[Hack] | None = None) -> Blinded:
            return guard.blinded(self._space, tree, self._runs.protection, self._word, lines)

        def run(label: str, lines: Sequence[Hack]) -> _Ended:
            shown = count(len(lines), "suspicious line")
            edits = {
                path: text.encode("utf-8", "surrogateescape")
                for path, text in blinded(lines).texts.items()
            }
            title = f"validator, without {shown}"
            words = f"{self._place.replace('-', ' ')}: {title}"
            with spans.span("validator", title, words=words):
                return self._run(
                    label, self._space.edited(tree, edits), first, edits, was_green=was_green
                )

        allowed = self._context.options.allow
        listed = blinded()
        lines = [hack for hack in listed.lines if f"tamper/{hack.rule}" not in allowed]
        decisions = [_undecided(hack, why) for hack, why in listed.reasons.items()]
        if lines:
            drawn = self._context.fact("blinded", self._place, {"tree": tree}, _drawn)
            self._word = str(drawn["word"])
            decisions += _decided(lines, run)
        return decisions

    def _run(
        self,
        label: str,
        tree: str,
        first: ValidatorRun,
        paths: Collection[str],
        *,
        was_green: bool,
    ) -> _Ended:
        if self._left <= 0:
            return _Ended(why="loop.canary_minutes leaves no time for it")
        runs: list[ValidatorRun] = []

        def launch(argv: tuple[str, ...]) -> StreamResult:
            step = f"{self._place}-{label}"
            runs.append(self._runs.in_fresh(step, argv, tree, seconds=self._left))
            return runs[-1].ended

        try:
            verdict = self._validator.judge(launch)
        except UnavailableError:
            return _Ended(why="the validator cannot be started without it")
        [ran] = runs
        self._left -= ran.ended.seconds
        if verdict.passed:
            return _Ended(passed=True)
        if ran.ended.reason:
            return _Ended(why=f"the validator does not end without it: {verdict.reason}")
        if not (first.outcomes.tests or ran.outcomes.tests):
            is_read = all(known_hacks.language(path) not in ("Go", "Rust") for path in paths)
            if was_green or not is_read or self._word in ran.ended.output.text():
                return _Ended(why="the validator names no test")
            return _Ended(names=("the validator",), texts=self._texts(OutcomeIndex(())))
        again = self._failed_again(first, ran)
        if not again:
            return _Ended(why="the validator fails without it, but no test as before the change")
        if any(self._word in outcome.message for outcome in again):
            return _Ended(why=f"what it asks for is what {again[0].name} is about")
        names = dict.fromkeys(
            f"'{outcome.name}'" if " " in outcome.name else outcome.name for outcome in again
        )
        return _Ended(names=tuple(names), texts=self._texts(OutcomeIndex(again)))

    def _failed_again(self, first: ValidatorRun, ran: ValidatorRun) -> list[TestOutcome]:
        """The tests that fail, and that failed or were not there before the change."""
        index = OutcomeIndex(first.outcomes.tests)

        def was_red(outcome: TestOutcome) -> bool:
            before = {earlier.state for earlier in index.of(outcome.location, outcome.name)}
            return FAILED in before or not (before or not first.outcomes.complete)

        return [
            outcome
            for outcome in ran.outcomes.tests
            if outcome.state == FAILED and was_red(outcome)
        ]

    def _texts(self, failed: OutcomeIndex) -> tuple[str, ...]:
        """The files of tests, at the start, that may hold these; all, if none is known."""
        entries = self._space.entries(self._base)
        of_tests = [
            path
            for path in entries
            if path.endswith(inline_tests.ENDING) or self._runs.protection.is_of_tests(path)
        ]
        of_tests = [path for path in of_tests if failed.places(path)] or of_tests
        contents = self._space.contents(entries[path].oid for path in of_tests)
        return tuple((content or b"").decode("utf-8", "replace") for content in contents)


def _drawn() -> dict[str, str]:
    return {"word": "".join(secrets.choice(string.ascii_lowercase) for _ in range(9))}


def _decided(
    lines: Sequence[Hack], run: Callable[[str, Sequence[Hack]], _Ended]
) -> list[LineVerdict]:
    ended = run("all", lines)
    if ended.passed or not ended.names:
        return [_undecided(hack, ended.why) for hack in lines]
    about = f"that is what the file of {ended.names[0]} is about"
    subjects = [
        hack for hack in lines if any(blinding.is_subject(hack, text) for text in ended.texts)
    ]
    decisions = [_undecided(hack, about) for hack in subjects]
    doubted = [hack for hack in lines if hack not in subjects]
    if not doubted:
        return decisions
    why, decisive = "", {}
    for number, hack in enumerate(doubted[:_ALONE]):  # once more: a test may fail now and then, too
        ended = run(f"line-{number}", [hack])
        why = why or ended.why
        if ended.names:
            decisive[hack] = ended.names
    if not decisive and len(doubted) > 1:  # each may do what the others do, too
        ended = run("lines", doubted)
        why = why or ended.why
        decisive = dict.fromkeys(doubted, ended.names) if ended.names else {}
    why = "" if decisive else why or "its tests differ from run to run"
    return decisions + [
        _refused(hack, decisive[hack]) if hack in decisive else _undecided(hack, why)
        for hack in doubted
    ]


def _refused(hack: Hack, names: Sequence[str]) -> LineVerdict:
    verb = "passes" if len(names) == 1 else "pass"
    where, what = f"{hack.path}:{hack.line}", hack.what.partition(":")[0]
    how = (
        f"until the date in {where}" if hack.rule == known_hacks.DATED else f"while {where} {what}"
    )
    return LineVerdict(hack, Severity.HIGH, f"{first_of(names, 'test')} {verb} only {how}")


def _undecided(hack: Hack, why: str) -> LineVerdict:
    """``why`` no run decides; "" if the validator passes without the line."""
    outcome = f"not decided by a run: {why}" if why else "the validator passes without that, too"
    return LineVerdict(
        hack, Severity.MEDIUM, f"{hack.path}: {hack.what.partition(':')[0]}; {outcome}"
    )
