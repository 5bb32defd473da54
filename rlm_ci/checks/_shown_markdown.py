"""Markdown as a reader sees it: without comments and fenced code."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

#: What may precede the text of a line: quotes, then the marks of lists (the group).
LEAD = re.compile(r"[ \t>]*((?:(?:[-*+]|[0-9]{1,9}[.)])[ \t]{1,4})*)")
#: An open item of a list, behind its mark.
_OPEN = re.compile(r"\[ \][ \t]+\S")
#: Any item of a checklist, behind its mark.
_ITEM = re.compile(r"\[([ xX])\][ \t]+(?=\S)")
#: Runs of backticks.
_TICKS = re.compile(r"(`+)")


def shown_lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines outside of fenced code, without comments, each with its number (1-based)."""
    fence = ""
    comment = False
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        if fence:
            bare = line.strip(" \t>")
            if bare.startswith(fence) and not bare.strip(fence[0]):
                fence = ""
        elif not comment and (opened := fence_of(LEAD.sub("", line, count=1))):
            fence = opened
        else:
            shown, comment = _without_comments(line, comment=comment)
            yield number, shown


def _without_comments(line: str, *, comment: bool) -> tuple[str, bool]:
    """``line`` without comments, and whether it ends within one."""
    shown = ""
    while line:
        before, mark, line = line.partition("-->" if comment else "<!--")
        shown += "" if comment else before
        comment = comment != bool(mark)
    return shown, comment


def fence_of(text: str) -> str:
    """The backticks or tildes by which ``text`` opens a block of code; "" if it opens none."""
    if not text.startswith(("```", "~~~")):
        return ""
    run = text[: len(text) - len(text.lstrip(text[0]))]
    # With a backtick behind them, backticks open no fence but inline code.
    return "" if text[0] == "`" and "`" in text[len(run) :] else run


def without_code(line: str) -> str:
    """``line`` without its spans of inline code."""
    parts = _TICKS.split(line)
    # Where the next run of as many backticks is: it alone closes a span.
    following: dict[int, int] = {}
    closing = {}
    for index in range(len(parts) - 2, 0, -2):
        length = len(parts[index])
        closing[index] = following.get(length, 0)
        following[length] = index
    shown, index = parts[:1], 1
    while index < len(parts):
        index = closing[index] or index
        shown.append(parts[index + 1])
        index += 2
    return "".join(shown)


def heading_of(data: bytes) -> str:
    """The first heading of the top level in a document; "" without one."""
    lines = shown_lines(data.decode("utf-8", "surrogateescape"))
    return next((line.strip() for _, line in lines if line.lstrip().startswith("# ")), "")


def open_items(data: bytes) -> list[tuple[int, str]]:
    """The lines with an open ``[ ]`` item, each with its number (1-based), as GitHub shows them.

    They are in a list, also in a quote or another list, and not in fenced code or a comment.
    """
    text = data.decode("utf-8", "surrogateescape").replace("\r\n", "\n")
    lines = text.split("\n")
    return [
        (number, lines[number - 1])
        for number, line in shown_lines(text)
        if (lead := LEAD.match(line)) and lead[1] and _OPEN.match(line, lead.end())
    ]


def items(data: bytes) -> list[tuple[str, bool]]:
    """The text of each ``[ ]`` or ``[x]`` item, with single blanks, and whether it is ticked."""
    text = data.decode("utf-8", "surrogateescape")
    return [
        (" ".join(line[match.end() :].split()), match[1] != " ")
        for _, line in shown_lines(text)
        if (lead := LEAD.match(line)) and lead[1] and (match := _ITEM.match(line, lead.end()))
    ]
