"""What a model is shown to judge one claim: the definition, those that it calls, and the diff."""

from __future__ import annotations

from functools import cached_property

from rlm_ci.recursion.nodes import LeafText
from rlm_ci.recursion.prompt_windows import name, numbered
from rlm_ci.review.guidelines.guidelines import Guidelines
from rlm_ci.source.import_graph import ImportGraph
from rlm_ci.source.outline import outline
from rlm_ci.source.references import Definition, ReferenceIndex
from rlm_ci.text.printable import encodable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from rlm_ci.git.patches import Hunk
    from rlm_ci.report.findings import Finding, Location
    from rlm_ci.source import Outline, Symbol

    Hunks = Mapping[str, Sequence[Hunk]]

#: Places of a claim that are shown, and lines around one without a definition that fits.
_PLACES = 4
_AROUND = (40, 10, 0)
#: Lines of a definition that is called; the number of them.
_CALLED, _CALLS = 80, 12
#: Bytes of all that is shown, and of the diff in it.
ROOM = 16_000
_DIFF = 6_000
_NO_GUIDELINES = Guidelines(())


class ClaimContext(Value):
    """``listing`` for the prompt, and the lines that it shows.

    ``guideline`` is the maintainers' sentence that the claim rests on, "" for none.
    """

    listing: str
    texts: tuple[LeafText, ...]
    guideline: str = ""


