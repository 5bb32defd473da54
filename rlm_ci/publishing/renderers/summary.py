"""The job summary: the comment with more room."""

from __future__ import annotations

from rlm_ci.publishing import comment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rlm_ci.findings import Report
    from rlm_ci.publishing.options import Options

#: A step whose summary passes 1 MiB loses all of it; others may have written there before.
LIMIT = 1_000_000


def fits(text: str) -> bool:
    """Whether the runner takes it, counting bytes."""
    return len(text) <= LIMIT and len(text.encode()) <= LIMIT


def render(report: Report, options: Options) -> str:
    return comment.render(report, options, "comment.md.j2", fits)
