"""The pull request comment."""

from __future__ import annotations

from rlm_ci.report import markdown_report
from rlm_ci.report.markdown_report import TextLimit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rlm_ci.report.findings import Report
    from rlm_ci.report.render import RenderOptions

#: GitHub refuses a comment of more than 65,536 characters, counted here in UTF-16 units.
ROOM = TextLimit(65_535, lambda text: len(text.encode("utf-16-le")) // 2, few_lines=True)

#: The text of a check run is refused from 65,536 bytes on.
_ROOM_IN_BYTES = TextLimit(65_535, lambda text: len(text.encode()), few_lines=True)


def render(report: Report, options: RenderOptions) -> str:
    room = _ROOM_IN_BYTES if options.in_bytes else ROOM
    return markdown_report.render(report, options, "comment.md.j2", room)