class Sources:
    """The files at head, and what the change did to them.

    ``read`` returns the content of one of ``paths``, None if it is not there; ``hunks`` gives those
    of each changed file. ``guidelines`` are those of the base.
    """

    def __init__(
        self,
        paths: Sequence[str],
        read: Callable[[str], bytes | None],
        hunks: Callable[[], Hunks] | None = None,
        guidelines: Guidelines = _NO_GUIDELINES,
    ) -> None:
        self.guidelines = guidelines
        self.read = read
        self._paths = tuple(paths)
        self._load = hunks
        self._outlines: dict[str, Outline] = {}

    def around(self, finding: Finding, room: int = ROOM) -> ClaimContext:
        """What belongs to a claim, in at most ``room`` bytes; the claim's own lines come first."""
        shown: list[LeafText] = []
        parts: list[str] = []
        pieces = [*self._definitions(finding), *self._called(finding)]
        diff = self._diff(finding)
        room -= len(diff.encode("utf-8", "replace"))
        for piece in pieces:
            listed = "\n".join((f"=== {name(piece.path)} ===", *numbered(piece)))
            room -= len(listed.encode("utf-8", "replace")) + 2
            if room < 0:
                break
            shown.append(piece)
            parts.append(listed)
        listing = "\n\n".join((*parts, diff) if diff else parts)
        is_asked = self.guidelines.behind(finding) is not None
        return ClaimContext(listing, tuple(shown), (finding.hint or "") if is_asked else "")

    def is_near_change(self, finding: Finding) -> bool:
        """Whether the change touches a place of a claim, its context, or its definition."""
        return any(map(self._is_near, _places(finding)))

    def _is_near(self, place: Location) -> bool:
        hunks = self._hunks.get(place.path, ())
        start = place.line_start or 1
        end = place.line_end or start
        if any(first <= end and start <= last for first, last in (h.span("new") for h in hunks)):
            return True
        content = self.read(place.path) if hunks else None
        if content is None:
            return False
        symbol = _innermost(self._outline(place.path, content).symbols, start, end)
        return symbol is not None and any(
            symbol.line_start <= line <= symbol.line_end for h in hunks for line in _touched(h)
        )

    def _definitions(self, finding: Finding) -> Iterator[LeafText]:
        """The definitions around the places of a claim, each once."""
        seen: set[tuple[str, int, int]] = set()
        for place in _places(finding):
            content = self.read(place.path)
            if content is None:
                continue
            first, last = self._span(place, content)
            if (place.path, first, last) not in seen:
                seen.add((place.path, first, last))
                yield _lines(place.path, content, first, last)

    def _span(self, place: Location, content: bytes) -> tuple[int, int]:
        """The innermost definition around a place; else, or if it is long, lines around it."""
        start = place.line_start or 1
        end = place.line_end or start
        symbol = _innermost(self._outline(place.path, content).symbols, start, end)
        spans = [(max(1, start - around), end + around) for around in _AROUND]
        if symbol is not None:
            spans.insert(0, (symbol.line_start, symbol.line_end))
        fitting = (one for one in spans if len(_cut(content, *one)) <= ROOM // 2)
        return next(fitting, (start, start))

    def _called(self, finding: Finding) -> Iterator[LeafText]:
        """The definitions that the first definition of a claim calls, of the files that it sees."""
        if not finding.evidence:
            return
        place = finding.evidence[0]
        content = self.read(place.path)
        if content is None:
            return
        known = self._outline(place.path, content)
        start = place.line_start or 1
        symbol = _innermost(known.symbols, start, place.line_end or start)
        if symbol is None:
            return
        near = ImportGraph.of([known], self._paths).internal.get(place.path, ())
        paths = [place.path, *(edge.target for edge in near)]
        index = ReferenceIndex(paths, self.read)
        number = 0
        for called in index.callees(Definition(place.path, symbol)):
            for found in index.definitions(called):
                inner = found.symbol
                is_own = found.path == place.path and inner == symbol
                if is_own or inner.kind in ("constant", "variable") or number >= _CALLS:
                    continue
                number += 1
                last = min(inner.line_end, inner.line_start + _CALLED - 1)
                yield _lines(found.path, self.read(found.path) or b"", inner.line_start, last)

    def _diff(self, finding: Finding) -> str:
        """What the change did to the files of a claim, with the lines that it removed."""
        parts: list[str] = []
        room = _DIFF
        places = _places(finding)
        for path in dict.fromkeys(place.path for place in places):
            starts = [place.line_start or 1 for place in places if place.path == path]
            hunks = sorted(
                self._hunks.get(path, ()),
                key=lambda hunk: min(abs(hunk.new_start - start) for start in starts),
            )
            kept = []
            for hunk in hunks:  # the nearest first, as many as there is room for
                rows = "\n".join(_rows(hunk))
                room -= len(rows.encode("utf-8", "replace")) + 1
                if room < 0:
                    break
                kept.append((hunk.new_start, rows))
            if kept:
                parts.append("\n".join((
                    f"=== what the change did to {name(path)} ===",
                    *(rows for _, rows in sorted(kept)),
                )))  # fmt: skip
        return "\n\n".join(parts)

    @cached_property
    def _hunks(self) -> Hunks:
        return {} if self._load is None else self._load()

    def _outline(self, path: str, content: bytes) -> Outline:
        if path not in self._outlines:
            self._outlines[path] = outline(path, content)
        return self._outlines[path]


def place_of(finding: Finding) -> str:
    """Where a claim is, for a prompt."""
    place = finding.evidence[0]
    return f"{name(place.path)}, lines {place.line_start}-{place.line_end}"


def _places(finding: Finding) -> list[Location]:
    return [place for place in finding.evidence if place.side == "new"][:_PLACES]


def _innermost(symbols: Sequence[Symbol], start: int, end: int) -> Symbol | None:
    around = [one for one in symbols if one.line_start <= start and end <= one.line_end]
    return min(around, key=lambda one: one.line_end - one.line_start, default=None)


def _touched(hunk: Hunk) -> Iterator[int]:
    """The new side's lines that a hunk adds, and those around what it removes."""
    number = hunk.new_start
    for line in hunk.lines:
        if line.kind == "-":
            yield from (number - 1, number)
        elif line.kind == "+":
            yield number
        number += line.kind != "-"


def _cut(content: bytes, first: int, last: int) -> bytes:
    return b"\n".join(content.split(b"\n")[first - 1 : last])


def _lines(path: str, content: bytes, first: int, last: int) -> LeafText:
    return LeafText(path, "", _cut(content, first, last), first)


def _rows(hunk: Hunk) -> Iterator[str]:
    yield f"@@ -{hunk.old_start},{hunk.old_count} +{hunk.new_start},{hunk.new_count} @@"
    for line in hunk.lines:
        yield f"{line.kind or ' '}{encodable(line.text.rstrip(chr(13)))}"
