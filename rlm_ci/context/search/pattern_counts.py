"""Counts what a regular expression finds in the lines of a context.

A line ends at a line break, and with its file. A hit belongs to the chunk that holds its first
byte, and counts once.
"""

from __future__ import annotations

from bisect import bisect_right
from heapq import nsmallest

from rlm_ci.text.patterns import PER_CHARACTER, SECONDS, LinePattern, PatternError
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from regex import Match

    from rlm_ci.context.context import Context

    Span = tuple[int, int]

CHUNK, FILE, GROUPS = "chunk", "file", "groups"
_BLOCK = 1 << 20
#: Bytes of a line, which memory holds, characters of what groups capture, and different values.
_LINE = 256 << 20
_VALUE = 200
_VALUES = 200_000


class CountRow(Value):
    """The number of ``hits`` of one chunk, file or value of the groups.

    ``spans`` are the bytes of the chunk or the file, or those of the groups in the first hit.
    """

    spans: tuple[Span, ...]
    hits: int


class PatternCount(Value):
    """The ``hits`` in all, and the ``lines`` and ``chunks`` with any.

    ``values`` is the number of different chunks, files or values that were counted ``by``;
    ``rows`` are those with the most hits, ``first`` the bytes of the first hits.
    """

    by: str
    hits: int
    lines: int
    chunks: int
    values: int
    rows: tuple[CountRow, ...]
    first: tuple[Span, ...]

    @property
    def captured(self) -> tuple[Span, ...]:
        """The bytes of the values of groups in ``rows``."""
        if self.by != GROUPS:
            return ()
        return tuple(span for row in self.rows for span in row.spans if span[0] < span[1])


def count(
    context: Context, pattern: str, spans: Sequence[Span], *, fold: bool, by: str, rows: int,
    first: int,
) -> PatternCount:  # fmt: skip
    """Count in ``spans`` of the source; ``by`` "" is by groups if there are any, else by chunk.

    Raises PatternError for a wrong or slow expression, a line that is too long, and values of
    groups that are too long or too many; DamagedError, StorageError.
    """
    seconds = SECONDS + PER_CHARACTER * sum(end - start for start, end in spans)
    compiled = LinePattern(pattern, fold=fold, seconds=seconds)
    by = by or (GROUPS if compiled.groups else CHUNK)
    if by == GROUPS and not compiled.groups:
        raise PatternError("there is no group to count by: put what to count in parentheses")
    tally = _Tally(context, by, first)
    for start, end in spans:
        for at, line in _lines(context, start, end):
            text = line.removesuffix(b"\r").decode("utf-8", "surrogateescape")
            tally.add(at, text, compiled.matches(text), start, end)
    return tally.result(rows)


class _Tally:
    def __init__(self, context: Context, by: str, first: int) -> None:
        self._context = context
        self._by = by
        self._most_first = first
        self._hits = self._lines = self._chunks = 0
        self._chunk = -1
        self._first: list[Span] = []
        #: The hits, and the spans, by chunk, file or value.
        self._rows: dict[Any, list[Any]] = {}

    def add(self, at: int, line: str, matches: Iterator[Match[str]], start: int, end: int) -> None:
        """Count the ``matches`` in ``line``, which begins at byte ``at``, from start to end."""
        offset = _offsets(at, line)
        before = self._hits
        for match in matches:
            byte = offset(match.start())
            if byte < start:
                continue
            if byte >= end:
                break
            self._hits += 1
            chunk = self._context.layout.at(byte)
            self._chunks += chunk != self._chunk
            self._chunk = chunk
            if len(self._first) < self._most_first:
                self._first.append((byte, offset(match.end())))
            key = self._key(match, byte, chunk)
            row = self._rows.get(key)
            if row is not None:
                row[0] += 1
                continue
            if len(self._rows) == _VALUES:
                raise PatternError(f"there are more than {_VALUES:,} different values: count less")
            self._rows[key] = [1, self._spans(match, key, offset)]
        self._lines += self._hits > before

    def _key(self, match: Match[str], byte: int, chunk: int) -> Any:
        if self._by == CHUNK:
            return chunk
        if self._by == FILE:
            return bisect_right(self._context.files.ends, byte)
        values = match.groups("")
        if sum(map(len, values)) > _VALUE:
            raise PatternError(f"the groups capture more than {_VALUE} characters: capture less")
        return values

    def _spans(self, match: Match[str], key: Any, offset: Callable[[int], int]) -> tuple[Span, ...]:
        if self._by == CHUNK:
            return (self._context.layout.bounds(key),)
        if self._by == FILE:
            files = self._context.files
            return ((files[key].start, files[key].end),) if key < len(files) else ()
        places = (match.span(number) for number in range(1, len(key) + 1))
        return tuple(
            (0, 0) if first < 0 else (offset(first), offset(last)) for first, last in places
        )

    def result(self, limit: int) -> PatternCount:
        numbered_rows = enumerate(self._rows.values())
        best = nsmallest(limit, numbered_rows, key=lambda pair: (-pair[1][0], pair[0]))
        return PatternCount(
            self._by,
            self._hits,
            self._lines,
            self._chunks,
            len(self._rows),
            tuple(CountRow(spans, hits) for _, (hits, spans) in best),
            tuple(self._first),
        )


def _offsets(at: int, line: str) -> Callable[[int], int]:
    """From a character of ``line`` to its byte; fast for characters that are near each other."""
    if line.isascii():
        return at.__add__
    position, byte = 0, at

    def offset(character: int) -> int:
        nonlocal position, byte
        if character >= position:
            byte += len(line[position:character].encode("utf-8", "surrogateescape"))
        else:
            byte -= len(line[character:position].encode("utf-8", "surrogateescape"))
        position = character
        return byte

    return offset


def _lines(context: Context, start: int, end: int) -> Iterator[tuple[int, bytes]]:
    """The lines with any of the bytes from ``start`` to ``end``, whole, with their offsets."""
    for begin, stop in _stretches(context, start, end):
        at = _line_start(context, max(begin, start), begin)
        read = at
        parts: list[bytes] = []
        while read < stop and at < end:
            block = context.raw(read, min(read + _BLOCK, stop))
            read += len(block)
            parts.append(block)
            if b"\n" not in block:
                if read - at > _LINE:
                    raise _too_long(at)
                continue
            *lines, remainder = b"".join(parts).split(b"\n")
            for line in lines:
                if at >= end:
                    return
                if len(line) > _LINE:
                    raise _too_long(at)
                yield at, line
                at += len(line) + 1
            parts = [remainder]
        if at < min(end, read):
            yield at, b"".join(parts)


def _stretches(context: Context, start: int, end: int) -> Iterator[Span]:
    """The files with any of the bytes from ``start`` to ``end``, and what is between files."""
    files = context.files
    number = bisect_right(files.ends, start)
    at = files.ends[number - 1] if number else 0
    while at < end:
        borders = (files.starts[number], files.ends[number]) if number < len(files) else ()
        border = next((edge for edge in borders if edge > at), context.byte_length)
        if border > start:
            yield at, border
        at = border
        while number < len(files) and files.ends[number] <= at:
            number += 1


def _line_start(context: Context, byte: int, minimum: int) -> int:
    first = byte
    while first > minimum:
        begin = max(minimum, first - _BLOCK)
        at = context.raw(begin, first).rfind(b"\n")
        if at >= 0:
            return begin + at + 1
        first = begin
        if byte - first > _LINE:
            raise _too_long(first)
    return first


def _too_long(byte: int) -> PatternError:
    return PatternError(
        f"the line at byte {byte} is longer than {_LINE:,} bytes: count in files or chunks "
        "without it"
    )
