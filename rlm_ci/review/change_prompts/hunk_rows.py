"""The hunks of a file as rows for a prompt, with both sides' line numbers and their surroundings.

A row is the line's number, a mark and the line: ``12|`` stands on both sides, ``12+`` is new,
``12-`` was removed and has its old number.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from functools import cached_property
from itertools import accumulate, groupby

from rlm_ci.recursion.prompt_windows import name
from rlm_ci.source.test_files import is_trial
from rlm_ci.text.printable import encodable
from rlm_ci.values import Row, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rlm_ci.git.patches import Hunk
    from rlm_ci.source import Symbol

    #: First and last lines of the new side, in order; the last may be one behind the file.
    Spans = Sequence[tuple[int, int]]


#: Kinds of a changed file, by how much context its hunks need.
CODE, DOCUMENT, LOCK = "code", "document", "lock"
#: Kinds of definitions that hold lines.
BLOCKS = frozenset((
    "class", "function", "method", "interface", "enum", "struct", "trait", "module", "macro",
))  # fmt: skip
#: Marks behind the number of a line.
SAME, NEW, REMOVED = "|", "+", "-"
#: Spans whose ends are so close are one.
_GAP = 2
#: Bytes that stay for the heading of a file, and of an unchanged line that is shown.
_HEADING, _LINE = 2_000, 2_000
#: Stands between parts that are shown apart.
_APART = "..."


class LineEdit(Row):
    """Before line ``at``, ``removed`` went (from the old line ``old``); ``added`` lines came."""

    at: int
    added: int
    old: int
    removed: tuple[str, ...]

    @property
    def last(self) -> int:
        return self.at + max(self.added, 1) - 1


class PromptRow(Row):
    """A row of a prompt; ``new`` is its line on the new side, 0 without one; "" marks a heading."""

    text: str
    new: int
    size: int
    mark: str


class ReadableFile(Value):
    """A file of a change: its lines at the head, its edits, its definitions.

    ``heading`` stands behind its name above its hunks. ``gone`` is the path that it no longer has,
    ``blob`` its id at the base; ``removed`` are names that it no longer defines, ``resigned`` those
    with another signature.
    """

    path: str
    heading: str
    kind: str
    lines: tuple[str, ...]
    edits: tuple[LineEdit, ...]
    gone: str = ""
    blob: str = ""
    symbols: tuple[Symbol, ...] = ()
    removed: tuple[str, ...] = ()
    resigned: tuple[str, ...] = ()

    @property
    def is_gone(self) -> bool:
        return self.gone == self.path

    @property
    def is_whole(self) -> bool:
        """Whether all of it is new, or all of it is gone."""
        return len(self.edits) == 1 and self.edits[0].added == len(self.lines)

    @cached_property
    def edit_at(self) -> dict[int, LineEdit]:
        """The edits by the lines where they begin."""
        return {edit.at: edit for edit in self.edits}

    @cached_property
    def shifts(self) -> list[int]:
        """By how many lines the first edits move the lines behind them: none, one, two, ..."""
        return [*accumulate((edit.added - len(edit.removed) for edit in self.edits), initial=0)]

    @cached_property
    def new(self) -> frozenset[int]:
        """The lines that are new."""
        return frozenset(n for edit in self.edits for n in range(edit.at, edit.at + edit.added))

    @cached_property
    def innermost(self) -> dict[int, Symbol]:
        """The innermost definition at each line that is in one."""
        by_line: dict[int, Symbol] = {}
        for symbol in self.symbols:  # the outer before the inner
            by_line |= dict.fromkeys(range(symbol.line_start, symbol.line_end + 1), symbol)
        return by_line

    @cached_property
    def around(self) -> dict[int, tuple[Symbol, ...]]:
        """The definitions around each edit, by where it begins; the outermost first."""
        waiting = [symbol for symbol in self.symbols if symbol.kind in BLOCKS][::-1]
        by_edit, active = {}, []
        for edit in self.edits:
            while waiting and waiting[-1].line_start <= edit.at:
                active.append(waiting.pop())
            active = [symbol for symbol in active if symbol.line_end >= edit.at]
            by_edit[edit.at] = tuple(symbol for symbol in active if symbol.line_end >= edit.last)
        return by_edit


def edits_of(hunks: Iterable[Hunk]) -> tuple[LineEdit, ...]:
    """The edits of hunks, whose lines of context are left out."""
    edits: list[LineEdit] = []
    for hunk in hunks:
        at, old = hunk.new_start + (0 if hunk.new_count else 1), hunk.old_start
        for is_changed, some in groupby(hunk.lines, lambda line: line.kind in (NEW, REMOVED)):
            lines = tuple(some)
            gone = tuple(line.text for line in lines if line.kind != NEW)
            come = sum(line.kind != REMOVED for line in lines)
            if is_changed:
                removed, first = gone, old
                if edits and edits[-1].at == at:  # another type: git deletes, then creates
                    before = edits.pop()
                    removed, first = (*before.removed, *gone), before.old
                edits.append(LineEdit.of((at, come, first, removed)))
            at, old = at + come, old + len(gone)
    return tuple(edits)


def is_of_endings(hunks: Iterable[Hunk]) -> bool:
    """Whether hunks change nothing but the ends of lines."""
    return all(
        [line.text.rstrip("\r") for line in hunk.lines if line.kind == "-"]
        == [line.text.rstrip("\r") for line in hunk.lines if line.kind == "+"]
        for hunk in hunks
    )


def joined(spans: Iterable[tuple[int, int]], last: int, gap: int = _GAP) -> list[tuple[int, int]]:
    """Spans within 1 and ``last``, in order; those that meet, or nearly do, are one."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted((max(1, low), min(last, high)) for low, high in spans):
        if merged and start <= merged[-1][1] + gap:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        elif start <= end:
            merged.append((start, end))
    return merged


