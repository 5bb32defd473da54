"""The lines that a citation rests on: of what it names, only what a model was shown."""

from __future__ import annotations

from bisect import bisect_right

from rlm_ci.ask.citations.line_offsets import LineOffsets
from rlm_ci.context.file_places import first_places, told
from rlm_ci.report.findings import Location
from rlm_ci.text.printable import count
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rlm_ci.context.context import Context, FileLines, SourceFile

    #: Why lines of a file of the context are not what stands there; None where they may be.
    Refute = Callable[[SourceFile, FileLines], str | None]

#: Places of one citation; lines and bytes that are quoted.
PLACES = 8
QUOTED_LINES = 20
QUOTED_BYTES = 2000
NEVER_READ = "never read in this run"
#: Of bytes that are cited, one in so many must have been shown.
_MOSTLY = 2


class CitationGround(Value):
    """What stands in place of a citation, and the places in files; ``flaw``: why there is none."""

    text: str = ""
    locations: tuple[Location, ...] = ()
    flaw: str | None = None


class _Lines(Value):
    """Lines of a file, and the bytes of the source in them that count, from first to last."""

    place: FileLines
    piece: SourceFile
    start: int
    end: int


def unrefuted(_piece: SourceFile, _place: FileLines) -> None:
    """The word of a context is taken for what its files hold."""


class CitedLines:
    """``seen`` are the bytes of ``context`` that models were shown, in any order.

    ``refute`` is asked for each place that would be told.
    """

    def __init__(
        self, context: Context, seen: Iterable[tuple[int, int]], refute: Refute = unrefuted
    ) -> None:
        self._context = context
        self._refute = refute
        self._seen = _merged(seen)
        self._starts = [start for start, _ in self._seen]

    def of(self, start: int, end: int, *, exact: bool) -> CitationGround:
        """What a citation of bytes ``start`` to ``end`` rests on.

        One that is ``exact`` must have been shown, all of it or most, but for the rest of a line
        at either end. Raises DamagedError, StorageError.
        """
        parts = self._parts(start, end)
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
        for one in lines:
            if flaw := self._refute(one.piece, one.place):
                return CitationGround(flaw=flaw)
        text = told(tuple(one.place for one in lines), more=False)
        return CitationGround(
            text + (" and more" if more else ""), tuple(map(self._location, lines))
        )

    def of_lines(
        self, pieces: Sequence[SourceFile], first: int, last: int, written: str
    ) -> CitationGround:
        """What lines of the first of ``pieces`` that holds them rest on, as in ``of``.

        Where all of them count, ``written`` is what stands in their place.
        """
        flaw = None
        for piece in pieces:
            lines = LineOffsets.of(self._context, piece)
            span = lines.span(first, last)
            if span is None:
                flaw = flaw or _outside(first, last, lines.count)
                continue
            ground = self.of(*span, exact=True)
            if ground.flaw is None:
                (one,) = ground.locations[:1]
                is_whole = (one.line_start, one.line_end) == (first, last)
                return ground.replace(text=written) if is_whole else ground
            flaw = ground.flaw
        return CitationGround(flaw=flaw)

    def of_spans(
        self, pieces: Sequence[SourceFile], spans: Sequence[tuple[int, int]], written: str
    ) -> CitationGround:
        """What several spans of lines rest on; none does where one of them does not."""
        if len(spans) == 1:
            return self.of_lines(pieces, *spans[0], written)
        found = [self.of_lines(pieces, *span, "") for span in spans]
        flaw = next((one.flaw for one in found if one.flaw is not None), None)
        if flaw is not None:
            return CitationGround(flaw=flaw)
        told = ", ".join(one.text for one in found)
        places = tuple(place for one in found for place in one.locations)
        return CitationGround(told if any(one.text for one in found) else written, places)

    def _parts(self, start: int, end: int) -> list[tuple[int, int]]:
        """Of bytes ``start`` to ``end`` those that were shown."""
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
        """The lines of ``parts``, each once, and whether there are more than are told."""
        found: list[_Lines] = []
        for start, end in parts:
            places, more = first_places(self._context, start, end, PLACES + 1)
            for place in places:
                lines = _Lines(place, self._piece(place, start), start, end)
                if found and (joined := _joined(found[-1], lines)):
                    found[-1] = joined
                else:
                    found.append(lines)
            if len(found) > PLACES or more:
                return found[:PLACES], True
        return found, False

    def _piece(self, place: FileLines, start: int) -> SourceFile:
        """The file of a place in a span that begins at ``start``: names need not be unique."""
        files = self._context.files
        following = map(files.__getitem__, range(bisect_right(files.ends, start), len(files)))
        return next(one for one in following if one.path == place.path)

    def _location(self, lines: _Lines) -> Location:
        place, quote = lines.place, self._quote(lines)
        return Location(place.path, place.line_start, place.line_end, blob=place.blob, quote=quote)

    def _quote(self, lines: _Lines) -> str | None:
        """The lines as they stand, whole; None where they are many or long."""
        place, piece = lines.place, lines.piece
        number = place.line_end - place.line_start + 1
        low, high = max(piece.start, lines.start), min(piece.end, lines.end)
        if number > QUOTED_LINES or high - low > QUOTED_BYTES:
            return None
        # A line that is longer than a quote on either side has its end outside of this.
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


def _outside(first: int, last: int, number: int) -> str:
    """Why lines are none of a file with ``number`` of them."""
    told = f"line {first} is" if first == last else f"lines {first}-{last} are"
    return f"{told} not in the file, which has {number:,}"


def _joined(one: _Lines, other: _Lines) -> _Lines | None:
    """Both as one, where no line lies between them."""
    if one.piece != other.piece or other.place.line_start > one.place.line_end + 1:
        return None
    return _Lines(one.place.replace(line_end=other.place.line_end), one.piece, one.start, other.end)


def _merged(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same bytes as spans that neither touch nor overlap, in order."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if start >= end:
            continue
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], end)
        else:
            merged.append((start, end))
    return merged
