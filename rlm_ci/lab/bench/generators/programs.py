"""Small functions that are right, and for each the bugs that a case puts into a copy of it.

A bug is a text, what stands there instead, and a call that shows it.
"""

from __future__ import annotations

from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rlm_ci.lab.bench.generators.seeded import Chance


def merge_intervals(intervals: list[list[int]]) -> list[list[int]]:
    """Join the closed intervals that overlap or touch; the result is sorted."""
    merged: list[list[int]] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([start, end])
    return merged


def wrap_words(text: str, width: int) -> list[str]:
    """Break a text into lines of at most width characters; a longer word has its own line."""
    lines: list[str] = []
    line = ""
    for word in text.split():
        if line and len(line) + 1 + len(word) > width:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}" if line else word
    if line:
        lines.append(line)
    return lines


def parse_duration(text: str) -> int:
    """Seconds of a duration such as 1h30m or 45s; -1 for anything else."""
    units = {"d": 86400, "h": 3600, "m": 60, "s": 1}
    total, digits, seen = 0, "", False
    for letter in text.strip():
        if letter in "0123456789":
            digits += letter
        elif letter in units and digits:
            total += int(digits) * units[letter]
            digits, seen = "", True
        else:
            return -1
    return total if seen and not digits else -1


def to_roman(number: int) -> str:
    """A number from 1 to 3999 in Roman numerals."""
    table = [
        (1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"),
        (50, "L"), (40, "XL"), (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I"),
    ]  # fmt: skip
    written = ""
    for value, letters in table:
        while number >= value:
            written += letters
            number -= value
    return written


def split_row(row: str) -> list[str]:
    """The fields of a CSV row; in quotes, a comma is plain and two quotes mean one."""
    fields: list[str] = []
    field, quoted, at = "", False, 0
    while at < len(row):
        letter = row[at]
        if quoted and letter == '"' and row[at + 1 : at + 2] == '"':
            field += '"'
            at += 1
        elif letter == '"':
            quoted = not quoted
        elif letter == "," and not quoted:
            fields.append(field)
            field = ""
        else:
            field += letter
        at += 1
    return [*fields, field]


def page_numbers(current: int, last: int) -> list[int]:
    """The pages of a pager: first, last, current and its neighbours; 0 stands for a gap."""
    wanted = {1, last, current - 1, current, current + 1}
    shown: list[int] = []
    for page in sorted(page for page in wanted if 1 <= page <= last):
        if shown and page > shown[-1] + 1:
            shown.append(0)
        shown.append(page)
    return shown


class Program(Value):
    """``draw`` makes arguments of the function; ``bugs`` are text, replacement, showing call."""

    function: Callable[..., Any]
    draw: Callable[[Chance], list[Any]]
    bugs: tuple[tuple[str, str, list[Any]], ...]


def _intervals(chance: Chance) -> list[Any]:
    starts = [chance.below(40) for _ in range(chance.below(7))]
    return [[[start, start + chance.below(9)] for start in starts]]


def _text(chance: Chance) -> list[Any]:
    words = ["x" * (1 + chance.below(9)) for _ in range(chance.below(12))]
    return [" ".join(words), 4 + chance.below(12)]


def _duration(chance: Chance) -> list[Any]:
    parts = [f"{chance.below(90)}{chance.pick('dhms')}" for _ in range(1 + chance.below(3))]
    return [chance.pick(("", "", "", " ", "x", "5")).join(["", *parts, ""])]


def _number(chance: Chance) -> list[Any]:
    return [1 + chance.below(3999)]


def _row(chance: Chance) -> list[Any]:
    fields = ("", "a", "b c", '"x,y"', '"say ""hi"""', '""', '"1,2,3"')
    return [",".join(chance.pick(fields) for _ in range(1 + chance.below(5)))]


def _pages(chance: Chance) -> list[Any]:
    last = 1 + chance.below(20)
    return [1 + chance.below(last), last]


PROGRAMS = (
    Program(
        merge_intervals,
        _intervals,
        (
            ("start <= merged[-1][1]", "start < merged[-1][1]", [[[1, 2], [2, 3]]]),
            ("max(merged[-1][1], end)", "end", [[[1, 9], [2, 3]]]),
            ("in sorted(intervals)", "in intervals", [[[5, 6], [1, 2]]]),
        ),
    ),
    Program(
        wrap_words,
        _text,
        (
            ("len(line) + 1 + len(word)", "len(line) + len(word)", ["aa bb", 4]),
            ("    if line:\n        lines.append(line)\n", "", ["one", 9]),
            ("> width", ">= width", ["aa bb", 5]),
        ),
    ),
    Program(
        parse_duration,
        _duration,
        (
            ('"h": 3600', '"h": 360', ["1h"]),
            ("total += int", "total = int", ["1m1s"]),
            ("seen and not digits", "seen", ["1m5"]),
        ),
    ),
    Program(
        to_roman,
        _number,
        (
            ('(500, "D"), ', "", [500]),
            ('(40, "XL"), ', "", [44]),
            ('(900, "CM"), ', "", [944]),
        ),
    ),
    Program(
        split_row,
        _row,
        (
            ('letter == "," and not quoted', 'letter == ","', ['"a,b"']),
            ("[*fields, field]", "fields", ["a,b"]),
            ("            field += '\"'\n", "", ['"a""b"']),
        ),
    ),
    Program(
        page_numbers,
        _pages,
        (
            ("page > shown[-1] + 1", "page > shown[-1] + 2", [4, 4]),
            ("1 <= page <= last", "1 <= page", [3, 3]),
            ("current - 1, current, current + 1", "current, current + 1", [5, 5]),
        ),
    ),
)  # fmt: skip
