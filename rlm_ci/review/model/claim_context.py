"""What a model is shown of one claim, and the prompts that begin with it.

A reproduction, its judgement, a second look and a repair need the same rules and the same lines of
the program. Each prompt has them first and its question last, with what was run between them: a
repair begins as the judgement before it. Providers keep the beginning of a prompt from 1,024 tokens
on. The rules alone are as long, so they are read once for a review, and the lines once for a claim.

The judge is asked in a prompt of its own, and not in the conversation in which the test was
written: who has written a test takes it for right. Both ways have as many tokens that no kept
beginning covers, and a conversation sends its earlier turns again, a third more in all.
"""

from __future__ import annotations

import re
from functools import cached_property

from rlm_ci.recursion.nodes import LeafText
from rlm_ci.recursion.prompt_windows import fence, name
from rlm_ci.resources import loader
from rlm_ci.review.change_prompts.hunk_rows import (
    BLOCKS,
    CODE,
    ReadableFile,
    edits_of,
    head,
    joined,
    rows,
)
from rlm_ci.review.change_prompts.pieces import MAKERS, size_of
from rlm_ci.review.guidelines import Guidelines
from rlm_ci.review.proofs.repair import MOST_LINES
from rlm_ci.source.import_graph import ImportGraph
from rlm_ci.source.outline import outline
from rlm_ci.source.uses.references import Definition, ReferenceIndex
from rlm_ci.text.printable import encodable, printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from rlm_ci.git.patches import Hunk
    from rlm_ci.report.findings import Finding, Location
    from rlm_ci.review.change_prompts.hunk_rows import LineEdit, PromptRow, Spans
    from rlm_ci.review.proofs.reproduction import ProofOutcome, Reproduction
    from rlm_ci.source import Outline, Symbol

    Hunks = Mapping[str, Sequence[Hunk]]


#: Places of a claim that are shown, and lines around one in a long definition, or in none.
_PLACES = 4
_AROUND = (20, 6, 3, 0)
#: Definitions that are called, and their lines: of one that the change touches, and of another.
_CALLS, _TOUCHED, _CALLED = 10, 30, 10
#: Bytes of all that is shown, of the definition around a place, and of edits that belong to it.
ROOM = 7_500
_DEFINITION, _RELATED = 4_500, 1_500
#: What a line defines at its beginning, by a keyword or as a value.
_DEFINES = re.compile(
    r"[ \t]*(?:(?:async|export|default|public|private|static|pub|final)[ \t]+)*(?:class|const|def"
    r"|fn|func|function|interface|let|struct|type|var)[ \t]+(\w+)|(\w+)[ \t]*(?::[^=]*)?=(?!=)"
)
_IDENTIFIER = re.compile(r"[^\W\d]\w{2,}")
_NO_GUIDELINES = Guidelines(())


