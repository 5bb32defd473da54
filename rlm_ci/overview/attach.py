"""The overview of a change, put into its report without a secret. It never fails a run."""

from __future__ import annotations

from rlm_ci.console.failures import failure
from rlm_ci.redaction.redactor import Redactor
from rlm_ci.report.overview.changes import Overview

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from rlm_ci.change.change_set import ChangeSet
    from rlm_ci.report.findings import Report


def overview(report: Report, change: ChangeSet, environ: Mapping[str, str]) -> Report:
    """``report`` with the overview of ``change``, if that has two trees. Never raises."""
    if change.merge_base is None or change.head is None or change.worktree:
        return report
    try:
        from rlm_ci.overview import overview as maker

        made = maker.overview(change)
    except Exception as error:  # noqa: BLE001 - no verdict rests on it
        made = Overview(limits=(f"the overview could not be made: {failure(error)}",))
    clean = Redactor(environ).json(made.to_dict())
    return report.replace(overview=Overview.from_dict(clean))