def rows(file: ReadableFile, spans: Spans) -> list[PromptRow]:
    """The lines of ``spans`` with what was removed among them.

    The lines of both sides stand above a part with edits.
    """
    prompt_rows: list[PromptRow] = []
    for start, end in spans:
        if file.edits and not file.is_whole:
            before = bisect_right(file.edits, end, key=lambda line_edit: line_edit.at)
            is_edited = before and file.edits[before - 1].last >= start
            prompt_rows.append(_row(_both(file, start) if is_edited else _APART))
        elif prompt_rows:
            prompt_rows.append(_row(_APART))
        for number in range(start, end + 1):
            if edit := file.edit_at.get(number):
                prompt_rows += [
                    _row(f"{old}{REMOVED}{_shown(text)}", mark=REMOVED)
                    for old, text in enumerate(edit.removed, edit.old)
                ]
            if number <= len(file.lines):
                mark = NEW if number in file.new else SAME
                text = f"{number}{mark}{_shown(file.lines[number - 1])}"
                prompt_rows.append(_row(text, number, mark))
    return prompt_rows


def shown_rows(file: ReadableFile, spans: Spans, room: int) -> list[PromptRow]:
    """The rows that a prompt of ``room`` bytes can show."""
    return [row for row in rows(file, spans) if fits(row, room)]


def fits(row: PromptRow, room: int) -> bool:
    return row.size <= (room - _HEADING if row.mark in (NEW, REMOVED) else _LINE)


def heading(file: ReadableFile) -> PromptRow:
    return _row(f"=== {name(file.path)} === {file.heading}")


def kind_rank(file: ReadableFile) -> tuple[int, bool, bool]:
    """The order in a prompt: code, its tests, files without definitions, documents."""
    rank = (CODE, DOCUMENT, LOCK).index(file.kind)
    return rank, not file.symbols, is_trial(file.path)


def _row(text: str, new: int = 0, mark: str = "") -> PromptRow:
    return PromptRow.of((text, new, len(text.encode("utf-8", "replace")) + 1, mark))


def _shown(line: str) -> str:
    return encodable(line.rstrip("\r"))


def _both(file: ReadableFile, line: int) -> str:
    """The lines of both sides at which ``line``, or what was removed before it, stands."""
    edit = file.edit_at.get(line)
    if edit is not None and edit.removed:
        return f"@@ -{edit.old} +{line} @@"
    before = bisect_left(file.edits, line, key=lambda line_edit: line_edit.at)
    return f"@@ -{max(0, line - file.shifts[before])} +{line} @@"


#: Lines around an edit, at most and beyond the definition that it is in; around one in a document
#: or a test.
MOST, PROSE, _BEYOND = 12, 3, 3
#: Lines of a definition's head, and of a definition that may be shown whole.
_HEAD, _WHOLE = 12, 150


def spans(file: ReadableFile, edits: Sequence[LineEdit], context: int) -> list[tuple[int, int]]:
    """The lines to show of ``file`` for ``edits``, with ``context`` lines around each."""
    ranges = []
    margin = min(context, PROSE) if is_trial(file.path) else context
    for edit in edits:
        if file.kind != CODE:
            around = min(context, PROSE) if file.kind == DOCUMENT else 0
            ranges.append((edit.at - around, edit.last + around))
            continue
        low, high = edit.at - margin, edit.last + margin
        chain = file.around[edit.at]
        if chain:
            inner, beyond = chain[-1], min(margin, _BEYOND)
            low = max(low, min(inner.line_start, edit.at - beyond))
            high = min(high, max(inner.line_end, edit.last + beyond))
        ranges.append((low, high))
        if context:
            ranges += [head(file.lines, symbol) for symbol in chain if symbol.line_start < low]
    # What was removed at the end stands before the line behind the last one.
    return joined(ranges, max((len(file.lines), *(edit.last for edit in edits))))


def head(lines: Sequence[str], symbol: Symbol) -> tuple[int, int]:
    """The lines of a definition's decorators and head, as far as they are few."""
    last = symbol.line_start
    for number in range(symbol.line_start, min(symbol.line_start + _HEAD, symbol.line_end + 1)):
        last = number
        line = lines[number - 1].rstrip() if number <= len(lines) else ""
        if line.endswith((":", "{", ";")):
            break
    return symbol.line_start, last


def wholes(file: ReadableFile, edits: Sequence[LineEdit]) -> Iterator[tuple[int, int]]:
    """The innermost definitions around ``edits``, where they are short enough."""
    chains = (file.around[edit.at] for edit in edits)
    inner = dict.fromkeys(chain[-1] for chain in chains if chain)
    for symbol in inner:
        if symbol.line_end - symbol.line_start < _WHOLE:
            yield symbol.line_start, symbol.line_end
