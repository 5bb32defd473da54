"""``index.json`` of a context object, version 1: what it holds, how it is written and read.

It is read as hostile data.

The table of chunks follows from the layout, except for the hashes, which only verifying needs. So
searching and reading take the head alone, if length and ends of the table fit: 17,000 chunks
take 40 ms to read. The shape is checked here, because the schema would take a second for them.
"""

from __future__ import annotations

import os
from itertools import chain

from rlm_ci.context.builder.file_table import Pieces
from rlm_ci.context.pointers import ChunkLayout, chunk_id
from rlm_ci.errors import ConfigError, DamagedError, RlmCiError
from rlm_ci.system import files
from rlm_ci.text.printable import encodable, printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from io import BufferedReader
    from typing import Any, NoReturn, TypeVar

    from rlm_ci.context.builder.file_table import SourceFile

    Found = TypeVar("Found")


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


#: Values in it cost more memory than their text: there is at most one in so many bytes.
_DENSITY = 16
#: Bytes of the longest line of ours, and of the lines that are read at once.
_LONGEST = 64 << 10
#: More than any source has.
_ANY = 1 << 62
_SHA256 = 64
_REASONS = 100
_PATH = 4096
_HINT = "build it again: rlm-ci context build SOURCE"


def read(folder: str) -> ContextIndex:
    """The index of the object in ``folder``. Raises ConfigError, DamagedError."""
    index = _look_in_own_layout(folder, _full_index)
    if index is not None:
        return index
    try:
        data = files.read_inside(folder, NAME, LIMIT)
    except files.UnreadableError as error:
        raise ConfigError(
            f"it is not a context object: {NAME}: {error}", where=printable(folder), hint=_HINT
        ) from None
    where = printable(os.path.join(folder, NAME))
    return _Reader(where).index(_record(data, where))


def read_head(folder: str) -> IndexHeader:
    """The head; of a table of chunks in our layout, only length and ends are checked."""
    return _look_in_own_layout(folder, _checked_head) or read(folder).head


def _look_in_own_layout(
    folder: str, look: Callable[[BufferedReader, _Reader], Found | None]
) -> Found | None:
    """The result of ``look`` at an index in our layout; None for any other, or an error."""
    path = os.path.join(folder, NAME)
    try:
        with open(files.open_regular(path, os.O_RDONLY), "rb") as stream:
            if os.fstat(stream.fileno()).st_size > LIMIT:
                return None
            return look(stream, _Reader(printable(path)))
    except (RlmCiError, OSError, ValueError, LookupError, TypeError, RecursionError):
        return None


def _full_index(stream: BufferedReader, reader: _Reader) -> ContextIndex | None:
    head = _head(stream, reader)
    record = _record(b'{"chunks": [' + stream.read(LIMIT), reader.where)
    if list(record) != ["chunks"]:
        return None
    return ContextIndex(head, reader.digests(record["chunks"], head.layout))


def _checked_head(stream: BufferedReader, reader: _Reader) -> IndexHeader | None:
    head = _head(stream, reader)
    at, end = stream.tell(), os.fstat(stream.fileno()).st_size

    def part(offset: int, size: int) -> bytes:
        return os.pread(stream.fileno(), size, offset)

    return head if looks_written(part, at, end, head.layout) else None


def _record(data: bytes, where: str) -> Any:
    """The JSON value. Memory is bounded by the length of the file."""
    import json

    if _is_dense(data):
        raise ConfigError("it has too many values for an index", where=where, hint=_HINT)
    try:
        return json.loads(data, parse_constant=_no_number)
    except RecursionError:
        what = "it is nested too deeply"
    except (ValueError, UnicodeDecodeError) as error:
        what = f"it is not valid JSON: {printable(str(error))[:200]}"
    raise ConfigError(what, where=where, hint=_HINT)


def _is_dense(data: bytes) -> bool:
    max_values = len(data) // _DENSITY + 100
    if sum(map(data.count, (b",", b"[", b"{"))) <= max_values:
        return False
    import re

    # Names of files may be full of brackets.
    values = 0
    for match in re.finditer(rb'"[^"\\]*+(?:\\.[^"\\]*+)*"|[\[{,]', data):
        values += match[0][0] != ord('"')
        if values > max_values:
            return True
    return False


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number")


