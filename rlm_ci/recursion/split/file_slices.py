"""Cuts a file that is too large for one leaf where its definitions begin, or else between lines."""

from __future__ import annotations

from array import array
from bisect import bisect_right

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlm_ci.recursion.corpus.corpus import Corpus

    Slice = tuple[int, int, int]  # first line, last line, bytes


#: Confidence in pieces, if any begins with a definition, or all begin between lines.
BY_SYNTAX = 0.8
BY_LINES = 0.5


class LineStarts:
    """Where the lines of a large file begin; the last file is kept."""

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus
        self._file = -1
        self._starts: Sequence[int] = ()
        self._borders: Sequence[int] = ()

    def slices(self, file: int, start: int, end: int, most: int) -> list[Slice]:
        """The lines ``start`` to ``end`` (0: all) in pieces of at most ``most`` bytes.

        A longer line is a piece of its own. A piece ends before a definition if one is near.
        """
        starts = self._opened(file)
        start, end = start or 1, end or len(starts) - 1
        found = []
        while start <= end:
            # The last line that ends within.
            room = bisect_right(starts, starts[start - 1] + most) - 1
            last = max(start, min(room, end))
            if last < end:
                last = self._border(start, last)
            found.append((start, last, starts[last] - starts[start - 1]))
            start = last + 1
        return found

    def confidence(self, file: int, start: int, end: int, most: int) -> float:
        """That the pieces can be understood each for itself; 0.0 for a single one."""
        begins = {first for first, _, _ in self.slices(file, start, end, most)[1:]}
        if not begins:
            return 0.0
        return BY_LINES if begins.isdisjoint(self._borders) else BY_SYNTAX

    def _border(self, start: int, last: int) -> int:
        """The last line of a piece: before a border in its latter half, else ``last``."""
        borders = self._borders
        at = bisect_right(borders, last + 1) - 1
        if at < 0 or borders[at] <= start + (last - start) // 2:
            return last
        return borders[at] - 1

    def _opened(self, file: int) -> Sequence[int]:
        if file != self._file:
            from rlm_ci.source.cut_points import borders

            one = self._corpus.files[file]
            content = self._corpus.read((one,))[0]
            starts = offsets(content)
            found = sorted({line for line in borders(one.path, content) if 1 < line < len(starts)})
            self._borders = found
            self._starts, self._file = starts, file
        return self._starts


def offsets(content: bytes) -> Sequence[int]:
    """The offset of each line, and the length of all behind them."""
    starts = array("q", (0,))
    at = content.find(b"\n") + 1
    while at:
        starts.append(at)
        at = content.find(b"\n", at) + 1
    if starts[-1] != len(content):
        starts.append(len(content))
    return starts


def cut(content: bytes, start: int, end: int) -> bytes:
    """The lines ``start`` to ``end`` of a text."""
    starts = offsets(content)
    return content[starts[start - 1] : starts[min(end, len(starts) - 1)]]
