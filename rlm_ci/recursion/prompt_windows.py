"""What a model is shown of the texts of a leaf: numbered lines, in windows that fit a prompt.

Everything is shown; what fits no window is told. A fence that follows from what it holds parts the
data from our words: to write it, a text would have to know its own hash.
"""

from __future__ import annotations

from rlm_ci.text.printable import encodable, printable
from rlm_ci.values import Row, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rlm_ci.recursion.nodes import LeafText

    Ranges = Mapping[str, Sequence[Sequence[int]]]

#: Bytes that a prompt must have room for besides our words, for a window to be worth asking about.
LEAST = 2_000
#: Why a line is in no window, whoever asks, and however often.
TOO_LONG = "is too long for a prompt"


class ShownLines(Row):
    """The lines of a text that a window has, by its number and that of the lines."""

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
    """A line that does not stand in ``data``, and cannot have been put there."""
    from hashlib import sha256

    digest = sha256("\0".join(data).encode("utf-8", "backslashreplace")).hexdigest()
    return f"-----data-{digest[:32]}-----"


def windows(texts: Sequence[LeafText], room: int, changed: Ranges | None) -> PromptWindows:
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
        lines = numbered(text, (changed or {}).get(text.path) if changed is not None else None)
        head = f"=== {name(text.path)} ==="
        sizes = [len(line.encode("utf-8", "replace")) + 1 for line in lines]
        start = len(head.encode("utf-8", "replace")) + 1
        if used and used + start + sum(sizes) > room >= start + sum(sizes):
            close()  # it fits whole, only not here
        at = 0
        while at < len(lines):
            if used + start + sizes[at] > room:
                if not used:
                    where = text.line_start + at
                    missing.append((text.path, f"line {where:,} {TOO_LONG}"))
                    at += 1
                else:
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


def numbered(
    text: LeafText, changed: Iterable[Sequence[int]] | None, first: int = 1, last: int = 1 << 60
) -> list[str]:
    """The lines of a text with their numbers, a ``+`` behind those that a change touches."""
    lines = text.content.decode("utf-8", "surrogateescape").split("\n")
    if lines[-1] == "":
        lines.pop()
    touched = [tuple(one) for one in changed or ()]
    listed = []
    for number, line in enumerate(lines, text.line_start):
        if first <= number <= last:
            mark = "+" if any(low <= number <= high for low, high in touched) else " "
            listed.append(f"{number:>5}{mark}| {encodable(line.rstrip(chr(13)))}")
    return listed