def _head(stream: BufferedReader, reader: _Reader) -> IndexHeader:
    """The head of an index in our layout; leaves the stream at the rows of the table.

    Raises ValueError for another layout, and for errors in it.
    """
    header, pieces = b"", Pieces()
    mark = os.urandom(16).hex()  # in place of the files
    while (line := _line(stream)) != BEGIN[1:].encode():
        if line == FILES_BEGIN.encode() and not pieces:
            line = b'    "files": "%b"%b' % (mark.encode(), _files(stream, reader, pieces))
        header += line
        if len(header) > _LONGEST:
            raise ValueError("the head is too long")
    record = _record(header + line + b"]}", reader.where)
    if not pieces:
        return reader.head(record)
    if record["source"].pop("files") != mark:
        raise ValueError("the files are those of something else")
    head = reader.head(record).replace(files=pieces)
    if pieces.ends[-1] > head.layout.size:
        raise ValueError("the files leave the source")
    return head


def _line(stream: BufferedReader) -> bytes:
    line = stream.readline(_LONGEST)
    if not line.endswith(b"\n"):
        raise ValueError("a line is too long, or has no end")
    return line


def _files(stream: BufferedReader, reader: _Reader, pieces: Pieces) -> bytes:
    """Add the files whose lines follow; returns the rest of the line that ends them."""
    from json import loads

    lines: list[bytes] = []
    size = 0
    while True:
        line = _line(stream)
        is_end = line.startswith(FILES_END.encode())
        if is_end or size > _LONGEST:
            text = b"".join(lines).rstrip()
            if text.endswith(b",") == is_end:
                raise ValueError("the files are laid out in another way")
            records = loads(b"[%b]" % text.removesuffix(b","), parse_constant=_no_number)
            reader.pieces(records, _ANY, pieces)
            lines, size = [], 0
        if is_end:
            return line[len(FILES_END.encode()) :]
        lines.append(line)
        size += len(line)


