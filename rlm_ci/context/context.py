"""A long text as an object on disk: read, searched and named by pointers, never all in memory.

A folder has ``source.txt``, the bytes of the source, and ``index.json``, which cuts them into
chunks. Offsets are exact bytes of the source. Texts end on borders of characters.
"""

from __future__ import annotations

import os
from bisect import bisect_right

from rlm_ci.context import index_reader
from rlm_ci.context.builder.file_table import SourceFile
from rlm_ci.context.line_numbers import FileLines, LineCounter
from rlm_ci.context.pointers import PointerError, Pointers, chunk_id
from rlm_ci.context.search.search import search
from rlm_ci.errors import ConfigError, DamagedError, StorageError
from rlm_ci.system import files
from rlm_ci.text.printable import count, printable
from rlm_ci.values import Closing, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, Self

    from rlm_ci.context.builder.digests import ContextDigests
    from rlm_ci.context.search.search import NeedleMatches


#: A character of UTF-8 has at most so many bytes after its first.
REST = 3


class Excerpt(Value):
    """Bytes ``start`` to ``end`` of the source as a text, with U+FFFD for invalid UTF-8.

    Characters that an edge cuts are left out. ``truncated``: the pointer's range is longer.
    """

    start: int
    end: int
    text: str
    truncated: bool


class Hit(Value):
    """The hits of one query in one chunk: their number is the score, the bytes are the first's.

    ``preview`` is the text around it, bytes ``preview_start`` to ``preview_end`` of the source.
    """

    pointer: str
    start_byte: int
    end_byte: int
    score: int
    preview: str
    preview_start: int
    preview_end: int

    def to_dict(self) -> dict[str, Any]:
        names = ("pointer", "start_byte", "end_byte", "score", "preview")
        return {name: getattr(self, name) for name in names}


class QueryResult(Value):
    """The hits of one query: in all, and in the best chunks."""

    query: str
    total_hits: int
    chunks_matched: int
    hits: tuple[Hit, ...]


def cut_character(data: bytes, at: int) -> tuple[int, int]:
    """Start and end of the character that a cut at ``at`` would halve; ``at`` twice if none."""
    if 0 < at < len(data) and data[at] & 0xC0 == 0x80:
        for start in range(at - 1, max(-1, at - 1 - REST), -1):
            lead = data[start]
            if lead & 0xC0 != 0x80:
                end = start + (2 if lead < 0xE0 else 3 if lead < 0xF0 else 4)
                if lead >= 0xC0 and end > at and _is_character(data[start:end]):
                    return start, end
                break
    return at, at


def fitting(data: bytes, size: int) -> int:
    """The bytes of ``data`` that become a text of at most ``size`` bytes: invalid UTF-8 grows."""
    if text_length(data) <= size:
        return len(data)
    at = bisect_right(range(len(data)), size, key=lambda at: text_length(data[:at])) - 1
    return cut_character(data, at)[0]


def text_length(data: bytes) -> int:
    """The bytes of the text that ``data`` becomes."""
    return len(data.decode("utf-8", "replace").encode())


def _is_character(data: bytes) -> bool:
    try:
        return len(data.decode()) == 1
    except UnicodeDecodeError:
        return False


__all__ = (
    "Context",
    "Excerpt",
    "FileLines",
    "Hit",
    "PointerError",
    "QueryResult",
    "SourceFile",
)

#: Most bytes that one read returns.
READ_LIMIT = 16 << 20
#: This part of a preview may be before the hit.
_BEFORE = 4
_HINT = "build it again: rlm-ci context build SOURCE"