class ClaimContext(Value):
    """``listing`` for the prompt, and the lines that it shows.

    ``guideline`` is the maintainers' sentence that the claim rests on, "" for none; ``subject`` are
    the definitions that the claim is about, by path and name.
    """

    listing: str
    texts: tuple[LeafText, ...]
    guideline: str = ""
    subject: frozenset[tuple[str, str]] = frozenset()


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
        self._files: dict[str, ReadableFile] = {}

    def around(self, finding: Finding, room: int = ROOM) -> ClaimContext:
        """What belongs to a claim, in about ``room`` bytes: each line once, of both sides.

        Two claims on one definition are shown the same.
        """
        shown: dict[str, list[tuple[int, int]]] = {}
        for path, spans in self._pieces(finding):
            room -= size_of(self._rows(path, spans)) + len(path) + 10
            if room < 0:
                break
            shown[path] = joined((*shown.get(path, ()), *spans), self._last(path), 0)
        listing = "\n".join(
            row
            for path, spans in shown.items()
            for row in (
                f"=== {name(path)} ===",
                *(prompt_row.text for prompt_row in self._rows(path, spans)),
            )
        )
        texts = tuple(
            _lines(path, self.read(path) or b"", *span)
            for path, spans in shown.items()
            for span in spans
        )
        is_asked = self.guidelines.behind(finding) is not None
        guideline = (finding.hint or "") if is_asked else ""
        return ClaimContext(listing, texts, guideline, frozenset(self._subject(finding)))

    def _subject(self, finding: Finding) -> Iterator[tuple[str, str]]:
        """The definitions at the lines of a claim, and those of the change that it names."""
        for location in _places(finding):
            yield location.path, ""
            start = location.line_start or 1
            for symbol in self._symbols(location.path):
                if symbol.line_start <= (location.line_end or start) and start <= symbol.line_end:
                    yield location.path, symbol.name
        for path, hunks in self._hunks.items():
            lines = {line for hunk in hunks for line in _touched(hunk)}
            for symbol in self._symbols(path):
                is_touched = not lines.isdisjoint(range(symbol.line_start, symbol.line_end + 1))
                if is_touched and _is_named(symbol.name.rpartition(".")[2], finding.message):
                    yield path, symbol.name

    def _symbols(self, path: str) -> Sequence[Symbol]:
        content = self.read(path) if path.endswith(".py") else None
        return () if content is None else self._outline(path, content).symbols

    def _pieces(self, finding: Finding) -> Iterator[tuple[str, Spans]]:
        """Lines of files that belong to a claim, the most important first."""
        for location in _places(finding):
            spans = self._definition(location)
            if spans:
                yield location.path, spans
                yield from ((location.path, [span]) for span in self._related(location.path, spans))
        yield from ((path, [span]) for path, span in self._called(finding))

    def is_near_change(self, finding: Finding) -> bool:
        """Whether the change touches a place of a claim, its context, or its definition."""
        return any(map(self._is_near, _places(finding)))

    def _is_near(self, location: Location) -> bool:
        hunks = self._hunks.get(location.path, ())
        start = location.line_start or 1
        end = location.line_end or start
        if any(first <= end and start <= last for first, last in (h.span("new") for h in hunks)):
            return True
        content = self.read(location.path) if hunks else None
        if content is None:
            return False
        symbol = _innermost(self._outline(location.path, content).symbols, start, end)
        return symbol is not None and any(
            symbol.line_start <= line <= symbol.line_end for h in hunks for line in _touched(h)
        )

    def _definition(self, location: Location) -> Spans:
        """The innermost definition around a place, or as much of a long one as there is room for.

        Around a method stands how its class begins.
        """
        file = self._file(location.path)
        start, end = location.line_start or 1, location.line_end or location.line_start or 1
        if not file.lines:
            return []
        blocks = [block for block in file.symbols if block.kind in BLOCKS]
        symbol = _innermost(blocks, start, end)
        first, last = (1, len(file.lines)) if symbol is None else _bounds(file, symbol)
        tops = [head(file.lines, beginning) for beginning in _beginnings(blocks, symbol)]
        edited = [(edit.at - 2, edit.last + 2) for edit in file.edits]
        inside = [(max(first, low), min(last, high)) for low, high in edited]
        wide, *narrow = ([(max(first, start - by), min(last, end + by))] for by in _AROUND)
        options = [wide, *narrow] if symbol is None else [
            [*tops, (first, last)], [*tops, *wide, *inside], [*tops, *wide],
            *([*tops, *around] for around in narrow),
        ]  # fmt: skip
        some = [joined(option, self._last(location.path), 0) for option in options]
        fitting = (view for view in some if size_of(self._rows(location.path, view)) <= _DEFINITION)
        return next(fitting, [(start, start)])

    def _related(self, path: str, spans: Spans) -> list[tuple[int, int]]:
        """The edits of a file that define what ``spans`` name; the nearest one if none is there."""
        file, room = self._file(path), _RELATED
        words = {word for row in self._rows(path, spans) for word in _IDENTIFIER.findall(row.text)}
        distances = {line_edit: _distance(spans, line_edit) for line_edit in file.edits}
        related: list[tuple[int, int]] = []
        for edit in sorted(distances, key=distances.__getitem__):
            lines = (*edit.removed, *file.lines[edit.at - 1 : edit.at - 1 + edit.added])
            defined = {word for line in lines if (m := _DEFINES.match(line)) for word in m.groups()}
            is_nearest = not related and not any(distance == 0 for distance in distances.values())
            span = edit.at - 1, edit.last + 1
            size = size_of(self._rows(path, [span]))
            if distances[edit] and (is_nearest or defined & words) and size <= room:
                room -= size
                related.append(span)
        return related

    def _called(self, finding: Finding) -> Iterator[tuple[str, tuple[int, int]]]:
        """The definitions that the first definition of a claim calls, of the files that it sees."""
        if not finding.evidence:
            return
        location = finding.evidence[0]
        content = self.read(location.path)
        if content is None:
            return
        file_outline = self._outline(location.path, content)
        start = location.line_start or 1
        symbol = _innermost(file_outline.symbols, start, location.line_end or start)
        if symbol is None:
            return
        edges = ImportGraph.of([file_outline], self._paths).internal.get(location.path, ())
        paths = [location.path, *(edge.target for edge in edges)]
        index = ReferenceIndex(paths, self.read)
        called = index.callees(Definition(location.path, symbol))
        for path, used in [definition for definition in called if definition.symbol.kind in BLOCKS][
            :_CALLS
        ]:
            first, last = _bounds(self._file(path), used)
            is_touched = any(e.at <= last and first <= e.last for e in self._file(path).edits)
            yield path, (first, min(last, first + (_TOUCHED if is_touched else _CALLED) - 1))

    def _rows(self, path: str, spans: Spans) -> list[PromptRow]:
        """The lines of a file with what was removed among them."""
        return [row for row in rows(self._file(path), spans) if row.mark]

    def _last(self, path: str) -> int:
        """The last line that may be shown; what was removed at the end stands behind the others."""
        file = self._file(path)
        return max((len(file.lines), *(edit.last for edit in file.edits)))

    def _file(self, path: str) -> ReadableFile:
        if path not in self._files:
            content = self.read(path) or b""
            lines = content.decode("utf-8", "surrogateescape").split("\n")
            if lines[-1] == "":
                lines.pop()
            edits = edits_of(self._hunks.get(path, ()))
            symbols = self._outline(path, content).symbols
            self._files[path] = ReadableFile(path, "", CODE, tuple(lines), edits, symbols=symbols)
        return self._files[path]

    @cached_property
    def _hunks(self) -> Hunks:
        return {} if self._load is None else self._load()

    def _outline(self, path: str, content: bytes) -> Outline:
        if path not in self._outlines:
            self._outlines[path] = outline(path, content)
        return self._outlines[path]


