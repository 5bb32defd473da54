"""Search and replace in one text: exact, counted, and helpful when it does not fit."""

from __future__ import annotations

from rlm_ci.environments.quoting import quoted, visible
from rlm_ci.system.safe_tree import Refused
from rlm_ci.text.printable import count

#: Lines that are compared for a similar one, and characters of each.
_COMPARED = 2000
_WIDTH = 200
_PLACES = 10
_BOM = "\ufeff"


def lines(text: str) -> list[str]:
    """The lines of a text without their ends; only LF and CRLF end one."""
    parts = text.split("\n")
    if not parts[-1]:
        parts.pop()
    return [part.removesuffix("\r") for part in parts]


def _newline(text: str) -> str:
    pairs = text.count("\r\n")
    return "\r\n" if pairs * 2 > text.count("\n") else "\n"


def _with(text: str, newline: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", newline)


def like(before: str, after: str) -> str:
    """A new content with the line ends and the byte order mark of the old one."""
    text = _with(after, _newline(before)) if "\n" in before else after
    if before.startswith(_BOM) and not text.startswith(_BOM):
        text = _BOM + text
    return text


def replace(path: str, text: str, old: str, new: str, times: int) -> tuple[str, list[int]]:
    """``text`` with ``old`` replaced, and the lines of the places.

    Line ends are those of the file. Raises Refused if ``old`` is not there ``times`` times.
    """
    if not old:
        raise Refused("old is empty: use write to make a file")
    if old == new:
        raise Refused("old and new are the same")
    ends = [_newline(text), "\n", "\r\n"]
    newline = next((end for end in ends if _with(old, end) in text), ends[0])
    old, new = _with(old, newline), _with(new, newline)
    number = text.count(old)
    if number == 0:
        raise Refused(f"old is not in {path}.{_nearest(text, old)}")
    places = _places(text, old)
    if number != times:
        shown = ", ".join(map(str, places[:_PLACES]))
        more = ", …" if number > _PLACES else ""
        raise Refused(
            f"old is in {path} {count(number, 'time')}, not {times}: at line {shown}{more}."
            " Give more of the lines around it, or the count."
        )
    return text.replace(old, new), places[:_PLACES]


def _places(text: str, old: str) -> list[int]:
    """The lines on which ``old`` begins, of the first few places."""
    places: list[int] = []
    at, line = 0, 1
    while len(places) < _PLACES + 1 and (start := text.find(old, at)) >= 0:
        line += text.count("\n", at, start)
        places.append(line)
        line += old.count("\n")
        at = start + len(old)
    return places


def _nearest(text: str, old: str) -> str:
    from difflib import get_close_matches

    first_line = next((line.strip() for line in lines(old) if line.strip()), "")[:_WIDTH]
    if not first_line:
        return ""
    text_lines = lines(text)
    stripped = [line.strip()[:_WIDTH] for line in text_lines]
    same = [number for number, line in enumerate(stripped, 1) if line == first_line]
    if same:
        numbers, what = same[:3], "Its first line is there, with other lines or white space"
    else:
        close = get_close_matches(first_line, stripped[:_COMPARED], n=3, cutoff=0.6)
        numbers = sorted({stripped.index(line) + 1 for line in close})
        what = "The nearest lines"
    if not numbers:
        return " Read the file first."
    shown = "\n".join(f"{number}\t{visible(text_lines[number - 1])}" for number in numbers)
    return f" {quoted(what, shown)}"
