"""What a model is shown: pieces of sources, cut at their definitions, and how a call flows.

An edit changes the piece that it is in, and no other: whether one ends before a definition depends
on that definition, not on a count of bytes from the top.
"""

from __future__ import annotations

import re
from hashlib import sha256
from itertools import pairwise

from rlm_ci.recursion.prompt_windows import name
from rlm_ci.source.cut_points import borders
from rlm_ci.source.outline import outline
from rlm_ci.text.printable import encodable
from rlm_ci.values import Row, Value
from rlm_ci.wiki.facts.call_flows import TOP
from rlm_ci.wiki.update.state import FLOW

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from rlm_ci.recursion.nodes import LeafText
    from rlm_ci.source import Symbol
    from rlm_ci.wiki.facts.call_flows import CallFlow, FlowStep
    from rlm_ci.wiki.facts.file_facts import FileFacts
    from rlm_ci.wiki.update.state import ProseSentence, QuotedLines


#: Raised whenever the prompts ask for something else.
_VERSION = 1
#: Bytes from which on a piece may end, by how many more it does on average, and the most.
_ENOUGH, _MORE, _LARGEST = 2_500, 5_000, 16_000
#: What is shown of a piece at first: this share of its bytes; all of a small
#: one, in bytes.
_SHARE, _SMALL = 0.37, 1_200
#: Of that, what heads and first paragraphs may take, and then values at the top of files and
#: classes.
_HEADS, _VALUES = 0.7, 0.8
#: Lines of a head, and of values in a row.
_HEAD_LINES, _VALUE_LINES = 12, 8
#: What stands for lines that are left out.
GAP = "…"
_ENDS_HEAD = re.compile(r"(?::|\{|;|=>|=)\s*(?:(?:#|//).*)?$")
_DECIDES = re.compile(
    r"\s*(?:\}?\s*(?:el)?if|else|elif|raise|throw|return|yield|assert|except|catch|panic!?|case|match|"
    r"switch|guard|defer|unless|rescue|finally)\b"
)
#: What a condition begins with, how its line shows that it goes on, and a line that is complete.
_CONDITION = re.compile(
    r"\s*(?:\}?\s*(?:el)?if|\}?\s*else|elif|\}?\s*(?:except|catch)|case|match|switch|guard|unless|rescue|"
    r"\}?\s*finally|when|while|for)\b"
)
_GOES_ON = re.compile(r"(?:[,\\]|&&|\|\||\band|\bor)\s*(?:(?:#|//).*)?$")
_COMPLETE = re.compile(r"[;}]\s*(?:(?:#|//).*)?$")
#: Lines of a condition, and its statement.
_WIDE = 7
_IMPORTS = re.compile(r"\s*(?:import|from|use|using|require|#include|package|\"|'|\)|\}|$)")
_ACTS = ("function", "method")


def mark(oid: str) -> str:
    """Marks a content, by its hash, about which a model has been asked."""
    return sha256(f"{_VERSION}\0{oid}".encode()).hexdigest()[:16]


class SourcePiece(Row):
    """Lines of a text; ``digest`` is a hash of them, whatever their place is."""

    text: LeafText
    line_start: int
    line_end: int
    digest: str


class ShownPiece(Value):
    """What a prompt shows of a piece: ``rows`` are its numbered lines, of ``size`` bytes."""

    piece: SourcePiece
    rows: tuple[str, ...]
    size: int

    @property
    def lines(self) -> set[int]:
        """The numbers of the lines that are shown."""
        return {int(row.partition("|")[0]) for row in self.rows if row != GAP}

    @property
    def cost(self) -> int:
        """The bytes of the rows and of the line above them."""
        return self.size + row_size(head(self.piece.text.path))

    def fitted(self, room: int) -> ShownPiece:
        """The piece, or as many of its rows as fit with the line above them into ``room`` bytes."""
        if self.cost <= room:
            return self
        rows, used = [], row_size(GAP)
        for row in self.rows:
            if used + row_size(row) <= room - self.cost + self.size:
                used += row_size(row)
                rows.append(row)
        return ShownPiece(self.piece, (*rows, GAP), used)


