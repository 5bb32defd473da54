"""The encoding of a text, by its BOM and its bytes: a word in it is there, or it is no text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm_ci.text.encodings import SAMPLE, Decoder, detect, is_encoding

LOG = "2026-11-28 10:00 ERROR disk full\r\nok é 漢字 €\r\n" * 3
CHINESE = "错误日志磁盘已满服务器没有响应请检查配置文件一二三四五六七八九十系统重启失败原因未知" * 2


def decoded(data: bytes, step: int = 1 << 20) -> tuple[str, str]:
    """The text of some bytes, in blocks of ``step``, and how it was read."""
    encoding = detect(data[:SAMPLE])
    assert encoding is not None
    decoder = Decoder(encoding)
    step = max(step, 4)  # the BOM is whole
    blocks = [decoder.decode(data[at : at + step]) for at in range(0, len(data), step)]
    return b"".join((*blocks, decoder.decode(b"", is_last=True))).decode(), decoder.read_as


@pytest.mark.parametrize("step", [5, 1 << 20])
@pytest.mark.parametrize(
    ("text", "encoding", "read_as"),
    [
        (LOG, "utf-8", ""),
        (LOG, "utf-8-sig", "utf-8-sig"),
        (LOG, "utf-16", "utf-16-le"),
        (LOG, "utf-16-le", "utf-16-le"),
        (LOG, "utf-16-be", "utf-16-be"),
        (LOG, "utf-32", "utf-32-le"),
        (LOG, "utf-32-le", "utf-32-le"),
        (LOG, "utf-32-be", "utf-32-be"),
        ("ERROR without a line break", "utf-16-be", "utf-16-be"),
        (f"{CHINESE}\n", "utf-16-le", "utf-16-le"),
        (CHINESE, "utf-16-le", "utf-16-le"),
        (CHINESE, "utf-16-be", "utf-16-be"),
        (f"\ufeff{CHINESE}", "utf-16-be", "utf-16-be"),
        ("naïve café, 10 €, “quoted”\n", "cp1252", "windows-1252"),
        ("\x1b[31mred\x1b[0m\x08\n", "utf-8", ""),
    ],
)
def test_a_text_is_read_in_its_encoding(text: str, encoding: str, read_as: str, step: int) -> None:
    assert decoded(text.encode(encoding), step) == (text.removeprefix("\ufeff"), read_as)


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc"])), st.integers(4, 9))
def test_utf_8_stays_as_it_is_wherever_a_block_ends(text: str, step: int) -> None:
    text = text.lstrip("\ufeff")
    assert decoded(text.encode(), step) == (text, "")


def test_a_late_bad_byte_changes_itself_alone() -> None:
    """Not what is UTF-8 around it: a search for that would find nothing."""
    late = "é ERROR 漢\n".encode() * 20_000
    text, read_as = decoded(late + b"caf\xe9\xe9 \x80 \x81 \xe6\xbc", 1 << 16)
    assert text == late.decode() + "caféé € \x81 æ¼"
    assert read_as == "windows-1252"


@pytest.mark.parametrize(
    "data",
    [
        b"\0", b"a\0b", bytes(100), bytes(range(256)) * 20, b"\x89PNG\0", b"\0\1\2\3" * 50,
        b"MZ\x90\0\3\0\0\0\4\0\0\0\xff\xff\0\0\xb8\0\0\0\0\0\0\0@\0\0\0" * 9,
    ],
)  # fmt: skip
def test_what_is_no_text_has_no_encoding(data: bytes) -> None:
    assert detect(data) is None


def test_a_text_that_somebody_names_may_have_some_nuls() -> None:
    data = b"a line of a log\n" * 20 + b"\0" * 8 + b"ERROR\n"
    assert detect(data) is None
    assert detect(data, lenient=True) == "utf-8"
    latin = b"caf\xe9 \0 " + b"a line of a log\n" * 20
    assert (detect(latin), detect(latin, lenient=True)) == (None, "utf-8")
    assert detect(bytes(range(256)) * 20, lenient=True) is None


@pytest.mark.parametrize(
    "data",
    [
        b"2026-01-01 ERROR\0 disk full\n" * 300, b"ERROR\0" * 300, b"key=val\0ERROR x\n" * 200,
        b"x" * 999 + b"\0" + b"ERROR disk\n" * 50, b"abc\0def ERROR\n" * 100,
        "café ERROR\0 naïve\n".encode() * 99,
    ],
)  # fmt: skip
def test_ascii_with_nuls_is_no_text_in_pairs(data: bytes) -> None:
    assert detect(data, lenient=True) == "utf-8"
    assert detect(data) in (None, "utf-8")


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize(
    "text",
    [
        "Ошибка: диск переполнен\n",
        "エラーがおきました。ディスクがいっぱいです\n",
        "त्रुटि हुई डिस्क भर गई\n",
        "Σφάλμα δίσκου\n",
    ],
)
def test_scripts_in_pairs_are_read(text: str, encoding: str) -> None:
    assert detect((text * 5).encode(encoding)) == encoding


@pytest.mark.parametrize(
    ("name", "is_name"),
    [("auto", True), ("bytes", True), ("shift_jis", True), ("UTF-16", True), ("zlib", False),
     ("nothing", False), ("", False), ("a\0b", False)],
)  # fmt: skip
def test_a_setting_names_an_encoding_of_texts(name: str, is_name: bool) -> None:
    assert is_encoding(name) is is_name