def _places(finding: Finding) -> list[Location]:
    return [location for location in finding.evidence if location.side == "new"][:_PLACES]


def _innermost(symbols: Sequence[Symbol], start: int, end: int) -> Symbol | None:
    around = [symbol for symbol in symbols if symbol.line_start <= start and end <= symbol.line_end]
    return min(around, key=lambda symbol: symbol.line_end - symbol.line_start, default=None)


def _is_named(name: str, message: str) -> bool:
    """Whether a claim names a definition: as code, and not by a word of the language."""
    word = rf"(?<!\w){re.escape(name)}(?!\w)"
    is_code = "_" in name or re.search(rf"{word}\(|`[^`]*{word}[^`]*`", message)
    return bool(is_code and re.search(word, message))


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


def _bounds(file: ReadableFile, symbol: Symbol) -> tuple[int, int]:
    """The lines of a definition, with the line behind it if something was removed at its end."""
    behind = file.edit_at.get(symbol.line_end + 1)
    is_cut = behind is not None and not behind.added
    return symbol.line_start, symbol.line_end + is_cut


def _beginnings(blocks: Sequence[Symbol], symbol: Symbol | None) -> list[Symbol]:
    """The definition itself, its class, and what makes one."""
    if symbol is None:
        return []
    outer = symbol.name.rpartition(".")[0]
    names = {symbol.name, outer, *(f"{outer}.{maker}" for maker in MAKERS if outer)}
    return [block for block in blocks if block.name in names]


