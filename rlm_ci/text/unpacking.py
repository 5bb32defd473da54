"""Compressed texts, opened block by block and within a limit; other binary data by its name."""

from __future__ import annotations

import codecs
from importlib import import_module
from io import BytesIO

from rlm_ci.text import encodings
from rlm_ci.text.encodings import AUTO, BYTES, SAMPLE, UTF8, Decoder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, BinaryIO, Final

_BLOCK: Final = 1 << 20
#: Bytes that all compressed texts of one source may have together.
UNPACKED: Final = 1 << 30
#: How many texts beyond that leave their room to others: each costs as much work.
SPARED: Final = 4
#: Bytes that a decompressor may need.
_MEMORY: Final = 128 << 20
#: Why a text cannot be read, in a word.
BINARY, DAMAGED, LARGE, ARCHIVE, NO_ZSTD = "binary", "damaged", "large", "archive", "zstd"
#: The extra that zstd needs, and the end of ``read_as`` if a setting says how.
ZSTD, SET = "zstd", "as set"
_PACKED: Final = (
    (b"\x1f\x8b", "gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\xfd7zXZ\0", "xz"),
    (b"PK\x03\x04", "zip"),
)
_AS_BYTES = "or search its bytes: --context-encoding bytes"
#: The beginning of binary data, where that is, what it is, and what makes text or files of it.
_SIGNATURES: Final = (
    (b"%PDF-", 0, "a PDF document", "pdftotext FILE FILE.txt"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", 0, "an old Office document",
     "libreoffice --headless --convert-to txt FILE"),
    (b"SQLite format 3\0", 0, "an SQLite database", "sqlite3 FILE .dump"),
    (b"LPKSHHRH", 0, "a journal of systemd", "journalctl --file FILE"),
    (b"\x7fELF", 0, "a program", "strings FILE"),
    (b"\x89PNG\r\n", 0, "a picture", "tesseract FILE OUTPUT"),
    (b"\xff\xd8\xff", 0, "a picture", "tesseract FILE OUTPUT"),
    (b"GIF89a", 0, "a picture", "tesseract FILE OUTPUT"),
    (b"BZh", 0, "bzip2 data", "bzip2 -dk FILE"),
    (b"7z\xbc\xaf\x27\x1c", 0, "a 7z archive", "7z x FILE"),
    (b"Rar!\x1a\x07", 0, "a RAR archive", "7z x FILE"),
    (b"\x04\x22\x4d\x18", 0, "LZ4 data", "lz4 -d FILE"),
    (b"ustar", 257, "a tar archive", "tar xf FILE"),
)  # fmt: skip
_NO_TEXT = ("no text", "strings FILE")


class UnreadableTextError(ValueError):
    """Why bytes are no text that can be read: ``reason`` in a word, and what to do."""

    def __init__(self, reason: str, what: str, hint: str) -> None:
        super().__init__(what)
        self.reason = reason
        self.hint = hint


class UnpackLimit:
    """The bytes that compressed texts of one source may still have."""

    def __init__(self, size: int = UNPACKED) -> None:
        self.size = self.left = size
        self._spared = SPARED

    def spend(self, size: int) -> None:
        """Raises UnreadableTextError if there are fewer."""
        self.left -= size
        if self.left < 0:
            what = f"it has more than {self.size:,} bytes when it is unpacked"
            raise UnreadableTextError(LARGE, what, "unpack it, and name the file or the folder")

    def give_back(self, left: int) -> None:
        """Let others have what a text that is too large has taken since there was ``left``."""
        if self.left < 0 and self._spared:
            self._spared -= 1
            self.left = left


class DecodedText:
    """The text of ``stream`` as UTF-8: unpacked and decoded, unless ``encoding`` says otherwise.

    ``read_as`` says how, once the blocks are read; "" if the bytes are the text. Reading raises
    UnreadableTextError, and OSError of the stream.
    """

    def __init__(
        self, stream: BinaryIO, limit: UnpackLimit, encoding: str = AUTO, *, lenient: bool = False
    ) -> None:
        self._read = _Ahead(stream)
        self._limit = limit
        self._encoding = encoding
        self._lenient = lenient
        self._packed = ""
        self._decoder = Decoder(UTF8)
        if encoding == BYTES:
            return
        head = self._read.peek()
        self._packed = next((name for magic, name in _PACKED if head.startswith(magic)), "")
        if not self._packed:
            self._choose(head)

    @property
    def read_as(self) -> str:
        setting = SET if self._encoding not in (AUTO, BYTES) else ""
        return ", ".join(filter(None, (self._packed, self._decoder.read_as, setting)))

    def blocks(self) -> Iterator[bytes]:
        if self._encoding == BYTES:
            yield from iter(self._read, b"")
            return
        read = self._read
        if self._packed:
            read = _Ahead(_Chunks(self._unpacked()))
            self._choose(read.peek())
        while block := read():
            if self._encoding == AUTO and self._decoder.is_mixed(block):
                what = "a part of it is in UTF-16, and another is not"
                hint = f"make text of it: tr -d '\\000' < FILE > FILE.txt; {_AS_BYTES}"
                raise UnreadableTextError(DAMAGED, what, hint)
            yield self._decoder.decode(block)
        if tail := self._decoder.decode(b"", is_last=True):
            yield tail

    def _choose(self, head: bytes) -> None:
        if self._encoding != AUTO:
            self._decoder = Decoder(codecs.lookup(self._encoding).name)
            return
        what, program = _signature(head)
        encoding = None if what else encodings.detect(head, lenient=self._lenient)
        if encoding is None:
            inside = f"the {self._packed} data has" if self._packed else "it is"
            what, program = (what, program) if what else _NO_TEXT
            hint = f"make text of it: {program}; {_AS_BYTES}"
            raise UnreadableTextError(BINARY, f"{inside} {what}", hint)
        self._decoder = Decoder(encoding)

    def _unpacked(self) -> Iterator[bytes]:
        try:
            for block in _OPENERS[self._packed](self._read):
                self._limit.spend(len(block))
                yield block
        except (OSError, UnreadableTextError):
            raise
        except Exception as error:  # noqa: BLE001 - hostile data, read by five libraries
            why = str(error)[:100] or "it ends too early"
            what = f"its {self._packed} data is damaged: {why}"
            raise UnreadableTextError(DAMAGED, what, "restore it, or unpack what is left") from None


