"""The texts of a leaf as a model sees them: numbered lines, in windows that fit a prompt.

Every line is in a window, or reported as missing. A fence around data depends on a hash of the
data, so no text can contain its own fence.
"""

from __future__ import annotations

from rlm_ci.text.printable import encodable, printable
from rlm_ci.values import Row, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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


def name(path: str) -> str:
    """A path as prompts have it, on one line."""
    return printable(encodable(path))


def fence(*data: str) -> str:
    """A line that ``data`` does not contain, and cannot be made to contain."""
    from hashlib import sha256

    digest = sha256("\0".join(data).encode("utf-8", "backslashreplace")).hexdigest()
    return f"-----data-{digest[:32]}-----"


class WindowCutter:
    """Cuts the texts of a leaf, window after window, in as few as their order allows.

    ``missing`` are pairs of path and reason for lines that no window shows.
    """

    def __init__(self, texts: Sequence[LeafText]) -> None:
        self.missing: list[tuple[str, str]] = []
        self._texts = texts
        #: The next line: the number of its text, and its place in that.
        self._next = 0, 0
        self._numbered: dict[int, tuple[list[str], list[int]]] = {}

    def window(self, room: int) -> PromptWindow | None:
        """The next window, of at most ``room`` bytes; None if nothing is left.

        It is the next one until ``take`` has taken it.
        """
        parts: list[str] = []
        shown: list[ShownLines] = []
        used = 0
        number, at = self._next
        while number < len(self._texts):
            text = self._texts[number]
            head = f"=== {name(text.path)} ==="
            lines, sizes = self._lines(number)
            start = len(head.encode("utf-8", "replace")) + 1
            if used and at == 0 and used + start + sum(sizes) > room >= start + sum(sizes):
                break  # it fits into the next window
            while at < len(lines) and not used and start + sizes[at] > room:
                self.missing.append((text.path, f"line {text.line_start + at:,} {TOO_LONG}"))
                at += 1
                self._next = number, at
            if at < len(lines) and used + start + sizes[at] > room:
                break
            first = at
            used += start if at < len(lines) else 0
            while at < len(lines) and used + sizes[at] <= room:
                used += sizes[at]
                at += 1
            if at > first:
                parts.append("\n".join((head, *lines[first:at])))
                shown.append(ShownLines(number, text.line_start + first, text.line_start + at - 1))
            if at < len(lines):
                break
            number, at = number + 1, 0
        return PromptWindow("\n".join(parts), tuple(shown)) if parts else None

    def take(self, window: PromptWindow) -> None:
        """Go on behind ``window``."""
        last = window.shown[-1]
        self._next = last.text, last.line_end + 1 - self._texts[last.text].line_start

    def windows_left(self, room: int) -> Iterator[PromptWindow]:
        """All windows of ``room`` bytes that are left, taken one after the other."""
        while (window := self.window(room)) is not None:
            self.take(window)
            yield window

    def _lines(self, number: int) -> tuple[list[str], list[int]]:
        """The lines of a text, and their bytes."""
        if number not in self._numbered:
            lines = numbered(self._texts[number])
            sizes = [len(line.encode("utf-8", "replace")) + 1 for line in lines]
            self._numbered[number] = lines, sizes
        return self._numbered[number]


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
