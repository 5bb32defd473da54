"""What differs a little from an expected value, in any language."""

from __future__ import annotations

import re

from rlm_ci.canary.forms import NEAR, STYLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from random import Random

_QUOTED = re.compile(r"(['\"`])([^'\"`\\\r\n$]+)\1")
_BLANK = " "


def steps(chance: Random) -> tuple[int, int]:
    """By what a number is changed, up and down."""
    return chance.randrange(1, 4), -chance.randrange(1, 4)


def lettered(text: str, chance: Random) -> str:
    """The text with another letter or digit; "" if it has none."""
    places = [at for at, letter in enumerate(text) if letter.isascii() and letter.isalnum()]
    if not places:
        return ""
    at = chance.choice(places)
    letters = "bcdfghjkmpqsvwxz" if text[at].isalpha() else "23456789"
    if text[at].isupper():
        letters = letters.upper()
    return (
        text[:at]
        + chance.choice([letter for letter in letters if letter != text[at]])
        + text[at + 1 :]
    )


def restyled(text: str, chance: Random) -> list[str]:
    """The text in another case, and with a blank more."""
    if not text.isascii() or not text:
        return []
    blank = text.replace(_BLANK, _BLANK * 2, 1) if _BLANK in text else text + _BLANK
    styles = (text.swapcase(), chance.choice((blank, _BLANK + text)))
    return [style for style in styles if style != text]


def quoted(text: str, chance: Random) -> Iterator[tuple[str, str]]:
    """What differs a little from a literal in quotes, and the kind of alteration that it is."""
    if literal := _QUOTED.fullmatch(text):
        quote, inner = literal.groups()
        if letter := lettered(inner, chance):
            yield NEAR, f"{quote}{letter}{quote}"
        for style in restyled(inner, chance):
            yield STYLE, f"{quote}{style}{quote}"


def resized(elements: Sequence[str], more: str) -> list[list[str]]:
    """The elements with one more, and without each of them."""
    shorter = [[*elements[:at], *elements[at + 1 :]] for at in range(len(elements))]
    return [[*elements, more], *shorter]