def pieces(text: LeafText) -> list[SourcePiece]:
    """The pieces of a text, which leave no line out."""
    lines = _split(text)
    if not lines:
        return []
    cuts = [1, *_cuts(text, lines), len(lines) + 1]
    source_pieces = []
    for start, end in pairwise(cuts):
        content = b"\n".join(lines[start - 1 : end - 1])
        digest = mark(sha256(content).hexdigest())
        by = text.line_start - 1
        source_pieces.append(SourcePiece.of((text, start + by, end - 1 + by, digest)))
    return source_pieces


def _split(text: LeafText) -> list[bytes]:
    lines = text.content.split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    return lines


def _cuts(text: LeafText, lines: Sequence[bytes]) -> Iterator[int]:
    """Where the second and each later piece begins: lines of the text, from 1."""
    if len(text.content) <= _ENOUGH:
        return
    sizes = [len(line) + 1 for line in lines]
    units = [1, *(line for line in borders(text.path, text.content) if line > 1), len(lines) + 1]
    used = 0
    for first, behind in pairwise(units):
        size = sum(sizes[first - 1 : behind - 1])
        # The larger a definition, the likelier it begins a piece.
        chance = int.from_bytes(sha256(lines[first - 1]).digest()[:4], "big") / (1 << 32)
        ends = used >= _ENOUGH and chance < size / _MORE
        if first > 1 and (ends or used + size > _LARGEST) and used:
            yield first
            used = 0
        for line in range(first, behind):  # a definition that is too long is cut between lines
            if used and used + sizes[line - 1] > _LARGEST and size > _LARGEST:
                yield line
                used = 0
            used += sizes[line - 1]


def shown(source_pieces: Iterable[SourcePiece], *, in_full: bool) -> list[ShownPiece]:
    """What a prompt shows of pieces of one text; else heads, and the bodies that decide."""
    shown_pieces = []
    symbols: Sequence[Symbol] | None = None
    for piece in source_pieces:
        by = piece.text.line_start - 1
        lines = piece.text.content.decode("utf-8", "surrogateescape").split("\n")
        numbers = set(range(piece.line_start - by, piece.line_end - by + 1))
        size = sum(len(lines[line - 1]) + 1 for line in numbers)
        if not in_full and size > _SMALL:
            if symbols is None:
                symbols = outline(piece.text.path, piece.text.content).symbols
            numbers = _Excerpt(lines, numbers, symbols, int(size * _SHARE)).chosen()
        rows = tuple(_rows(lines, sorted(numbers), by, piece))
        shown_pieces.append(ShownPiece(piece, rows, sum(map(row_size, rows))))
    return shown_pieces


def excerpt(text: LeafText, numbers: Iterable[int]) -> ShownPiece:
    """These lines of a text; what is shown so is no piece that was asked about."""
    chosen = sorted(numbers)
    piece = SourcePiece(text, chosen[0], chosen[-1], "")
    lines = text.content.decode("utf-8", "surrogateescape").split("\n")
    rows = tuple(_rows(lines, [line - text.line_start + 1 for line in chosen],
                       text.line_start - 1, piece))  # fmt: skip
    return ShownPiece(piece, rows, sum(map(row_size, rows)))


def _rows(
    lines: Sequence[str], numbers: Sequence[int], by: int, piece: SourcePiece
) -> Iterator[str]:
    last = piece.line_start - by - 1
    for line in (*numbers, piece.line_end - by + 1):
        if any(row.strip() for row in lines[last : line - 1]):
            yield GAP
        if line <= piece.line_end - by:
            yield _row(line + by, lines[line - 1])
        last = line


