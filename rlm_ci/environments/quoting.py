"""Texts of files and commands for a model: quoted as data, all visible, bounded."""

from __future__ import annotations

from rlm_ci.text.line_references import marked, written_name
from rlm_ci.text.printable import count, encodable, fenced, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rlm_ci.recursion.nodes import LeafText
    from rlm_ci.text.line_references import LineReference

#: Characters of one observation, of one line in it, and of a summary.
OUTPUT_LIMIT = 20_000
LINE_LIMIT = 500
SUMMARY_LIMIT = 4000


def visible(line: str) -> str:
    """One line, with invisible characters but tabs written out."""
    text = "\t".join(printable(part) for part in line[:LINE_LIMIT].split("\t"))
    left_out = len(line) - LINE_LIMIT
    return f"{text} [… {left_out:,} characters left out]" if left_out > 0 else text


def quoted(head: str, text: str) -> str:
    """``text`` as data under ``head``; the head alone if it is empty."""
    body = encodable(text).strip("\n")
    return fenced(head, body) if body else f"{head}."


def numbered(
    path: str, lines: Sequence[str], first: int, number: int, room: int = OUTPUT_LIMIT
) -> str:
    """``number`` lines of a file from ``first``, as far as there is ``room``."""
    shown: list[str] = []
    for line_number, line in enumerate(lines[first - 1 : first - 1 + number], first):
        text = f"{line_number}\t{visible(line)}"
        room -= len(text) + 1
        if room < 0:
            break
        shown.append(text)
    if not shown:
        return f"{path} has {count(len(lines), 'line')}; there is no line {first}."
    last = first + len(shown) - 1
    return quoted(f"{path}, lines {first}-{last} of {len(lines)}", "\n".join(shown))


def said_of(texts: Iterable[LeafText], sentences: str) -> str:
    """A model's words about ``texts``; references to lines that it was not shown are marked."""
    shown: dict[str, list[tuple[int, int]]] = {}
    for text in texts:
        number = text.content.count(b"\n") + (not text.content.endswith(b"\n"))
        last = text.line_start + number - 1
        shown.setdefault(written_name(text.path), []).append((text.line_start, last))

    def holds(reference: LineReference) -> bool:
        windows = shown.get(reference.name, ())
        return all(
            any(low <= first <= last <= high for low, high in windows)
            for first, last in reference.spans
        )

    return marked(sentences, shown, holds)
