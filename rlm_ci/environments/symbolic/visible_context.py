"""Excerpts of the context and of earlier sub-calls for models: bounded, with secrets masked."""

from __future__ import annotations

import re
from itertools import islice

from rlm_ci.context.context import Excerpt, PointerError, cut_character
from rlm_ci.context.line_numbers import line_ranges as named
from rlm_ci.environments.symbolic.iteration import SUBCALL
from rlm_ci.redaction.redactor import SIGN
from rlm_ci.text.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rlm_ci.context.context import Context


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


#: Characters of a pointer in an error, and files in a label.
_POINTER = 120
_FILES = 4


class VisibleContext:
    """Turns a pointer into a text that may enter a prompt; the only way to do so.

    It reads pointers into ``context`` and, as ``subcall:<iteration>:<id>``, the outputs given to
    ``keep``. ``redact`` takes secrets, of at most ``longest`` bytes, out of a text. Thread-safe
    for reading.
    """

    def __init__(self, context: Context, redact: Callable[[str], str], longest: int = 0) -> None:
        self.context = context
        self.redact = redact
        self._margin = max(MARGIN, longest)
        self._outputs: dict[str, bytes] = {}

    def keep(self, pointer: str, output: str) -> None:
        self._outputs[pointer] = output.encode()

    def flaw(self, pointer: str) -> str | None:
        """Why ``pointer`` cannot be read, for a planner; None if it can."""
        try:
            self.span(pointer)
        except PointerError as error:
            return str(error)
        return None

    def span(self, pointer: str) -> tuple[int, int]:
        """The bytes that ``pointer`` names, in the source or the output. Raises PointerError."""
        if pointer.startswith(SUBCALL):
            return 0, len(self._output(pointer))
        return self.context.resolve(pointer)

    def read(self, pointer: str, size: int, offset: int = 0) -> Excerpt:
        """At most ``size`` bytes from ``offset`` on, never beyond the pointer's.

        Raises PointerError, DamagedError, StorageError.
        """
        if pointer.startswith(SUBCALL):
            return _cut(self._output(pointer), offset, size)
        excerpt = self.context.read(pointer, size, offset)
        return excerpt.replace(text=self.shown(excerpt.start, excerpt.end, excerpt.text))

    def text(self, start: int, end: int) -> str:
        """Bytes ``start`` to ``end`` of the source, without secrets."""
        return self.shown(start, end, _lossy(self.context.raw(start, end)))

    def shown(self, start: int, end: int, text: str) -> str:
        """``text``, bytes ``start`` to ``end`` of the source, without secrets."""
        context = self.context
        far = context.raw(max(0, start - max(FAR, self._margin)), start)
        begin = max(0, len(far) - self._margin)
        key = open_key(far)
        before = far[begin if key is None else min(begin, key) :]
        after = context.raw(end, min(context.byte_length, end + self._margin))
        return masked(_lossy(before), text, _lossy(after), self.redact)

    def label(self, pointer: str, excerpt: Excerpt) -> str:
        """The pointer, the bytes and the lines of files of an excerpt."""
        label = f"{pointer} | bytes {excerpt.start}-{excerpt.end}"
        if pointer.startswith(SUBCALL):
            return label
        places, more = self.context.first_places(excerpt.start, excerpt.end, _FILES)
        return f"{label} | {self.redact(named(places, more))}" if places else label

    def _output(self, pointer: str) -> bytes:
        output = self._outputs.get(pointer)
        if output is None:
            raise PointerError(
                f"{printable(pointer[:_POINTER])} is not the output of a sub-call of an earlier "
                "iteration"
            )
        if not output:
            raise PointerError(f"{pointer} failed and left no output")
        return output


def _lossy(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _cut(data: bytes, offset: int, size: int) -> Excerpt:
    """``size`` bytes of a text from ``offset``, without halves of characters."""
    first = min(max(0, offset), len(data))
    last = min(first + max(0, size), len(data))
    start, end = cut_character(data, first)[1], cut_character(data, last)[0]
    if start > end:  # both are in one character
        start = end = first
    return Excerpt(start, end, data[start:end].decode(), truncated=end < len(data))
