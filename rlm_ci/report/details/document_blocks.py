"""The tables in a document, told from its other lines."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_RULE = re.compile(r"\|(?: *:?-+:? *\|)+")
_CELL = re.compile(r"(?<!\\)\|")


def blocks(text: str) -> Iterator[tuple[list[str], list[list[str]]]]:
    """Parts of a text in order: lines, or the rows of a Markdown table, its head first."""
    lines = text.strip().splitlines()
    plain: list[str] = []
    at = 0
    while at < len(lines):
        if not _begins_table(lines, at):
            plain.append(lines[at])
            at += 1
            continue
        yield from _prose(plain)
        plain = []
        rows = [_cells(lines[at])]
        at += 2
        while at < len(lines) and is_row(lines[at]):
            rows.append((_cells(lines[at]) + [""] * len(rows[0]))[: len(rows[0])])
            at += 1
        yield [], rows
    yield from _prose(plain)


def _prose(lines: list[str]) -> Iterator[tuple[list[str], list[list[str]]]]:
    """Lines between tables, without the blank ones around them."""
    stripped = "\n".join(lines).strip("\n").split("\n")
    if any(line.strip() for line in stripped):
        yield stripped, []


def is_row(line: str) -> bool:
    return len(line) > 1 and line.startswith("|") and line.endswith("|")


def _begins_table(lines: list[str], at: int) -> bool:
    below = lines[at + 1] if at + 1 < len(lines) else ""
    return is_row(lines[at]) and bool(_RULE.fullmatch(below))


def _cells(line: str) -> list[str]:
    return [cell.strip().replace("\\|", "|") for cell in _CELL.split(line[1:-1])]
