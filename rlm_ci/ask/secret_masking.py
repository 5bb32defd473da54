"""Secrets at the edges of an excerpt: half of one is recognised by nobody, and still half of it."""

from __future__ import annotations

import re
from itertools import islice

from rlm_ci.redaction.redactor import SIGN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

#: Bytes around an excerpt that are looked at, at least: few secrets are longer.
MARGIN = 16 << 10
#: Bytes before an excerpt in which a private key is looked for that has not ended yet.
FAR = 64 << 10
#: Words at an edge that may belong to one secret: as many as lines in a private key.
_WORDS = 96
_WORD = re.compile(r"\S+")
_KEY_BEGIN = re.compile(r"-----BEGIN[ A-Z]*PRIVATE KEY(?: BLOCK)?-----")
_KEY_END = re.compile(r"-----END[ A-Z]*PRIVATE KEY(?: BLOCK)?-----")
_OPENS = b"-----BEGIN "
_HEAD = re.compile(rb"[ A-Z]*PRIVATE KEY(?: BLOCK)?-----")
#: What a private key consists of, its headers included, and as a string in another language.
_OF_KEY = re.compile(rb"[A-Za-z0-9+/=\s\\:,\"'-]*")


def masked(before: str, text: str, after: str, redact: Callable[[str], str]) -> str:
    """``text`` without secrets, those included that begin before it or end after it.

    ``before`` and ``after`` are what stands around it. A secret that an edge cuts is taken out
    together with the word that it lies in.
    """
    whole = before + text + after
    told = redact(whole)
    if told == whole:
        return text

    def is_clean(at: int) -> bool:
        """Whether no secret reaches over this place."""
        return redact(before + text[:at]) + redact(text[at:] + after) == told

    ends = [word.end() for word in islice(_WORD.finditer(text), _WORDS)]
    key = _KEY_END.search(text)  # the end of one with more words
    head = _first((0, *ends, *([key.end()] if key else ())), is_clean, len(text))
    # Two passes over a text that has a secret at its edge: it is short, and that is rare.
    starts = [word.start() for word in _WORD.finditer(text, head)]
    keys = [begin.start() for begin in _KEY_BEGIN.finditer(text, head)]
    tail = _first((len(text), *reversed(starts[-_WORDS:]), *keys[-1:]), is_clean, head)
    inner = redact(text[head:tail])
    return (SIGN if head else "") + inner + (SIGN if tail < len(text) else "")


def open_key(before: bytes) -> int | None:
    """Where in ``before`` a private key begins that goes on after it; None where there is none."""
    at = before.rfind(_OPENS)
    head = _HEAD.match(before, at + len(_OPENS)) if at >= 0 else None
    if head is None or b"-----END" in before[at:]:
        return None
    # Who only names a key, in prose or in code, goes on with other characters.
    return at if _OF_KEY.fullmatch(before, head.end()) else None


def is_masked(text: str, source: str) -> bool:
    """Whether ``text`` is ``source``, but for what stands where a secret was taken out.

    What is left between two signs must stand in the source, in the same order.
    """
    if text == source:
        return True
    head, *rest = text.split(SIGN)
    if not rest or not source.startswith(head):
        return False
    *inner, tail = rest
    at = len(head)
    for part in inner:
        at = source.find(part, at)
        if at < 0:
            return False
        at += len(part)
    return len(source) - len(tail) >= at and source.endswith(tail)


def is_masked_in_places(text: str, pieces: Iterable[tuple[str, bool]]) -> bool:
    """Whether ``text`` is these pieces end to end, secrets taken out of the marked ones alone."""
    at, place = 0, ""
    for piece, is_place in pieces:
        if is_place:
            place += piece
        elif piece:
            found = _behind(text, at, place, piece)
            if found is None:
                return False
            at, place = found + len(piece), ""
    return is_masked(text[at:], place) if place else len(text) == at


def _behind(text: str, at: int, place: str, piece: str) -> int | None:
    """Where ``piece`` stands in ``text`` behind what may be ``place``, which begins ``at``."""
    if not place:
        return at if text.startswith(piece, at) else None
    # What is taken out has one character at least, and one sign stands for it.
    last = at + len(place) * len(SIGN)
    found = text.find(piece, at, last + len(piece))
    while found >= 0:
        if is_masked(text[at:found], place):
            return found
        found = text.find(piece, found + 1, last + len(piece))
    return None


def _first(places: Iterable[int], holds: Callable[[int], bool], otherwise: int) -> int:
    return next((place for place in places if holds(place)), otherwise)
