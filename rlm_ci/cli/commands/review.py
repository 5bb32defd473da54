"""``rlm-ci review``: deep review of a repository, a folder, or a change with the code around it."""

from __future__ import annotations

from rlm_ci import errors
from rlm_ci.cli import folder_argument
from rlm_ci.config.core_options import CHANGE, COMMON, REPORT
from rlm_ci.config.options import BUDGET, MODEL, RECURSION, REVIEW, REVIEW_DRY_RUN
from rlm_ci.console.progress import Progress
from rlm_ci.judge.options import output_of
from rlm_ci.pipelines import stored_runs
from rlm_ci.pipelines.stored_runs import OUT_DIR, SANDBOX
from rlm_ci.review import dry_run
from rlm_ci.review.run import ReviewJob
from rlm_ci.solve import foreground, registry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rlm_ci.config.arguments import Arguments
    from rlm_ci.config.settings import Settings

SUMMARY = "review a repository, a folder, or a change in its context"
USAGE = "[PATH] [--base REF] [OPTION...]"
TAKES = ("one folder", 0, 1)
EXAMPLES = (
    "rlm-ci review --base main",
    "rlm-ci review --worktree",
)
EXITS = errors.REPORT_EXITS
PIPELINE = "review"
_REPORT = tuple(row for row in REPORT if row.key != "checks")
_CHANGE = tuple(row for row in CHANGE if row.key != "event")
ROWS = (
    *COMMON, *_CHANGE, *_REPORT, *OUT_DIR, *SANDBOX, *RECURSION, *REVIEW, *REVIEW_DRY_RUN, *MODEL,
    *BUDGET,
)  # fmt: skip


def run(arguments: Arguments) -> int:
    flags = folder_argument.flags(arguments, takes_base=True)
    settings = stored_runs.settings_of(flags)
    if settings.values["review.dry_run"]:
        return _dry_run(settings)
    return foreground.conduct(PIPELINE, settings, flags, None)


def _dry_run(settings: Settings) -> int:
    """Print what the questions to the model cost."""
    output = output_of(settings).require_text_or_json("--dry-run")
    output.require_place()
    runs = stored_runs.StoredRuns(settings)
    with Progress(settings.environ, quiet=settings.quiet, colour=settings.color) as progress:
        job = registry.make(PIPELINE, settings, runs, progress)
        if not isinstance(job, ReviewJob):
            raise AssertionError("the pipeline review has a job of its own")
        cost = dry_run.cost_of(job, runs.redactor)
    output.emit(dry_run.as_json(cost) if settings.format == "json" else dry_run.as_text(cost))
    return errors.OK
