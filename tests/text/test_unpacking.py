"""Compressed texts are opened within a limit; what is no text says what makes text of it."""

from __future__ import annotations

import codecs
import gzip
import io
import lzma
import os
import sys
from typing import TYPE_CHECKING
from zipfile import ZIP_DEFLATED, ZipFile

import pytest
from backports import zstd

from rlm_ci.text.unpacking import DecodedText, UnpackLimit, UnreadableTextError, decoded

if TYPE_CHECKING:
    from collections.abc import Callable

TEXT = "".join(f"step {number} ok é\n" for number in range(2_000)) + "ERROR disk full\n"


def zipped(*contents: bytes, names: str = "abc") -> bytes:
    stream = io.BytesIO()
    with ZipFile(stream, "w", ZIP_DEFLATED) as archive:
        archive.mkdir("folder")
        for name, data in zip(names, contents, strict=False):
            archive.writestr(f"folder/{name}", data)
    return stream.getvalue()


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress, "xz": lzma.compress, "zstd": zstd.compress, "zip": zipped,
}  # fmt: skip


def read(data: bytes, *, encoding: str = "auto", most: int = 1 << 30) -> tuple[str, str]:
    text = DecodedText(io.BytesIO(data), UnpackLimit(most), encoding)
    return b"".join(text.blocks()).decode("utf-8", "surrogateescape"), text.read_as


@pytest.mark.parametrize("kind", PACKERS)
def test_compressed_data_is_unpacked_and_decoded(kind: str) -> None:
    pack = PACKERS[kind]
    assert read(pack(TEXT.encode())) == (TEXT, kind)
    assert read(pack(TEXT.encode("utf-16"))) == (TEXT, f"{kind}, utf-16-le")
    assert read(pack(TEXT.encode("cp1252"))) == (TEXT, f"{kind}, windows-1252")
    assert read(pack(b"")) == ("", kind)


@pytest.mark.parametrize("kind", ["gzip", "xz", "zstd"])
def test_one_stream_may_follow_the_other(kind: str) -> None:
    pack, data = PACKERS[kind], TEXT.encode()
    padding = b"" if kind == "zstd" else bytes(512)
    assert read(pack(data[:99]) + pack(data[99:]) + padding) == (TEXT, kind)


@pytest.mark.parametrize("kind", PACKERS)
def test_damaged_data_is_no_text(kind: str) -> None:
    noise = os.urandom(1 << 17).hex().encode()
    checked = {int(zstd.CompressionParameter.checksum_flag): 1}
    packed = zstd.compress(noise, options=checked) if kind == "zstd" else PACKERS[kind](noise)
    middle = len(packed) // 2
    wrong = [packed[:-9], packed[:middle], packed + b"garbage" * 9,
             packed[:middle] + b"\xff" * 30 + packed[middle + 30 :]]  # fmt: skip
    for data in wrong[: 2 if kind == "zip" else 4]:
        with pytest.raises(UnreadableTextError, match=f"its {kind} data is damaged") as raised:
            read(data)
        assert raised.value.reason == "damaged"


@pytest.mark.parametrize("kind", PACKERS)
def test_a_bomb_ends_at_the_limit(kind: str) -> None:
    """As soon as it is reached, and for all texts of a source together."""
    limit = UnpackLimit(5 << 20)
    sizes: list[int] = []
    bomb = PACKERS[kind](b"all the same\n" * (1 << 19))
    blocks = DecodedText(io.BytesIO(bomb), limit).blocks()
    with pytest.raises(UnreadableTextError, match="more than 5,242,880 bytes") as raised:
        sizes.extend(map(len, blocks))
    assert raised.value.reason == "large"
    assert sum(sizes) <= 5 << 20
    with pytest.raises(UnreadableTextError):
        list(DecodedText(io.BytesIO(PACKERS[kind](b"one more")), limit).blocks())


