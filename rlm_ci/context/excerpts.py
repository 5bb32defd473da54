"""Excerpts of a long text, which end on borders of characters."""

from __future__ import annotations

from bisect import bisect_right

from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: A character of UTF-8 has at most so many bytes after its first.
REST = 3


class Excerpt(Value):
    """Bytes ``start`` to ``end`` of the source as a text, with U+FFFD for invalid UTF-8.

    Characters that an edge cuts are left out. ``truncated``: the pointer's range is longer.
    """

    start: int
    end: int
    text: str
    truncated: bool


class Hit(Value):
    """The hits of one query in one chunk: their number is the score, the bytes are the first's.

    ``preview`` is the text around it, bytes ``preview_start`` to ``preview_end`` of the source.
    """

    pointer: str
    start_byte: int
    end_byte: int
    score: int
    preview: str
    preview_start: int
    preview_end: int

    def to_dict(self) -> dict[str, Any]:
        names = ("pointer", "start_byte", "end_byte", "score", "preview")
        return {name: getattr(self, name) for name in names}


class QueryResult(Value):
    """The hits of one query: in all, and in the best chunks."""

    query: str
    total_hits: int
    chunks_matched: int
    hits: tuple[Hit, ...]


def cut_character(data: bytes, at: int) -> tuple[int, int]:
    """Start and end of the character that a cut at ``at`` would halve; ``at`` twice if none."""
    if 0 < at < len(data) and data[at] & 0xC0 == 0x80:
        for start in range(at - 1, max(-1, at - 1 - REST), -1):
            lead = data[start]
            if lead & 0xC0 != 0x80:
                end = start + (2 if lead < 0xE0 else 3 if lead < 0xF0 else 4)
                if lead >= 0xC0 and end > at and _is_character(data[start:end]):
                    return start, end
                break
    return at, at


def fitting(data: bytes, size: int) -> int:
    """The bytes of ``data`` that become a text of at most ``size`` bytes: invalid UTF-8 grows."""
    if text_length(data) <= size:
        return len(data)
    at = bisect_right(range(len(data)), size, key=lambda at: text_length(data[:at])) - 1
    return cut_character(data, at)[0]


def text_length(data: bytes) -> int:
    """The bytes of the text that ``data`` becomes."""
    return len(data.decode("utf-8", "replace").encode())


def _is_character(data: bytes) -> bool:
    try:
        return len(data.decode()) == 1
    except UnicodeDecodeError:
        return False
