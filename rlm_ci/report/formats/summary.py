"""The job summary: the comment with more room."""

from __future__ import annotations

from rlm_ci.report import markdown_report
from rlm_ci.report.markdown_report import TextLimit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rlm_ci.report.findings import Report
    from rlm_ci.report.render import RenderOptions

#: A step whose summary passes 1 MiB loses all of it; others may have written there before.
ROOM = TextLimit(1_000_000, lambda text: len(text.encode()))


def render(report: Report, options: RenderOptions) -> str:
    return markdown_report.render(report, options, "comment.md.j2", ROOM)