def _row(number: int, line: str) -> str:
    return f"{number}|{encodable(line.rstrip(chr(13)))}"


def row_size(row: str) -> int:
    """The bytes of a row in a prompt."""
    return len(row.encode("utf-8", "replace")) + 1


def head(path: str) -> str:
    """The line above the lines of a file."""
    return f"=== {name(path)} ==="


def with_statement(lines: Sequence[str], line: int) -> list[int]:
    """A line, and of a condition all to its first statement: without that it says nothing."""
    chosen = [line]
    if not _CONDITION.match(lines[line - 1]) or _COMPLETE.search(lines[line - 1]):
        return chosen
    depth = 0
    for number in range(line + 1, min(line + _WIDE, len(lines)) + 1):
        if lines[number - 1].strip():
            above = lines[chosen[-1] - 1]
            depth += sum((char in "([") - (char in ")]") for char in above)
            chosen.append(number)
            if depth <= 0 and not _GOES_ON.search(above):
                return chosen
    return chosen


class _Excerpt:
    """Chooses the lines of one piece: those that say most, within a share of its bytes."""

    def __init__(
        self, lines: Sequence[str], inside: set[int], symbols: Sequence[Symbol], room: int
    ) -> None:
        self._lines = lines
        self._inside = inside
        self._room = room
        self._used = 0
        self._chosen: set[int] = set()
        self._acts = [
            symbol
            for symbol in symbols
            if symbol.kind in _ACTS and not inside.isdisjoint(_span(symbol))
        ]
        self._holders = [
            symbol for symbol in symbols if symbol.kind not in _ACTS and _is_long(symbol)
        ]

    def chosen(self) -> set[int]:
        room = self._room
        self._room = int(room * _HEADS)
        for symbol in (*self._acts, *self._holders):
            self._take(self._head(symbol))
        for symbol in sorted((*self._acts, *self._holders), key=lambda item: not item.is_public):
            if symbol.doc:
                self._take(range(symbol.doc_start, symbol.doc_end + 1))
        self._room = int(room * _VALUES)
        for run in self._values():
            self._take(run)
        self._room = room
        bodies = [self._body(act) for act in self._acts]
        for body in sorted(bodies, key=self._weight):
            self._take(body)
        for body in bodies:
            for line in body:
                if _DECIDES.match(self._lines[line - 1]):
                    self._take(with_statement(self._lines, line))
        return self._chosen

    def _take(self, lines: Iterable[int]) -> None:
        """Choose these lines, all or none of them."""
        new = [line for line in lines if line in self._inside and line not in self._chosen]
        # A gap is shown before and behind.
        size = sum(row_size(_row(line, self._lines[line - 1])) for line in new) + row_size(GAP)
        if new and self._used + size <= self._room:
            self._used += size
            self._chosen.update(new)

    def _head(self, symbol: Symbol) -> range:
        last = min(symbol.line_end, symbol.line_start + _HEAD_LINES, len(self._lines))
        for line in range(symbol.line_start, last + 1):
            text = self._lines[line - 1]
            if _ENDS_HEAD.search(text) and not text.lstrip().startswith(("@", "#", "//")):
                return range(symbol.line_start, line + 1)
        return range(symbol.line_start, symbol.line_start + 1)

    def _body(self, symbol: Symbol) -> list[int]:
        """The lines of a body that are neither its documentation nor in a function within it."""
        skipped = {*self._head(symbol), *self._doc(symbol)}
        return [line for line in _span(symbol) if line in self._inside and line not in skipped]

    def _doc(self, symbol: Symbol) -> range:
        """All lines of the documentation, of which the symbol knows the first paragraph."""
        end = symbol.doc_end
        text = "\n".join(self._lines[symbol.doc_start - 1 : end]) if symbol.doc else ""
        sign = next((sign for sign in ('"""', "'''") if sign in text), "")
        while sign and text.count(sign) < 2 and end < symbol.line_end:
            end += 1
            if sign in self._lines[end - 1]:
                break
        return range(symbol.doc_start, end + 1) if symbol.doc else range(0)

    def _values(self) -> Iterator[list[int]]:
        """Runs of lines outside of functions that are no imports."""
        within = {line for act in self._acts for line in _span(act)}
        within.update(line for holder in self._holders for line in self._doc(holder))
        run: list[int] = []
        for line in sorted(self._inside):
            is_value = line not in within and not _IMPORTS.match(self._lines[line - 1])
            if is_value and line not in self._chosen:
                run.append(line)
            elif run:
                yield run[:_VALUE_LINES]
                run = []
        yield run[:_VALUE_LINES]

    def _weight(self, body: Sequence[int]) -> tuple[float, int]:
        """The more of a body decides, the earlier it is shown."""
        deciding = sum(bool(_DECIDES.match(self._lines[line - 1])) for line in body)
        return -deciding / (len(body) + 4), body[0] if body else 0


