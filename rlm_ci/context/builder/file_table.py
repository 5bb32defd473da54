"""The files of a source, packed into a few arrays: there may be hundreds of thousands."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from rlm_ci.values import Row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import overload

#: Bytes of the longer of git's two kinds of object ids.
_ROOM = 32


class SourceFile(Row):
    """A file of the source: bytes ``start`` to ``end`` of it, and its id as a blob of git.

    ``path`` carries surrogateescape; ``blob`` is None for a file that is too large for one.
    ``read_as`` names the compression and the encoding of its bytes; "" if they are the text.
    """

    path: str
    start: int
    end: int
    blob: str | None
    read_as: str = ""


class BlobIds:
    """The object ids of ``number`` files, unknown at first; threads may share it."""

    def __init__(self, number: int = 0) -> None:
        self._lengths = bytearray(number)
        self._ids = bytearray(_ROOM * number)

    def __len__(self) -> int:
        return len(self._lengths)

    def __getitem__(self, at: int) -> str | None:
        length = self._lengths[at]
        return self._ids[_ROOM * at : _ROOM * at + length].hex() if length else None

    def __setitem__(self, at: int, digest: bytes) -> None:
        self._ids[_ROOM * at : _ROOM * at + len(digest)] = digest
        self._lengths[at] = len(digest)

    def add(self, blob: str | None) -> None:
        digest = bytes.fromhex(blob or "")
        self._lengths.append(len(digest))
        self._ids += digest.ljust(_ROOM, b"\0")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BlobIds):
            return NotImplemented
        return (self._lengths, self._ids) == (other._lengths, other._ids)

    __hash__ = None  # type: ignore[assignment]  # it can be added to


class Pieces(Sequence[SourceFile]):
    """Files in order of their bytes. A file takes about 60 bytes, plus its path."""

    def __init__(self) -> None:
        self._paths = bytearray()
        self._path_ends = array("Q")
        self.starts = array("Q")
        self.ends = array("Q")
        self.blobs = BlobIds()
        #: The few that were decoded, by number.
        self.read_as: dict[int, str] = {}

    def add(
        self, path: str, start: int, end: int, blob: str | None = None, read_as: str = ""
    ) -> None:
        if read_as:
            self.read_as[len(self)] = read_as
        self._paths += path.encode("utf-8", "surrogateescape")
        self._path_ends.append(len(self._paths))
        self.starts.append(start)
        self.ends.append(end)
        self.blobs.add(blob)

    def known_by(self, blobs: BlobIds) -> Pieces:
        """The same files, with these object ids."""
        if len(blobs) != len(self):
            raise ValueError(f"{len(blobs)} object ids for {len(self)} files")
        pieces = Pieces()
        pieces._paths, pieces._path_ends = self._paths, self._path_ends
        pieces.starts, pieces.ends, pieces.blobs = self.starts, self.ends, blobs
        pieces.read_as = self.read_as
        return pieces

    def __len__(self) -> int:
        return len(self.ends)

    if TYPE_CHECKING:

        @overload
        def __getitem__(self, at: int) -> SourceFile: ...
        @overload
        def __getitem__(self, at: slice) -> Sequence[SourceFile]: ...

    def __getitem__(self, at: int | slice) -> SourceFile | Sequence[SourceFile]:
        if isinstance(at, slice):
            return tuple(map(self._piece, range(*at.indices(len(self)))))
        return self._piece(range(len(self))[at])

    def __iter__(self) -> Iterator[SourceFile]:
        return map(self._piece, range(len(self)))

    def _piece(self, at: int) -> SourceFile:
        begin = self._path_ends[at - 1] if at else 0
        path = self._paths[begin : self._path_ends[at]].decode("utf-8", "surrogateescape")
        read_as = self.read_as.get(at, "")
        return SourceFile.of((path, self.starts[at], self.ends[at], self.blobs[at], read_as))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Pieces):
            return NotImplemented
        return all(vars(self)[name] == vars(other)[name] for name in vars(self))

    __hash__ = None  # type: ignore[assignment]  # it can be added to
