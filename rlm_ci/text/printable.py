"""Texts from outside, written so that all of them can be seen, or carried."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: Code points that change what a reader sees without being seen: C0 and C1 controls, bidi
#: controls, zero-width and invisible characters, tags, variation selectors, line separators.
_INVISIBLE = (
    (0x00, 0x1F), (0x7F, 0x9F), (0xAD, 0xAD), (0x34F, 0x34F), (0x61C, 0x61C), (0x115F, 0x1160),
    (0x17B4, 0x17B5), (0x180B, 0x180F), (0x200B, 0x200F), (0x2028, 0x202E), (0x2060, 0x206F),
    (0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF), (0xFFA0, 0xFFA0), (0xFFF0, 0xFFFB),
    (0x13430, 0x1343F), (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A), (0xE0000, 0xE0FFF),
)  # fmt: skip


def _escape(code: int) -> str:
    if 0xDC80 <= code <= 0xDCFF:  # a byte that was not UTF-8, kept by surrogateescape
        return f"\\x{code - 0xDC00:02x}"
    return chr(code).encode("unicode_escape").decode("ascii")


def _is_hidden(code: int) -> bool:
    return 0xD800 <= code <= 0xDFFF or any(low <= code <= high for low, high in _INVISIBLE)


class _Written(dict[int, str]):
    """What each character is written as, found out once: ``str.translate`` asks us the rest."""

    def __missing__(self, code: int) -> str:
        written = self[code] = _escape(code) if _is_hidden(code) else chr(code)
        return written


_WRITTEN = _Written()


def count(number: int, noun: str) -> str:
    """``1 file``, ``1,200 files``: what a person reads of a number of things."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def first_of(names: Sequence[str], noun: str) -> str:
    """The first of ``names``, in at most 200 characters, and how many more there are."""
    more = f" and {count(len(names) - 1, f'more {noun}')}" if names[1:] else ""
    return f"{printable(names[0])[:200]}{more}"


def clip(text: str, limit: int) -> str:
    """Head and tail of a long text: the beginning of a list, and the end of a test run."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half:,} characters left out …]\n{text[-half:]}"


def printable_file(text: str) -> bytes:
    """``text`` for a file, without control characters, which a terminal would obey."""
    lines = ("\t".join(map(printable, line.split("\t"))) for line in text.split("\n"))
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")


def fenced(head: str, body: str) -> str:
    """``body`` as data under ``head``, in a fence longer than any run of backticks in it."""
    fence = "`" * max(3, longest_run(body) + 1)
    return f"{head}:\n{fence}\n{body}\n{fence}"


def longest_run(text: str) -> int:
    """The length of the longest run of backticks."""
    if "`" not in text:
        return 0
    import re

    return max(map(len, re.findall("`+", text)))


def printable(text: str) -> str:
    """``text`` on one line, with whatever cannot be seen written out as an escape.

    Names and texts from a pull request pass through here before anybody reads them: no
    control or bidi character, no lone surrogate, no line break is left.
    """
    if text.isascii() and text.isprintable():
        return text
    return text.translate(_WRITTEN)


def encodable(text: str) -> str:
    r"""``text`` with bytes that were not UTF-8 written as ``\xNN``: what JSON can carry."""
    if text.isascii():
        return text
    return "".join(_escape(ord(char)) if 0xD800 <= ord(char) <= 0xDFFF else char for char in text)
