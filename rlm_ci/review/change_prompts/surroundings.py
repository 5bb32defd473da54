"""How much of a file stands around its hunks: lines, heads of definitions, whole definitions."""

from __future__ import annotations

from rlm_ci.review.change_prompts.hunk_rows import CODE, DOCUMENT, joined
from rlm_ci.source.test_files import is_trial

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rlm_ci.review.change_prompts.hunk_rows import LineEdit, ReadableFile
    from rlm_ci.source import Symbol

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
