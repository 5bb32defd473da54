"""``rlm-ci wiki``: the wiki of a repository, from its sources."""

from __future__ import annotations

from rlm_ci import errors
from rlm_ci.cli import folder_argument
from rlm_ci.config.core_options import COMMON, REPORT
from rlm_ci.config.options import BUDGET, MODEL, RECURSION, WIKI, WIKI_OF_PR
from rlm_ci.pipelines import stored_runs
from rlm_ci.pipelines.stored_runs import OUT_DIR
from rlm_ci.solve import foreground

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rlm_ci.config.arguments import Arguments

SUMMARY = "write the wiki of a repository from its sources"
USAGE = "[PATH] [--out DIR] [--push] [OPTION...]"
TAKES = ("one folder", 0, 1)
EXAMPLES = ("rlm-ci wiki --out docs/wiki --site build/wiki",)
EXITS = {errors.OK: "the pages are written", errors.LIMIT: "a budget ended the run early"}
PIPELINE = "wiki"
_REPORT = tuple(row for row in REPORT if row.key == "fail_level")
_FOLDER = tuple(row for row in WIKI_OF_PR if row.key == "wiki.folder")
ROWS = (*COMMON, *_REPORT, *OUT_DIR, *RECURSION, *WIKI, *_FOLDER, *MODEL, *BUDGET)


def run(arguments: Arguments) -> int:
    flags = folder_argument.flags(arguments)
    return foreground.conduct(PIPELINE, stored_runs.settings_of(flags), flags, None)
