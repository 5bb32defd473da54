"""The lines that a change touches; findings elsewhere are marked, and do not fail the run."""

from __future__ import annotations

from rlm_ci.report.findings import UNTOUCHED
from rlm_ci.review.analyzers import ruff
from rlm_ci.source.languages import language

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rlm_ci.change.change_set import ChangeSet
    from rlm_ci.report.findings import Finding, Location

    #: For each changed path the first and last lines of what it changes, in order.
    Ranges = Mapping[str, Sequence[Sequence[int]]]

#: The lines of a file that is gone: none of the new side.
GONE = [0, 0]
#: A line after the last one of any file.
_END = 1 << 31


def changed_of(change: ChangeSet) -> dict[str, list[list[int]]]:
    """The changed lines of each file, new side; for removed lines, the two around the gap.

    A deleted file has GONE alone. A text or test that becomes code by its new name is new as a
    whole, and so is a file whose patch cannot be read.
    """
    hunks, unknown = change.hunks(context=0)
    ranges = {path: [[1, _END]] for path in unknown}
    for path, some in hunks.items():
        touched: set[int] = set()
        for hunk in some:
            # Without lines, a hunk begins at the one before the gap.
            touched.update(range(hunk.new_start, hunk.new_start + (hunk.new_count or 2)))
        ranges[path] = _runs(sorted(touched - {0}))
    for file in change.files():
        if file.status[:1] == "D":
            ranges[file.path] = [GONE]
            continue
        ranges.setdefault(file.path, [])
        moved = file.status[:1] in ("R", "C") and file.old_path
        if file.status[:1] == "T" or (moved and _kind(file.old_path) != _kind(file.path)):
            ranges[file.path] = [[1, _END]]
    return ranges


def _kind(path: str) -> tuple[str, bool]:
    return language(path), ruff.is_test(path)


def removed_of(change: ChangeSet) -> dict[str, list[list[int]]]:
    """The lines of the old side that are not those of the new one, by the new path."""
    hunks, _ = change.hunks(context=0)
    return {
        path: [[hunk.old_start, hunk.span("old")[1]] for hunk in some if hunk.old_count]
        for path, some in hunks.items()
    }


def _runs(numbers: Sequence[int]) -> list[list[int]]:
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return runs


def marked(finding: Finding, changed: Ranges | None) -> Finding:
    """``finding`` with its changed lines first; suppressed if it has none.

    A suggestion goes where others come first: it is for the lines that it was written for.
    """
    if changed is None or finding.suppression is not None:
        return finding
    if not is_touched(finding, changed):
        return finding.replace(suppression=UNTOUCHED)
    places = sorted(
        finding.evidence, key=lambda location: (location.side, not _overlaps(location, changed))
    )
    if tuple(places[:1]) != finding.evidence[:1]:
        finding = finding.replace(suggested_fix=None)
    return finding.replace(evidence=tuple(places))


def is_touched(finding: Finding, changed: Ranges) -> bool:
    """Whether any of the places of ``finding`` is on a changed line."""
    return any(_overlaps(location, changed) for location in finding.evidence)


def _overlaps(location: Location, changed: Ranges) -> bool:
    lines = changed.get(location.path)
    if lines is None:
        return False
    return (
        is_moved_with_file(location, changed)
        if location.side == "old"
        else overlaps(location, lines)
    )


def is_moved_with_file(location: Location, changed: Ranges) -> bool:
    """Whether ``location`` went with its file; other places of the old side are guidelines."""
    lines = changed.get(location.path, ())
    return location.side == "old" and any(list(line) == GONE for line in lines)


def overlaps(location: Location, lines: Sequence[Sequence[int]]) -> bool:
    """Whether ``location`` is on one of ``lines``; a file as a whole always is."""
    if location.line_start is None:
        return True
    end = location.line_end or location.line_start
    return any(first <= end and location.line_start <= last for first, last in lines)
