"""What an answer says: its last line with ``Answer:``, a number, items, pairs."""

from __future__ import annotations

import re
import unicodedata
from decimal import Decimal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

#: Characters of an answer that are looked at, from its end.
_LONGEST = 1 << 20
#: Digits of a number; one with more is none.
_DIGITS = 40
_MARKED = re.compile(r"^[ \t>*_#-]*answer[*_ \t]*:[*_ \t]*(.*)", re.IGNORECASE | re.MULTILINE)
_NUMBER = re.compile(
    r"(?<![\w.])[-−+]?[$€£]?(\d{1,3}(?:,\d{3})+(?!\d)|\d+)(\.\d+)?(?:e([-+]?\d{1,3})\b)?",
    re.IGNORECASE,
)
#: What may stand around an answer and is no part of it.
_AROUND = " \t\r\n\"'`*_.,;:!?()[]{}“”‘’«»"
_PAIR = re.compile(r"[(\[{]\s*([^\s,()\[\]{}]+)\s*,\s*([^\s,()\[\]{}]+)\s*[)\]}]")
_BULLET = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s+")
#: A citation such as ``[app.log:7]`` or ``[ctx:…#bytes:1-9]``, which some environments ask for.
_BRACKETS = re.compile(r"\[[^\[\]\"'\n]*\]")
_PLACE = re.compile(r":c?\d")
_NOTHING = frozenset(("", "none", "nothing", "empty", "n/a", "no pairs", "no items", "null"))


def final(text: str) -> str:
    """What stands behind the last ``Answer:``, on that line and those below; else all of it.

    The thoughts that some models write first are left out, and citations.
    """
    text = text[-_LONGEST:]
    if "</think>" in text:
        text = text.rpartition("</think>")[2]
    match = None
    for match in _MARKED.finditer(text):  # noqa: B007 - the last one counts
        pass
    answer = text[match.start(1) :] if match else text
    return _BRACKETS.sub(
        lambda bracket: "" if _PLACE.search(bracket[0]) else bracket[0], answer
    ).strip()


def normalised(text: str) -> str:
    """One spelling for all that differ in case, width, white space or what stands around them."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split()).strip(_AROUND)


def numbers(text: str) -> list[Decimal]:
    """The different numbers in a text, in order; units and signs of currencies are ignored."""
    values: list[Decimal] = []
    for match in _NUMBER.finditer(text):
        integer, fraction, exponent = match.groups()
        digits = integer.replace(",", "") + (fraction or "")
        if len(digits) > _DIGITS:
            continue
        sign = "-" if match[0][0] in "-−" else ""
        number = Decimal(f"{sign}{digits}e{exponent or 0}")
        if number not in values:
            values.append(number)
        if len(values) > 1:  # it is ambiguous, whatever follows
            break
    return values


def number(text: str) -> Decimal | None:
    """The one number of an answer; None without one, and where there are several."""
    values = numbers(final(text))
    return values[0] if len(values) == 1 else None


def items(text: str, *, commas: bool) -> set[str]:
    """The items of a list: a line each, or parted by semicolons and, where asked, commas."""
    parted = re.split(r"[;\n,]" if commas else r"[;\n]", final(text))
    names = {normalised(_BULLET.sub("", part)) for part in parted}
    return names - _NOTHING


def pair(name: str, other: str) -> tuple[str, str]:
    """Two names as a pair in which their order does not matter."""
    first, second = sorted((normalised(name), normalised(other)))
    return first, second


def pairs(text: str) -> set[tuple[str, str]]:
    """The pairs of an answer: in brackets, or two names parted by a comma on each line."""
    answer = final(text)
    matches: Iterable[tuple[str, str]] = _PAIR.findall(answer)
    if not matches:
        lines = (_BULLET.sub("", line).split(",") for line in answer.splitlines())
        matches = [(line[0], line[1]) for line in lines if len(line) == 2]
    return {pair(name, other) for name, other in matches}
