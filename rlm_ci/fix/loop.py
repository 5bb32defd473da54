"""Fix until green: goal, agent, validator, again and again, until it passes or a budget ends.

``steps`` knows who edits and what decides. All that comes from outside is a fact of the run's
record, so that a resumed or replayed run takes every turn exactly as before.
"""

from __future__ import annotations

from rlm_ci.errors import LimitError
from rlm_ci.fix.gates.gate import WAITING
from rlm_ci.fix.gates.stuck import FILE as REPORT
from rlm_ci.fix.gates.stuck import FailureStreak
from rlm_ci.models.record.clock import over
from rlm_ci.report.findings import Severity
from rlm_ci.runs.journal import spans
from rlm_ci.runs.state import (
    BLOCKED,
    BUDGET_COMPLETE,
    NO_CHANGE,
    NO_PROGRESS,
    PASSED,
    PAUSED,
    TAMPERED,
    FinalState,
)
from rlm_ci.text import printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from rlm_ci.fix.gates.gate import GateResult
    from rlm_ci.report.findings import Finding

    class Steps(Protocol):
        """What the loop calls; every step is journalled. See ``FixSteps``, ``ResultJudge``."""

        def elapsed(self, iteration: int) -> float: ...
        def judge(self, label: str) -> ValidationResult: ...
        def act(
            self, iteration: int, last: ValidationResult, tampering: tuple[Finding, ...]
        ) -> TurnResult: ...
        def tampering(self) -> tuple[Finding, ...]: ...
        def confirm(self) -> ValidationResult: ...
        def probe(self) -> tuple[Finding, ...]: ...
        def plain(self) -> tuple[Finding, ...]: ...
        def gated(self, iteration: int, judged: ValidationResult) -> ValidationResult: ...
        def is_unchanged(self) -> bool: ...
        def note(
            self,
            iteration: int,
            acted: TurnResult,
            judged: ValidationResult,
            tampering: tuple[Finding, ...],
        ) -> None: ...


class FixLimits(Value):
    """What ends the loop. None is no limit; ``validated`` is False where nothing decides.

    Without ``has_validator`` the gates alone decide; ``only_green``: nothing else is wanted than
    that the validator passes. So many ``stuck_turns`` in a row with the same
    failures end the loop; 0 is no limit.
    """

    max_iterations: float | None
    max_minutes: float | None
    validated: bool = True
    allow_no_change: bool = False
    has_validator: bool = True
    stuck_turns: int = 0
    only_green: bool = False

    @property
    def green(self) -> str:
        return "the validator passes" if self.has_validator else "the gates pass"


class TurnResult(Value):
    """The result of an agent's turn; ``changed`` is whether the tree has changed.

    ``blocked``: the agent says that no edit can reach the goal. ``asks``: it changed nothing, and
    ended with a question, which nobody answers.
    """

    summary: str
    changed: bool
    exit_code: int = 0
    blocked: bool = False
    asks: bool = False


class ValidationResult(Value):
    """What the validator said; ``feedback`` is for the agent's next turn.

    ``reason`` says in a line why it does not pass, ``manner`` how, where it is the end.
    ``failures`` is what it printed of them, "" for nothing. Where there are ``gates``, it passes,
    and what they said is in the place of what it said.
    """

    passed: bool
    feedback: str = ""
    findings: tuple[Finding, ...] = ()
    reason: str = ""
    manner: str = "still fails"
    failures: str = ""
    gates: tuple[GateResult, ...] = ()

    def held_by(self, verdict: str) -> tuple[GateResult, ...]:
        """The gates with this verdict."""
        return tuple(gate for gate in self.gates if gate.verdict == verdict)


#: So many turns in a row without an edit end the loop, or green ones that the guard refuses.
ENOUGH = 2
#: The reason of a run that has nothing to do.
GREEN_ALREADY = "the tests pass already"
#: Characters of what an agent said in a reason.
_SAID = 300


class FixEnd(Value):
    """The end of a loop, with what the validator or the guard holds against it.

    ``idled`` says why the agent's last turn failed, where all of them did and changed nothing.
    """

    final: FinalState
    judged: ValidationResult
    tampering: tuple[Finding, ...] = ()
    idled: str = ""


