"""``rlm-ci review``: deep review of a repository, a folder, or a change in its context."""

from __future__ import annotations

from rlm_ci.cli import foreground, placing
from rlm_ci.cli.reviewing import Reviewing
from rlm_ci.cli.running import OUT_DIR, SANDBOX
from rlm_ci.cli.solving import prepare
from rlm_ci.cli.work import without_runs
from rlm_ci.table import BUDGET, CHANGE, COMMON, MODEL, RECURSION, REPORT, REVIEW

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlm_ci.cli.arguments import Arguments
    from rlm_ci.cli.progress import Progress
    from rlm_ci.cli.running import Runs
    from rlm_ci.git import Repository
    from rlm_ci.settings import Setting, Settings

SUMMARY = "review a repository, a folder, or a change in its context"
USAGE = "[PATH] [--base REF] [OPTION...]"
PIPELINE = "review"
_REPORT = tuple(row for row in REPORT if row.key != "checks")
_CHANGE = tuple(row for row in CHANGE if row.key != "event")


def rows(_argv: Sequence[str]) -> tuple[Setting, ...]:
    own = (*COMMON, *_CHANGE, *_REPORT, *OUT_DIR, *SANDBOX)
    return (*own, *RECURSION, *REVIEW, *MODEL, *BUDGET)


def run(arguments: Arguments) -> int:
    flags = placing.flags(arguments, PIPELINE, USAGE)
    return foreground.conduct(PIPELINE, foreground.read(flags), flags, None)


def make(
    settings: Settings,
    repository: Repository,
    runs: Runs,
    progress: Progress,
    replay: str | None = None,
) -> Reviewing:
    """The work that these settings and the config file describe. Raises ConfigError."""
    prepare(settings, repository)
    skipped = without_runs(runs.root, settings.runs_dir, settings.out_dir)
    return Reviewing(settings, repository, progress, skipped=skipped, replay=replay)
