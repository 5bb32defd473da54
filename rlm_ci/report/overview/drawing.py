"""Who imports the changed files, as a picture: a page draws it offline, without a script.

Importers stand on the left, changed files on the right. The template gets boxes and lines with
their places, and writes the elements itself.
"""

from __future__ import annotations

from statistics import fmean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from rlm_ci.report.overview.changes import Dependent

#: Sizes in pixels: a box, the distance from one to the next below it, the gap between the sides.
_WIDTH, _HEIGHT, _STEP, _GAP = 330, 26, 34, 140
#: Characters of a path that a box has room for.
_ROOM = 38


def drawing(dependents: Sequence[Dependent], code: Callable[[str], Any]) -> dict[str, Any]:
    """Its size, boxes and lines; ``code`` makes a path harmless."""
    changed = list(dict.fromkeys(dependent.target for dependent in dependents))
    importers = _ordered(dependents, changed)
    height = max(len(changed), len(importers)) * _STEP
    right = _WIDTH + _GAP
    left_of = _rows(importers, height)
    right_of = _rows(changed, height)
    return {
        "width": right + _WIDTH,
        "height": height,
        "box": {"width": _WIDTH, "height": _HEIGHT},
        "boxes": [
            {"x": x, "y": y, "text": code(_tail(path)), "changed": path in right_of}
            for x, rows in ((0, left_of), (right, right_of))
            for path, y in rows.items()
        ],
        "lines": [
            _line(left_of[edge.source] + _HEIGHT // 2, right_of[edge.target] + _HEIGHT // 2)
            for edge in dependents
        ],
        "tips": [
            f"M{right - 7},{y + _HEIGHT // 2 - 4} l7,4 l-7,4 z" for y in right_of.values()
        ],
    }  # fmt: skip


def _ordered(dependents: Sequence[Dependent], changed: Sequence[str]) -> list[str]:
    """The importers beside what they import, so that few lines cross."""
    places: dict[str, list[int]] = {}
    for dependent in dependents:
        places.setdefault(dependent.source, []).append(changed.index(dependent.target))
    return sorted(places, key=lambda source: fmean(places[source]))


def _rows(paths: Sequence[str], height: int) -> dict[str, int]:
    """The upper edge of each box; the shorter side stands in the middle."""
    first = (height - len(paths) * _STEP) // 2 + (_STEP - _HEIGHT) // 2
    return {path: first + number * _STEP for number, path in enumerate(paths)}


def _line(start: int, end: int) -> str:
    middle = _WIDTH + _GAP // 2
    return f"M{_WIDTH},{start} C{middle},{start} {middle},{end} {_WIDTH + _GAP - 6},{end}"


def _tail(path: str) -> str:
    return path if len(path) <= _ROOM else f"…{path[1 - _ROOM :]}"
