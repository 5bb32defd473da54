"""The table of chunks in ``index.json``, as we write it: a chunk a line.

All of it but the hashes follows from the layout. So its length and its ends tell whether a table
is one of ours, at no cost, where the hashes are not asked for.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rlm_ci.recursion.context.pointers import Layout

#: What stands before it, and behind. In JSON a line break is in no text: who finds the first of
#: them has found the table, or no index of ours.
BEGIN = '\n  "chunks": [\n'
END = "  ]\n}\n"
_HASH = 64
#: As ``pointers.chunk_id`` has the name; MAX_CHUNKS has six digits.
_ROW = '    {"id": "c%06d", "start": %d, "end": %d, "sha256": "%s"}'
_CLOSE = '"}'
_BETWEEN = ",\n"


def written(layout: Layout, digests: bytes) -> str:
    """The table, and what ends the file; ``digests`` has 32 bytes a chunk."""
    if not digests:
        return END
    hashes = digests.hex("\n", 32).split("\n")
    ids, starts, ends = _columns(layout)
    rows = map(_ROW.__mod__, zip(ids, starts, [*ends, layout.size], hashes, strict=True))
    return f"{_BETWEEN.join(rows)}\n{END}"


def looks_written(data: bytes, at: int, layout: Layout) -> bool:
    """Has what stands in ``data`` from ``at`` on the length, the first and the last row of it?"""
    if not layout.count:
        return data[at:] == END.encode()
    ids, starts, ends = _columns(layout)
    fixed = len(_ROW % (0, 0, 0, "")) - len("00") + _HASH + len(_BETWEEN)
    digits = _digits(starts) + _digits(ends) + len(str(layout.size))
    behind = at + layout.count * fixed + digits - len(_BETWEEN)
    first = (_ROW % (ids[0], starts[0], [*ends[:1], layout.size][0], "")).removesuffix(_CLOSE)
    last = (_ROW % (ids[-1], starts[-1], layout.size, "")).removesuffix(_CLOSE)
    return (
        data.startswith(first.encode(), at)
        and data.startswith(last.encode(), behind - len(_CLOSE) - _HASH - len(last))
        and data[behind - len(_CLOSE) :] == f"{_CLOSE}\n{END}".encode()
    )


def _columns(layout: Layout) -> tuple[range, range, range]:
    """The numbers and starts of the chunks, and where all but the last end."""
    starts = range(0, layout.count * layout.step, layout.step)
    return range(1, layout.count + 1), starts, range(layout.target, layout.size, layout.step)


def _digits(numbers: range) -> int:
    """How many digits all of these numbers have together."""
    found, power = len(numbers), 10
    while numbers and power <= numbers[-1]:
        found += len(numbers) - max(0, -(-(power - numbers.start) // numbers.step))
        power *= 10
    return found
