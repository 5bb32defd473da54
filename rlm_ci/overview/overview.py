"""The overview of a change, made from both of its sides. No verdict rests on it."""

from __future__ import annotations

from rlm_ci.console.failures import failure
from rlm_ci.overview.areas import areas
from rlm_ci.overview.dependents import dependents
from rlm_ci.overview.names import NameComparison
from rlm_ci.overview.packages.dependencies import dependencies
from rlm_ci.overview.sides import ChangeSides
from rlm_ci.overview.workflows import migrations, permissions
from rlm_ci.redaction.redactor import Redactor
from rlm_ci.report.overview.changes import ADDED, CHANGED, MOVED, REMOVED, NameChange, Overview
from rlm_ci.source.signatures import clipped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from rlm_ci.change.change_set import ChangeSet
    from rlm_ci.report.findings import Report

#: The most names that a report has.
MOST_NAMES = 300
#: Characters of a name.
_LONGEST = 300
_ORDER = (REMOVED, CHANGED, MOVED, ADDED)


def attached(report: Report, change: ChangeSet, environ: Mapping[str, str]) -> Report:
    """``report`` with the overview of ``change``, without a secret, if that has two trees.

    Never raises.
    """
    if change.merge_base is None or change.head is None or change.worktree:
        return report
    try:
        change_overview = overview(change)
    except Exception as error:  # noqa: BLE001 - no verdict rests on it
        change_overview = Overview(limits=(f"the overview could not be made: {failure(error)}",))
    clean = Redactor(environ).json(change_overview.to_dict())
    return report.replace(overview=Overview.from_dict(clean))


def overview(change: ChangeSet) -> Overview:
    """The overview of a change between two commits. Raises RlmCiError where git fails."""
    from rlm_ci.overview.callers import with_callers  # a library may be missing: said in the report

    sides = ChangeSides(change)
    comparison = NameComparison(sides)
    names = sorted(with_callers(sides, comparison.changes()), key=_order)
    if names[MOST_NAMES:]:
        sides.limit(f"{len(names) - MOST_NAMES:,} more names are only counted")
    counts = {name: number for name, number in comparison.counts.items() if number}
    return Overview(
        names=tuple(map(_short, names[:MOST_NAMES])),
        counts=counts,
        dependencies=dependencies(sides),
        permissions=permissions(sides),
        migrations=migrations(sides),
        areas=areas(sides.files),
        dependents=dependents(sides),
        limits=tuple(sides.limits),
    )


def _order(change: NameChange) -> tuple[bool, int, int, str, str]:
    """What breaks others first, then what has most callers outside of the change."""
    return (
        not change.breaking,
        _ORDER.index(change.change),
        -change.outside,
        change.path,
        change.name,
    )


def _short(change: NameChange) -> NameChange:
    return (
        change.replace(name=clipped(change.name, _LONGEST))
        if len(change.name) > _LONGEST
        else change
    )
