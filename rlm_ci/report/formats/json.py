"""The report itself, as ``schemas/report.schema.json`` has it."""

from __future__ import annotations

from rlm_ci.text import neutralise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rlm_ci.report.findings import Report
    from rlm_ci.report.render import RenderOptions


def render(report: Report, _options: RenderOptions) -> str:
    return neutralise.record(report.outline())
