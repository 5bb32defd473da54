"""One process's attempt at a run, which ends with a report even after an error."""

from __future__ import annotations

from abc import ABC, abstractmethod

from rlm_ci.console.failures import failure
from rlm_ci.console.progress import duration
from rlm_ci.errors import ConfigError
from rlm_ci.judge.options import models_of
from rlm_ci.models.gateway import Gateway
from rlm_ci.models.record.clock import RunClock
from rlm_ci.pipelines import budget_increase
from rlm_ci.report.findings import Part, Report, Severity, Subject, Usage
from rlm_ci.runs.journal import spans
from rlm_ci.runs.manifest import PAUSED
from rlm_ci.runs.state import FinalState, RunState
from rlm_ci.text.printable import count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Self

    from rlm_ci.errors import RlmCiError
    from rlm_ci.models.record.record import Record
    from rlm_ci.pipelines.budget_increase import Budgets
    from rlm_ci.pipelines.job import Mode, PipelineJob
    from rlm_ci.runs.run import Run

PART = "rlm"
#: Seconds: with more left, nobody needs to read it on every line.
_LAST_HOUR = 3600


class NoContextError(Exception):
    """There is no context, and the user did not choose the symbolic mode: use the fix loop."""


class RunAttempt(ABC):
    """One process's attempt at a run whose record is open.

    ``error`` is the exception that ended it, also of a bug; ``detail`` is what the manifest says
    beside the status of the run.
    """

    #: The part of the report that an error makes.
    part = PART
    report: Report

    def __init__(self, work: PipelineJob, run: Run, record: Record) -> None:
        self._all = work
        self._run = run
        self._record = record
        self._clock = RunClock(record.fact)
        self._is_under_way = record.find("terms", "start", {}) is not None
        #: How often the run was given more of its budgets.
        self._increases = 0
        self.error: RlmCiError | None = None
        self.detail: str | None = None
        work.progress.written = record.active.shown

    def carry_out(self) -> Self:
        """Do the work. From then on there is a ``report``, which has any error."""
        try:
            with spans.recorded(spans.SpanLog(self._event, self._announce)):
                report = self._work()
        except NoContextError:
            raise
        except Exception as error:  # noqa: BLE001 - the report has any error
            self.error = failure(error, self._run.path, self._run.redactor.text)
            report = self._failed(self.error)
        self.report = self._run.redactor.report(report.replace(run_id=self._run.id))
        return self

    @abstractmethod
    def _work(self) -> Report:
        """Do the work. Raises any error that ends the run early."""

    def _failed(self, error: RlmCiError) -> Report:
        """The report of a run that an error has ended."""
        if self._is_under_way and isinstance(error, ConfigError):
            self.detail = PAUSED  # settings can be mended
        part = Part.from_error(self.part, error)
        return Report(Subject(), Severity.HIGH, (part,), usage=self._usage())

    def ending(self) -> tuple[int, str]:
        """The exit code, and a line about the result."""
        return self.report.exit_code(), self.report.parts[0].summary

    def _usage(self) -> Usage:
        return Usage(**self._record.usage())

    def _event(self, name: str, payload: Mapping[str, Any]) -> None:
        """Add a beginning or an end of a span to the run's events."""
        self._run.event(name, payload)

    def _announce(self, text: str) -> None:
        """Show the step that begins. Raises Paused."""
        self._run.heed()
        self._all.progress.step(text)

    def _step(self, text: str) -> None:
        """Show what happens in a step, and add it to the run's events. Raises Paused."""
        self._announce(text)
        self._run.event("progress", {"summary": text})

    def _tell(self, text: str) -> None:
        """Show what a model is asked; a replay asks none."""
        if not self._all.replay:
            self._all.progress.step(text)

    def _gateway_to(
        self, model: str, provider: str, max_minutes: float | None, **options: Any
    ) -> Gateway:
        """The way to a model; see ``Gateway`` for ``options``."""
        return Gateway(
            models_of(self._all.settings),
            self._record,
            self._clock,
            model=model,
            max_minutes=max_minutes,
            provider=provider,
            replay=bool(self._all.replay),
            tell=self._tell,
            runs=self._all.runs,
            **options,
        )

    def _increased(self) -> Budgets:
        """The budgets that the run was given since it began. The settings have them from now on."""
        self._increases, budgets = budget_increase.carried(self._record, self._all.more)
        budget_increase.apply(self._all.settings, budgets)
        return budgets

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


class Attempt(RunAttempt):
    """An attempt of the pipeline ``rlm``, which keeps ``rlm/state.json``.

    ``mode`` is how to reach the goal; ``head`` are the state's first keys.
    """

    #: The key of the turns in the state.
    turns = "iterations"
    #: Final statuses that the manifest has as the run's detail.
    detailed_ends: tuple[str, ...] = (PAUSED,)
    #: Those after which the run can be resumed.
    paused_ends: tuple[str, ...] = ()
    final: FinalState

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

    def carry_out(self) -> Self:
        super().carry_out()
        self._state.end(self.final)
        status = self.final.status
        if self.error is None and status in (*self.detailed_ends, *self.paused_ends):
            self.detail = PAUSED if status in self.paused_ends else status
        return self

    def _work(self) -> Report:
        self.final, report = self._solve()
        return report

    @abstractmethod
    def _solve(self) -> tuple[FinalState, Report]:
        """Return the final state and the report. Raises any error that ends the run early."""

    def _failed(self, error: RlmCiError) -> Report:
        self.final = FinalState.from_error(error)
        return super()._failed(error)

    def ending(self) -> tuple[int, str]:
        final = self.final
        is_named = final.reason.startswith(final.status)
        summary = final.reason if is_named else f"{final.status}: {final.reason}"
        reason = self.report.parts[0].metrics.get("not_applied")
        return final.exit_code, f"{summary}; not applied: {reason}" if reason else summary
