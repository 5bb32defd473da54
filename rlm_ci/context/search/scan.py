"""One pass over a source, for all needles at once, block by block.

Windows are read into one buffer, folded and counted; several processes share the blocks of windows.
A block counts what begins in it. Where a needle that can overlap itself reaches across a border,
the block before goes on, until a border that no occurrence reaches across.
"""

from __future__ import annotations

import os

from rlm_ci.context.search.occurrences import PLAIN, NeedleTally, SourceWindow
from rlm_ci.context.search.worker_processes import PIECES
from rlm_ci.errors import DamagedError, StorageError
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from rlm_ci.context.pointers import ChunkLayout
    from rlm_ci.context.search.occurrences import SearchEngine, Text

#: A longer needle is left to Python: the faster engine is quadratic on hostile texts.
_LONG = 256


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
        # Far longer than what is read once more behind it, however long a needle is.
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
        """What was found so far, as JSON: for each needle, what ``NeedleTally.merge`` takes."""
        return [[tally.total, tally.chunks, tally.best] for tally in self.tallies]

    def merge(self, result: list[list[Any]]) -> None:
        """Take in what a scan of other blocks has found."""
        for tally, found in zip(self.tallies, result, strict=True):
            tally.merge(*found)

    def scan(self, block: int) -> None:
        """Count what a block owns. Raises DamagedError, StorageError."""
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
        """Whether an occurrence begins before a border and ends behind it, and matters there."""
        reach = len(tally.needle) - 1
        if not tally.overlapping or not border:
            return False
        start, end = max(0, border - reach), min(self._layout.size, border + reach)
        around = bytearray(end - start)
        self._fill(around, start)
        return tally.needle in around.lower()

    def _read(self, start: int, end: int) -> SourceWindow:
        """Read a window into the buffer; what was in it before is gone."""
        length = min(self._layout.size, end + self._beyond) - start
        if len(self._buffer) < length:
            self._buffer = self._room(length)
        self._fill(memoryview(self._buffer)[:length], start)
        return SourceWindow(self._fold(self._buffer), start, end, length)

    def _fill(self, room: bytearray | memoryview, at: int) -> None:
        rest = memoryview(room)
        while rest:
            try:
                count = os.preadv(self._descriptor, [rest], at)
            except OSError as error:
                what = f"cannot be read: {error.strerror}"
                raise StorageError(what, where=self._name) from error
            if not count:
                raise DamagedError("ends before its recorded length", where=self._name)
            rest, at = rest[count:], at + count


def _as_it_is(text: Text) -> Text:
    return text
