"""A change cut to one short prompt: each file by its name, and of each as many rows as fit.

Of a file that does not fit, rows of definitions come first: its imports do not say what it does.
"""

from __future__ import annotations

from collections import Counter

from rlm_ci.recursion.nodes import LeafText
from rlm_ci.review.change_prompts.hunk_rows import (
    CODE,
    NEW,
    REMOVED,
    head,
    heading,
    kind_rank,
    rows,
    spans,
)
from rlm_ci.review.change_prompts.pieces import size_of, used_name
from rlm_ci.text.printable import clip, count
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

    from rlm_ci.review.change_prompts.changed_files import ReadableChange
    from rlm_ci.review.change_prompts.hunk_rows import PromptRow, ReadableFile
    from rlm_ci.source import Symbol

#: Bytes of a digest, of a row in it, and the share of the files' names.
ROOM = 20_000
_ROW, _NAMES = 500, 0.3
#: Characters about files without lines to show.
_SILENT = 1_500
#: Unchanged lines around an edit.
_AROUND = 1


class ChangeDigest(Value):
    """``text`` is the listing: hostile data, which belongs between fences.

    ``new`` are the changed files at the head; ``old`` are the removed lines, by where they stood
    at the merge base. Both are whole, also where the listing shows a part.
    """

    text: str
    new: tuple[LeafText, ...] = ()
    old: tuple[LeafText, ...] = ()


def digest_of(
    read: ReadableChange, room: int = ROOM, only: Container[str] | None = None
) -> ChangeDigest:
    """The digest of a change that was read as a whole, of about ``room`` bytes.

    Its text shows only the files ``only`` (None: all).
    """
    every = sorted(read.files, key=kind_rank)
    files = every if only is None else [file for file in every if file.path in only]
    silent = clip("\n".join(read.silent), _SILENT) if only is None else ""
    heads = [heading(file) for file in files]
    number, used = 0, 0
    while number < len(heads) and used + heads[number].size <= _NAMES * room:
        used += heads[number].size
        number += 1
    listed = [rows(file, spans(file, file.edits, _AROUND)) for file in files[:number]]
    texts: list[str] = []
    left = room - used - len(silent.encode("utf-8", "replace"))
    shares = _shares(listed, left)
    for file, first, some, share in zip(files, heads, listed, shares, strict=False):
        texts += [first.text, *_cut(file, some, share)]
    if number < len(files):
        texts.append(f"... and {count(len(files) - number, 'more file')}")
    texts += [silent] if silent else []
    new = tuple(_after(readable_file) for readable_file in every if not readable_file.is_gone)
    return ChangeDigest(
        "\n".join(texts),
        new,
        tuple(old for readable_file in every for old in _before(readable_file)),
    )


def _shares(listed: Sequence[Sequence[PromptRow]], room: int) -> list[int]:
    """The bytes of each file: a small one has what it needs, large ones have the same."""
    sizes = [size_of(some) for some in listed]
    shares, waiting = [0] * len(sizes), len(sizes)
    for at in sorted(range(len(sizes)), key=sizes.__getitem__):
        shares[at] = min(sizes[at], room // waiting)
        room -= shares[at]
        waiting -= 1
    return shares


def _cut(file: ReadableFile, some: Sequence[PromptRow], share: int) -> Iterator[str]:
    """The most telling rows of a file in order, and how many changed lines are not among them."""
    ranks = _ranks(file, some)
    shown = set()
    for at in sorted(range(len(some)), key=ranks.__getitem__):
        if some[at].size > _ROW:
            continue
        share -= some[at].size
        if share < 0:
            break
        shown.add(at)
    yield from (some[at].text for at in sorted(shown))
    left = sum(row.mark in (NEW, REMOVED) for at, row in enumerate(some) if at not in shown)
    if left:
        yield f"... {count(left, 'changed line')} not shown"


def _ranks(file: ReadableFile, some: Sequence[PromptRow]) -> list[tuple[int, int]]:
    """The ranks of rows: heads, then the rows of each definition in turn, then what is around."""
    spans = (head(file.lines, symbol) for symbol in file.symbols)
    heads = {number for first, last in spans for number in range(first, last + 1)}
    below, number = [], 0
    for row in reversed(some):
        number = row.new or number
        below.append(number)
    ranks: list[tuple[int, int]] = []
    turns: Counter[Symbol | None] = Counter()
    for row, number in zip(some, reversed(below), strict=True):
        names = file.removed if row.mark == REMOVED else ()
        is_head = row.new in heads or any(used_name(name) in row.text for name in names)
        owner = file.innermost.get(number)
        is_told = owner is not None or file.kind != CODE or not file.symbols
        turns[owner] += 1
        ranks.append((0 if is_head else 1 if is_told else 2, turns[owner]))
    return ranks


def _after(file: ReadableFile) -> LeafText:
    return _text(file.path, "", file.lines, 1)


def _before(file: ReadableFile) -> Iterator[LeafText]:
    """What a file has lost, each part with the number of its first line at the base."""
    for edit in file.edits:
        if edit.removed:
            yield _text(file.gone or file.path, file.blob, edit.removed, edit.old)


def _text(path: str, blob: str, lines: Sequence[str], first: int) -> LeafText:
    content = "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")
    return LeafText.of((path, blob, content, first, None))
