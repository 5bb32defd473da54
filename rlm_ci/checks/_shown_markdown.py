"""Markdown as a reader sees it: without comments and fenced code."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

#: What may precede the text of a line: quotes, then the marks of lists (the group).
LEAD = re.compile(r"[ \t>]*((?:(?:[-*+]|[0-9]{1,9}[.)])[ \t]{1,4})*)")


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
