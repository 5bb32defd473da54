"""Shell: the functions at the left margin, line by line, as no grammar is installed for it."""

from __future__ import annotations

import re

from rlm_ci.source import Symbol
from rlm_ci.source.signatures import clipped, paragraph

#: Bytes of a script that is read, and functions of one.
_MAX_BYTES, _MOST = 512 << 10, 500
_FUNCTION = re.compile(r"(?:function\s+([\w:.-]+)\s*(?:\(\s*\))?|([\w:.-]+)\s*\(\s*\))\s*(.*)")
_HERE = re.compile(r"(?<!<)<<(-?)\s*(?:\"([^\"]+)\"|'([^']+)'|\\?(\w+))")
#: Lines that end a function; ``end`` is that of fish.
_ENDS = re.compile(r"[})]\s*(?:[;|&>#].*)?|end\s*")


def functions(content: bytes) -> tuple[Symbol, ...]:
    """The functions of a script, each with the comment above it; () for what is no text."""
    if len(content) > _MAX_BYTES or b"\0" in content:
        return ()
    rows = [row.rstrip("\r") for row in content.decode("utf-8", "replace").split("\n")]
    symbols: list[Symbol] = []
    begun: tuple[int, str] | None = None
    until, is_indented = "", False
    for number, row in enumerate(rows, 1):
        if until:  # within a here-document
            until = "" if (row.lstrip("\t") if is_indented else row) == until else until
            continue
        match = None if row.lstrip().startswith("#") else _HERE.search(row)
        if match:
            until, is_indented = match[2] or match[3] or match[4], bool(match[1])
        opened = _FUNCTION.fullmatch(row) if begun is None else None
        if opened and not _is_call(opened[3]):
            name = opened[1] or opened[2]
            if row.rstrip().endswith(("}", ")")) and opened[3]:
                symbols.append(_symbol(name, rows, number, number))
            else:
                begun = number, name
        elif begun and _ENDS.fullmatch(row):
            symbols.append(_symbol(begun[1], rows, begun[0], number))
            begun = None
        if len(symbols) == _MOST:
            break
    return tuple(symbols)


def _is_call(text: str) -> bool:
    """Whether what follows the brackets begins no body."""
    return bool(text) and text[0] not in "{(#"


def _symbol(name: str, rows: list[str], start: int, end: int) -> Symbol:
    first = start - 1
    while first > 0 and rows[first - 1].startswith("#") and not rows[first - 1].startswith("#!"):
        first -= 1
    text, begin, last = paragraph([row.strip("# \t") for row in rows[first : start - 1]])
    doc = (text, first + begin + 1, first + last) if text else ("", 0, 0)
    shown = clipped(name, 200)
    return Symbol.of(("function", shown, start, end, name[0] != "_", f"{shown}()", *doc))
