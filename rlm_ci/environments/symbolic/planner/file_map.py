"""The files of a context in few words: folders, large files, files by name."""

from __future__ import annotations

from functools import lru_cache
from heapq import nsmallest
from itertools import islice, takewhile

from rlm_ci.context.line_numbers import line_ranges as places_told
from rlm_ci.text.printable import count, encodable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Final

    from rlm_ci.context.context import Context, SourceFile

#: Folders, and files, that are listed at most: more have no room.
_MOST: Final = 24
#: Files of one excerpt, and of one search by name, that are listed at most.
_PLACES: Final = 4
_NAMED: Final = 8
#: Answers that are cached: each prompt repeats those of earlier iterations.
_KEPT: Final = 1 << 14


class FileMapRow(Value):
    """A file, or a folder of ``files``, and its bytes of the source."""

    path: str
    start: int
    end: int
    files: int = 0

    @property
    def size(self) -> str:
        number = f"{count(self.files, 'file')} in " if self.files else ""
        return f"{number}bytes {self.start}-{self.end}"


class FileMap:
    """The files of a context. ``where`` names a range of bytes by ``path:line``, if it can."""

    def __init__(
        self,
        files: Sequence[SourceFile] = (),
        where: Callable[[int, int], str] = lambda _start, _end: "",
    ) -> None:
        self.count = len(files)
        self.folders = folders(files)
        self.largest = largest(files)
        self.where = lru_cache(_KEPT)(where)
        self.matching = lru_cache(_KEPT)(lambda query: files_matching(files, query, _NAMED))

    @classmethod
    def of(cls, context: Context) -> FileMap:
        def where(start: int, end: int) -> str:
            return places_told(*context.first_places(start, end, _PLACES))

        return cls(context.files, where)


def folders(files: Sequence[SourceFile]) -> tuple[FileMapRow, ...]:
    """The folders below the one that all paths share, those with the most files first."""
    shared = _shared(files)
    rows: dict[str, list[int]] = {}
    for piece in files:
        parts = piece.path.split("/")
        name = "/".join((*parts[: min(shared + 1, len(parts) - 1)], ""))
        row = rows.setdefault(name, [piece.start, piece.end, 0])
        row[0] = min(row[0], piece.start)
        row[1] = max(row[1], piece.end)
        row[2] += 1
    stretches = (
        FileMapRow(path or "./", start, end, number) for path, (start, end, number) in rows.items()
    )
    return tuple(nsmallest(_MOST, stretches, key=lambda row: (-row.files, row.start)))


def largest(files: Sequence[SourceFile]) -> tuple[FileMapRow, ...]:
    """The files of the most bytes, the largest first."""
    first = nsmallest(_MOST, files, key=lambda file: (file.start - file.end, file.start))
    return tuple(FileMapRow(file.path, file.start, file.end) for file in first)


def files_matching(files: Sequence[SourceFile], query: str, limit: int) -> tuple[FileMapRow, ...]:
    """The first files, at most ``limit``, with ``query`` in their paths; ASCII in either case."""
    phrase = _lower(query.strip())
    source_files = (file for file in files if phrase and phrase in _lower(file.path))
    return tuple(
        FileMapRow(file.path, file.start, file.end) for file in islice(source_files, limit)
    )


def _shared(files: Sequence[SourceFile]) -> int:
    if not files:
        return 0
    paths = (min(file.path for file in files), max(source_file.path for source_file in files))
    first, last = (path.split("/")[:-1] for path in paths)
    return sum(
        1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))
    )


def _lower(text: str) -> bytes:
    return encodable(text).encode().lower()  # changes ASCII alone