def decoded(content: bytes, limit: int) -> bytes | None:
    """The text of ``content``, of at most ``limit`` bytes; None if there is none."""
    try:
        text = DecodedText(BytesIO(content), UnpackLimit(limit))
        return b"".join(text.blocks())
    except UnreadableTextError:
        return None


def _signature(head: bytes) -> tuple[str, str]:
    if head.startswith(b"BZh") and head[4:10] != b"1AY&SY":
        return "", ""
    return next(
        ((what, program) for magic, at, what, program in _SIGNATURES if head.startswith(magic, at)),
        ("", ""),
    )


class _Chunks:
    """A stream of ``blocks``, of any size."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = blocks

    def read(self, _size: int) -> bytes:
        return next(self._blocks, b"")


class _Ahead:
    """Reads blocks of a stream; ``peek`` shows its beginning."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self._head = b""

    def peek(self) -> bytes:
        while len(self._head) < SAMPLE and (block := self.stream.read(_BLOCK)):
            self._head += block
        return self._head[:SAMPLE]

    def __call__(self) -> bytes:
        head, self._head = self._head, b""
        return head or self.stream.read(_BLOCK) or b""


# ── kinds of compressed data ──


class _Gzip:
    """A member of gzip, as the decompressors of the other kinds are."""

    def __init__(self) -> None:
        import zlib

        self._unit = zlib.decompressobj(16 + zlib.MAX_WBITS)

    @property
    def eof(self) -> bool:
        return self._unit.eof

    @property
    def needs_input(self) -> bool:
        return not self._unit.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        return self._unit.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        return self._unit.decompress(self._unit.unconsumed_tail + data, max_length)


def _xz() -> Any:
    import lzma

    return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MEMORY)


def _zstd() -> Any:
    try:
        library = import_module("compression.zstd")  # a part of Python 3.14
    except ImportError:
        try:
            from backports import zstd as library
        except ImportError:
            what = f"zstd data needs the extra {ZSTD} of rlm-ci"
            raise UnreadableTextError(NO_ZSTD, what, "zstd -d FILE, and name the result") from None
    return library.ZstdDecompressor()


def _members(new: Callable[[], Any]) -> Callable[[_Ahead], Iterator[bytes]]:
    """Unpacks one stream after the other."""

    def unpack(read: _Ahead) -> Iterator[bytes]:
        data = read()
        while data:
            unit, is_over = new(), False
            while not unit.eof:
                if not data and unit.needs_input:
                    is_over = not (data := read())
                block, data = unit.decompress(data, _BLOCK), b""
                if block:
                    yield block
                elif is_over and not unit.eof:
                    raise EOFError
            data = unit.unused_data
            while not (data := data.lstrip(b"\0")) and (more := read()):  # padding
                data = more

    return unpack


def _zip(read: _Ahead) -> Iterator[bytes]:
    from zipfile import ZipFile

    if not read.stream.seekable():
        what = "a zip archive cannot be read from standard input"
        raise UnreadableTextError(ARCHIVE, what, "name the file")
    with ZipFile(read.stream) as archive:
        entries = [
            entry
            for entry in archive.infolist()
            if not entry.is_dir() and not entry.filename.startswith("__MACOSX/")
        ]
        if len(entries) != 1:
            what = f"the zip archive has {len(entries):,} files, not one"
            hint = "unpack it and name the folder: unzip FILE -d FOLDER"
            if any(entry.filename == "[Content_Types].xml" for entry in entries):
                what = "it is an Office document"
                hint = "make text of it: libreoffice --headless --convert-to txt FILE"
            raise UnreadableTextError(ARCHIVE, what, hint)
        if entries[0].flag_bits & 1:
            what = "the zip archive is encrypted"
            raise UnreadableTextError(ARCHIVE, what, "unpack it, and name the file")
        with archive.open(entries[0]) as member:
            yield from iter(lambda: member.read(_BLOCK), b"")


_OPENERS: Final = {
    "gzip": _members(_Gzip),
    "xz": _members(_xz),
    "zstd": _members(_zstd),
    "zip": _zip,
}