class Context(Closing):
    """An object that is open for reading; threads may share it.

    Only :meth:`verify` checks that the source has not changed.
    """

    def __init__(self, folder: str, header: index_reader.IndexHeader, descriptor: int) -> None:
        self._descriptor = descriptor
        self._whole: index_reader.ContextIndex | None = None
        self.folder = folder
        self.source_path = os.path.join(folder, index_reader.SOURCE)
        self.header = header
        self.layout = header.layout
        self.object_id = header.object_id
        self.created_at = header.created_at
        self.byte_length = header.layout.size
        self.chunk_count = header.layout.count
        self.target_bytes = header.layout.target
        self.overlap_bytes = header.layout.overlap
        self.files = header.files
        self.omitted = header.omitted
        self.decoded = header.decoded
        #: What a reader must know of the source; a run replaces it by what its record has.
        self.notes = notes(header.omitted, header.decoded)
        self._pointers = Pointers(header.object_id, header.layout)
        self.resolve = self._pointers.resolve
        self.pointer = self._pointers.to_chunk
        self._lines = LineCounter(header.files, self.raw)

    @classmethod
    def open(cls, folder: str) -> Self:
        """The object in ``folder``; checks lengths, and what reading and searching need.

        Raises ConfigError if there is none, DamagedError for a damaged one, or a newer version.
        """
        header = index_reader.read_head(folder)
        path = os.path.join(folder, index_reader.SOURCE)
        try:
            descriptor = files.open_regular(path, os.O_RDONLY)
        except OSError as error:
            raise ConfigError(
                f"it is not a context object: {index_reader.SOURCE}: {error.strerror}",
                where=printable(folder),
                hint=_HINT,
            ) from None
        size = os.fstat(descriptor).st_size
        if size != header.layout.size:
            os.close(descriptor)
            raise DamagedError(
                f"the source has {size:,} bytes, but its index says {header.layout.size:,}",
                where=printable(path),
                hint=_HINT,
            )
        return cls(folder, header, descriptor)

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        if getattr(self, "_descriptor", -1) >= 0:
            self.close()

    # ── what it is ──

    def full_index(self) -> index_reader.ContextIndex:
        """The whole index, with the hashes of the chunks. Raises ConfigError, DamagedError."""
        if self._whole is None:
            context_index = index_reader.read(self.folder)
            if context_index.head != self.header:
                raise self._damage("it is another one by now", index_reader.NAME)
            self._whole = context_index
        return self._whole

    def stamp(self) -> dict[str, int]:
        """What changes with the source, as far as it shows without reading it."""
        status = os.fstat(self._descriptor)
        return {
            "device": status.st_dev,
            "inode": status.st_ino,
            "size": status.st_size,
            "mtime_ns": status.st_mtime_ns,
            "ctime_ns": status.st_ctime_ns,
        }

    def verify(self) -> dict[str, int]:
        """Hash all of it again; returns the stamp of the verified source.

        Raises DamagedError, which names the chunk or file that has changed, ConfigError.
        """
        from rlm_ci.context.builder import digests  # with hashlib, a tenth of a search's start

        self.full_index()
        before = self.stamp()
        digits = next((len(piece.blob) for piece in self.files if piece.blob), 40)
        try:
            context_digests = digests.digest(self._descriptor, self.layout, self.files, digits)
        except digests.ShrunkError:
            raise self._damage("it has become shorter") from None
        except OSError as error:
            raise self._unreadable(error) from None
        self._compare(context_digests)
        if self.stamp() != before:
            raise self._damage("it is being changed")
        return before

    def _compare(self, context_digests: ContextDigests) -> None:
        source_id, right = f"sha256:{context_digests.source}", self.full_index()
        bad = [
            number
            for number in range(self.chunk_count)
            if context_digests.chunks[32 * number : 32 * number + 32].hex() != right.digest(number)
        ] if context_digests.chunks != right.digests else []  # fmt: skip
        if bad:
            start, end = self.layout.bounds(bad[0])
            more = f", and {count(len(bad) - 1, 'chunk')} more" if len(bad) > 1 else ""
            name = f"chunk {chunk_id(bad[0])} (bytes {start}-{end})"
            if source_id == self.object_id:  # the source has not changed: the hash has
                raise self._damage(f"the sha256 of {name} is not its own{more}", index_reader.NAME)
            raise self._damage(f"{name} is not what was indexed{more}")
        if source_id != self.object_id:
            raise self._damage("object_id is not that of the source", index_reader.NAME)
        if context_digests.blobs == self.files.blobs:
            return
        for number, piece in enumerate(self.files):
            if piece.blob not in (None, context_digests.blobs[number]):
                name = printable(piece.path)
                raise self._damage(
                    f"the blob of {name} is not that of its bytes", index_reader.NAME
                )

    def _damage(self, what: str, name: str = index_reader.SOURCE) -> DamagedError:
        where = printable(os.path.join(self.folder, name))
        return DamagedError(f"the context is damaged: {what}", where=where, hint=_HINT)

    def _unreadable(self, error: OSError) -> StorageError:
        return StorageError(
            f"the source cannot be read: {error.strerror}",
            where=printable(self.source_path),
            hint="check its disk",
        )

    # ── reading ──

    def read(self, pointer: str, size: int = 8192, offset: int = 0) -> Excerpt:
        """At most ``size`` bytes from ``offset`` of what ``pointer`` names, never beyond its end.

        The text, too, has no more than ``size`` bytes. Raises PointerError.
        """
        first, last = self.resolve(pointer)
        start = min(first + max(0, offset), last)
        return self._excerpt(start, min(start + max(0, size), last), last, max(0, size))

    def read_span(self, start: int, end: int) -> Excerpt:
        """Bytes ``start`` to ``end``, as far as the source has them; the text is no longer."""
        size = max(0, end - start)
        start = min(max(0, start), self.byte_length)
        end = min(max(start, end), self.byte_length)
        return self._excerpt(start, end, end, size)

    def raw(self, start: int, end: int) -> bytes:
        """Bytes ``start`` to ``end`` of the source, at most READ_LIMIT.

        Raises DamagedError, StorageError.
        """
        size = min(end - start, READ_LIMIT)
        if size <= 0:
            return b""
        try:
            data = os.pread(self._descriptor, size, start)
            while len(data) < size and (more := os.pread(
                self._descriptor, size - len(data), start + len(data)
            )):  # fmt: skip
                data += more
        except OSError as error:
            raise self._unreadable(error) from None
        if len(data) < size and end <= self.byte_length:
            raise self._damage("it has become shorter")
        return data

    def _excerpt(self, start: int, end: int, last: int, size: int) -> Excerpt:
        """At most ``size`` bytes of text from ``start`` to ``end``, of a span up to ``last``."""
        end = min(end, start + READ_LIMIT)
        # With the bytes around it: an edge may cut a character.
        before = max(0, start - REST)
        data = self.raw(before, min(end + REST, self.byte_length))
        head = cut_character(data, start - before)[1]
        tail = cut_character(data, end - before)[0]
        if head > tail:
            head = tail = start - before
        tail = head + fitting(data[head:tail], size)
        text = data[head:tail].decode("utf-8", "replace")
        return Excerpt(before + head, before + tail, text, before + tail < last)

    # ── searching ──

    def search(
        self, queries: Sequence[str], *, top_k: int = 20, preview_bytes: int = 512
    ) -> tuple[QueryResult, ...]:
        """The hits of each query, in any case, in one pass for all.

        Blanks around a query are removed; an empty one has no hits. Chunks with the most hits
        come first, then those with the earliest first hit. Raises DamagedError, StorageError.
        """
        needles = [_encoded(query.strip()) for query in queries]
        distinct_needles = list(dict.fromkeys(needle for needle in needles if needle))
        matches = search(
            self._descriptor,
            self.byte_length,
            distinct_needles,
            target=self.target_bytes,
            overlap=self.overlap_bytes,
            top_k=top_k,
            name=printable(self.source_path),
        )
        by_needle = dict(zip(distinct_needles, matches, strict=True))
        return tuple(
            self._query_result(query, needle, by_needle.get(needle), preview_bytes)
            for query, needle in zip(queries, needles, strict=True)
        )

    def _query_result(
        self, query: str, needle: bytes, matches: NeedleMatches | None, size: int
    ) -> QueryResult:
        if matches is None:
            return QueryResult(query, 0, 0, ())
        hits = tuple(
            self.hit(number, start, start + len(needle), score, size)
            for number, start, score in matches.hits
        )
        return QueryResult(query, matches.total, matches.chunks, hits)

    def hit(self, number: int, start: int, end: int, score: int, size: int) -> Hit:
        """A hit in a chunk, with the beginning of its line, if that is near and in the chunk."""
        first = max(self.layout.bounds(number)[0], start - size // _BEFORE)
        before = self.raw(first, start)
        if text_length(before) > size // _BEFORE + 2 * REST:  # no UTF-8: each byte may become three
            before = before[len(before) - size // _BEFORE // 3 :]
        first = start - len(before) + before.rfind(b"\n") + 1
        shown = self.read_span(first, first + size)
        pointer = self.pointer(number)
        return Hit(pointer, start, end, score, shown.text, shown.start, shown.end)

    # ── files ──

    def lines(self, start: int, end: int) -> tuple[FileLines, ...]:
        """The lines of files that bytes ``start`` to ``end`` are."""
        return self._lines.places(start, end)

    def first_places(self, start: int, end: int, limit: int) -> tuple[tuple[FileLines, ...], bool]:
        """As ``lines``, in the first ``limit`` files only, and whether there are more files."""
        first = bisect_right(self.files.ends, start)
        last = min(first + limit, len(self.files)) - 1
        if last < first:
            return (), False
        more = last + 1 < len(self.files) and self.files[last + 1].start < end
        return self.lines(start, min(end, self.files[last].end)), more


def notes(omitted: Mapping[str, int], decoded: Mapping[str, int]) -> tuple[str, ...]:
    """What the text does not have of its source, and what of it was decoded."""
    rows = (("left out", "", omitted), ("decoded", "from ", decoded))
    return tuple(
        f"{name}: " + "; ".join(f"{number:,} {word}{printable(kind)}"
                                for kind, number in numbers.items())
        for name, word, numbers in rows if numbers
    )  # fmt: skip


def _encoded(query: str) -> bytes:
    """The bytes of a query; invalid UTF-8 of a command line stays as it is."""
    try:
        return query.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return query.encode("utf-8", "surrogatepass")
