"""One process's attempt at a run, which ends with a report even after an error.

A job is what our own pipelines do in it; for a verb it goes from the open run to its delivered
results. ``rlm-ci resume`` can give more to a fix loop that a budget has ended: the options of the
run stay as recorded, and each increase is a fact after them, so that resuming again, or a replay,
uses the same budgets.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from contextlib import contextmanager, suppress

from rlm_ci.config.options import BUDGET, LOOP
from rlm_ci.console.failures import failure
from rlm_ci.console.progress import duration
from rlm_ci.errors import ConfigError, DamagedError, UsageError
from rlm_ci.judge.options import models_of, output_of, rests_on
from rlm_ci.models.gateway import Gateway, earlier
from rlm_ci.models.record.clock import RunClock
from rlm_ci.models.record.record import FILE, Record
from rlm_ci.pipelines.definition import BENCH, BUILT_IN, EPISODE, WITH_GOAL
from rlm_ci.pipelines.stored_runs import flag_of, more_of
from rlm_ci.redaction.redactor import Redactor
from rlm_ci.report import render
from rlm_ci.report.findings import Part, Report, Severity, Subject, Usage
from rlm_ci.runs.journal import spans
from rlm_ci.runs.manifest import PAUSED
from rlm_ci.runs.state import FinalState, RunState
from rlm_ci.system import files
from rlm_ci.text.printable import count
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any, Self

    from rlm_ci.config.settings import Settings
    from rlm_ci.console.progress import Progress
    from rlm_ci.errors import RlmCiError
    from rlm_ci.git.repository import Repository
    from rlm_ci.models.record.record import OnAnswer
    from rlm_ci.report.render import RenderOptions
    from rlm_ci.runs.manifest import Manifest
    from rlm_ci.runs.request import RunRequest
    from rlm_ci.runs.run import Run

    #: Limits by budget, named as in the run's final status; None is no limit.
    Budgets = Mapping[str, float | None]


KIND = "raised"
_KEYS = {
    "max_iterations": "loop.max_iterations",
    "max_minutes": "loop.max_minutes",
    "max_calls": "max_calls",
    "max_tokens": "max_tokens",
    "budget_usd": "budget_usd",
}
ROWS = tuple(row for row in (*LOOP, *BUDGET) if row.key in _KEYS.values())


def budgets_set(settings: Settings, flags: Mapping[str, Any]) -> dict[str, float | None]:
    """The budgets that the command line sets."""
    return {name: settings.values[key] for name, key in _KEYS.items() if key in flags}


def recorded(record: Record) -> list[Budgets]:
    """The increases of a run so far, in order. Raises DamagedError."""
    increases: list[Budgets] = []
    while (increase := record.find(KIND, _step(len(increases)), {})) is not None:
        if not increase.keys() <= _KEYS.keys() or not all(map(_is_limit, increase.values())):
            raise DamagedError(
                f"its record for {_step(len(increases))} is not what a run writes",
                where=record.path,
                hint="restore it from a copy, or start a new run",
            )
        increases.append(increase)
    return increases


def carried(record: Record, more: Budgets) -> tuple[int, dict[str, float | None]]:
    """The number of increases, ``more`` included, and the current limit of each budget."""
    increases = [*recorded(record), *([more] if more else [])]
    limits = {name: value for increase in increases for name, value in increase.items()}
    return len(increases), limits


def keep(record: Record, more: Budgets) -> None:
    """Record the increase ``more``."""
    if more:
        record.fact(KIND, _step(len(recorded(record))), {}, lambda: more)


def apply(settings: Settings, more: Budgets) -> None:
    """Apply the limits ``more`` to the settings."""
    for name, value in more.items():
        key = _KEYS[name]
        settings.values[key], settings.sources[key] = value, "rlm-ci resume"


def require(manifest: Manifest, more: Budgets, request: RunRequest, journal: str) -> None:
    """Raise UsageError if ``more`` does not let the run continue.

    ``journal`` is the path of its record, which may be missing.
    """
    if manifest.pipeline_id not in (*BUILT_IN, BENCH):
        raise UsageError(
            f"a run of {manifest.pipeline_id} has no budgets",
            where=manifest.run_id,
            hint="leave them out",
        )
    if manifest.pipeline_id not in (WITH_GOAL, EPISODE, BENCH):
        return  # their budgets are not recorded: each process uses its own settings
    limits = _limits(request, journal, manifest)
    ended = manifest.spent_budget
    if ended and ended not in more:
        what = f"the run was ended by {ended}, and has no more of that"
        raise UsageError(what, where=manifest.run_id, hint=more_of(manifest))
    for name, value in more.items():
        limit = limits.get(name)
        if name in limits and (limit is None or (value is not None and value <= limit)):
            shown = "no limit" if limit is None else f"{limit:,g}"
            raise UsageError(
                f"that is not more than the run has: {shown}",
                where=flag_of(name),
                hint="name more, or leave it out",
            )


def _limits(request: RunRequest, journal: str, manifest: Manifest) -> dict[str, float | None]:
    """The current budgets of a run, as far as its folder has them."""
    limits: dict[str, float | None] = {}
    for name in ("max_calls", "max_tokens", "budget_usd"):
        if name in request.flags:
            with suppress(TypeError, ValueError):  # reading the settings reports it
                limits[name] = float(request.flags[name])
    if not os.path.lexists(journal):
        return limits
    with Record.open(journal, redact=str, replay_only=True) as record:
        mode = record.find("mode", "start", {})
        # Without a context it became a fix loop, which a budget may have ended.
        is_question = mode is not None and mode.get("name") == "symbolic"
        if is_question and manifest.spent_budget is None:
            raise UsageError(
                "a question keeps its budgets",
                where=manifest.run_id,
                hint="ask it again with other budgets",
            )
        terms = record.find("terms", "start", {}) or {}
        for name in ("max_iterations", "max_minutes"):
            if _is_limit(terms.get(name, "")):
                limits[name] = terms[name]
        for increase in recorded(record):
            limits |= increase
    return limits


def _step(number: int) -> str:
    return f"raised-{number + 1}"


def _is_limit(value: object) -> bool:
    return value is None or (type(value) in (int, float) and 0 <= float(str(value)) < 1e15)


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
        self._increases, budgets = carried(self._record, self._all.more)
        apply(self._all.settings, budgets)
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


class Mode(Value):
    """How to reach a goal, and why this way."""

    name: str
    reason: str


class PipelineJob(ABC):
    """Carries out a pipeline in a run that this process holds, with the record of that run.

    ``skipped`` are folders in which rlm-ci itself writes: no part of the work tree. ``ask`` puts
    a question to the user, None without a terminal. With ``replay``, the record of another run,
    no command runs and no model is asked.
    """

    def __init__(
        self,
        settings: Settings,
        repository: Repository,
        progress: Progress,
        *,
        skipped: tuple[str, ...],
        ask: Callable[[str], str] | None = None,
        replay: str | None = None,
    ) -> None:
        self.settings = settings
        self.repository = repository
        self.progress = progress
        self.skipped = skipped
        self.ask = ask
        self.replay = replay
        self.report: Report | None = None
        #: What was left where, a line each: a command ends with them.
        self.places: list[str] = []
        #: Gets each request that has an answer, and its place; see ``Record.open``.
        self.on_answer: OnAnswer | None = None
        #: The budgets that ``resume`` increases; see ``apply``.
        self.more: Mapping[str, float | None] = {}

    @property
    def runs(self) -> str:
        """The folder of all runs, "" for none."""
        return self.skipped[0] if self.skipped else ""

    @property
    def tells(self) -> bool:
        """Whether the user asked for the report itself, not for another result."""
        return True

    def shown(self, options: RenderOptions) -> str:
        """The result for people, "" if they asked for another one than the report."""
        if self.report is None or not self.tells:
            return ""
        return f"{render.render(self.report, 'text', options)}\n"

    def secrets(self) -> tuple[Iterable[str], Mapping[str, str]]:
        """More secrets: names of variables of ours, and variables that are not ours.

        Of the second, those count that have the name of a secret.
        """
        return (), {}

    @contextmanager
    def recording(self, run: Run) -> Iterator[Record]:
        """The record of ``run``, or of the one that is replayed, for the work of this process."""
        settings = self.settings
        names, variables = self.secrets()
        run.redactor = Redactor({**settings.environ, **variables}, names)
        run.rests_on = rests_on(settings, self.repository.root)
        self.progress.redact = clean = run.redactor.text
        path = self.replay or run.path_of(FILE)
        cache = earlier(run.path, FILE) if settings.models.cache and not self.replay else ()
        with Record.open(
            path,
            redact=clean,
            replay_only=bool(self.replay),
            cache=cache,
            on_answer=self.on_answer,
        ) as record:
            yield record

    @abstractmethod
    def __call__(self, run: Run, goal: str | None) -> tuple[int, str]:
        """Return the exit code and a line about the result. Raises RlmCiError once recorded."""


def without_runs(root: str, runs: str, out: str) -> tuple[str, ...]:
    return tuple(os.path.join(root, folder) for folder in (runs, out))


class VerbJob(PipelineJob):
    """A job that sets ``report`` at the end.

    A verb makes its attempt; all else is here: the record, the files of the report, the error.
    """

    def __call__(self, run: Run, goal: str | None) -> tuple[int, str]:
        self.prepare(run, goal)
        with self.recording(run) as record:
            attempt = self.attempt(run, run.redactor.text(goal or ""), record)
        self.report = attempt.report
        for message in record.losses():
            run.event("progress", {"summary": message})
            self.progress.say(message)
        for name, pieces in output_of(self.settings).rendered(attempt.report):
            files.write(run.path_of(name), pieces, 0o600)
        run.detail = attempt.detail
        if attempt.error is not None:
            raise attempt.error
        if not self.replay:
            self.deliver(run)
        return attempt.ending()

    def prepare(self, run: Run, goal: str | None) -> None:
        """What comes before the record is opened. Raises UsageError for a missing goal."""

    @abstractmethod
    def attempt(self, run: Run, goal: str, record: Record) -> RunAttempt:
        """Make an attempt at the goal, and carry it out."""

    def deliver(self, run: Run) -> None:
        """Copy the results to where the user wants them, once all are written."""