class _Reader:
    def __init__(self, where: str) -> None:
        self.where = where

    def index(self, record: Any) -> ContextIndex:
        head = self.head(record)
        return ContextIndex(head, self.digests(record["chunks"], head.layout))

    def head(self, record: Any) -> IndexHeader:
        version = record.get("version") if type(record) is dict else None
        if type(version) is int and version > VERSION:
            raise DamagedError(
                f"the index has version {version}, this rlm-ci knows {VERSION}",
                where=self.where,
                hint="install a newer rlm-ci",
            )
        top = {"object_id": str, "created_at": str, "source": dict, "chunking": dict,
               "chunks": list}  # fmt: skip
        self._require(type(version) is int and version == VERSION, f"it has no version {VERSION}")
        object_id, created_at, source, chunking, _ = self._fields(record, "", top)
        kind, _, digest = object_id.partition(":")
        fine = kind == "sha256" and _is_hex(digest, _SHA256)
        self._require(fine, "object_id is not sha256:<hex>")
        self._require(len(created_at) <= _REASONS, "created_at is too long")
        path, size = self._fields(source, "source.", {"path": str, "byte_length": int})
        self._require(path == SOURCE, f"source.path is not {SOURCE}")
        self._require(size >= 0, "source.byte_length is negative")
        names = {"target_bytes": int, "overlap_bytes": int, "strategy": str}
        target, overlap, strategy = self._fields(chunking, "chunking.", names)
        self._require(strategy == STRATEGY, f"chunking.strategy is not {STRATEGY!r}")
        layout = ChunkLayout(size, target, overlap)
        flaw = layout.flaw()
        if flaw is not None:
            raise self._damage(flaw)
        pieces = self.pieces(source.get("files", []), size, Pieces())
        numbers = (self._numbers(source.get(name, {}), name) for name in ("omitted", "decoded"))
        return IndexHeader(object_id, created_at, layout, pieces, *numbers)

    def digests(self, chunks: list[Any], layout: ChunkLayout) -> bytes:
        """The hashes of the chunks; their bounds must be those of the layout."""
        if len(chunks) != layout.count:
            raise self._damage(
                f"it lists {len(chunks):,} chunks, where its chunking makes {layout.count:,}"
            )
        try:
            ids, starts, stops, hashes = (
                [chunk[name] for chunk in chunks] for name in ("id", "start", "end", "sha256")
            )
        except (KeyError, TypeError, IndexError):
            raise self._wrong("a chunk does not have id, start, end and sha256") from None
        if chunks:
            step, stop = layout.step, layout.count * layout.step
            ends = range(layout.target, layout.target + stop - step, step)
            self._compare("id", ids, [chunk_id(number) for number in range(layout.count)])
            self._compare("start", starts, list(range(0, stop, step)))
            self._compare("end", stops, [*ends, layout.size])
        return self._bytes_of(hashes)

    def _compare(self, name: str, stored: list[Any], right: list[Any]) -> None:
        """Raise DamagedError, which names the chunk, for a wrong value in a column."""
        # 1.0 and true are equal to 1, and wrong.
        if stored == right and {type(value) for value in stored} == {type(right[0])}:
            return
        for number, (value, other) in enumerate(zip(stored, right, strict=True)):
            if value != other or type(value) is not type(other):
                raise self._damage(
                    f"chunk {chunk_id(number)}: {name} is {_shown(value)}, where the chunking "
                    f"makes it {_shown(other)}"
                )

    def _bytes_of(self, hashes: list[Any]) -> bytes:
        try:
            digests = bytes.fromhex("".join(hashes))
            # fromhex skips white space.
            if len(digests) == 32 * len(hashes) and digests.hex("\n", 32) == "\n".join(hashes):
                return digests
        except (ValueError, TypeError):
            pass
        number = next(at for at, text in enumerate(hashes) if not _is_hex(text, _SHA256))
        raise self._damage(f"chunk {chunk_id(number)}: sha256 is {_shown(hashes[number])}")

    def pieces(self, records: Any, size: int, pieces: Pieces) -> Pieces:
        """Add the files in ``records`` to those that are ``pieces``."""
        self._require(type(records) is list, "source.files is not a list")
        end = pieces.ends[-1] if pieces else 0
        for number, record in enumerate(records, len(pieces)):
            name = f"source.files[{number}]."
            path, start, stop = self._fields(record, name, {"path": str, "start": int, "end": int})
            if "path_b64" in record:
                path = self._path(record["path_b64"], name)
            self._require(_is_path(path), f"{name}path is not a path")
            blob = record.get("blob")
            self._require(blob is None or _is_hex(blob, 40) or _is_hex(blob, 64),
                          f"{name}blob is not an object id")  # fmt: skip
            if not end <= start <= stop <= size:
                raise self._damage(
                    f"{name[:-1]} ({printable(path[:200])}) has bytes {start}-{stop}, which do not "
                    f"follow {end} or leave the source"
                )
            read_as = record.get("read_as", "")
            self._require(type(read_as) is str and len(read_as) <= _REASONS,
                          f"{name}read_as is not a short text")  # fmt: skip
            pieces.add(path, start, stop, blob, read_as)
            end = stop
        return pieces

    def _path(self, text: Any, name: str) -> str:
        from base64 import b64decode

        try:
            return b64decode(text, validate=True).decode("utf-8", "surrogateescape")
        except (ValueError, TypeError):
            raise self._wrong(f"{name}path_b64 is not base64") from None

    def _numbers(self, record: Any, name: str) -> dict[str, int]:
        fine = type(record) is dict and len(record) <= _REASONS and all(
            len(why) <= _REASONS and type(number) is int and number >= 0
            for why, number in record.items()
        )  # fmt: skip
        self._require(fine, f"source.{name} does not count reasons")
        return dict(record)

    def _fields(self, record: Any, name: str, types: Mapping[str, type]) -> list[Any]:
        self._require(type(record) is dict, f"{name.rstrip('.') or 'the index'} is no object")
        for key, kind in types.items():
            if type(record.get(key)) is not kind:
                raise self._wrong(f"{name}{key} is missing or of the wrong type")
        return [record[key] for key in types]

    def _require(self, condition: object, what: str) -> None:
        if not condition:
            raise self._wrong(what)

    def _wrong(self, what: str) -> ConfigError:
        hint = f"it must follow schemas/context.schema.json; {_HINT}"
        return ConfigError(f"it is not an index of a context: {what}", where=self.where, hint=hint)

    def _damage(self, what: str) -> DamagedError:
        return DamagedError(f"the index is damaged: {what}", where=self.where, hint=_HINT)


def _is_path(text: str) -> bool:
    try:
        return 0 < len(text.encode("utf-8", "surrogateescape")) <= _PATH and "\0" not in text
    except UnicodeEncodeError:
        return False


def _is_hex(text: object, length: int) -> bool:
    return type(text) is str and len(text) == length and not text.strip("0123456789abcdef")


def _shown(value: object) -> str:
    return printable(repr(value)[:80])
