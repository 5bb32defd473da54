"""The built-in pipeline ``rlm``, put together from its systems: what ``rlm``, ``resume`` and
``replay`` share. It fixes a work tree, or answers from a long text.
"""

from __future__ import annotations

from functools import partial

from rlm_ci.ask.report import REPL
from rlm_ci.ask.run import AskRun
from rlm_ci.config.options import PROGRAM
from rlm_ci.console.progress import asker
from rlm_ci.environments.symbolic.planner.planner import BadPlanError
from rlm_ci.errors import ConfigError, UsageError
from rlm_ci.fix.run import FixRun
from rlm_ci.judge.options import output_of
from rlm_ci.models.record.record import FILE, Record
from rlm_ci.pipelines import load, stored_runs
from rlm_ci.pipelines.attempt import NoContextError
from rlm_ci.pipelines.job import Mode, PipelineJob, without_runs
from rlm_ci.runs.manifest import PAUSED
from rlm_ci.solve.review_gate import ReviewGate
from rlm_ci.system import files, process
from rlm_ci.text.printable import count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from rlm_ci.config.settings import Settings
    from rlm_ci.console.progress import Progress
    from rlm_ci.git.repository import Repository
    from rlm_ci.pipelines.attempt import Attempt
    from rlm_ci.report.findings import Report
    from rlm_ci.runs.run import Run
    from rlm_ci.runs.state import FinalState

CALLS = FILE
ITERATIVE = "iterative"
SYMBOLIC = "symbolic"
_ENVIRONMENT = "symbolic.environment"
PIPELINE = "rlm"


class RlmJob(PipelineJob):
    """The pipeline ``rlm``: it fixes a work tree, or answers from a long text."""

    @property
    def tells(self) -> bool:
        """Whether the report is what was asked for, as an answer is."""
        return self.report is not None and bool(self.report.documents)

    def __call__(self, run: Run, goal: str | None) -> tuple[int, str]:
        """The exit code, and a line about the end. Raises RlmCiError, once it is stored."""
        if not goal or not goal.strip():
            raise UsageError("there is no goal", where="GOAL", hint='add it: rlm-ci rlm "GOAL"')
        with self.recording(run, self.settings.loop.agent_env) as record:
            is_under_way = record.find("terms", "start", {}) is not None
            attempt, final, self.report = self._carry_out(run, run.redactor.text(goal), record)
        if record.repeated:
            told = f"asked again, because their answers were lost: {count(record.repeated, 'call')}"
            run.event("progress", {"summary": told})
            self.progress.say(told)
        for name, pieces in output_of(self.settings).rendered(self.report):
            files.write(run.path_of(name), pieces, 0o600)
        if attempt.error:
            # Another attempt or model may give a better plan; settings can be mended.
            is_mendable = is_under_way and isinstance(attempt.error, ConfigError)
            goes_on = is_mendable or isinstance(attempt.error, BadPlanError)
            run.detail = PAUSED if goes_on else None
            raise attempt.error
        run.detail = final.status if final.status in attempt.told_ends else None
        if final.status in attempt.paused_ends:
            run.detail = PAUSED
        reason = self.report.parts[0].metrics.get("not_applied")
        return final.exit_code, f"{_told(final)}{f'; not applied: {reason}' if reason else ''}"

    def _carry_out(self, run: Run, goal: str, record: Record) -> tuple[Attempt, FinalState, Report]:
        def produce() -> Mapping[str, str]:
            mode = select(self.settings, goal)
            return {"name": mode.name, "reason": mode.reason, "wanted": self.settings.mode}

        told = record.fact("mode", "start", {}, produce)
        mode = Mode(told["name"], told["reason"])
        if mode.name == SYMBOLIC:
            inquiry = AskRun(self, run, goal, record, mode, required=told["wanted"] == SYMBOLIC)
            try:
                return inquiry, *inquiry.carry_out()
            except NoContextError as error:
                self.progress.say(f"no context, so it is a fix loop: {error}")
                mode = Mode(ITERATIVE, f"{mode.reason}, and cannot be built: {error}")
        fix = FixRun(self, run, goal, record, mode)
        fix.review = partial(ReviewGate, self.settings.environ)
        return fix, *fix.carry_out()


def _told(final: FinalState) -> str:
    is_said = final.reason.startswith(final.status)
    return final.reason if is_said else f"{final.status}: {final.reason}"


def select(settings: Settings, goal: str) -> Mode:
    """The mode of the settings, or the one that fits best."""
    # A file may prefer it; the command pr has no such setting.
    is_named = settings.sources.get(_ENVIRONMENT, "").startswith("--")
    is_repl = is_named and settings.symbolic.environment == REPL
    if settings.mode == ITERATIVE and is_repl:
        raise UsageError(
            "a fix loop has no REPL",
            where=settings.sources[_ENVIRONMENT],
            hint="leave it out, or ask a question: --mode symbolic",
        )
    if settings.mode != "auto":
        return Mode(settings.mode, f"{settings.sources['mode']} says so")
    if settings.delegation.parent:
        return Mode(SYMBOLIC, f"the run is delegated ({settings.sources['delegation.parent']})")
    if is_repl:
        return Mode(SYMBOLIC, f"{settings.sources[_ENVIRONMENT]} says so")
    if settings.context.source:
        return Mode(SYMBOLIC, f"there is a context ({settings.sources['context.source']})")
    size, least = len(goal.encode("utf-8", "surrogateescape")), settings.symbolic.min_bytes
    if size > least:
        return Mode(SYMBOLIC, f"the goal has {size:,} bytes, more than {least:,}")
    return Mode(ITERATIVE, "there is no context, and the goal is short")


def make(
    settings: Settings,
    repository: Repository,
    runs: stored_runs.StoredRuns,
    progress: Progress,
    replay: str | None = None,
) -> RlmJob:
    """The job that settings and config file describe.

    Raises ConfigError, also if the change's code must not run.
    """
    process.harden()
    load.configure(settings, repository, "a fix loop")
    chosen = load.load(settings, repository)[PIPELINE]
    if chosen.inputs:
        source = f"inputs of the pipeline {PIPELINE}, {chosen.source}"
        settings.apply({"loop": dict(chosen.inputs)}, source, PROGRAM)
    of_loop, source = load.loop_settings(settings, repository)
    settings.apply({"loop": of_loop}, f"loops[].rlms of {source}", PROGRAM)
    is_wanted = settings.interactive and not (settings.non_interactive or settings.ci)
    return RlmJob(
        settings,
        repository,
        progress,
        skipped=without_runs(runs.root, settings.runs_dir, settings.out_dir),
        ask=asker(progress) if is_wanted else None,
        replay=replay,
    )
