"""Formats the signatures and documentation of source code: short, and on one line."""

from __future__ import annotations

import re

from rlm_ci.text.printable import printable

#: Characters of a signature, and of a paragraph, that are kept.
HEAD_LIMIT = 300
DOC_LIMIT = 1000

_OPENED = re.compile(r"([(\[{<]) ")
_CLOSED = re.compile(r",? ([)\]}])")
_DIRECTIVE = re.compile(r"\s*\.\. (?:\[|_|[\w:-]+::|\|)")
_SECTION = re.compile(
    r"\s*(?:Args|Arguments|Attributes|Examples?|Keyword Arguments|Notes?|Other Parameters"
    r"|Parameters|Raises|References|Returns?|See Also|Usage|Warns|Yields?)::?\s*$"
)
_RULE = re.compile(r"\s*(?:-{3,}|={3,}|~{3,})\s*$")
#: A line that ends the prose of a documentation.
_NO_PROSE = re.compile(
    rf"\s*(?::\w[\w*., |\[\]-]*:(?:\s|$)|>>> |@(?:param|returns?|throws|type)\b)"
    rf"|{_DIRECTIVE.pattern}|{_SECTION.pattern}"
)
#: A line of fewer words that ends in a colon is a heading.
_FEW = 3


def clipped(text: str, limit: int) -> str:
    """``text`` in printable characters, with an ellipsis where it is cut."""
    shown = printable(text)
    return shown if len(shown) <= limit else f"{shown[: limit - 1].rstrip()}…"


def folded(text: str, limit: int = HEAD_LIMIT) -> str:
    """A signature that may have several lines, on one line."""
    line = " ".join(text.split())
    if "\n" in text.strip():
        line = _CLOSED.sub(r"\1", _OPENED.sub(r"\1", line))
    return clipped(line, limit)


def paragraph(lines: list[str]) -> tuple[str, int, int]:
    """The first paragraph of some lines: as one line, its first index, and one past its last.

    It ends where fields (``:param x:``), sections (``Args:``) or an example begin; a directive is
    skipped, and so is a title of one word that a paragraph follows.
    """
    first = 0
    while True:
        while first < len(lines) and not lines[first].strip():
            first += 1
        last = first
        while last < len(lines) and lines[last].strip() and not _NO_PROSE.match(lines[last]):
            last += 1
        after = _past(lines, first) if last == first < len(lines) else None
        if after is None:
            break
        first = after
    if last - first > 1 and _SECTION.match(f"{lines[first].strip()}:") and _RULE.match(
        lines[first + 1]
    ):  # fmt: skip
        return "", first, first
    text = " ".join(" ".join(lines[first:last]).split())
    if text.endswith(":") and len(text.split()) < _FEW:
        return "", first, first
    if len(text.split()) == 1 and text[-1] not in ".!?":
        follows, begin, end = paragraph(lines[last:])
        if follows:
            return follows, last + begin, last + end
    return clipped(text, DOC_LIMIT), first, last


def _past(lines: list[str], first: int) -> int | None:
    """The index after a directive and its indented lines; None for anything else."""
    if not _DIRECTIVE.match(lines[first]):
        return None
    margin = len(lines[first]) - len(lines[first].lstrip())
    for number in range(first + 1, len(lines)):
        line = lines[number]
        if line.strip() and len(line) - len(line.lstrip()) <= margin:
            return number if not lines[number - 1].strip() else None
    return None


def line_count(content: bytes) -> int:
    """The lines of a file as git counts them."""
    return content.count(b"\n") + (content[-1:] not in (b"\n", b""))
