"""The texts of a leaf as a model sees them: numbered lines, in windows that fit a prompt.

Every line is in a window, or reported as missing. A fence around data depends on a hash of the
data, so no text can contain its own fence.
"""

from __future__ import annotations

from rlm_ci.text.printable import encodable, printable
from rlm_ci.values import Row, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlm_ci.recursion.nodes import LeafText

#: Bytes of a window that are worth a question.
LEAST = 2_000
#: Why a line is in no window.
TOO_LONG = "is too long for a prompt"


class ShownLines(Row):
    """The lines of a text in a window, by the number of the text and of the lines."""

    text: int
    line_start: int
    line_end: int


class PromptWindow(Value):
    """One prompt's share of a leaf."""

    listing: str
    shown: tuple[ShownLines, ...]


class PromptWindows(Value):
    """All windows of a leaf; ``missing`` are pairs of path and reason."""

    windows: tuple[PromptWindow, ...]
    missing: tuple[tuple[str, str], ...]


def name(path: str) -> str:
    """A path as prompts have it, on one line."""
    return printable(encodable(path))


def fence(*data: str) -> str:
    """A line that ``data`` does not contain, and cannot be made to contain."""
    from hashlib import sha256

    digest = sha256("\0".join(data).encode("utf-8", "backslashreplace")).hexdigest()
    return f"-----data-{digest[:32]}-----"


def windows(texts: Sequence[LeafText], room: int) -> PromptWindows:
    """The texts in as few windows of ``room`` bytes as their order allows."""
    made: list[PromptWindow] = []
    missing: list[tuple[str, str]] = []
    parts: list[str] = []
    shown: list[ShownLines] = []
    used = 0

    def close() -> None:
        nonlocal used
        if parts:
            made.append(PromptWindow("\n".join(parts), tuple(shown)))
        parts.clear()
        shown.clear()
        used = 0

    for number, text in enumerate(texts):
        lines = numbered(text)
        head = f"=== {name(text.path)} ==="
        sizes = [len(line.encode("utf-8", "replace")) + 1 for line in lines]
        start = len(head.encode("utf-8", "replace")) + 1
        if used and used + start + sum(sizes) > room >= start + sum(sizes):
            close()  # it fits into the next window
        at = 0
        while at < len(lines):
            if used + start + sizes[at] > room:
                if not used:
                    missing.append((text.path, f"line {text.line_start + at:,} {TOO_LONG}"))
                    at += 1
                close()
                continue
            used += start
            first = at
            while at < len(lines) and used + sizes[at] <= room:
                used += sizes[at]
                at += 1
            parts.append("\n".join((head, *lines[first:at])))
            shown.append(ShownLines(number, text.line_start + first, text.line_start + at - 1))
    close()
    return PromptWindows(tuple(made), tuple(missing))


def numbered(text: LeafText, first: int = 1, last: int = 1 << 60) -> list[str]:
    """The lines of a text with their numbers."""
    lines = text.content.decode("utf-8", "surrogateescape").split("\n")
    if lines[-1] == "":
        lines.pop()
    return [
        f"{number:>5} | {encodable(line.rstrip(chr(13)))}"
        for number, line in enumerate(lines, text.line_start)
        if first <= number <= last
    ]
