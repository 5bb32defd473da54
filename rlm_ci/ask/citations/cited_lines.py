"""The lines that a citation names, as far as a model was shown them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from rlm_ci.context.line_numbers import line_ranges
from rlm_ci.environments.symbolic.iteration import merged
from rlm_ci.report.findings import Location
from rlm_ci.text.printable import count
from rlm_ci.text.unpacking import SET
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rlm_ci.context.context import Context, FileLines, SourceFile

    #: Why a file of the repository does not have these lines; None if it may.
    Refute = Callable[[SourceFile, FileLines], str | None]
    #: The bytes that models saw, or a function that gives those from a start to an end.
    Seen = Iterable[tuple[int, int]] | Callable[[int, int], list[tuple[int, int]]]

#: Places of one citation; lines and bytes that are quoted.
PLACES = 8
QUOTED_LINES = 20
QUOTED_BYTES = 2000
NEVER_READ = "never read in this run"
#: At least one in so many cited bytes must have been shown.
_MOSTLY = 2


class CitationGround(Value):
    """The text that replaces a citation, and its places; or the ``flaw`` of the citation."""

    text: str = ""
    locations: tuple[Location, ...] = ()
    flaw: str | None = None


class _Lines(Value):
    """Lines of a file, and the first and last byte of the source in them that was shown."""

    file_lines: FileLines
    piece: SourceFile
    start: int
    end: int


def unrefuted(_piece: SourceFile, lines: FileLines) -> None:
    """Trust the context."""


class LineOffsets(Value):
    """Bytes ``begin`` to ``end`` of a text; ``line_at`` gives the line of each, from 1 on."""

    begin: int
    end: int
    line_at: Callable[[int], int]

    @classmethod
    def of(cls, context: Context, piece: SourceFile) -> LineOffsets:
        def line_at(byte: int) -> int:
            return context.lines(byte, byte + 1)[0].line_start

        return cls(piece.start, piece.end, line_at)

    @property
    def count(self) -> int:
        return self.line_at(self.end - 1) if self.end > self.begin else 0

    def span(self, first: int, last: int) -> tuple[int, int] | None:
        """The bytes of lines ``first`` to ``last``, with the last one's end; None if there are
        no such lines.
        """
        if not 1 <= first <= last <= self.count:
            return None
        places = range(self.begin, self.end)
        start = self.begin + bisect_left(places, first, key=self.line_at)
        return start, self.begin + bisect_left(places, last + 1, key=self.line_at)


class CitedLines:
    """``seen`` are the bytes of ``context`` that models saw; ``refute`` checks each place."""

    def __init__(self, context: Context, seen: Seen, refute: Refute = unrefuted) -> None:
        self._context = context
        self._refute = refute
        self._look = seen if callable(seen) else self._among
        self._seen = [] if callable(seen) else merged(seen)
        self._starts = [start for start, _ in self._seen]

    def of(self, start: int, end: int, *, exact: bool) -> CitationGround:
        """The ground of a citation of bytes ``start`` to ``end``.

        For an ``exact`` citation, most bytes must have been shown, or all but the rest of a line
        at either end. Raises DamagedError, StorageError.
        """
        parts = self._look(start, end)
        if not parts:
            return CitationGround(flaw=NEVER_READ)
        shown = sum(last - first for first, last in parts)
        is_enough = shown * _MOSTLY >= end - start or self._is_in_lines(parts, start, end)
        if exact and not is_enough:
            read = f"only {shown:,} of {count(end - start, 'byte')} were read in this run"
            return CitationGround(flaw=read)
        lines, more = self._lines(parts)
        if not lines:
            spans = ", ".join(f"bytes {first}-{last}" for first, last in parts[:PLACES])
            return CitationGround(spans + (" and more" if len(parts) > PLACES else ""))
        for line in lines:
            if flaw := self._refute(line.piece, line.file_lines):
                return CitationGround(flaw=flaw)
        text = line_ranges(tuple(line.file_lines for line in lines), more=False)
        return CitationGround(
            text + (" and more" if more else ""), tuple(map(self._location, lines))
        )

    def of_lines(
        self, pieces: Sequence[SourceFile], first: int, last: int, written: str
    ) -> CitationGround:
        """As ``of``, for lines of the first of ``pieces`` that has them.

        The text is ``written`` if all of them were shown.
        """
        flaw = None
        for piece in pieces:
            lines = LineOffsets.of(self._context, piece)
            span = lines.span(first, last)
            if span is None:
                which = f"line {first} is" if first == last else f"lines {first}-{last} are"
                flaw = flaw or f"{which} not in the file, which has {lines.count:,}"
                continue
            ground = self.of(*span, exact=True)
            if ground.flaw is None:
                (location,) = ground.locations[:1]
                is_whole = (location.line_start, location.line_end) == (first, last)
                return ground.replace(text=written) if is_whole else ground
            flaw = ground.flaw
        return CitationGround(flaw=flaw)

    def of_spans(
        self, pieces: Sequence[SourceFile], spans: Sequence[tuple[int, int]], written: str
    ) -> CitationGround:
        """As ``of_lines``, for several spans; all must hold."""
        if len(spans) == 1:
            return self.of_lines(pieces, *spans[0], written)
        grounds = [self.of_lines(pieces, *span, "") for span in spans]
        flaw = next((ground.flaw for ground in grounds if ground.flaw is not None), None)
        if flaw is not None:
            return CitationGround(flaw=flaw)
        text = ", ".join(ground.text for ground in grounds)
        places = tuple(location for ground in grounds for location in ground.locations)
        return CitationGround(text if any(ground.text for ground in grounds) else written, places)

    def _among(self, start: int, end: int) -> list[tuple[int, int]]:
        parts = []
        for at in range(max(0, bisect_right(self._starts, start) - 1), len(self._seen)):
            first, last = self._seen[at]
            if first >= end:
                break
            if last > start:
                parts.append((max(first, start), min(last, end)))
        return parts

    def _is_in_lines(self, parts: list[tuple[int, int]], start: int, end: int) -> bool:
        """Whether only the rest of a line is missing on either side, and nothing between."""
        if len(parts) > 1:
            return False
        ((first, last),) = parts
        if max(first - start, end - last) > QUOTED_BYTES:
            return False
        tail = self._context.raw(last - 1, end)  # with the last byte that was shown
        return b"\n" not in self._context.raw(start, first) and b"\n" not in tail[:-1]

    # ── lines ──

    def _lines(self, parts: list[tuple[int, int]]) -> tuple[list[_Lines], bool]:
        """The lines of ``parts``, each once, and whether there are more."""
        merged: list[_Lines] = []
        for start, end in parts:
            places, more = self._context.first_places(start, end, PLACES + 1)
            for file_lines in places:
                lines = _Lines(file_lines, self._piece(file_lines, start), start, end)
                if merged and (joined := _joined(merged[-1], lines)):
                    merged[-1] = joined
                else:
                    merged.append(lines)
            if len(merged) > PLACES or more:
                return merged[:PLACES], True
        return merged, False

    def _piece(self, lines: FileLines, start: int) -> SourceFile:
        """The file of a place in a span from ``start``; names need not be unique."""
        files = self._context.files
        following = map(files.__getitem__, range(bisect_right(files.ends, start), len(files)))
        return next(file for file in following if file.path == lines.path)

    def _location(self, lines: _Lines) -> Location:
        file_lines, quote = lines.file_lines, self._quote(lines)
        return Location(
            file_lines.path,
            file_lines.line_start,
            file_lines.line_end,
            blob=file_lines.blob,
            quote=quote,
        )

    def _quote(self, lines: _Lines) -> str | None:
        """The whole lines; None if they are many or long."""
        file_lines, piece = lines.file_lines, lines.piece
        number = file_lines.line_end - file_lines.line_start + 1
        low, high = max(piece.start, lines.start), min(piece.end, lines.end)
        # Whoever checks a quote does not know a setting.
        if number > QUOTED_LINES or high - low > QUOTED_BYTES or piece.read_as.endswith(SET):
            return None
        # A longer line has its end outside of this.
        first = max(piece.start, low - QUOTED_BYTES)
        last = min(piece.end, high + QUOTED_BYTES)
        data = self._context.raw(first, last)
        begin = data.rfind(b"\n", 0, low - first) + 1
        finish = data.find(b"\n", high - first - 1)
        if (begin == 0 and first > piece.start) or (finish < 0 and last < piece.end):
            return None
        data = data[begin : finish if finish >= 0 else len(data)]
        split = data.split(b"\n")
        text = "\n".join(line.decode("utf-8", "surrogateescape").rstrip("\r") for line in split)
        return text if len(split) == number and len(data) <= QUOTED_BYTES else None


def _joined(lines: _Lines, other: _Lines) -> _Lines | None:
    if lines.piece != other.piece or other.file_lines.line_start > lines.file_lines.line_end + 1:
        return None
    return _Lines(
        lines.file_lines.replace(line_end=other.file_lines.line_end),
        lines.piece,
        lines.start,
        other.end,
    )
