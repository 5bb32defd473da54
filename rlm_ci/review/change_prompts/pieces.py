"""Parts a change by relation: what uses a name stays with what defines it, and with its tests."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter

from rlm_ci.review.change_prompts.hunk_rows import (
    CODE,
    NEW,
    REMOVED,
    ReadableFile,
    heading,
    shown_rows,
    spans,
)
from rlm_ci.source.test_files import subject_of
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from rlm_ci.review.change_prompts.hunk_rows import LineEdit, PromptRow

#: The least length of a name that tells something, and the pieces that may share one.
_NAME, _SHARED = 4, 40
#: Edits that fill less than such a part of a prompt stay with their neighbours.
_PIECES = 8
#: Methods that make what their class is the name of.
MAKERS = frozenset(("__init__", "__new__", "constructor", "initialize", "__construct"))
_WORD = re.compile(r"[^\W\d]\w*")


class Piece(Value):
    """Some edits of a file, which stay together; ``part``: only these of their rows."""

    file: ReadableFile
    edits: tuple[LineEdit, ...]
    size: int
    part: tuple[int, int] | None = None


def size_of(some: Iterable[PromptRow]) -> int:
    return sum(row.size for row in some)


def pieces_of(file: ReadableFile, context: int, fill: int, room: int) -> list[Piece]:
    """The pieces of a file, whole definitions where they fit into ``fill`` bytes.

    Rows that do not fit into ``room`` bytes are left out.
    """
    file_piece = _piece(file, file.edits, context, room)
    if 2 * file_piece.size <= fill:
        return [file_piece] if _has_changes(file_piece, context, room) else []
    groups: list[list[LineEdit]] = []
    last, used = "", 0
    for edit in file.edits:
        inside = file.around[edit.at][0].name if file.around[edit.at] else ""
        size = _piece(file, (edit,), context, room).size
        is_small = (used + size) * _PIECES <= fill
        if groups and (is_small or (inside == last != "" and used + size <= fill)):
            groups[-1].append(edit)
            used += size
        else:
            groups.append([edit])
            used = size
        last = inside
    pieces = []
    for group in groups:
        uncut = _piece(file, tuple(group), context, room)
        some = [uncut] if uncut.size <= fill else _cut(uncut, context, fill, room)
        pieces += [piece for piece in some if _has_changes(piece, context, room)]
    return pieces


def rows_of(piece: Piece, context: int, room: int) -> list[PromptRow]:
    """The rows of a piece."""
    file = piece.file
    listed = shown_rows(file, spans(file, piece.edits, context), room)
    return listed if piece.part is None else listed[slice(*piece.part)]


def _has_changes(piece: Piece, context: int, room: int) -> bool:
    """Whether any row shows what changed; a file without edits has a heading that does."""
    is_changed = any(row.mark in (NEW, REMOVED) for row in rows_of(piece, context, room))
    return is_changed or not piece.edits


def _piece(file: ReadableFile, edits: tuple[LineEdit, ...], context: int, room: int) -> Piece:
    piece = Piece(file, edits, 0)
    return piece.replace(size=size_of(rows_of(piece, context, room)) + heading(file).size)


def _cut(piece: Piece, context: int, fill: int, room: int) -> list[Piece]:
    """Parts of the rows of one piece, cut before definitions where one is near."""
    file = piece.file
    listed = rows_of(piece, context, room)
    borders = {symbol.line_start for symbol in file.symbols}
    fill -= heading(file).size
    pieces, first = [], 0
    while first < len(listed):
        end, used = first, 0
        while end < len(listed) and (end == first or used + listed[end].size <= fill):
            used += listed[end].size
            end += 1
        if end < len(listed):
            half = first + (end - first) // 2
            end = next((at for at in range(end, half, -1) if listed[at].new in borders), end)
        part = listed[first:end]
        pieces.append(piece.replace(size=size_of(part) + heading(file).size, part=(first, end)))
        first = end
    return pieces


def defined(file: ReadableFile, edits: Sequence[LineEdit]) -> list[str]:
    """The names whose definitions ``edits`` touch, by the last part of each."""
    names = []
    starts = sorted(file.symbols, key=lambda symbol: symbol.line_start)
    for edit in edits:
        names += [symbol.name for symbol in file.around[edit.at][-1:]]
        first = bisect_left(starts, edit.at, key=lambda symbol: symbol.line_start)
        last = bisect_right(starts, edit.last, key=lambda symbol: symbol.line_start)
        names += [symbol.name for symbol in starts[first:last]]
    return list(dict.fromkeys(map(used_name, names)))


def used_name(qualified: str) -> str:
    """The name by which others use a definition: of what makes a class, that of the class."""
    outer, _, last = qualified.rpartition(".")
    return outer.rpartition(".")[2] if outer and last in MAKERS else last


def packed(pieces: Sequence[Piece], context: int, fill: int, room: int) -> list[list[Piece]]:
    """The pieces in groups of at most ``fill`` bytes; related ones together, then the small."""
    relations = _relations(pieces, [_words(piece, context, room) for piece in pieces])
    left = dict.fromkeys(sorted(range(len(pieces)), key=lambda at: _seed(pieces[at], at)))
    groups: list[list[int]] = []
    while left:
        first = next(iter(left))
        del left[first]
        group, used = [first], pieces[first].size
        gains = Counter(relations.get(first, {}))
        while True:
            fitting = [
                (gain, -at)
                for at, gain in gains.items()
                if at in left and used + pieces[at].size <= fill
            ]
            if not fitting:
                break
            at = -max(fitting)[1]
            del left[at]
            group.append(at)
            used += pieces[at].size
            gains.update(relations.get(at, {}))
        groups.append(group)
    return [[pieces[at] for at in group] for group in _filled(groups, pieces, fill)]


def _seed(piece: Piece, at: int) -> tuple[bool, bool, int, int]:
    """The order of beginnings: code before its tests and documents, the largest first."""
    file = piece.file
    return file.kind != CODE, subject_of(file.path) is not None, -piece.size, at


def _filled(groups: list[list[int]], pieces: Sequence[Piece], room: int) -> list[list[int]]:
    """The same groups, those that fit one prompt together in one."""
    filled: list[list[int]] = []
    sizes: list[int] = []
    for group in groups:
        size = sum(pieces[at].size for at in group)
        for number, used in enumerate(sizes):
            if used + size <= room:
                filled[number] += group
                sizes[number] += size
                break
        else:
            filled.append([*group])
            sizes.append(size)
    return filled


def _relations(pieces: Sequence[Piece], words: Sequence[set[str]]) -> dict[int, dict[int, float]]:
    """How much each two pieces have to do with each other."""
    users: dict[str, list[int]] = {}
    definers: dict[str, list[int]] = {}
    stems: dict[str, list[int]] = {}
    for at, piece in enumerate(pieces):
        file = piece.file
        for word in sorted(words[at]):
            users.setdefault(word, []).append(at)
        for name in dict.fromkeys((*defined(file, piece.edits), *map(used_name, file.removed))):
            definers.setdefault(name, []).append(at)
        stems.setdefault(file.path.rpartition("/")[2].partition(".")[0].lower(), []).append(at)
    weights: dict[int, dict[int, float]] = {}
    for this, other, weight in _related(pieces, users, definers, stems):
        for first, second in ((this, other), (other, this)) if this != other else ():
            row = weights.setdefault(first, {})
            row[second] = row.get(second, 0.0) + weight
    return weights


def _related(
    pieces: Sequence[Piece],
    users: Mapping[str, Sequence[int]],
    definers: Mapping[str, Sequence[int]],
    stems: Mapping[str, Sequence[int]],
) -> Iterator[tuple[int, int, float]]:
    """Pairs of pieces with a weight: by a name, as code and its test, as neighbours in a file."""
    for name, some in definers.items():
        using = users.get(name, ())
        if len(name) >= _NAME and len(some) * len(using) <= _SHARED:
            yield from ((definer, other, 1.0 / len(using)) for definer in some for other in using)
    for at, piece in enumerate(pieces):
        for other in stems.get(subject_of(piece.file.path) or "", ())[:_SHARED]:
            yield at, other, 1.0
        if at and pieces[at - 1].file.path == piece.file.path:
            yield at, at - 1, 0.5


def _words(piece: Piece, context: int, room: int) -> set[str]:
    listed = rows_of(piece, context, room)
    return {word for row in listed for word in _WORD.findall(row.text) if len(word) >= _NAME}
