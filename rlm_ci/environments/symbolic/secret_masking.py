"""Masks secrets at the edges of an excerpt, where half a secret would not be recognised."""

from __future__ import annotations

import re
from itertools import islice

from rlm_ci.redaction.redactor import SIGN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

#: Bytes around an excerpt that are searched: few secrets are longer.
MARGIN = 16 << 10
#: Bytes before an excerpt that are searched for an open private key.
FAR = 64 << 10
#: Words of one secret at an edge: as many as lines of a private key.
_WORDS = 96
_WORD = re.compile(r"\S+")
_KEY_BEGIN = re.compile(r"-----BEGIN[ A-Z]*PRIVATE KEY(?: BLOCK)?-----")
_KEY_END = re.compile(r"-----END[ A-Z]*PRIVATE KEY(?: BLOCK)?-----")
_OPENS = b"-----BEGIN "
_HEAD = re.compile(rb"[ A-Z]*PRIVATE KEY(?: BLOCK)?-----")
#: The characters of a private key with its headers, also as a string in source code.
_OF_KEY = re.compile(rb"[A-Za-z0-9+/=\s\\:,\"'-]*")


def masked(before: str, text: str, after: str, redact: Callable[[str], str]) -> str:
    """``text`` without secrets, also those that begin in ``before`` or end in ``after``.

    A secret at an edge is removed with the word that it lies in.
    """
    joined = before + text + after
    clean = redact(joined)
    if clean == joined:
        return text

    def is_clean(at: int) -> bool:
        """Whether no secret spans this place."""
        return redact(before + text[:at]) + redact(text[at:] + after) == clean

    ends = [word.end() for word in islice(_WORD.finditer(text), _WORDS)]
    key = _KEY_END.search(text)  # of a key with more words
    head = _first((0, *ends, *([key.end()] if key else ())), is_clean, len(text))
    starts = [word.start() for word in _WORD.finditer(text, head)]
    keys = [begin.start() for begin in _KEY_BEGIN.finditer(text, head)]
    tail = _first((len(text), *reversed(starts[-_WORDS:]), *keys[-1:]), is_clean, head)
    inner = redact(text[head:tail])
    return (SIGN if head else "") + inner + (SIGN if tail < len(text) else "")


def open_key(before: bytes) -> int | None:
    """The offset of a private key that begins in ``before`` and does not end there, or None."""
    at = before.rfind(_OPENS)
    head = _HEAD.match(before, at + len(_OPENS)) if at >= 0 else None
    if head is None or b"-----END" in before[at:]:
        return None
    # Prose or code that only names a key continues with other characters.
    return at if _OF_KEY.fullmatch(before, head.end()) else None


def is_masked(text: str, source: str) -> bool:
    """Whether ``text`` is ``source`` with secrets replaced by signs.

    What is between two signs must be in the source, in the same order.
    """
    if text == source:
        return True
    head, *parts = text.split(SIGN)
    if not parts or not source.startswith(head):
        return False
    *inner, tail = parts
    at = len(head)
    for part in inner:
        at = source.find(part, at)
        if at < 0:
            return False
        at += len(part)
    return len(source) - len(tail) >= at and source.endswith(tail)


def is_masked_in_places(text: str, pieces: Iterable[tuple[str, bool]]) -> bool:
    """Whether ``text`` is these pieces end to end, with secrets masked in marked ones alone."""
    at, marked = 0, ""
    for piece, is_place in pieces:
        if is_place:
            marked += piece
        elif piece:
            start = _behind(text, at, marked, piece)
            if start is None:
                return False
            at, marked = start + len(piece), ""
    return is_masked(text[at:], marked) if marked else len(text) == at


def _behind(text: str, at: int, step: str, piece: str) -> int | None:
    """The offset of ``piece`` in ``text`` after ``step``, possibly masked, which is at ``at``."""
    if not step:
        return at if text.startswith(piece, at) else None
    # A sign replaces one character at least.
    last = at + len(step) * len(SIGN)
    start = text.find(piece, at, last + len(piece))
    while start >= 0:
        if is_masked(text[at:start], step):
            return start
        start = text.find(piece, start + 1, last + len(piece))
    return None


def _first(places: Iterable[int], holds: Callable[[int], bool], otherwise: int) -> int:
    return next((offset for offset in places if holds(offset)), otherwise)
