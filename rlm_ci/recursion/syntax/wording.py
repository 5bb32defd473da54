"""How a head and a documentation of source code are written down: short, and on one line."""

from __future__ import annotations

import re

from rlm_ci.texts import printable

#: Characters of a signature, and of a paragraph, that are kept.
HEAD_LIMIT = 300
DOC_LIMIT = 1000

_OPENED = re.compile(r"([(\[{<]) ")
_CLOSED = re.compile(r",? ([)\]}])")


def clipped(text: str, limit: int) -> str:
    """``text`` as anybody can read it, an ellipsis at its end where it goes on."""
    shown = printable(text)
    return shown if len(shown) <= limit else f"{shown[: limit - 1].rstrip()}…"


def folded(text: str, limit: int = HEAD_LIMIT) -> str:
    """A head that may be broken into lines, on one: as if it had never been broken."""
    line = " ".join(text.split())
    if "\n" in text.strip():
        line = _CLOSED.sub(r"\1", _OPENED.sub(r"\1", line))
    return clipped(line, limit)


def paragraph(lines: list[str]) -> tuple[str, int, int]:
    """The first paragraph of some lines: as one line, its first index, and one past its last."""
    first = 0
    while first < len(lines) and not lines[first].strip():
        first += 1
    last = first
    while last < len(lines) and lines[last].strip():
        last += 1
    return clipped(" ".join(" ".join(lines[first:last]).split()), DOC_LIMIT), first, last


def line_count(content: bytes) -> int:
    """The lines of a file as git counts them."""
    return content.count(b"\n") + (content[-1:] not in (b"\n", b""))
