"""``rlm-ci wiki``: the wiki of a repository, from its sources."""

from __future__ import annotations

from rlm_ci import errors
from rlm_ci.cli import folder_argument
from rlm_ci.config.core_options import COMMON, REPORT
from rlm_ci.config.options import BUDGET, MODEL, RECURSION, WIKI, WIKI_CHECK, WIKI_OF_PR
from rlm_ci.console import output
from rlm_ci.console.progress import Progress
from rlm_ci.judge.judge import open_repository
from rlm_ci.judge.options import output_of
from rlm_ci.pipelines import stored_runs
from rlm_ci.pipelines.repository.attempt import making
from rlm_ci.pipelines.stored_runs import OUT_DIR
from rlm_ci.solve import foreground
from rlm_ci.wiki.check import WikiCheck

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rlm_ci.config.arguments import Arguments
    from rlm_ci.config.settings import Settings

SUMMARY = "write the wiki of a repository from its sources"
USAGE = "[PATH] [--out DIR] [--push] [OPTION...]"
TAKES = ("one folder", 0, 1)
EXAMPLES = (
    "rlm-ci wiki --out docs/wiki --site build/wiki",
    "rlm-ci wiki --check",
)
EXITS = {
    errors.OK: "the pages are written; with --check: none is stale",
    errors.FINDINGS: "with --check: a page is stale",
    errors.LIMIT: "a budget ended the run early",
}
PIPELINE = "wiki"
_REPORT = tuple(row for row in REPORT if row.key == "fail_level")
_FOLDER = tuple(row for row in WIKI_OF_PR if row.key == "wiki.folder")
ROWS = (*COMMON, *_REPORT, *OUT_DIR, *RECURSION, *WIKI, *WIKI_CHECK, *_FOLDER, *MODEL, *BUDGET)


def run(arguments: Arguments) -> int:
    flags = folder_argument.flags(arguments)
    settings = stored_runs.settings_of(flags)
    if settings.values["wiki.check"]:
        return _check(settings)
    return foreground.conduct(PIPELINE, settings, flags, None)


def _check(settings: Settings) -> int:
    """Print which pages are stale, and why."""
    output_of(settings).require_place()
    runs = stored_runs.StoredRuns(settings)
    with Progress(settings.environ, quiet=settings.quiet, colour=settings.color) as progress:
        job = making(WikiCheck)(settings, open_repository(settings), runs, progress)
        report = job.compared(runs.redactor)
    output_of(settings).show(report)
    output.explain_parts(report)
    return report.exit_code()