def blocking(tampering: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """The findings that keep a result from being a fix."""
    return tuple(finding for finding in tampering if finding.fails(Severity.HIGH))


def run(steps: Steps, limits: FixLimits) -> FixEnd:
    """Repeat until the validator passes, a budget ends, or nothing changes any more."""
    judged = ValidationResult(passed=False)
    if limits.validated:
        with spans.span("iteration", "before any edit", key="iteration-0") as first:
            judged = steps.judge("0")
            first.outcome = spans.DONE if judged.passed else spans.FAILED
    if judged.passed and limits.only_green:
        return FixEnd(FinalState.of(PASSED, GREEN_ALREADY), judged)
    tampering = steps.tampering()
    was_green = judged.passed
    iteration = idle = forbidden = 0
    failed = idled = ""
    streak = FailureStreak()
    stop = None
    while stop is None:
        iteration += 1
        minutes = steps.elapsed(iteration)
        stop = over(iteration - 1, minutes, limits.max_iterations, limits.max_minutes)
        if stop:
            break
        with spans.span("iteration", f"iteration {iteration}", key=f"iteration-{iteration}"):
            try:
                acted = steps.act(iteration, judged, tampering)
            except LimitError as error:  # what was edited until then may be enough
                stop, acted = (error.budget, error.what), TurnResult(error.what, changed=True)
            judged, tampering = _judged(steps, limits, iteration, judged)
            steps.note(iteration, acted, judged, tampering)
        cut = f" (its turn was cut short: {acted.summary[:_SAID]})" if stop else ""
        failed = f" (the agent failed: {acted.summary[:_SAID]})" if acted.exit_code else ""
        has_idled = iteration == 1 or bool(idled)
        idled = acted.summary if has_idled and acted.exit_code and not acted.changed else ""
        if judged.held_by(WAITING):
            return FixEnd(FinalState.of(PAUSED, judged.reason), judged, tampering)
        if judged.passed and not blocking(tampering):
            if steps.is_unchanged():
                final = _unchanged(limits, stop, failed, was_green=was_green)
            else:
                reason = f"{limits.green} after {printable.count(iteration, 'iteration')}"
                final = FinalState.of(PASSED, f"{reason}{failed or cut}")
            return FixEnd(final, judged, tampering)
        idle = 0 if acted.changed else idle + 1
        forbidden = forbidden + 1 if judged.passed else 0
        same = streak.add("" if judged.passed else judged.failures)
        if acted.asks:
            question = acted.summary[-_SAID:]
            why = f"the agent asks: {question}; start again with the answer in the goal"
            stop = stop or (BLOCKED, why)
        if acted.blocked:
            stop = stop or (BLOCKED, f"the agent is blocked: {acted.summary[:_SAID]}")
        if limits.validated and stop is None:
            stop = _stuck(idle, forbidden, same if 0 < limits.stuck_turns <= same else 0)
    status, reason = stop
    final = _final(status, f"{reason}{failed}", limits, judged, tampering)
    return FixEnd(final, judged, tampering, idled)


def _judged(
    steps: Steps, limits: FixLimits, iteration: int, judged: ValidationResult
) -> tuple[ValidationResult, tuple[Finding, ...]]:
    """What the validator, the guard and the gates say of a turn; last said ``judged``."""
    judged = steps.judge(str(iteration)) if limits.validated else judged
    tampering = steps.tampering()
    if judged.passed and not blocking(tampering):
        judged = steps.confirm()
        tampering = steps.tampering() if judged.passed else tampering
        if judged.passed and not (blocking(tampering) or steps.is_unchanged()):
            probed = steps.probe()
            tampering = steps.tampering() + probed  # which has decided of what was only read
            tampering += () if blocking(tampering) else steps.plain()
    if judged.passed and not blocking(tampering):
        judged = steps.gated(iteration, judged)
    return judged, tampering


def _stuck(idle: int, forbidden: int, same: int) -> tuple[str, str] | None:
    if idle >= ENOUGH:
        return NO_PROGRESS, f"{idle} turns in a row changed nothing"
    if forbidden >= ENOUGH:
        return NO_PROGRESS, f"{forbidden} turns in a row were green, and refused by the guard"
    if same:
        turns = printable.count(same, "turn")
        return NO_PROGRESS, f"{turns} in a row left the same failures (see {REPORT})"
    return None


def _unchanged(
    limits: FixLimits, stop: tuple[str, str] | None, failed: str, *, was_green: bool
) -> FinalState:
    """The end of a loop that is green and has nothing to show for it."""
    how = "as it did before" if was_green else "now, and failed before"
    if stop:
        return FinalState.of(stop[0], f"{stop[1]}; {limits.green} {how}{failed}")
    reason = f"{limits.green} {how}, and the agent changed nothing{failed}"
    if limits.allow_no_change and not failed:
        return FinalState.of(PASSED, reason)
    hint = "" if failed else "; --allow-no-change accepts that"
    return FinalState.of(NO_CHANGE, f"{reason}{hint}")


def _final(
    status: str,
    reason: str,
    limits: FixLimits,
    judged: ValidationResult,
    tampering: tuple[Finding, ...],
) -> FinalState:
    if not limits.validated and status != BLOCKED:
        return FinalState.of(BUDGET_COMPLETE, f"{reason}; nothing validates the result")
    if not limits.validated:
        return FinalState.of(status, reason)
    if findings := blocking(tampering):
        number = printable.count(len(findings), "finding")
        return FinalState.of(TAMPERED, f"{reason}; the guard refuses the result: {number}")
    summary = limits.green if judged.passed else f"the validator {judged.manner}"
    if judged.gates:
        summary = (
            f"the validator passes, but {judged.reason}" if limits.has_validator else judged.reason
        )
    return FinalState.of(status, f"{reason}; {summary}")
