"""The gates ``tests`` and ``validation``: commands that must pass, judged like the validator.

They run in a fresh tree, in which everything that decides is as at the start.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial

from rlm_ci.errors import UnavailableError
from rlm_ci.fix.gates.gate import FAILED, PASSED, Gate, GateResult
from rlm_ci.fix.participants import validator_of
from rlm_ci.fix.verdict.validator_run import PRINTED, ValidatorRuns
from rlm_ci.guard import guard
from rlm_ci.text.printable import count, printable
from rlm_ci.validators import outcomes, test_reports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rlm_ci.fix.gates.gate import GateView
    from rlm_ci.fix.options import FixContext
    from rlm_ci.fix.verdict.validator_run import ValidatorRun
    from rlm_ci.fix.verdict.verdict import ResultJudge
    from rlm_ci.guard.protected.protection import Protection
    from rlm_ci.system.process import StreamResult
    from rlm_ci.validators.validator import Validator

_SAID = 200
#: Lost tests that a reason names.
_NAMED = 3


class CommandGate(Gate):
    """``commands`` must all pass. With ``counted``, each test that ran at the start must run again.

    ``judge`` knows what decides, and learns of it by the validator's first run.
    """

    def __init__(
        self,
        name: str,
        commands: Sequence[str],
        context: FixContext,
        judge: ResultJudge,
        find: Callable[[str], str | None],
        *,
        counted: bool = False,
    ) -> None:
        """Raises UnavailableError for a program that is not there."""
        self.name = name
        self._context = context
        self._judge = judge
        self._counted = counted and not context.options.allow_test_edits
        self._commands = [self._command(text, find) for text in commands]
        shown = ", ".join(f"`{self._shown(command)}`" for command in self._commands)
        self.line = f"{name}: {shown} must pass, with tests and settings as they were"

    def _command(self, text: str, find: Callable[[str], str | None]) -> Validator:
        options, redact = self._context.options.replace(validator=text), self._context.redactor.text
        validator = validator_of(options, self._context.commands, redact, find)
        if validator is None:
            raise AssertionError("no command")
        with self._naming_us():
            validator.require()
        return validator

    @contextmanager
    def _naming_us(self) -> Iterator[None]:
        """Let an error about a program speak of the gate, and not of the validator."""
        try:
            yield
        except UnavailableError as error:
            raise UnavailableError(
                error.what,
                where=f"loop.gates.{self.name}",
                hint="install it where the sandbox can see it, or let loop.setup install it",
            ) from None

    def _shown(self, command: Validator) -> str:
        text = printable(self._context.redactor.text(command.command.text))
        return text[:_SAID].replace("`", "'")

    def begin(self) -> None:
        """Learn which tests there are: nobody may edit them."""
        for number in range(1, len(self._commands) + 1) if self._counted else ():
            self._judge.learn(self._run(number).start().outcomes)

    def _run(self, number: int) -> _CommandRun:
        name = f"{self.name}-{number}"
        protection = self._judge.protection
        return _CommandRun(self._context, protection, self._commands[number - 1], name)

    def check(self, view: GateView) -> GateResult:
        results = [self._checked(view, number) for number in range(1, len(self._commands) + 1)]
        failed = [result for result in results if result.verdict == FAILED]
        reasons = [result.reason for result in failed]
        return GateResult(
            self.name,
            FAILED if failed else PASSED,
            "; ".join(reasons) or f"{count(len(results), 'command')} passed",
            tuple(finding for result in failed for finding in result.findings),
            "\n\n".join(result.feedback for result in failed),
            tuple(log for result in results for log in result.logs),
        )

    def _checked(self, view: GateView, number: int) -> GateResult:
        command = self._commands[number - 1]
        log = f"rlm/gate-{self.name}-{view.iteration}-{number}.log"
        run = self._run(number)
        with self._naming_us():
            path = self._context.path_of(*log.split("/"))
            verdict = command.judge(partial(run.ended, view), path, failed=run.failed)
        doubt = run.doubt(counted=self._counted) if verdict.passed else verdict.reason
        reason = f"{self._shown(command)}: {doubt}"
        decision = FAILED if doubt else PASSED
        tail = verdict.feedback.partition("\n")[2]  # without the line that speaks of the validator
        feedback = f"{reason}\n{tail}".strip()
        return GateResult(self.name, decision, reason, verdict.findings, feedback, (log,))


class _CommandRun:
    """One run of a command of a gate, and the same on the tree of the start, where that counts."""

    def __init__(
        self, context: FixContext, protection: Protection, command: Validator, name: str
    ) -> None:
        self._runs = ValidatorRuns(context, protection)
        self._copy = context.commands.workspace
        self._base = self._copy.snapshot.tree
        self._has_old_tests = not context.options.allow_test_edits
        self._argv = command.command.argv
        self._name = name
        self._ran: ValidatorRun | None = None

    def start(self) -> ValidatorRun:
        """How it ends before any edit."""
        return self._fresh(f"gate-{self._name}-start", self._argv, self._base)

    def ended(self, view: GateView, argv: tuple[str, ...]) -> StreamResult:
        """How it ends; if it passes with new tests, then without them: they may bend old ones."""
        step = f"gate-{self._name}-{view.iteration}"
        ran = self._fresh(step, argv, view.fresh)
        added = ran.outcomes.test_files - self._copy.entries(self._base).keys()
        if added and self._has_old_tests and not (ran.ended.returncode or ran.ended.reason):
            tree = self._copy.restored(view.fresh, self._base, added.__contains__)
            ran = self._fresh(f"{step}-old-tests", argv, tree)
        self._ran = ran
        return ran.ended

    def _fresh(self, step: str, argv: tuple[str, ...], tree: str) -> ValidatorRun:
        ran = self._runs.in_fresh(step, argv, tree)
        if not test_reports.refused(ran.ended.output.text()):
            return ran
        self._runs.reporter = PRINTED  # this pytest cannot load our plugin
        return self._runs.in_fresh(f"{step}-without-plugin", argv, tree)

    def failed(self) -> str:
        """A test that our plugin saw fail; "" for none."""
        tests = self._ran.outcomes.tests if self._ran and self._ran.reported else ()
        failed = (test for test in tests if test.state == outcomes.FAILED)
        return next((f"{outcome.location} {outcome.name}".strip() for outcome in failed), "")

    def doubt(self, *, counted: bool) -> str:
        """Why a run that passed does not count, by a run of the same at the start."""
        ran = self._ran
        if ran is None or not (counted or ran.written):
            return ""
        first = self.start()
        if counted and (lost := _lost(first, ran)):
            return "; ".join(lost[:_NAMED])
        if wrote := sorted(set(ran.written) - set(first.written)):
            return f"it wrote what decides: {printable(wrote[0])[:_SAID]}"
        return ""


def _lost(first: ValidatorRun, last: ValidatorRun) -> list[str]:
    """What ran at first and not in the last run, in words: by names, and by counts."""
    losses = list(outcomes.lost(first.outcomes, last.outcomes))
    counts = (test_reports.parse(run.ended.output.text()) for run in (first, last))
    losses += [finding.message for finding in guard.shrunk(*counts)]
    if first.outcomes.complete and not last.outcomes.complete:  # it may have printed what it liked
        losses.append("its tests are not reported one by one, as they were at the start")
    return losses
