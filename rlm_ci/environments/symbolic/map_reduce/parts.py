"""The parts of a context that a map asks about: they cover it, and do not overlap."""

from __future__ import annotations

from rlm_ci.context.pointers import chunk_id
from rlm_ci.values import Row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlm_ci.context.context import Context
    from rlm_ci.context.scope import Scope

#: Bytes behind a border that are searched for the end of the line.
_LINE = 8192


class MapPart(Row):
    """``name`` is the chunk's, or the file's number, with a number for a further piece of it."""

    name: str
    start: int
    end: int


def parts(scope: Scope, context: Context, limit: int) -> list[MapPart]:
    """The parts of ``scope``: its chunks or files, in pieces of at most ``limit`` bytes.

    They do not overlap. A line is in the part with its first byte, if it is not too long. Raises
    PointerError.
    """
    if scope.files:
        size = min(limit, context.target_bytes)
        spans = [(f"f{n:06d}", *span) for n, span in enumerate(scope.spans(context), 1)]
    else:
        layout, size = context.layout, limit
        spans = [
            (
                chunk_id(at),
                _line_end(context, layout.start(at), size),
                _line_end(context, layout.start(at + 1), size),
            )
            for at in scope.chunk_range(context)
        ]
    return [part for span in spans for part in _pieces(context, *span, size)]


def number_of_parts(scope: Scope, context: Context) -> int:
    """The least number of parts, without reading the source. Raises PointerError."""
    return len(scope.spans(context)) if scope.files else len(scope.chunk_range(context))


def _pieces(context: Context, name: str, start: int, end: int, limit: int) -> Iterator[MapPart]:
    number = 1
    while start < end:
        stop = end
        if end - start > limit:
            data = context.raw(start, start + limit)
            stop = start + (data.rfind(b"\n") + 1 or limit)
        yield MapPart(name if number == 1 else f"{name}-{number}", start, stop)
        start, number = stop, number + 1


def _line_end(context: Context, byte: int, room: int) -> int:
    """The end of the line that begins before ``byte`` and goes on there."""
    if not 0 < byte < context.byte_length:
        return byte
    limit = min(_LINE, room, context.layout.step)
    distance = context.raw(byte - 1, byte - 1 + limit).find(b"\n")
    return byte if distance < 0 else byte + distance
