"""A last run of the validator as the user has it: beside what git ignores, without our plugin."""

from __future__ import annotations

from rlm_ci.report.findings import Finding, Severity
from rlm_ci.runs.journal import spans
from rlm_ci.text.printable import first_of
from rlm_ci.validators.outcomes import FAILED, OutcomeIndex

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rlm_ci.fix.options import FixContext
    from rlm_ci.fix.verdict.validator_run import ValidatorRun, ValidatorRuns
    from rlm_ci.system.process import StreamResult
    from rlm_ci.validators.outcomes import TestOutcome, TestOutcomes
    from rlm_ci.validators.validator import Validator, Verdict

#: What holds only where rlm-ci runs it.
ONLY_IN_COPY = "tamper/only-in-copy"


class PlainRun:
    """The run for one result. ``line`` says what came of it, once it is ``judged``."""

    def __init__(
        self, context: FixContext, runs: ValidatorRuns, validator: Validator, iteration: int
    ) -> None:
        self._context = context
        self._runs = runs
        self._validator = validator
        self._iteration = iteration
        self._ran: ValidatorRun | None = None
        self.line = ""

    def judged(
        self, result: str, tree: str, start: str, first: TestOutcomes
    ) -> tuple[Finding, ...]:
        """What speaks against ``result``, the tree to be applied.

        One that fails is tried once more on ``tree``, which the last verdict was taken on. What
        fails at the ``start`` of the run, too, but not in the ``first`` run, is not its fault.
        """
        if not self._context.options.isolated:
            self.line = "no plain run: there is no sandbox for it"
            return ()
        verdict = self._verdict("plain", result)
        if not verdict.passed and not self._is_cut:
            verdict = self._verdict("plain-again", tree)
        if verdict.passed:
            self.line = f"a plain run passes, too{self._without}"
            return ()
        if self._is_cut:
            self.line = f"a plain run did not end: {verdict.reason}"
            return (self._finding(Severity.MEDIUM, self.line),)
        failed = self._failed()
        self._verdict("plain-start", start)
        before, index = OutcomeIndex(self._failed()), OutcomeIndex(first.tests)
        if failed and all(
            any(before.of(outcome.place, outcome.name))
            and all(was.state != FAILED for was in index.of(outcome.place, outcome.name))
            for outcome in failed
        ):
            self.line = f"a plain run fails as before: {first_of(_names(failed), 'test')}"
            return (self._finding(Severity.MEDIUM, self.line),)
        example = f": {first_of(_names(failed), 'test')}" if failed else f": {verdict.reason}"
        self.line = f"a plain run fails{self._without}"
        what = f"the validator passes in the sandbox's copy, and fails as you run it{example}"
        return (self._finding(Severity.HIGH, what),)

    @property
    def _is_cut(self) -> bool:
        """Whether the last run did not end by itself."""
        return self._ran is not None and bool(self._ran.ended.reason)

    @property
    def _without(self) -> str:
        """What of the user's work tree it did not see, in words."""
        paths = self._ran.left_out if self._ran else ()
        names = self._context.redactor.text(first_of(paths, "path")) if paths else ""
        return f", without {names} (too large, or not to be read)" if names else ""

    def _verdict(self, name: str, tree: str) -> Verdict:
        run_name = f"validator-{self._iteration}-{name}"

        def run(argv: tuple[str, ...]) -> StreamResult:
            self._ran = self._runs.in_fresh(run_name, argv, tree, plain=True)
            return self._ran.ended

        title = "validator, as you run it"
        words = f"iteration {self._iteration}: {title}"
        files = {"Log": f"rlm/{run_name}.log"}
        with spans.span("validator", title, words=words, files=files) as step:
            verdict = self._validator.judge(run, self._context.path_of("rlm", f"{run_name}.log"))
            step.outcome = spans.DONE if verdict.passed else spans.FAILED
        return verdict

    def _failed(self) -> list[TestOutcome]:
        tests = self._ran.outcomes.tests if self._ran else ()
        return [test for test in tests if test.state == FAILED]

    def _finding(self, severity: Severity, what: str) -> Finding:
        log = f"rlm/validator-{self._iteration}-plain.log"
        hint = (
            f"look for code that asks where it runs, and for what git ignores; {log} in the run's"
            f" folder has the output; --allow {ONLY_IN_COPY} accepts it"
        )
        return Finding(ONLY_IN_COPY, severity, what, hint=hint, domain="tamper")


def _names(tests: list[TestOutcome]) -> list[str]:
    return [test.name for test in tests]