LINES = b"".join(b"2026-11-28 10:%02d ERROR disk %d is full\r\n" % (n % 60, n) for n in range(90))
WIDE = LINES.decode().encode("utf-16-le")


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (LINES + WIDE, "no text"),
        (WIDE + LINES, "no text"),
        (LINES + codecs.BOM_UTF16_LE + WIDE + LINES, "no text"),
        (codecs.BOM_UTF16_LE + WIDE + LINES, "a part of it is in UTF-16"),
        (LINES * 40 + WIDE, "a part of it is in UTF-16"),
        (codecs.BOM_UTF16_BE + LINES.decode().encode("utf-16-be") * 40 + LINES[:200],
         "a part of it is in UTF-16"),
        (gzip.compress(codecs.BOM_UTF16_LE + WIDE + LINES[:200]), "a part of it is in UTF-16"),
    ],
)  # fmt: skip
def test_a_log_of_two_programs_in_two_encodings_is_no_text(data: bytes, what: str) -> None:
    """Either would hide the words of the other."""
    with pytest.raises(UnreadableTextError):
        read(data)
    with pytest.raises(UnreadableTextError, match=what) as raised:
        list(DecodedText(io.BytesIO(data), UnpackLimit(), lenient=True).blocks())
    assert ("tr -d '\\000' < FILE" in raised.value.hint) == (what != "no text")
    assert b"".join(DecodedText(io.BytesIO(data), UnpackLimit(), "bytes").blocks()) == data


def test_what_looks_like_another_encoding_is_none() -> None:
    table = "╔" + "═" * 60 + "╗\n║ ERROR ║\n" + "⣿⡇⠿" * 40
    for text in (table, "错误日志磁盘已满服务器没有响应" * 400, "Ошибка соединения\n" * 400):
        for encoding in ("utf-16", "utf-16-be", "utf-32"):
            data = text.encode(encoding)
            data = codecs.BOM_UTF16_BE + data if encoding == "utf-16-be" else data
            assert read(data)[0] == text
    listed = b"name\0value of some length\0x\0" * 40 + b"plain text\n" * 400
    assert b"".join(DecodedText(io.BytesIO(listed), UnpackLimit(), lenient=True).blocks()) == listed


def test_an_archive_has_one_file() -> None:
    for data, told, hint in (
        (zipped(b"ERROR", b"x"), "has 2 files, not one", "unzip FILE -d FOLDER"),
        (zipped(), "has 0 files", "unzip FILE"),
    ):
        with pytest.raises(UnreadableTextError, match=told) as raised:
            read(data)
        assert hint in raised.value.hint
    stream = io.BytesIO()
    with ZipFile(stream, "w") as archive:
        archive.writestr("[Content_Types].xml", "<x/>")
        archive.writestr("word/document.xml", "<x/>")
    with pytest.raises(UnreadableTextError, match="it is an Office document"):
        read(stream.getvalue())


def test_an_encrypted_archive_is_refused() -> None:
    data = bytearray(zipped(b"secret"))
    for magic, at in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        data[data.rindex(magic) + at] |= 1
    with pytest.raises(UnreadableTextError, match="encrypted"):
        read(bytes(data))


@pytest.mark.parametrize(
    ("data", "what", "program"),
    [
        (b"%PDF-1.4\n1 0 obj", "it is a PDF document", "pdftotext FILE FILE.txt"),
        (b"SQLite format 3\0" + bytes(99), "an SQLite database", "sqlite3 FILE .dump"),
        (bytes(257) + b"ustar\x0000" + bytes(99), "a tar archive", "tar xf FILE"),
        (b"BZh91AY&SY", "bzip2 data", "bzip2 -dk FILE"),
        (bytes(range(256)), "it is no text", "strings FILE"),
        (gzip.compress(b"%PDF-1.4\n", mtime=0), "the gzip data has a PDF document", "pdftotext"),
        (
            gzip.compress(gzip.compress(b"x" * 99, mtime=0), mtime=0),
            "the gzip data has no text",
            "strings FILE",
        ),
    ],
)
def test_binary_data_names_the_program_that_makes_text_of_it(
    data: bytes, what: str, program: str
) -> None:
    with pytest.raises(UnreadableTextError, match=what) as raised:
        read(data)
    assert (raised.value.reason, program in raised.value.hint) == ("binary", True)
    assert "--context-encoding bytes" in raised.value.hint
    assert decoded(data, 1 << 20) is None
    assert read(data, encoding="bytes")[0].encode("utf-8", "surrogateescape") == data


def test_a_setting_names_the_encoding() -> None:
    data = "故障".encode("shift_jis")
    assert read(data, encoding="shift_jis") == ("故障", "shift_jis, as set")
    data = gzip.compress(b"caf\xe9")
    assert read(data, encoding="latin-1") == ("café", "gzip, iso8859-1, as set")


def test_zstd_needs_its_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "backports.zstd", None)
    monkeypatch.delattr("backports.zstd")
    monkeypatch.setitem(sys.modules, "compression.zstd", None)
    with pytest.raises(UnreadableTextError, match="zstd data needs the extra zstd") as raised:
        read(zstd.compress(b"text"))
    assert raised.value.reason == "zstd"
