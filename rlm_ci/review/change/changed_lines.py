"""The lines that a change touches, and what of a review lies on them.

What was there before is not the author's doing: a finding away from these lines is marked, and
does not fail the run.
"""

from __future__ import annotations

from rlm_ci.report.findings import UNTOUCHED
from rlm_ci.review.analyzers import ruff
from rlm_ci.source.languages import language

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rlm_ci.change.change_set import ChangeSet
    from rlm_ci.git.patches import Hunk
    from rlm_ci.report.findings import Finding, Location

    #: For each changed path the first and last lines of what it changes, in order.
    Ranges = Mapping[str, Sequence[Sequence[int]]]

#: A line behind the last one of any file.
_END = 1 << 31


def changed_of(change: ChangeSet) -> dict[str, list[list[int]]]:
    """The changed lines of each file of a change, those that were only moved included.

    What was a text or a test and becomes code by its new name is new as a whole: nobody has
    looked at it as code before.
    """
    found = changed_lines(*change.hunks())
    for one in change.files():
        if one.status[:1] == "D":
            found.pop(one.path, None)
            continue
        found.setdefault(one.path, [])
        moved = one.status[:1] in ("R", "C") and one.old_path
        if one.status[:1] == "T" or (moved and _kind(one.old_path) != _kind(one.path)):
            found[one.path] = [[1, _END]]
    return found


def _kind(path: str) -> tuple[str, bool]:
    return language(path), ruff.is_test(path)


def changed_lines(
    hunks: Mapping[str, Sequence[Hunk]], unknown: Iterable[str] = ()
) -> dict[str, list[list[int]]]:
    """The changed lines of each path, new side; where lines went, the two around the gap.

    ``unknown`` are changed files whose patch cannot be read: all of them counts as changed.
    """
    found: dict[str, list[list[int]]] = {path: [[1, _END]] for path in unknown}
    for path, some in hunks.items():
        touched: set[int] = set()
        for hunk in some:
            at, gap = hunk.new_start, 0  # the number that the next line of the new side has
            for line in hunk.lines:
                if line.kind == "-":
                    gap = at
                    continue
                if line.kind == "+":
                    touched.add(at)
                elif gap:  # lines went, and none came in their place
                    touched.update(one for one in (gap - 1, gap) if one > 0)
                at, gap = at + 1, 0
            if gap:
                touched.update(one for one in (gap - 1, gap) if one > 0)
        found[path] = _runs(sorted(touched))
    return found


def removed_lines(hunks: Mapping[str, Sequence[Hunk]]) -> dict[str, list[list[int]]]:
    """The lines of the old side that are not those of the new one, by the new path."""
    found = {}
    for path, some in hunks.items():
        gone: list[int] = []
        for hunk in some:
            at = hunk.old_start
            for line in hunk.lines:
                if line.kind == "-":
                    gone.append(at)
                at += line.kind != "+"
        found[path] = _runs(gone)
    return found


def _runs(numbers: Sequence[int]) -> list[list[int]]:
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return runs


def marked(finding: Finding, changed: Ranges | None) -> Finding:
    """``finding``, the changed lines that it points to first; if there is none, it cannot fail."""
    if changed is None or finding.suppression is not None:
        return finding
    places = sorted(finding.evidence, key=lambda place: not _overlaps(place, changed))
    if not (places and _overlaps(places[0], changed)):
        return finding.replace(suppression=UNTOUCHED)
    return finding.replace(evidence=tuple(places))


def is_touched(finding: Finding, changed: Ranges) -> bool:
    """Whether any of the places of ``finding`` is on a changed line."""
    return any(_overlaps(place, changed) for place in finding.evidence)


def _overlaps(place: Location, changed: Ranges) -> bool:
    return place.path in changed and overlaps(place, changed[place.path])


def overlaps(place: Location, lines: Sequence[Sequence[int]]) -> bool:
    """Whether ``place`` is on one of ``lines``; a file as a whole always is."""
    if place.line_start is None:
        return True
    end = place.line_end or place.line_start
    return any(first <= end and place.line_start <= last for first, last in lines)
