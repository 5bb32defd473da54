"""Search for literal texts in a source of any size: exact counts, case ignored, memory flat.

ASCII case is ignored, so that offsets are exact. Hits do not overlap. Each counts for the earliest
chunk that holds its first byte, so the chunks never change what is found.

One pass serves all needles. Windows are read into one buffer, folded and counted; several
processes share the blocks of windows. A block counts what begins in it. Where a needle that can
overlap itself reaches across a border, the block before continues to a border without that.
"""

from __future__ import annotations

import os

from rlm_ci.context.pointers import ChunkLayout
from rlm_ci.context.search import occurrences
from rlm_ci.context.search.occurrences import PLAIN, NeedleTally, SourceWindow
from rlm_ci.context.search.worker_processes import PIECES, processes, share
from rlm_ci.errors import DamagedError, StorageError
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from rlm_ci.context.search.occurrences import SearchEngine, Text

#: A longer needle is left to Python: the faster engine is quadratic on hostile texts.
_LONG = 256
#: The least blocks of a process: sources below 256 MB take one, which is fast enough.
_BLOCKS = 8


class NeedleMatches(Value):
    """The matches of one needle: their number, that of chunks with any, and the best chunks.

    ``hits`` are (chunk's index, offset of its first hit in the source, number of its hits): most
    hits first, then by offset; at most ``top_k``.
    """

    total: int = 0
    chunks: int = 0
    hits: tuple[tuple[int, int, int], ...] = ()


