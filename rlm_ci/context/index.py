"""The content of ``index.json`` of a context object, version 1, and how it is written."""

from __future__ import annotations

import os

from rlm_ci.context import chunk_table
from rlm_ci.text.printable import encodable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rlm_ci.context.builder.file_table import Pieces, SourceFile
    from rlm_ci.context.pointers import ChunkLayout

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
            yield from chunk_table.lines(map(_piece_record, head.files))
            yield FILES_END
        if head.omitted:
            yield f',\n    "omitted": {dumps(head.omitted)}'
        if head.decoded:
            yield f',\n    "decoded": {dumps(head.decoded)}'
        yield (
            f'\n  }},\n  "chunking": {{"target_bytes": {layout.target}, '
            f'"overlap_bytes": {layout.overlap}, "strategy": "{STRATEGY}"}},{chunk_table.BEGIN}'
        )
        yield from chunk_table.written(layout, self.digests)


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
