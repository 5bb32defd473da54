"""One process's work on a run of the pipeline ``rlm``, whatever ends it."""

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


class NoContextError(Exception):
    """There is no context, and nobody asked for its mode by name: another attempt is to be made."""


class RunAttempt:
    """One process's work on a run, whose record is open."""

    def __init__(self, work: PipelineJob, run: Run, record: Record) -> None:
        self._all = work
        self._run = run
        self._record = record
        self._clock = RunClock(record.fact)

    def _usage(self) -> Usage:
        return Usage(**self._record.usage())

    def _step(self, text: str) -> None:
        """Tell what begins now, here and at the run's events."""
        self._all.progress.step(text)
        self._run.event("progress", {"summary": text})


class Attempt(RunAttempt, ABC):
    """Its terms are agreed on here.

    ``mode`` is how to reach the goal; ``head`` are the state's first keys.
    """

    #: The key of the state under which the turns stand.
    turns = "iterations"
    #: Ends that are details of the run: it can go on from them, or nothing else tells them.
    told_ends: tuple[str, ...] = (PAUSED,)

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
        """The end and its report; an error, also a bug, is kept in ``error``."""
        try:
            final, told = self._work()
        except NoContextError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever ends it, its state says so
            self.error = failure(error, self._run.path, self._run.redactor.text)
            final = FinalState.from_error(self.error)
            part = Part.from_error(PART, self.error)
            told = Report(Subject(), Severity.HIGH, (part,), usage=self._usage())
        self._state.end(final)
        return final, self._run.redactor.report(told.replace(run_id=self._run.id))

    @abstractmethod
    def _work(self) -> tuple[FinalState, Report]:
        """Do it; see ``carry_out``. Raises whatever ends it early."""

    def _left(self, max_minutes: float | None, *, metered: bool) -> str:
        """What remains of the budgets, in words; others' calls are not ours to count."""
        settings, spent = self._all.settings, self._record.spent
        told = []
        if max_minutes is not None:
            told.append(duration(max(0.0, max_minutes * 60 - self._clock.seconds())))
        if not metered:
            return f"{told[0]} left" if told else ""
        if settings.max_calls is not None:
            told.append(count(max(0, settings.max_calls - spent.calls), "call"))
        if settings.max_tokens is not None:
            told.append(count(max(0, settings.max_tokens - spent.tokens), "token"))
        if settings.budget_usd is not None:
            told.append(f"${max(0.0, settings.budget_usd - float(spent.usd)):.2f}")
        return f"{', '.join(told)} left" if told else ""
