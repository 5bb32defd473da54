"""The pull request comment."""

from __future__ import annotations

from rlm_ci.publishing import comment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rlm_ci.findings import Report
    from rlm_ci.publishing.options import Options

#: GitHub refuses a comment of more than 65,536 characters, and does not say what one is.
LIMIT = 65_535


def fits(text: str) -> bool:
    """Whether GitHub takes it, counting UTF-16 units: never fewer than code points."""
    return len(text) <= LIMIT and len(text.encode("utf-16-le")) // 2 <= LIMIT


def render(report: Report, options: Options) -> str:
    return comment.render(report, options, "comment.md.j2", fits)