def _distance(spans: Spans, edit: LineEdit) -> int:
    """How many lines an edit is from the nearest of ``spans``; 0 if it is in one."""
    return min(max(low - edit.last, edit.at - high, 0) for low, high in spans)


class ClaimPrompt(Value):
    """What the prompts of one claim begin with; ``texts`` are the lines that they show.

    ``subject`` are the definitions that the claim is about, by path and name.
    """

    beginning: str
    severity: str
    texts: tuple[LeafText, ...] = ()
    subject: frozenset[tuple[str, str]] = frozenset()

    @classmethod
    def of(
        cls, finding: Finding, context: ClaimContext, framework: str | None = None
    ) -> ClaimPrompt:
        """``framework`` says what runs tests in Python, "" for nothing; None: nothing is run."""
        location = finding.evidence[0]
        severity = finding.severity.label
        data = {
            "severity": severity,
            "place": f"{name(location.path)}, lines {location.line_start}-{location.line_end}",
            "claim": printable(finding.message),
            "guideline": context.guideline,
            "framework": encodable(framework or ""),
        }
        rules = {"runs": framework is not None, "most": MOST_LINES}
        # The lines have a fence of their own: other claims on them begin with the same bytes.
        listing = {"listing": context.listing, "listing_fence": fence(context.listing)}
        beginning = _rendered("claim", {**rules, **data, **listing, "fence": fence(*data.values())})
        return cls(beginning, severity, context.texts, context.subject)

    def asking(self, question: str, row: Mapping[str, Any], tried: str = "") -> str:
        """The prompt of a question, behind what was ``tried``."""
        return f"{self.beginning}{tried}{_rendered(question, {**row, 'severity': self.severity})}"


def tried(reproduction: Reproduction, outcome: ProofOutcome, breaks: str) -> str:
    """What was run for a claim, and how it ended on both sides."""
    base = outcome.base
    data = {
        "breaks": breaks,
        "kind": reproduction.kind,
        "path": printable(reproduction.path),
        "content": encodable(reproduction.content).strip("\n"),
        "line": printable(outcome.line),
        "uses": printable("; ".join(map(str, outcome.uses))),
        "head": outcome.head.status,
        "head_output": outcome.head.tail,
        "base": "" if base is None else base.status,
        "base_output": "" if base is None else base.tail,
    }
    return _rendered("tried", {**data, "fence": fence(*data.values())})


def _rendered(question: str, row: Mapping[str, Any]) -> str:
    return loader.load_template(f"prompts/review-{question}.md.j2")(row)


#: Behind these a clause may end. What stands behind a bare comma may be a condition of the rest.
_ENDS = re.compile(r"(?<=[.;:!?])\s+|,\s+(?=(?:and|but|so|because|which)\b)")
_LEADS = re.compile(r"(?:and|but|so|because|which)\s+")
_CLAIM_WORD = re.compile(r"\w+|[^\w\s`.,;:!?]")


def part_of(claim: str, repeated: str) -> str:
    """The clauses of ``claim`` that ``repeated`` repeats, as they are written there.

    "" unless it repeats some of them, in their order, and says nothing else.
    """
    clauses, parts = _clauses(claim), []
    for sought in _clauses(repeated):
        at = next((n for n, clause in enumerate(clauses) if _words(clause) == _words(sought)), None)
        if at is None:
            return ""
        parts.append(clauses[at])
        del clauses[: at + 1]
    sentences = (clause if clause[-1] in ".!?" else f"{clause.rstrip(',;:')}." for clause in parts)
    return " ".join(sentence[:1].upper() + sentence[1:] for sentence in sentences)


def _clauses(text: str) -> list[str]:
    parts = (_LEADS.sub("", part.strip(), count=1) for part in _ENDS.split(text))
    return [part for part in parts if _words(part)]


def _words(text: str) -> list[str]:
    return _CLAIM_WORD.findall(text.casefold())
