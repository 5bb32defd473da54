"""Citations of an answer: each must point to bytes that the run showed to a model.

An answer is a model's text and may have anything in it. A citation is a pointer, or a
``path:line`` of a file of the context; those that do not hold are marked and counted.

``CitedLines`` has the lines that a citation names, as far as a model was shown them.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right

from rlm_ci.context.line_numbers import line_ranges
from rlm_ci.context.pointers import PointerError
from rlm_ci.environments.symbolic.iteration import SUBCALL, merged
from rlm_ci.report.findings import Evidence, Location
from rlm_ci.source.languages import is_known
from rlm_ci.text.line_references import LINES, ReferenceReader, unverified, written_name
from rlm_ci.text.printable import count, printable
from rlm_ci.text.unpacking import SET
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from rlm_ci.context.context import Context, FileLines, SourceFile
    from rlm_ci.text.line_references import LineReference

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


#: Citations that are checked.
MOST = 200
_TOO_MANY = f"only the first {MOST} are looked at"
#: Why lines do not hold: the context has no file with exactly this name.
NO_FILE = "the context has no such file"
NO_PLACE = "it is not written as a place of the context, and cannot be looked up"
_NO_COUNT = "the run has no such count"
_NO_SOURCE = "the output of a sub-call is not part of the context"
#: Characters on either side for the bracket that makes a short form a citation.
_NEAR = 200
_PLACE = r"(?:chunk:[A-Za-z0-9]+|bytes:[0-9]+-[0-9]+)(?![A-Za-z0-9_])"
#: The rest of a word: a pointer with another kind of dash, or shortened.
_WORD = r"[^\s\[\](){}<>\"'`|,;#]"
#: Linear in time: every repetition has a bound or ends at a character of another class.
_CITATION = re.compile(
    rf"(?P<pointer>(?<![A-Za-z0-9])(?:(?P<full>ctx:[A-Za-z0-9:_.-]{{1,100}}\#{_PLACE})"
    rf"|(?P<short>{_PLACE})"
    rf"|(?P<other>ctx:(?:{_WORD}{{0,100}}\#|(?=sha256|chunk:|bytes:)){_WORD}{{0,200}}"
    rf"|subcall:[0-9]{_WORD}{{0,100}})|(?P<count>count:[0-9]{{1,9}}:[0-9]{{1,9}}(?![0-9:]))))"
    rf"|{LINES}"
)
#: The end of a sentence is not part of a pointer.
_STOPS = ".:!?…"


class CitedAnswer(Value):
    """An answer with places instead of pointers.

    Of its ``offered`` citations, ``verified`` hold; ``locations`` are their places in files, each
    once, ``spans`` their ranges in the text. ``rejected`` are pairs of pointer and reason.
    """

    text: str
    locations: tuple[Location, ...]
    offered: int
    verified: int
    rejected: tuple[tuple[str, str], ...]
    spans: tuple[tuple[int, int], ...] = ()

    @property
    def evidence(self) -> Evidence:
        """The counts as a report has them."""
        return Evidence(self.offered, self.verified, 0, self.offered - self.verified)

    def pieces(self) -> Iterator[tuple[str, bool]]:
        """The text in pieces, end to end, each with whether it is a verified place."""
        done = 0
        for start, end in self.spans:
            yield self.text[done:start], False
            yield self.text[start:end], True
            done = end
        yield self.text[done:], False


def cite(
    answer: str,
    context: Context,
    seen: Seen,
    *,
    refute: Refute = unrefuted,
    redact: Callable[[str], str] = str,
    counts: Mapping[str, str] | None = None,
) -> CitedAnswer:
    """``answer`` with each citation checked; ``seen`` are the bytes that models were shown.

    ``counts`` are those of the run, as ``count:<iteration>:<number>`` in square brackets names
    them, and the words for each; None for a run from before there were counts.

    Citations are pointers, ``bytes:<start>-<end>`` and ``chunk:<id>`` in square brackets, and lines
    of a file, as ``path:12``, ``path#L3-L5`` or ``line 12 of path``. Text that only looks like one
    does not hold. ``refute`` says why a file differs from the context; ``redact`` takes secrets
    out of a text: a place with a secret in its path is redacted, and not among the locations.
    Raises DamagedError, StorageError.
    """
    return _Reader(answer, context, CitedLines(context, seen, refute), redact, counts).read()


class _Reader:
    def __init__(
        self,
        answer: str,
        context: Context,
        grounds: CitedLines,
        redact: Callable[[str], str],
        counts: Mapping[str, str] | None,
    ) -> None:
        self._answer = answer
        self._counts = counts
        self._context = context
        self._own = f"ctx:{context.object_id}#"
        self._grounds = grounds
        self._redact = redact
        self._files: dict[str, tuple[SourceFile, ...]] = {}
        for piece in context.files:
            name = written_name(piece.path)
            self._files[name] = (*self._files.get(name, ()), piece)
        self._reader = ReferenceReader(self._files, is_known)
        self._known: dict[str, CitationGround] = {}
        self._offered = self._verified = 0
        self._places: dict[Location, None] = {}
        self._rejected: list[tuple[str, str]] = []

    def read(self) -> CitedAnswer:
        answer, done, length = self._answer, 0, 0
        parts: list[str] = []
        spans: list[tuple[int, int]] = []
        for match in _CITATION.finditer(answer):
            start, end, text = match.start(), match.end(), match[0]
            verified = self._verified
            if match["pointer"] is not None:
                text = self._replaced(match)
            elif reference := self._reader.read(answer, match, done):
                start, end = reference.start, reference.end
                text = self._located(answer[start:end], reference)
            else:  # a name that follows may include it
                continue
            parts += (answer[done:start], text)
            length += start - done + len(text)
            if self._verified > verified:
                spans.append((length - len(text), length))
            done = end
        parts.append(answer[done:])
        if self._offered > MOST:
            self._rejected.append(("…", _TOO_MANY))
        return CitedAnswer(
            "".join(parts),
            tuple(self._places),
            self._offered,
            self._verified,
            tuple(self._rejected),
            tuple(spans),
        )

    def _replaced(self, match: re.Match[str]) -> str:
        written, tail = match[0], ""
        if match["short"] is not None and not self._is_bracketed(match):
            return written
        if match["count"] is not None:
            if self._counts is None or not self._is_bracketed(match):
                return written
            words = self._counts.get(written, "")
            return self._judged(
                written, lambda: CitationGround(words, flaw=None if words else _NO_COUNT)
            )
        if match["other"] is not None:
            written = written.rstrip(_STOPS)
            tail = match[0][len(written) :]
        pointer = self._own + written if match["short"] is not None else written
        return self._judged(pointer, lambda: self._follow(pointer)) + tail

    def _located(self, written: str, reference: LineReference) -> str:
        """The text for lines of a file: as written, if all of them hold."""

        def follow() -> CitationGround:
            if not reference.is_plain:
                return CitationGround(flaw=NO_PLACE)
            pieces = self._files.get(reference.name)
            if pieces is None:
                return CitationGround(flaw=NO_FILE)
            return self._grounds.of_spans(pieces, reference.spans, written)

        return self._judged(written, follow)

    def _judged(self, pointer: str, follow: Callable[[], CitationGround]) -> str:
        self._offered += 1
        if self._offered > MOST:  # also a known one: its places are longer
            return unverified(self._short(pointer))
        if pointer not in self._known:
            self._known[pointer] = follow()
        ground = self._known[pointer]
        if ground.flaw is None:
            self._verified += 1
            self._places.update(
                (location, None)
                for location in ground.locations
                if self._redact(location.path) == location.path
            )
            return self._redact(ground.text)
        self._rejected.append((self._short(pointer), ground.flaw))
        return unverified(self._short(pointer))

    def _is_bracketed(self, match: re.Match[str]) -> bool:
        head = self._answer[max(0, match.start() - _NEAR) : match.start()]
        tail = self._answer[match.end() : match.end() + _NEAR]
        close = tail.find("]")
        return head.rfind("[") > head.rfind("]") and close >= 0 and "[" not in tail[:close]

    def _follow(self, pointer: str) -> CitationGround:
        if pointer.startswith(SUBCALL):
            return CitationGround(flaw=_NO_SOURCE)
        try:
            start, end = self._context.resolve(pointer)
        except PointerError as error:
            return CitationGround(flaw=printable(str(error)))
        exact = pointer.startswith(f"{self._own}bytes:")
        return self._grounds.of(start, end, exact=exact)

    def _short(self, pointer: str) -> str:
        """A pointer for people, without the id of our own object."""
        if not pointer.startswith(self._own):
            return pointer
        return pointer.removeprefix(self._own).replace(":", " ", 1)
