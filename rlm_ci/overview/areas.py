"""The files of a change by the folders that they lie in, largest first."""

from __future__ import annotations

from rlm_ci.report.overview.changes import Area
from rlm_ci.source.imports.file_lookup import folder_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlm_ci.change.change_set import FileChange

#: The most folders of a readable table.
_MOST = 24


def areas(files: Sequence[FileChange]) -> tuple[Area, ...]:
    """Folders as deep as there is room for, by the lines that change in them."""
    if not files:
        return ()
    deepest = max(file.path.count("/") for file in files)
    for depth in range(min(deepest, 12), 0, -1):
        found = _grouped(files, depth)
        if len(found) <= _MOST:
            break
    else:
        found = _grouped(files, min(deepest, 1))
    return tuple(
        sorted(found, key=lambda area: (-(area.added + area.deleted), -area.files, area.path))
    )


def _grouped(files: Sequence[FileChange], depth: int) -> list[Area]:
    sums: dict[str, list[int]] = {}
    for file in files:
        folder = "/".join(folder_of(file.path).split("/")[:depth]) if depth else ""
        held = sums.setdefault(folder, [0, 0, 0])
        for place, number in enumerate((1, file.added or 0, file.deleted or 0)):
            held[place] += number
    return [Area(folder, *held) for folder, held in sums.items()]
