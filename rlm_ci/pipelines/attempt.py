"""One process's attempt at a run, which ends with a report even after an error."""

from __future__ import annotations

from abc import ABC, abstractmethod

from rlm_ci.console.failures import failure
from rlm_ci.console.progress import duration
from rlm_ci.models.record.clock import RunClock
from rlm_ci.report.findings import Part, Report, Severity, Subject, Usage
from rlm_ci.runs.manifest import PAUSED
from rlm_ci.runs.state import FinalState, RunState
from rlm_ci.text.printable import count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from rlm_ci.errors import RlmCiError
    from rlm_ci.models.record.record import Record
    from rlm_ci.pipelines.job import Mode, PipelineJob
    from rlm_ci.runs.run import Run

PART = "rlm"
#: Seconds: with more left, nobody needs to read it on every line.
_LAST_HOUR = 3600


class NoContextError(Exception):
    """There is no context, and the user did not choose the symbolic mode: use the fix loop."""


class RunAttempt:
    """One process's attempt at a run whose record is open."""

    def __init__(self, work: PipelineJob, run: Run, record: Record) -> None:
        self._all = work
        self._run = run
        self._record = record
        self._clock = RunClock(record.fact)
        work.progress.written = record.active.shown

    def _usage(self) -> Usage:
        return Usage(**self._record.usage())

    def _step(self, text: str) -> None:
        """Show the step that begins, and add it to the run's events. Raises Paused."""
        self._run.heed()
        self._all.progress.step(text)
        self._run.event("progress", {"summary": text})

    def _left(self, max_minutes: float | None, *, metered: bool) -> str:
        """The rest of the budgets, in words; of the minutes alone if not ``metered``.

        The minutes count from the last hour on.
        """
        settings, spent = self._all.settings, self._record.spent
        parts = []
        if max_minutes is not None:
            seconds = max(0.0, max_minutes * 60 - self._clock.seconds())
            parts += [duration(seconds)] if seconds <= _LAST_HOUR else []
        if not metered:
            return f"{parts[0]} left" if parts else ""
        if settings.max_calls is not None:
            parts.append(count(max(0, settings.max_calls - spent.calls), "call"))
        if settings.max_tokens is not None:
            parts.append(count(max(0, settings.max_tokens - spent.tokens), "token"))
        if settings.budget_usd is not None:
            parts.append(f"${max(0.0, settings.budget_usd - float(spent.usd)):.2f}")
        return f"{', '.join(parts)} left" if parts else ""


class Attempt(RunAttempt, ABC):
    """An attempt of the pipeline ``rlm``, which keeps ``rlm/state.json``.

    ``mode`` is how to reach the goal; ``head`` are the state's first keys.
    """

    #: The key of the turns in the state.
    turns = "iterations"
    #: Final statuses that the manifest has as the run's detail.
    told_ends: tuple[str, ...] = (PAUSED,)
    #: Those after which the run can be resumed.
    paused_ends: tuple[str, ...] = ()

    def __init__(
        self,
        work: PipelineJob,
        run: Run,
        goal: str,
        record: Record,
        mode: Mode,
        *,
        head: Mapping[str, Any],
    ) -> None:
        super().__init__(work, run, record)
        self._goal = goal
        self._state = RunState(
            run.path_of("rlm", "state.json"),
            {"goal": goal, "modeReason": mode.reason, **head},
            run.redactor.text,
            mode=mode.name,
            turns=self.turns,
        )
        self.error: RlmCiError | None = None

    def carry_out(self) -> tuple[FinalState, Report]:
        """Return the final state and the report; ``error`` has any exception, also of a bug."""
        try:
            final, report = self._work()
        except NoContextError:
            raise
        except Exception as error:  # noqa: BLE001 - the state records any error
            self.error = failure(error, self._run.path, self._run.redactor.text)
            final = FinalState.from_error(self.error)
            part = Part.from_error(PART, self.error)
            report = Report(Subject(), Severity.HIGH, (part,), usage=self._usage())
        self._state.end(final)
        return final, self._run.redactor.report(report.replace(run_id=self._run.id))

    @abstractmethod
    def _work(self) -> tuple[FinalState, Report]:
        """Return the final state and the report. Raises any error that ends the run early."""
