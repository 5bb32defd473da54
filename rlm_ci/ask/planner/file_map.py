"""Where in a context its files stand, told in few words: folders, large files, files by name."""

from __future__ import annotations

from functools import lru_cache
from heapq import nsmallest

from rlm_ci.context.file_places import first_places
from rlm_ci.context.file_places import told as places_told
from rlm_ci.text.printable import count, encodable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Final, Protocol

    from rlm_ci.context.context import Context

    class Named(Protocol):
        """A file of a context: its path, and the bytes of the source that it is."""

        @property
        def path(self) -> str: ...
        @property
        def start(self) -> int: ...
        @property
        def end(self) -> int: ...


#: Folders and files that are looked at to be told: more have no room.
_MOST: Final = 24
#: Files that are told of one excerpt, and of one search by their names.
_PLACES: Final = 4
_NAMED: Final = 8
#: Answers that are remembered: every prompt tells all that was found so far.
_KEPT: Final = 1 << 14


class FileMapRow(Value):
    """A path, bytes of the source, and what stands there: some files, or one (``files`` 0)."""

    path: str
    start: int
    end: int
    files: int = 0

    @property
    def told(self) -> str:
        """What there is to say of it behind its path."""
        number = f"{count(self.files, 'file')} in " if self.files else ""
        return f"{number}bytes {self.start}-{self.end}"


class FileMap:
    """The files of one context; ``where`` tells a range of bytes by ``path:line``, "" if it can't.

    What was asked once is not looked up again.
    """

    def __init__(
        self,
        files: Sequence[Named] = (),
        where: Callable[[int, int], str] = lambda _start, _end: "",
    ) -> None:
        self.count = len(files)
        self.folders = folders(files)
        self.largest = largest(files)
        self.where = lru_cache(_KEPT)(where)
        self.named = lru_cache(_KEPT)(lambda query: named(files, query, _NAMED))

    @classmethod
    def of(cls, context: Context) -> FileMap:
        def where(start: int, end: int) -> str:
            return places_told(*first_places(context, start, end, _PLACES))

        return cls(context.files, where)


def folders(files: Sequence[Named]) -> tuple[FileMapRow, ...]:
    """The first folders in which paths part, the largest first, those of a size by their place."""
    shared = _shared(files)
    found: dict[str, list[int]] = {}
    for piece in files:
        parts = piece.path.split("/")
        name = "/".join((*parts[: min(shared + 1, len(parts) - 1)], ""))
        known = found.setdefault(name, [piece.start, piece.end, 0])
        known[0] = min(known[0], piece.start)
        known[1] = max(known[1], piece.end)
        known[2] += 1
    stretches = (
        FileMapRow(path or "./", start, end, number) for path, (start, end, number) in found.items()
    )
    return tuple(nsmallest(_MOST, stretches, key=lambda one: (-one.files, one.start)))


def largest(files: Sequence[Named]) -> tuple[FileMapRow, ...]:
    """The files of the most bytes, the largest first."""
    first = nsmallest(_MOST, files, key=lambda one: (one.start - one.end, one.start))
    return tuple(FileMapRow(one.path, one.start, one.end) for one in first)


def named(files: Sequence[Named], query: str, most: int) -> tuple[FileMapRow, ...]:
    """The first files, at most ``most``, whose paths hold ``query``, whatever its case in ASCII."""
    wanted = _lower(query.strip())
    if not wanted:
        return ()
    found: list[FileMapRow] = []
    for piece in files:
        if wanted in _lower(piece.path):
            found.append(FileMapRow(piece.path, piece.start, piece.end))
            if len(found) == most:
                break
    return tuple(found)


def _shared(files: Sequence[Named]) -> int:
    """How many of the folders that paths begin with are the same in all of them."""
    if not files:
        return 0
    paths = (min(one.path for one in files), max(one.path for one in files))
    first, last = (path.split("/")[:-1] for path in paths)
    number = 0
    for one, other in zip(first, last, strict=False):
        if one != other:
            break
        number += 1
    return number


def _lower(text: str) -> bytes:
    return encodable(text).encode().lower()  # of bytes, only those of ASCII have a case
