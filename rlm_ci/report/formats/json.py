"""The report itself, as ``schemas/report.schema.json`` has it."""

from __future__ import annotations

from rlm_ci.publishing import neutral

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rlm_ci.findings import Report
    from rlm_ci.publishing.options import Options


def render(report: Report, _options: Options) -> str:
    return neutral.record(report.outline())
