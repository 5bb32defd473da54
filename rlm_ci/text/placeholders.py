"""Tell what a person or a model wrote from the words of the form that it was to fill in."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Final

_WORD: Final = re.compile(r"[^\W_]+")
#: Words that follow each other, and the share of those of a placeholder that shows it.
_RUN: Final = 3
_SHARE: Final = 0.6


def repeats(text: str, placeholders: Iterable[str]) -> bool:
    """Whether ``text`` has the words of one of ``placeholders``, in any case and punctuation.

    A long one may lack some words, and have others around it; a short one stands alone.
    """
    words = _words(text)
    return any(_repeats(words, _words(one)) for one in placeholders)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _repeats(words: list[str], placeholder: list[str]) -> bool:
    if len(placeholder) <= _RUN:
        return words == placeholder
    runs = _runs(placeholder)
    return len(runs & _runs(words)) >= _SHARE * len(runs)


def _runs(words: list[str]) -> set[tuple[str, ...]]:
    return {tuple(words[at : at + _RUN]) for at in range(len(words) - _RUN + 1)}
