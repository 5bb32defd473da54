"""The content of ``index.json`` of a context object, version 1, and how it is written.

All but the hashes follows from the layout, so length and ends show whether a table is ours.
"""

from __future__ import annotations

import os
from itertools import chain

from rlm_ci.text.printable import encodable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from rlm_ci.context.builder.file_table import Pieces, SourceFile
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


VERSION = 1
NAME = "index.json"
SOURCE = "source.txt"
STRATEGY = "byte"
#: Bytes of an index: room for MAX_CHUNKS and some 100,000 files.
LIMIT = 64 << 20
#: Lines by which the files begin and end.
FILES_BEGIN = '    "files": [\n'
FILES_END = "    ]"


class IndexHeader(Value):
    """``index.json`` without the hashes of the chunks."""

    object_id: str
    created_at: str
    layout: ChunkLayout
    files: Pieces
    omitted: Mapping[str, int] = {}
    decoded: Mapping[str, int] = {}


class ContextIndex(Value):
    """All of ``index.json``. ``digests`` has 32 bytes of SHA-256 for each chunk."""

    head: IndexHeader
    digests: bytes

    def digest(self, chunk: int) -> str:
        """The SHA-256 of the chunk at this index, in hex."""
        return self.digests[32 * chunk : 32 * chunk + 32].hex()

    def to_json(self) -> Iterator[str]:
        """The text of the file, in parts: a chunk a line, a file a line."""
        from json import dumps

        head, layout = self.head, self.head.layout
        yield (
            f'{{\n  "version": {VERSION},\n  "object_id": "{head.object_id}",\n'
            f'  "created_at": {dumps(head.created_at)},\n'
            f'  "source": {{\n    "path": "{SOURCE}",\n    "byte_length": {layout.size}'
        )
        if head.files:
            yield f",\n{FILES_BEGIN}"
            yield from lines(map(_piece_record, head.files))
            yield FILES_END
        if head.omitted:
            yield f',\n    "omitted": {dumps(head.omitted)}'
        if head.decoded:
            yield f',\n    "decoded": {dumps(head.decoded)}'
        yield (
            f'\n  }},\n  "chunking": {{"target_bytes": {layout.target}, '
            f'"overlap_bytes": {layout.overlap}, "strategy": "{STRATEGY}"}},{BEGIN}'
        )
        yield from written(layout, self.digests)


def _piece_record(piece: SourceFile) -> str:
    from json import dumps

    path = encodable(piece.path)
    path_b64 = ""
    if path != piece.path:
        from base64 import b64encode

        path_b64 = f', "path_b64": "{b64encode(os.fsencode(piece.path)).decode()}"'
    read_as = f', "read_as": {dumps(piece.read_as)}' if piece.read_as else ""
    return (
        f'      {{"path": {dumps(path)}{path_b64}, "start": {piece.start}, "end": {piece.end}, '
        f'"blob": {dumps(piece.blob)}{read_as}}}'
    )
