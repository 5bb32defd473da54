"""The input of a sub-call: the texts that it names, in order, up to its limit of bytes."""

from __future__ import annotations

from hashlib import sha256
from itertools import islice

from rlm_ci.environments.symbolic.iteration import SUBCALL
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from rlm_ci.context.context import Excerpt
    from rlm_ci.environments.symbolic.planner.plan import Subcall
    from rlm_ci.environments.symbolic.visible_context import VisibleContext

#: Excerpts at most: each has a label, which does not count as bytes.
MOST_PIECES = 64
_MARK = 16
#: Bytes of a text for a byte that is no UTF-8.
_GROWTH = 3


class ShownExcerpt(Value):
    """One excerpt in a sub-call's prompt; ``size`` is the UTF-8 bytes of ``text`` there."""

    pointer: str
    label: str
    start: int
    end: int
    text: str
    size: int

    @property
    def of_subcall(self) -> bool:
        return self.pointer.startswith(SUBCALL)

    @property
    def mark(self) -> str:
        """The end mark of the excerpt, which depends on its text, so no text can have it."""
        return mark_of(self.text)

    def to_dict(self) -> dict[str, Any]:
        return {
            "pointer": self.pointer,
            "label": self.label,
            "start_byte": self.start,
            "end_byte": self.end,
            "bytes": self.size,
            "mark": self.mark,
        }


class SubcallInput(Value):
    """``clamped`` is what was cut or left out, as {"what", "asked", "given"} in bytes."""

    pieces: tuple[ShownExcerpt, ...]
    clamped: tuple[dict[str, Any], ...]

    @property
    def size(self) -> int:
        return sum(piece.size for piece in self.pieces)

    @property
    def spans(self) -> tuple[tuple[int, int], ...]:
        return tuple((piece.start, piece.end) for piece in self.pieces if not piece.of_subcall)


def mark_of(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:_MARK]


def gather(subcall: Subcall, limit: int, window: VisibleContext) -> SubcallInput:
    """The texts that ``subcall`` names, of at most ``limit`` bytes together.

    Raises PointerError, DamagedError, StorageError.
    """
    pieces: list[ShownExcerpt] = []
    clamped: list[dict[str, Any]] = []
    total = len(subcall.pointers) + len(subcall.snippets)
    if total > MOST_PIECES:
        clamped.append({"what": "pieces", "asked": total, "given": MOST_PIECES})
    left = limit
    for what, pointer, offset, length in islice(_requested_texts(subcall, window), MOST_PIECES):
        if subcall.is_part:
            excerpt, is_cut = _full_excerpt(window, pointer, length, left)
        else:
            excerpt, is_cut = _fitting(window, pointer, offset, length, left)
        shown = excerpt.end - excerpt.start
        if is_cut:
            clamped.append({"what": what, "asked": length, "given": shown})
        if shown:
            size = len(excerpt.text.encode())
            label = window.label(pointer, excerpt)
            pieces.append(
                ShownExcerpt(pointer, label, excerpt.start, excerpt.end, excerpt.text, size)
            )
            left -= size
    return SubcallInput(tuple(pieces), tuple(clamped))


def _requested_texts(
    subcall: Subcall, window: VisibleContext
) -> Iterator[tuple[str, str, int, int]]:
    """The named texts: what, pointer, offset and number of bytes."""
    for index, pointer in enumerate(subcall.pointers):
        start, end = window.span(pointer)
        yield f"pointers[{index}]", pointer, 0, end - start
    for index, snippet in enumerate(subcall.snippets):
        start, end = window.span(snippet.pointer)
        offset = min(snippet.offset, end - start)
        yield f"snippets[{index}]", snippet.pointer, offset, min(snippet.size, end - start - offset)


def _full_excerpt(
    window: VisibleContext, pointer: str, length_limit: int, left: int
) -> tuple[Excerpt, bool]:
    """As ``_fitting``, of all that ``pointer`` names: bytes that are no UTF-8 need more room."""
    excerpt, _ = _fitting(window, pointer, 0, length_limit * _GROWTH, left)
    return excerpt, excerpt.truncated


def _fitting(
    window: VisibleContext, pointer: str, offset: int, length_limit: int, left: int
) -> tuple[Excerpt, bool]:
    """The excerpt, cut so that its text has at most ``left`` bytes, and whether it was cut.

    A text is longer than its bytes if they are not UTF-8, or a short secret was redacted.
    """
    length = min(length_limit, left)
    while True:
        excerpt = window.read(pointer, length, offset)
        size = len(excerpt.text.encode())
        if size <= left:
            return excerpt, length < length_limit
        length = length * left // size
