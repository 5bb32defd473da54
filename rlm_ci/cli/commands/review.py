"""``rlm-ci review``: deep review of a repository, a folder, or a change with the code around it."""

from __future__ import annotations

from rlm_ci import errors
from rlm_ci.cli import folder_argument
from rlm_ci.config.core_options import CHANGE, COMMON, REPORT
from rlm_ci.config.options import BUDGET, MODEL, RECURSION, REVIEW
from rlm_ci.pipelines import stored_runs
from rlm_ci.pipelines.stored_runs import OUT_DIR, SANDBOX
from rlm_ci.solve import foreground

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rlm_ci.config.arguments import Arguments

SUMMARY = "review a repository, a folder, or a change in its context"
USAGE = "[PATH] [--base REF] [OPTION...]"
TAKES = ("one folder", 0, 1)
EXAMPLES = (
    "rlm-ci review src --worktree",
    "rlm-ci review --base main",
)
EXITS = errors.REPORT_EXITS
PIPELINE = "review"
_REPORT = tuple(row for row in REPORT if row.key != "checks")
_CHANGE = tuple(row for row in CHANGE if row.key != "event")
ROWS = (*COMMON, *_CHANGE, *_REPORT, *OUT_DIR, *SANDBOX, *RECURSION, *REVIEW, *MODEL, *BUDGET)


def run(arguments: Arguments) -> int:
    flags = folder_argument.flags(arguments)
    return foreground.conduct(PIPELINE, stored_runs.settings_of(flags), flags, None)
