"""The encoding of a text, by its BOM and its bytes, and its bytes as UTF-8."""

from __future__ import annotations

import codecs
import re
from unicodedata import category

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

#: Bytes at the beginning that show the encoding.
SAMPLE: Final = 1 << 16
#: How a text is read: by its BOM and its bytes, or not decoded at all.
AUTO, BYTES = "auto", "bytes"
UTF8: Final = "utf-8"
#: For bytes that are not UTF-8; the printable part of Latin-1 is the same in it.
FALLBACK: Final = "windows-1252"
_BOMS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # begins with the BOM of UTF-16
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_WIDE: Final = {"utf-32-le": 4, "utf-32-be": 4, "utf-16-le": 2, "utf-16-be": 2}
#: Control characters of a text: backspace, tab, line feeds, form feed, return, escape.
_TEXT_CONTROLS: Final = frozenset("\b\t\n\v\f\r\x1b")
_CONTROLS: Final = bytes(code for code in range(32) if chr(code) not in _TEXT_CONTROLS)
#: Characters that no text has, or few: unassigned, private, surrogates.
_ODD: Final = frozenset(("Cn", "Co", "Cs"))
#: A text has at most one odd character in so many; one with NULs, and other UTF-8, more controls.
_RARE, _SOME = 50, 10
#: A text in wide units has at least one byte in so many beyond ASCII, or of one block of a script.
_FEW, _OFTEN = 8, 4
_BEYOND_ASCII: Final = bytes(range(128, 256))
_BLOCKS: Final = tuple(bytes((code,)) for code in (*range(32), 0x30))
#: Fewer units of several bytes show no encoding.
_UNITS: Final = 4
_CJK: Final = (
    ("\u3000", "\u30ff"), ("\u3400", "\u4dbf"), ("\u4e00", "\u9fff"), ("\uac00", "\ud7a3"),
    ("\uff00", "\uffef"),
)  # fmt: skip
#: A part in pairs in a text of one-byte characters, and the other way round; bytes that recur in
#: every other place are one block of a script, such as the lines of a table.
_PAIRS: Final = re.compile(rb"(?:[\t\n\r\x20-\x7e]\0){16}|(?:\0[\t\n\r\x20-\x7e]){16}")
_ASCII: Final = re.compile(rb"[\t\n\r\x20-\x7e]{48}")
_VARIED: Final = 6
_SINGLE: Final = "".join(
    bytes((code,)).decode("cp1252", "ignore") or chr(code) for code in range(256)
)


def _single_bytes(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    invalid = error.object[error.start : error.end]
    return "".join(map(_SINGLE.__getitem__, invalid)), error.end


_HANDLER: Final = "rlm-ci-single-bytes"


def is_encoding(name: str) -> bool:
    """Whether ``name`` is a setting: ``auto``, ``bytes``, or an encoding that Python has."""
    try:
        return name in (AUTO, BYTES) or bool("".encode(name) is not None)
    except (LookupError, UnicodeError, ValueError):
        return False


def detect(sample: bytes, *, lenient: bool = False) -> str | None:
    """The encoding of a text that begins with ``sample``; None if it is no text.

    A text in one-byte characters has no NUL; a ``lenient`` one may have some.
    """
    for bom, encoding in _BOMS:
        if sample.startswith(bom):
            return encoding
    controls = len(sample) - len(sample.translate(None, _CONTROLS))
    if not controls:
        return UTF8
    is_utf8, has_nul = _is_utf8(sample), b"\0" in sample
    if (has_nul or not is_utf8) and (encoding := _wide(sample)):
        return encoding
    often = _OFTEN if lenient and is_utf8 else _SOME if is_utf8 else _RARE
    few = controls * often <= len(sample)
    is_text = few and lenient if has_nul else few or is_utf8
    return UTF8 if is_text else None


def _is_utf8(sample: bytes) -> bool:
    try:
        codecs.utf_8_decode(sample, "strict", False)  # noqa: FBT003 - takes no keywords
    except UnicodeDecodeError:
        return False
    return True


def _wide(sample: bytes) -> str:
    """The encoding in units of 2 or 4 bytes that ``sample`` is text in; "" if it is in none."""
    # ASCII with some NULs is text in pairs, too: of ideographs. Where units are wide, one byte of
    # a script's block recurs (NUL, 0x04 of Cyrillic, 0x30 of kana), or many bytes are no ASCII.
    recurring = max(map(sample.count, _BLOCKS))
    beyond_ascii = len(sample) - len(sample.translate(None, _BEYOND_ASCII))
    if beyond_ascii * _FEW < len(sample) and recurring * _OFTEN < len(sample):
        return ""
    ranks: dict[tuple[int, int], str] = {}
    for encoding, width in _WIDE.items():
        if len(sample) < _UNITS * width or (len(sample) % width and len(sample) < SAMPLE):
            continue
        text = sample[: len(sample) // width * width].decode(encoding, "replace")
        odd = sum(map(_is_odd, text))
        plain = sum(character < "\x80" for character in text)
        if odd * _RARE <= len(text) and (plain * _RARE >= len(text) or _is_cjk(text)):
            # In the wrong order of bytes, ASCII becomes ideographs.
            ranks[-odd, plain] = encoding
    return ranks[max(ranks)] if ranks else ""


def _is_odd(character: str) -> bool:
    kind = category(character)
    is_control = kind == "Cc" and character not in _TEXT_CONTROLS
    return is_control or kind in _ODD or character == "\ufffd"


def _is_cjk(text: str) -> bool:
    """Whether nearly all of it is Chinese, Japanese or Korean."""
    number = sum(any(low <= char <= high for low, high in _CJK) for char in text)
    return number * _SOME >= len(text) * (_SOME - 1)


class Decoder:
    """From the bytes of a text in ``encoding`` to UTF-8, block by block.

    ``read_as`` names what was decoded so far; "" while the bytes are the same as before.
    """

    def __init__(self, encoding: str) -> None:
        codecs.register_error(_HANDLER, _single_bytes)
        self._encoding = encoding
        self._waiting = b""
        self._bom = next((bom for bom, name in _BOMS if name == encoding), b"")
        self._used_fallback = False
        is_utf8 = encoding in (UTF8, "utf-8-sig")
        self._wide = None if is_utf8 else codecs.getincrementaldecoder(encoding)("replace")

    @property
    def read_as(self) -> str:
        encoding = "" if self._encoding == UTF8 else self._encoding
        return ", ".join(filter(None, (encoding, FALLBACK if self._used_fallback else "")))

    def is_mixed(self, block: bytes) -> bool:
        """Whether a part of ``block`` is in another encoding, as two programs append to a log."""
        if self._wide is None:
            return b"\0" in block and _PAIRS.search(block) is not None
        runs = _ASCII.findall(block) if self._encoding in _WIDE else ()
        return any(min(len(set(run[::2])), len(set(run[1::2]))) >= _VARIED for run in runs)

    def decode(self, block: bytes, *, is_last: bool = False) -> bytes:
        """UTF-8 of what ``block`` completes; the first one has the BOM whole."""
        if self._bom:
            block, self._bom = block.removeprefix(self._bom), b""
        if self._wide is not None:
            return self._wide.decode(block, is_last).encode("utf-8", "replace")
        if not self._waiting and block.isascii():
            return block
        block = self._waiting + block
        text, size = codecs.utf_8_decode(block, _HANDLER, is_last)
        self._waiting = block[size:]
        decoded = text.encode()
        self._used_fallback = self._used_fallback or len(decoded) != size
        return decoded
