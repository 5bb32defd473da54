"""The job summary: the comment with more room."""

from __future__ import annotations

from rlm_ci.report.formats.markdown import TextLimit, fitted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rlm_ci.report.findings import Report
    from rlm_ci.report.render import RenderOptions

#: A step whose summary passes 1 MiB loses all of it; others may have written there before.
ROOM = TextLimit(1_000_000, lambda text: len(text.encode()))


def render(report: Report, options: RenderOptions) -> str:
    return fitted(report, options, ROOM)
