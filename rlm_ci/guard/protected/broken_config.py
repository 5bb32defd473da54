"""Settings that cannot be parsed, as far as they can be read in one way only.

Many an honest fix mends a comma too many, or a merge that was left half done.
"""

from __future__ import annotations

import re
from itertools import pairwise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_WORD = re.compile(r'\s+|//[^\n]*|(?P<word>[{}\[\]:,]|"(?:[^"\\\n]|\\.)*"|[^\s{}\[\]:,"]+)')
_CLOSERS = {"{": "}", "[": "]"}
_HEADER = re.compile(r"^[ \t]*\[", re.MULTILINE)


def sides(data: bytes) -> tuple[str, ...]:
    """The text, or each side of a merge that left its marks in it."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    lines_by_side: dict[str, list[str]] = {"<": [], ">": []}
    within = ""
    for line in text.removeprefix("\ufeff").splitlines(keepends=True):
        mark = line[0] if line[:7] in ("<" * 7, "|" * 7, "=" * 7, ">" * 7) else ""
        if mark == "<" or (mark and within):
            within = {"=": ">", ">": ""}.get(mark, mark)
            continue
        for side, lines in lines_by_side.items():
            if within in ("", side):
                lines.append(line)
    return tuple(dict.fromkeys("".join(lines) for lines in lines_by_side.values()))


def json(text: str) -> str:
    """The text with its commas and last brackets mended."""
    mended: list[str] = []
    closers: list[str] = []
    for word in _words(text):
        last = mended[-1] if mended else ""
        if word in ("}", "]"):
            if last == ",":
                mended.pop()
            while closers and closers[-1] != word:
                mended.append(closers.pop())
            if not closers:
                raise ValueError(word)
            closers.pop()
        elif word == ",":
            if last in ("", ",", "{", "["):
                continue
        elif word != ":" and last not in ("", ",", ":", "{", "["):
            mended.append(",")
        mended.append(word)
        if word in _CLOSERS:
            closers.append(_CLOSERS[word])
    if mended and mended[-1] == ",":
        mended.pop()
    return " ".join((*mended, *reversed(closers)))


def _words(text: str) -> Iterator[str]:
    at = 0
    while at < len(text):
        match = _WORD.match(text, at)
        if match is None:
            raise ValueError(f"a text without an end at {at}")
        at = match.end()
        if word := match["word"]:
            yield word


def parts(text: str) -> Iterator[tuple[str, str]]:
    """The sections of TOML or INI by their heads, "" before the first.

    An array or text that begins a line with a bracket is cut there, and cannot be read then.
    """
    first, *heads = [0, *(match.start() for match in _HEADER.finditer(text)), len(text)]
    yield "", text[first : heads[0]]
    for start, end in pairwise(heads):
        part = text[start:end]
        head = part.strip("[ \t").partition("\n")[0].partition("]")[0]
        yield re.sub(r"[\s\"']", "", head), part


def decides(head: str, part: str, names: Sequence[str]) -> bool:
    """Whether an unreadable section may hold a setting that one of ``names`` begins."""
    outer = f"{head}." if head else ""
    return any(
        (bool(head) and head.startswith(name))
        or (name.startswith(outer) and name[len(outer) :].partition(".")[0] in part)
        for name in names
    )
