"""From bytes of a long text to lines of the files that it was made of."""

from __future__ import annotations

from _thread import allocate_lock  # threading takes a millisecond to import
from bisect import bisect_right

from rlm_ci.context.search.occurrences import line_counter
from rlm_ci.text.printable import encodable, printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from rlm_ci.context.builder.file_table import Pieces

_BLOCK = 1 << 18


class FileLines(Value):
    """Lines of a file (from 1, inclusive), and the file's blob id, if known."""

    path: str
    line_start: int
    line_end: int
    blob: str | None


class LineCounter:
    """Counts line breaks in ``pieces`` of a source, as far as needed, and keeps the counts."""

    def __init__(self, pieces: Pieces, read: Callable[[int, int], bytes]) -> None:
        """``read`` gives the bytes of the source from a start to an end."""
        self._pieces = pieces
        self._read = read
        #: The lines that end in the first 1, 2, 3... blocks of a piece.
        self._counted: dict[int, list[int]] = {}
        self._lock = allocate_lock()

    def places(self, start: int, end: int) -> tuple[FileLines, ...]:
        """The lines of files that bytes ``start`` to ``end`` are."""
        places = []
        for number in range(bisect_right(self._pieces.ends, start), len(self._pieces)):
            piece = self._pieces[number]
            if piece.start >= end:
                break
            first, last = max(start, piece.start), min(end, piece.end)
            if first < last:
                line = self._breaks_before(number, first) + 1
                # The break at the end of a line is a part of that line.
                last_line = self._breaks_before(number, last - 1) + 1
                places.append(FileLines(piece.path, line, last_line, piece.blob))
        return tuple(places)

    def _breaks_before(self, number: int, byte: int) -> int:
        begin = self._pieces[number].start
        blocks = (byte - begin) // _BLOCK
        count = line_counter() or _count
        with self._lock:
            counted = self._counted.setdefault(number, [])
            while len(counted) < blocks:
                at = begin + len(counted) * _BLOCK
                before = counted[-1] if counted else 0
                counted.append(before + count(self._read(at, at + _BLOCK)))
            breaks = counted[blocks - 1] if blocks else 0
        return breaks + count(self._read(begin + blocks * _BLOCK, byte))


def _count(text: bytes) -> int:
    return text.count(b"\n")


def line_ranges(places: tuple[FileLines, ...], more: bool) -> str:  # noqa: FBT001 - a pair from above
    """``path:line`` or ``path:line-line`` for each, on one line."""
    names = []
    for lines in places:
        last = f"-{lines.line_end}" if lines.line_end != lines.line_start else ""
        names.append(f"{printable(encodable(lines.path))}:{lines.line_start}{last}")
    return ", ".join(names) + (" and more files" if more else "")
