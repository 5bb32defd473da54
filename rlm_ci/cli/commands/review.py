"""``rlm-ci review``: deep review of a repository, a folder, or a change in its context."""

from __future__ import annotations

from rlm_ci.cli import foreground, placing
from rlm_ci.cli.reviewing import Reviewing
from rlm_ci.cli.running import OUT_DIR, SANDBOX
from rlm_ci.cli.solving import making
from rlm_ci.table import BUDGET, CHANGE, COMMON, MODEL, RECURSION, REPORT, REVIEW

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlm_ci.cli.arguments import Arguments
    from rlm_ci.settings import Setting

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


make = making(Reviewing)
