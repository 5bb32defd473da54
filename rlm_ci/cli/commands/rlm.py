"""``rlm-ci rlm``: fix until green, or answer a question from a long text."""

from __future__ import annotations

import os

from rlm_ci import errors
from rlm_ci.config.core_options import COMMON
from rlm_ci.config.options import BUDGET, LOOP, MODEL, RLMS_DRY_RUN, SYMBOLIC
from rlm_ci.console.progress import Progress
from rlm_ci.errors import UsageError
from rlm_ci.fix.rlms import before_turn
from rlm_ci.judge.judge import open_repository
from rlm_ci.judge.options import output_of
from rlm_ci.pipelines import load, stored_runs
from rlm_ci.pipelines.run_context import STDIN
from rlm_ci.solve import foreground, pipeline

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rlm_ci.config.arguments import Arguments
    from rlm_ci.config.settings import Settings

SUMMARY = "fix or ask by one command, as the mode says"
USAGE = '"GOAL" [OPTION...]'
TAKES = ("one goal", 0, 1)
EXAMPLES = (
    'rlm-ci rlm "make the tests pass" --agent codex --max-iterations 10',
    'rlm-ci rlm "Which request failed first?" --context build.log',
)
FIX_EXITS = {
    errors.OK: "the validator passes; without a validator, a budget is used up",
    errors.FINDINGS: "the guard refuses the result",
    errors.USAGE: "there is no validator, or there are several",
    errors.LIMIT: "a budget is used up, or nothing changed",
}
ASK_EXITS = {
    errors.OK: "the question is answered",
    errors.FINDINGS: "the question cannot be answered",
    errors.LIMIT: "a budget is used up",
}
EXITS = {
    **FIX_EXITS,
    errors.OK: "the validator passes, or the question is answered; without a validator, a "
    "budget is used up",
    errors.FINDINGS: "the guard refuses the result, or the question cannot be answered",
}
PIPELINE = "rlm"
ROWS = (*COMMON, *LOOP, *RLMS_DRY_RUN, *SYMBOLIC, *MODEL, *BUDGET)


def run(arguments: Arguments) -> int:
    goal, *_ = (*arguments.words, None)
    return start(dict(arguments.flags), goal, "rlm")


def start(flags: dict[str, Any], goal: str | None, command: str) -> int:
    """Run the pipeline for a goal, that of the settings if it is None; the exit code.

    ``flags`` are those of the command line. ``command`` is its name, in errors and reasons.
    """
    if goal is not None:
        flags["loop.goal"] = goal
    settings = stored_runs.settings_of(flags)
    if command != "rlm":
        settings.sources["mode"] = f"rlm-ci {command}"
    source = settings.context.source
    if source and source != STDIN:  # a resumed run may be in another folder
        flags["context.source"] = os.path.abspath(source)
    goal = settings.loop.goal
    if not goal or not goal.strip():
        hint = f"rlm-ci {command} {USAGE}"
        raise UsageError("there is no goal", where=f"rlm-ci {command}", hint=hint)
    if settings.values["loop.rlms.dry_run"]:
        return _dry_run(settings, goal)
    return foreground.conduct(PIPELINE, settings, flags, goal)


def _dry_run(settings: Settings, goal: str) -> int:
    """Print for which roles an analysis would run before the turn."""
    output = output_of(settings).require_text_or_json("--dry-run")
    output.require_place()
    repository = open_repository(settings)
    runs = stored_runs.StoredRuns(settings)
    with Progress(settings.environ, quiet=settings.quiet, colour=settings.color) as progress:
        job = pipeline.make(settings, repository, runs, progress)
    mode = pipeline.select(settings, goal)
    if mode.name != pipeline.ITERATIVE:
        raise UsageError(
            "a question has no roles",
            where=f"--dry-run: {mode.reason}",
            hint="leave out --dry-run, or use --mode iterative",
        )
    changes = load.changes_of(settings, repository)
    labels = [
        name for change in changes if change.pull_request for name in change.pull_request.labels
    ]
    decisions = before_turn.decisions(job, goal, labels)
    as_json = settings.format == "json"
    output.emit(before_turn.as_json(decisions) if as_json else before_turn.as_text(decisions))
    return errors.OK
