"""Count one needle, text after text, exactly as ``bytes.count`` does in the whole source.

If a needle can overlap itself ("aa", "timeout"), the start of counting decides which occurrences
count. So counting continues after the last one of the text before.

The extra ``fast`` is the library stringzilla, which works on many bytes at once. If it is not
installed, Python's own functions do the same.
"""

from __future__ import annotations

import heapq
import os
from functools import cache

from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from rlm_ci.context.pointers import ChunkLayout

    #: Bytes that can be written to, of the kind that the engine searches.
    Text = Any


class SearchEngine(Value):
    """How a text is searched: ``count`` and ``find`` as those of ``bytes``, with start and end.

    ``fold`` makes letters small, in place or in a copy; ``room`` makes a buffer of so many bytes.
    """

    fold: Callable[[Text], Text]
    count: Callable[[Text, bytes, int, int], int]
    find: Callable[[Text, bytes, int, int], int]
    room: Callable[[int], Text] = bytearray


PLAIN = SearchEngine(bytearray.lower, bytearray.count, bytearray.find)


class SourceWindow(Value):
    """The part ``[start, end)`` of a source, folded, at the beginning of ``text``.

    ``length`` bytes of the text are the source's: as many as an occurrence in the part may need.
    """

    text: Text
    start: int
    end: int
    length: int

    def limit(self, needle: bytes) -> int:
        """Where in the text an occurrence ends that begins at the part's last byte."""
        return min(self.length, self.end - self.start + len(needle) - 1)


def overlaps_itself(needle: bytes) -> bool:
    """Whether two occurrences can overlap: some end of it is also its beginning."""
    borders = [0] * len(needle)  # of each prefix, the longest (Knuth, Morris, Pratt)
    length = 0
    for at in range(1, len(needle)):
        while length and needle[at] != needle[length]:
            length = borders[length - 1]
        length += needle[at] == needle[length]
        borders[at] = length
    return length > 0


class NeedleTally:
    """The count of one needle: in all, of segments with any, and of the best segments.

    ``best`` is a heap of (hits, -segment, offset of the first hit), at most ``top_k`` long.
    """

    def __init__(
        self, needle: bytes, layout: ChunkLayout, top_k: int, engine: SearchEngine
    ) -> None:
        self.needle = needle
        self.overlapping = overlaps_itself(needle)
        self.total = 0
        self.chunks = 0
        self.best: list[tuple[int, int, int]] = []
        self._layout = layout
        self._top_k = top_k
        self._count = engine.count
        self._find = engine.find
        self._free = 0  # where the next occurrence may begin
        self._open = (0, 0, 0)  # the segment being counted: its hits, its number, its first hit

    def restart(self, at: int) -> None:
        """Count from ``at``, across which no occurrence reaches."""
        self.close()
        self._free = at

    def add(self, window: SourceWindow) -> None:
        """Count what begins in a window, which follows the last one, from hit to hit."""
        text, needle, layout = window.text, self.needle, self._layout
        at, limit = max(0, self._free - window.start), window.limit(needle)
        while at < limit and (first := self._find(text, needle, at, limit)) >= 0:
            number = layout.at(window.start + first)
            at = min(window.end, layout.start(number + 1)) - window.start
            end = min(window.length, at + len(needle) - 1)
            hits = self._count(text, needle, first, end)
            self._note(number, hits, window.start + first)
            if self.overlapping:
                at = self._end(text, first, at, end, hits)
                self._free = window.start + at

    def close(self) -> None:
        """Enter the segment that was being counted."""
        hits, number, first = self._open
        self._open = (0, 0, 0)
        if not hits:
            return
        self.total += hits
        self.chunks += 1
        self._enter((hits, -number, first))

    def merge(self, total: int, chunks: int, best: Iterable[Sequence[int]]) -> None:
        """Add the tally of other segments."""
        self.total += total
        self.chunks += chunks
        for hits, segment, first in best:
            self._enter((hits, segment, first))

    def _enter(self, entry: tuple[int, int, int]) -> None:
        if len(self.best) < self._top_k:
            heapq.heappush(self.best, entry)
        elif self.best and entry > self.best[0]:
            heapq.heapreplace(self.best, entry)

    def _note(self, number: int, hits: int, first: int) -> None:
        open_hits, current, earliest = self._open
        if open_hits and current == number:
            self._open = (open_hits + hits, number, earliest)
        else:
            self.close()
            self._open = (hits, number, first)

    def _end(self, text: Text, begin: int, border: int, limit: int, total: int) -> int:
        """The end of the last of ``total`` occurrences, or the border if that is farther."""
        find, count, needle = self._find, self._count, self.needle
        across = find(text, needle, max(begin, border - len(needle) + 1), limit)
        if across < 0 or count(text, needle, begin, border) == total:
            return border
        if find(text, needle, across + 1, limit) < 0:
            return across + len(needle)
        # Several reach across, one over the other: where the count is complete, the right one ends.
        low, high = across + len(needle), limit
        while low < high:
            middle = (low + high) // 2
            if count(text, needle, begin, middle) == total:
                high = middle
            else:
                low = middle + 1
        return low


_FOLD = bytes(range(256)).lower()
_BREAKS = bytes(byte == ord("\n") for byte in range(256))
#: With narrower vectors, hashing one text after the other is faster.
_WIDE = "skylake"


@cache  # a failed import searches all of sys.path each time
def _library() -> Any:
    try:
        import stringzilla  # type: ignore[import-not-found]  # it ships no types
    except ImportError:
        return None
    return stringzilla


def engine() -> SearchEngine | None:
    """How a text is searched."""
    library = _library()
    if library is None:
        return None

    def fold(text: memoryview) -> memoryview:
        library.translate(text, _FOLD, inplace=True)
        return text

    return SearchEngine(fold, library.count, library.find, _pages)


def _pages(size: int) -> memoryview:
    """Memory that begins with a page: saves a tenth of reading and folding."""
    import mmap

    # Not shared with a fork.
    private = {"flags": mmap.MAP_PRIVATE} if os.name == "posix" else {}
    return memoryview(mmap.mmap(-1, size, **private))


def line_counter() -> Callable[[bytes], int] | None:
    """Counts the line breaks of a text, in a sixth of Python's time."""
    library = _library()
    if library is None:
        return None
    translate, add = library.translate, library.bytesum
    return lambda text: add(translate(text, _BREAKS))


def hasher() -> Callable[[Sequence[memoryview]], bytes] | None:
    """Hashes several texts side by side: the SHA-256 of each, joined."""
    library = _library()
    if library is None or _WIDE not in getattr(library, "__capabilities__", ()):
        return None

    def hashed(texts: Sequence[memoryview]) -> bytes:
        lanes = library.Sha256s(len(texts))
        lanes.update(texts)
        return b"".join(lanes.digest())

    return hashed