def _span(symbol: Symbol) -> range:
    return range(symbol.line_start, symbol.line_end + 1)


def _is_long(symbol: Symbol) -> bool:
    return symbol.line_end > symbol.line_start


#: Sentences about one flow, and flows of one prompt: of more, the answer may be cut off.
SENTENCES, _MOST = 3, 8
#: Lines of a definition that are all shown; of a longer one its head, calls and raises, each with
#: the line before if a condition, a loop or an expression begins there, and a condition with its
#: first statement.
_SHORT = 12
_BEGINS = re.compile(r"[:{(\[]\s*(?:(?:#|//).*)?$")


class FlowText(Value):
    """A flow as a prompt has it: ``rows`` are its steps, ``sources`` their files.

    ``digest`` is a hash of the steps and of their lines, wherever these are; ``lines`` are those
    that a prompt shows, and ``spans`` the first and last lines of the functions of its steps, by
    path: a sentence may quote what is in one of these, shown or not.
    """

    key: str
    digest: str
    rows: tuple[str, ...]
    lines: Mapping[str, frozenset[int]]
    spans: Mapping[str, frozenset[tuple[int, int]]]
    sources: Mapping[str, LeafText]

    @property
    def path(self) -> str:
        """The file in which it begins."""
        return self.key.removeprefix(FLOW).rpartition("#")[0]

    def holds(self, sentence: ProseSentence) -> bool:
        """Whether all that the sentence quotes is in functions of its steps."""
        return all(map(self._shows, sentence.quotes))

    def _shows(self, quoted: QuotedLines) -> bool:
        return any(
            first <= quoted.line_start and quoted.line_end <= last
            for first, last in self.spans.get(quoted.path, ())
        )


def flow_key(flow: CallFlow) -> str:
    """What is said of a flow is kept by where it begins."""
    at = flow.steps[0].at
    return f"{FLOW}{at.path}#{at.symbol.name}"


def flow_text(
    flow: CallFlow, files: Mapping[str, FileFacts], sources: Mapping[str, LeafText]
) -> FlowText:
    """The flow through ``sources``, which has all files of its steps."""
    lines: dict[str, set[int]] = {}
    spans: dict[str, set[tuple[int, int]]] = {}
    rows, parts = [], []
    for step in flow.steps:
        path, symbol = step.at.path, step.at.symbol
        content = sources[path].content.decode("utf-8", "surrogateescape").split("\n")
        numbers = sorted(_lines(step, files[path], content))
        lines.setdefault(path, set()).update(numbers)
        is_class = symbol.kind in {"class", "struct"}  # whose other members are no step
        ends = numbers if is_class else [*numbers, symbol.line_start, symbol.line_end]
        span = min(ends), max(ends)
        spans.setdefault(path, set()).add(span)
        called = "the code of the file" if symbol.kind == TOP else f"`{name(symbol.name)}`"
        by = f", called by step {step.caller}" if step.caller else ""
        location = f"{name(path)}:{symbol.line_start}-{symbol.line_end}"
        rows.append(f"  step {step.number}: {called} in {location}{by}")
        parts.append(f"{step.number} {step.caller} True {symbol.kind} ")
        parts += ["" if symbol.kind == TOP else symbol.name]
        parts += [content[line - 1].strip() for line in numbers]
    digest = sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()
    return FlowText(
        key=flow_key(flow),
        digest=mark(digest),
        rows=tuple(rows),
        lines={path: frozenset(line) for path, line in lines.items()},
        spans={path: frozenset(inside) for path, inside in spans.items()},
        sources={path: sources[path] for path in lines},
    )


