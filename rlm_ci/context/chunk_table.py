"""The table of chunks in ``index.json``, as we write it: a chunk a line.

All but the hashes follows from the layout, so length and ends show whether a table is ours.
"""

from __future__ import annotations

from itertools import chain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rlm_ci.context.pointers import ChunkLayout

#: Before and after it; no text of JSON has a line break.
BEGIN = '\n  "chunks": [\n'
END = "  ]\n}\n"
_HASH = 64
#: As ``pointers.chunk_id`` has the name; MAX_CHUNKS has six digits.
_ROW = '    {"id": "c%06d", "start": %d, "end": %d, "sha256": "%s"}'
_CLOSE = '"}'
_BETWEEN = ",\n"


def written(layout: ChunkLayout, digests: bytes) -> Iterator[str]:
    """The table and the end of the file, in parts; ``digests`` has 32 bytes a chunk."""
    ids, starts, ends = _columns(layout)
    rows = zip(ids, starts, chain(ends, (layout.size,)), _hashes(digests), strict=False)
    yield from lines(_ROW % row for row in rows)
    yield END


def lines(rows: Iterable[str]) -> Iterator[str]:
    """The rows of a list of JSON, a line each."""
    between = ""
    for row in rows:
        yield f"{between}{row}"
        between = _BETWEEN
    if between:
        yield "\n"


def _hashes(digests: bytes) -> Iterator[str]:
    return (digests[at : at + 32].hex() for at in range(0, len(digests), 32))


def looks_written(
    read: Callable[[int, int], bytes], at: int, end: int, layout: ChunkLayout
) -> bool:
    """Whether bytes ``at`` to ``end`` have the length, the first and the last row of our table.

    ``read`` takes an offset and a number of bytes.
    """

    def has(text: str, offset: int) -> bool:
        return read(offset, len(text)) == text.encode()

    if not layout.count:
        return end == at + len(END) and has(END, at)
    ids, starts, ends = _columns(layout)
    fixed = len(_ROW % (0, 0, 0, "")) - len("00") + _HASH + len(_BETWEEN)
    digits = _digits(starts) + _digits(ends) + len(str(layout.size))
    behind = at + layout.count * fixed + digits - len(_BETWEEN)
    first = (_ROW % (ids[0], starts[0], [*ends[:1], layout.size][0], "")).removesuffix(_CLOSE)
    last = (_ROW % (ids[-1], starts[-1], layout.size, "")).removesuffix(_CLOSE)
    return (
        end == behind + len("\n") + len(END)
        and has(first, at)
        and has(last, behind - len(_CLOSE) - _HASH - len(last))
        and has(f"{_CLOSE}\n{END}", behind - len(_CLOSE))
    )


def _columns(layout: ChunkLayout) -> tuple[range, range, range]:
    """The numbers and starts of the chunks, and the ends of all but the last."""
    starts = range(0, layout.count * layout.step, layout.step)
    return range(1, layout.count + 1), starts, range(layout.target, layout.size, layout.step)


def _digits(numbers: range) -> int:
    digits, power = len(numbers), 10
    while numbers and power <= numbers[-1]:
        digits += len(numbers) - max(0, -(-(power - numbers.start) // numbers.step))
        power *= 10
    return digits
