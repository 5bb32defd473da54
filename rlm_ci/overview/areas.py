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
        groups = _grouped(files, depth)
        if len(groups) <= _MOST:
            break
    else:
        groups = _grouped(files, min(deepest, 1))
    return tuple(
        sorted(groups, key=lambda area: (-(area.added + area.deleted), -area.files, area.path))
    )


def _grouped(files: Sequence[FileChange], depth: int) -> list[Area]:
    sums: dict[str, list[int]] = {}
    for file in files:
        folder = "/".join(folder_of(file.path).split("/")[:depth]) if depth else ""
        counts = sums.setdefault(folder, [0, 0, 0])
        for index, number in enumerate((1, file.added or 0, file.deleted or 0)):
            counts[index] += number
    return [Area(folder, *counts) for folder, counts in sums.items()]
