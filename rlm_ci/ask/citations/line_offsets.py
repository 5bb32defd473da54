"""From lines of a text to its bytes, by asking in which line a byte stands."""

from __future__ import annotations

from bisect import bisect_left

from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from rlm_ci.context.context import Context, SourceFile


class LineOffsets(Value):
    """Bytes ``begin`` to ``end``, and what tells the line of each, from 1 on."""

    begin: int
    end: int
    line_at: Callable[[int], int]

    @classmethod
    def of(cls, context: Context, piece: SourceFile) -> LineOffsets:
        """That of a file of ``context``."""

        def line_at(byte: int) -> int:
            return context.lines(byte, byte + 1)[0].line_start

        return cls(piece.start, piece.end, line_at)

    @property
    def count(self) -> int:
        """How many lines there are."""
        return self.line_at(self.end - 1) if self.end > self.begin else 0

    def span(self, first: int, last: int) -> tuple[int, int] | None:
        """The bytes of lines ``first`` to ``last``, the last line's end included; None without."""
        if not 1 <= first <= last <= self.count:
            return None
        places = range(self.begin, self.end)
        start = self.begin + bisect_left(places, first, key=self.line_at)
        return start, self.begin + bisect_left(places, last + 1, key=self.line_at)
