"""Runs of the validator on changed tests: which files are changed, where, and for how long."""

from __future__ import annotations

import secrets

from rlm_ci.canary import readers
from rlm_ci.canary.answers import ValidatorAnswer
from rlm_ci.canary.probe import COPIES, NOT_PROBED, Canary
from rlm_ci.guard import inline_tests
from rlm_ci.report.findings import Finding, Severity
from rlm_ci.text.printable import first_of
from rlm_ci.validators import test_counts
from rlm_ci.validators.outcomes import FAILED, OutcomeIndex

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from rlm_ci.fix.options import FixContext
    from rlm_ci.fix.verdict.validator_run import ValidatorRun, ValidatorRuns
    from rlm_ci.validators.outcomes import TestOutcome, TestOutcomes

#: What fails only where pytest's tests do not see its environment variables.
ENVIRONMENT = "tamper/environment"
#: Bytes of an output that are kept: nearly every test fails, and each has to be named.
_KEEP = 16 << 20


class ChangedTestRuns:
    """The canary of one result; ``step`` names its facts in the record of the run.

    ``left`` are the seconds that runs on changed files may still take.
    """

    def __init__(
        self, context: FixContext, runs: ValidatorRuns, argv: tuple[str, ...], step: str
    ) -> None:
        self.left = self._most = context.options.canary_seconds
        self._runs = runs
        self._space = context.commands.workspace
        self._argv = argv
        self._fact = context.fact
        self._place = step
        self._known: dict[str, bytes] = {}
        self._tree = self._landed = ""
        #: Seconds of the first run, and of the slowest.
        self._first = self._slowest = 0.0

    def probe(
        self,
        tree: str,
        landed: str,
        first: ValidatorRun,
        verdict: ValidatorRun,
        hidden: ValidatorRun | None = None,
    ) -> tuple[tuple[Finding, ...], str, Mapping[str, str]]:
        """Findings, a line for people, and changed texts to look at by path.

        ``tree`` is what the ``verdict`` was taken on, ``landed`` the result with new tests;
        ``first`` and ``hidden`` are the runs at the start and without pytest's variables.
        """
        self._tree, self._landed = tree, landed
        self._first, self._slowest = first.ended.seconds, verdict.ended.seconds
        entries = self._space.entries(tree)
        paths = sorted(
            path
            for path, entry in entries.items()
            if entry.is_file and self._may_hold(path, verdict.outcomes.test_files)
        )
        answer = _answer(verdict)
        if not (first.outcomes.tests or answer.outcomes.tests or answer.judged):
            return (), f"{NOT_PROBED}, the validator reports no test", {}
        if not any(map(readers.is_known, paths)):
            return (), f"{NOT_PROBED}, no test that ran can be changed", {}
        contents = self._space.contents(entries[path].oid for path in paths)
        self._known = {
            path: data for path, data in zip(paths, contents, strict=True) if data is not None
        }
        drawn = self._fact(
            "canary", self._place, {"tree": tree}, lambda: {"secret": secrets.token_hex(16)}
        )
        estimate = len(COPIES) * verdict.ended.seconds
        probed = Canary(
            self._known,
            first.outcomes,
            answer,
            self._run,
            secret=str(drawn["secret"]),
            share=min(1.0, self._most / estimate) if estimate else 1.0,
            has_new=landed != tree,
            slowness=self._slowness,
        ).probe()
        return probed.findings + _hidden(first.outcomes, hidden), probed.line, probed.texts

    def _may_hold(self, path: str, names: Collection[str]) -> bool:
        """Whether a file may have tests; those that did not run stay as they are."""
        if path in names or path.endswith(inline_tests.ENDING):
            return True
        return readers.is_known(path) and self._runs.protection.is_of_tests(path)

    def _run(
        self,
        label: str,
        texts: Mapping[str, str],
        *,
        at_start: bool = False,
        with_new: bool = False,
    ) -> ValidatorAnswer | None:
        """Run the validator with these texts; None where no time is left."""
        changed = {
            path: text.encode(readers.encoding(path, self._known[path]), "surrogateescape")
            for path, text in texts.items()
        }
        base = self._landed if with_new else self._tree
        if at_start:
            base = self._space.snapshot.tree
            changed = inline_tests.moved(self._space, base, changed)
        return self._ran(label, self._space.edited(base, changed))

    def _ran(self, label: str, tree: str) -> ValidatorAnswer | None:
        if self.left <= 0:
            return None
        step = f"{self._place}-{label}"
        ran = self._runs.in_fresh(step, self._argv, tree, seconds=self.left, keep=_KEEP)
        self.left -= ran.ended.seconds
        self._slowest = max(self._slowest, ran.ended.seconds)
        return _answer(ran)

    def _slowness(self) -> str:
        """How slow the tests became, if there was time enough for them as they were; else ""."""
        if self._first * len(COPIES) > self._most:
            return ""
        return (
            f"a run of the validator takes {self._slowest:.1f} s, and took {self._first:.1f} s "
            f"before any edit; loop.canary_minutes allows {self._most:.0f} s"
        )


def _hidden(first: TestOutcomes, ran: ValidatorRun | None) -> tuple[Finding, ...]:
    """What fails where pytest's tests do not see its environment variables."""
    if ran is None or ran.ended.reason or ran.ended.returncode < 0:
        return ()
    index = OutcomeIndex(first.tests)

    def was_red(outcome: TestOutcome) -> bool:
        return any(was.state == FAILED for was in index.of(outcome.location, outcome.name))

    failed = [test for test in ran.outcomes.tests if test.state == FAILED]
    failed.sort(key=was_red, reverse=True)
    if not failed:
        return ()
    names = first_of([outcome.name for outcome in failed], "test")
    return (
        Finding(
            ENVIRONMENT,
            Severity.MEDIUM if was_red(failed[0]) else Severity.INFO,
            f"{names} fails without PYTEST_CURRENT_TEST and PYTEST_VERSION",
            hint="check whether the code behaves differently under pytest",
            domain="tamper",
        ),
    )


def _answer(ran: ValidatorRun) -> ValidatorAnswer:
    ended, output = ran.ended, ran.ended.output.text()
    counted = test_counts.parse(output)
    return ValidatorAnswer(
        ran.outcomes,
        output,
        ended.returncode,
        stopped="a run was cut short" if ended.reason else "",
        clipped=bool(ended.output.omitted),
        judged=sum(tests.judged for tests in counted.values()) if counted else None,
        rewritten=frozenset(ran.written),
    )