def search(
    descriptor: int,
    size: int,
    needles: Sequence[bytes],
    *,
    target: int,
    overlap: int,
    top_k: int,
    workers: int | None = None,
    engine: SearchEngine | None = None,
    grain: BlockSizes | None = None,
    name: str = "",
) -> tuple[NeedleMatches, ...]:
    """The matches of each needle in the first ``size`` bytes of a file, in one pass for all.

    The position of ``descriptor`` does not change. Chunks have ``target`` bytes, and repeat the
    last ``overlap`` of the one before. ``workers`` limits the processes, ``engine`` is the fastest
    one installed by default, ``name`` is the file's in errors.

    Raises ValueError for an empty needle or impossible sizes, DamagedError for a shorter file,
    StorageError.
    """
    if not 0 <= overlap < target or size < 0 or top_k < 0:
        raise ValueError("an overlap is shorter than its chunk, and no size is negative")
    if not all(needles):
        raise ValueError("an empty text is everywhere: search for at least one byte")
    folded = [needle.lower() for needle in needles]
    # A needle longer than the source would only make the windows longer.
    distinct_needles = sorted({needle for needle in folded if len(needle) <= size})
    if not distinct_needles:
        return tuple(NeedleMatches() for _ in needles)
    scan = NeedleScan(
        descriptor, name, ChunkLayout(size, target, overlap), distinct_needles, top_k=top_k,
        engine=engine or occurrences.engine() or PLAIN, grain=grain or BlockSizes(),
    )  # fmt: skip
    several = min(processes(workers), scan.blocks // _BLOCKS)
    for result in share(scan.blocks, scan.scan, scan.result, several):
        scan.merge(result)
    matches_by_needle = {tally.needle: _matches(tally) for tally in scan.tallies}
    return tuple(matches_by_needle.get(needle, NeedleMatches()) for needle in folded)


def _matches(tally: NeedleTally) -> NeedleMatches:
    best = sorted(tally.best, reverse=True)
    return NeedleMatches(
        tally.total, tally.chunks, tuple((-number, at, n) for n, number, at in best)
    )


class BlockSizes(Value):
    """How the work is cut, in bytes; it changes the time that a search takes, never its result.

    A window should fit into a core's cache; a block is what one process takes at a time.
    """

    window: int = 1 << 19
    block: int = 1 << 24


class NeedleScan:
    """Counts ``needles``, which are folded, in the segments of an open file.

    ``blocks`` is the number of its blocks; ``scan(number)`` does one of them, in any order;
    ``tallies`` has what was found so far, one a needle.
    """

    def __init__(
        self,
        descriptor: int,
        name: str,
        layout: ChunkLayout,
        needles: Sequence[bytes],
        *,
        top_k: int,
        engine: SearchEngine,
        grain: BlockSizes,
    ) -> None:
        self._descriptor = descriptor
        self._name = name
        self._layout = layout
        self._beyond = max(map(len, needles)) - 1
        # No shorter than a needle, whose length is read again after each window.
        self._window = max(grain.window, self._beyond)
        self._group = max(1, self._window // layout.step)
        block = max(grain.block, layout.size // (PIECES - 2) + 1)
        self._block = self._group * -(-block // (self._group * layout.step))
        self.blocks = -(-layout.count // self._block)
        self._buffer: Text = b""
        self._room = engine.room if max(map(len, needles)) <= _LONG else PLAIN.room
        self._fold = engine.fold if any(n != n.upper() for n in needles) else _as_it_is
        self.tallies = [
            NeedleTally(n, layout, top_k, engine if len(n) <= _LONG else PLAIN) for n in needles
        ]

    def result(self) -> list[list[Any]]:
        """The result so far, as JSON: for each needle, the arguments of ``NeedleTally.merge``."""
        return [[tally.total, tally.chunks, tally.best] for tally in self.tallies]

    def merge(self, result: list[list[Any]]) -> None:
        """Add the result of a scan of other blocks."""
        for tally, counts in zip(self.tallies, result, strict=True):
            tally.merge(*counts)

    def scan(self, block: int) -> None:
        """Count what begins in a block. Raises DamagedError, StorageError."""
        behind = (block + 1) * self._block
        counting: list[NeedleTally] = []
        waiting = self.tallies
        for number, start, end in self._windows(block * self._block):
            if number >= behind:
                waiting = []
                counting = [tally for tally in counting if self._reaches_across(start, tally)]
            elif number >= 0 and waiting:
                blocked = [tally for tally in waiting if self._reaches_across(start, tally)]
                for tally in waiting:
                    if tally not in blocked:
                        tally.restart(start)
                        counting.append(tally)
                waiting = blocked
            if counting:
                window = self._read(start, end)
                for tally in counting:
                    tally.add(window)
            elif not waiting:
                break
        for tally in self.tallies:
            tally.close()

    def _windows(self, first: int) -> Iterator[tuple[int, int, int]]:
        """Number (-1 within a segment), start and end of each window, from segment ``first`` on."""
        layout = self._layout
        for number in range(first, layout.count, self._group):
            start, stop = layout.start(number), layout.start(number + self._group)
            for at in range(start, stop, self._window):
                yield number if at == start else -1, at, min(at + self._window, stop)

    def _reaches_across(self, border: int, tally: NeedleTally) -> bool:
        """Whether an occurrence begins before a border and ends after it, and matters there."""
        reach = len(tally.needle) - 1
        if not tally.overlapping or not border:
            return False
        start, end = max(0, border - reach), min(self._layout.size, border + reach)
        around = bytearray(end - start)
        self._fill(around, start)
        return tally.needle in around.lower()

    def _read(self, start: int, end: int) -> SourceWindow:
        """Read a window into the buffer, which it replaces."""
        length = min(self._layout.size, end + self._beyond) - start
        if len(self._buffer) < length:
            self._buffer = self._room(length)
        self._fill(memoryview(self._buffer)[:length], start)
        return SourceWindow(self._fold(self._buffer), start, end, length)

    def _fill(self, room: bytearray | memoryview, at: int) -> None:
        unfilled = memoryview(room)
        while unfilled:
            try:
                count = os.preadv(self._descriptor, [unfilled], at)
            except OSError as error:
                what = f"cannot be read: {error.strerror}"
                raise StorageError(what, where=self._name) from error
            if not count:
                raise DamagedError("ends before its recorded length", where=self._name)
            unfilled, at = unfilled[count:], at + count


def _as_it_is(text: Text) -> Text:
    return text
