"""The built-in pipeline ``rlm``, put together from its systems: what ``rlm``, ``resume`` and
``replay`` share. It fixes a work tree, or answers from a long text.
"""

from __future__ import annotations

from functools import partial

from rlm_ci.ask.run import REPL, AskRun
from rlm_ci.config.options import PROGRAM
from rlm_ci.console.progress import asker
from rlm_ci.errors import UsageError
from rlm_ci.fix.run import FixRun
from rlm_ci.models.record.record import FILE
from rlm_ci.pipelines import load, stored_runs
from rlm_ci.pipelines.attempt import Mode, NoContextError, VerbJob, without_runs
from rlm_ci.solve.review_gate import ReviewGate
from rlm_ci.system import process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rlm_ci.config.settings import Settings
    from rlm_ci.console.progress import Progress
    from rlm_ci.git.repository import Repository
    from rlm_ci.models.record.record import Record
    from rlm_ci.pipelines.attempt import RunAttempt
    from rlm_ci.runs.run import Run

CALLS = FILE
ITERATIVE = "iterative"
SYMBOLIC = "symbolic"
_ENVIRONMENT = "symbolic.environment"
PIPELINE = "rlm"


class RlmJob(VerbJob):
    """The pipeline ``rlm``: it fixes a work tree, or answers from a long text."""

    @property
    def tells(self) -> bool:
        """Whether the report is what was asked for, as an answer is."""
        return self.report is not None and bool(self.report.documents)

    def prepare(self, run: Run, goal: str | None) -> None:  # noqa: ARG002 - the goal alone counts
        if not goal or not goal.strip():
            raise UsageError("there is no goal", where="GOAL", hint='add it: rlm-ci fix "GOAL"')

    def secrets(self) -> tuple[Iterable[str], Mapping[str, str]]:
        return self.settings.loop.agent_env, {}

    def attempt(self, run: Run, goal: str, record: Record) -> RunAttempt:
        def produce() -> Mapping[str, str]:
            mode = select(self.settings, goal)
            return {"name": mode.name, "reason": mode.reason, "wanted": self.settings.mode}

        recorded = record.fact("mode", "start", {}, produce)
        mode = Mode(recorded["name"], recorded["reason"])
        if mode.name == SYMBOLIC:
            is_required = recorded["wanted"] == SYMBOLIC
            try:
                return AskRun(self, run, goal, record, mode, required=is_required).carry_out()
            except NoContextError as error:
                self.progress.say(f"no context, so it is a fix loop: {error}")
                mode = Mode(ITERATIVE, f"{mode.reason}, and cannot be built: {error}")
        fix = FixRun(self, run, goal, record, mode)
        fix.review = partial(ReviewGate, self.settings.environ)
        return fix.carry_out()


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
    size, minimum = len(goal.encode("utf-8", "surrogateescape")), settings.symbolic.min_bytes
    if size > minimum:
        return Mode(SYMBOLIC, f"the goal has {size:,} bytes, more than {minimum:,}")
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