def _lines(step: FlowStep, file: FileFacts, content: Sequence[str]) -> set[int]:
    """The lines by which a step is told."""
    symbol = step.at.symbol
    first, last = symbol.line_start, min(symbol.line_end, len(content))
    if last - first < _SHORT and symbol.kind not in {"class", "struct"}:
        return set(range(first, last + 1))
    numbers: set[int] = set()
    if symbol.kind != TOP:
        start, end = file.head_of(symbol)
        numbers.update(range(start, end + 1))
        if symbol.doc:
            numbers.update(range(symbol.doc_start, symbol.doc_end + 1))
    for line in (*(call.line for call in step.calls), *(site.line for site in step.raises)):
        numbers.update(with_statement(content, line))
        if line > 1 and _BEGINS.search(content[line - 2]):
            numbers.add(line - 1)
    return {line for line in numbers if first <= line <= last}


class PromptShare:
    """What one prompt shows: pieces of sources, and flows with the lines that are not in these."""

    def __init__(self, pieces: Iterable[ShownPiece] = ()) -> None:
        self.pieces = list(pieces)
        self.flows: list[FlowText] = []
        #: Whether it also asks about the whole.
        self.has_whole = False
        self._lines: dict[str, set[int]] = {}
        self.used = 0
        for piece in self.pieces:
            self._add(piece)

    def flow_rows(self) -> Iterator[str]:
        for number, flow in enumerate(self.flows, 1):
            yield f"[{number}]"
            yield from flow.rows

    def take(self, flow: FlowText, room: int) -> bool:
        """Add a flow if ``room`` bytes have room for it; of one that no prompt has, a part."""
        if len(self.flows) == _MOST:
            return False
        left = room - self.used - sum(map(row_size, flow.rows)) - row_size("[99]")
        new = list(self._missing(flow))
        if sum(piece.cost for piece in new) > left:
            if self.used:
                return False
            new = list(_fitting(new, left))
        self.used += room - self.used - left
        for piece in new:
            self.pieces.append(piece)
            self._add(piece)
        self.flows.append(flow)
        return True

    def _add(self, piece: ShownPiece) -> None:
        self.used += piece.cost
        self._lines.setdefault(piece.piece.text.path, set()).update(piece.lines)

    def _missing(self, flow: FlowText) -> Iterator[ShownPiece]:
        for path, lines in flow.lines.items():
            new = lines - self._lines.get(path, set())
            if new:
                yield excerpt(flow.sources[path], new)


def shares(
    windows: Iterable[Sequence[ShownPiece]], flows: Iterable[FlowText], room: int
) -> list[PromptShare]:
    """The windows, and the flows in the room that the last one leaves, or behind it."""
    prompt_shares = [PromptShare(window) for window in windows]
    for flow in flows:
        if not prompt_shares or not prompt_shares[-1].take(flow, room):
            prompt_shares.append(PromptShare())
            prompt_shares[-1].take(flow, room)
    return prompt_shares


def _fitting(pieces: Iterable[ShownPiece], room: int) -> Iterator[ShownPiece]:
    for piece in pieces:
        fits = piece.fitted(room)
        if fits.lines:
            room -= fits.cost
            yield fits
