"""The body of a pull request as a reader sees it: without comments and fenced code."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


def shown_lines(body: str) -> Iterator[str]:
    """The lines outside of fenced code, without comments, which a template may contain."""
    fence = ""
    comment = False
    for line in body.splitlines():
        text = line.lstrip(" ")
        if fence:
            if text.startswith(fence) and not text.strip().strip(fence[0]):
                fence = ""
        elif not comment and (opened := fence_of(text)):
            fence = opened
        else:
            shown, comment = _without_comments(line, comment=comment)
            yield shown


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
