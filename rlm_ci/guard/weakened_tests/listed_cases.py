"""How many cases a test lists: the rows of its table, in JavaScript, Go, Rust or Java."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_CLOSING = {"[": "]", "{": "}", "(": ")"}
_PART = re.compile(
    r"\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|`[^`]*`|//[^\n]*|/\*.*?\*/|[\[\](){},]|[^\s\[\](){},\"'`/]+|.",
    re.DOTALL,
)
_EACH = re.compile(r"\.(?:each|for)\s*\(\s*")
_EACH_WHOLE = re.compile(_EACH.pattern + r"(\w+)\s*\)")
_EACH_PART = re.compile(
    _EACH.pattern + r"(\[?\s*(?:\.\.\.)?\w+\s*(?:\.(?:slice|filter|splice|at)\(|\[)[^\n]{0,60})"
)
_TEMPLATE = re.compile(r"\.each\s*`([^`]*)`")
#: A table of Go: a slice or a map, over which a loop goes.
_GO_WHOLE = re.compile(r"\brange\s+(\w+)\s*\{")
_GO_PART = re.compile(r"\brange\s+(\w+\[[^\]\n]*:[^\]\n]*\])\s*\{")
_GO_TABLE = r"\b{}\s*(?::?=|(?:\[\]|map\[)[^=\n]*=)\s*(?:\[\w*\]|map\[[^\]]*\])\s*"
_STRUCT = re.compile(r"(?:\*?struct\s*(?=\{)|[\w.*\[\]]+\s*(?=\{))")
_ROWS = {
    ".rs": re.compile(r"#\[\s*(?:\w+::)*(?:case|test_case)(?:::\w+)*\s*\("),
    ".java": re.compile(r"@(?:\w+\.)*(?:ValueSource|CsvSource|EnumSource)\([^{)]*"),
}


def count(ending: str, text: str, file: str) -> int | None:
    """The cases that the source of a test lists; None if it lists none, or computes them.

    ``file`` is the text that may have its table.
    """
    if ending == ".go":
        return _of_go(text, file)
    if ending == ".rs":
        return len(_ROWS[ending].findall(text)) or None
    if ending == ".java":
        match = _ROWS[ending].search(text)
        return (
            None
            if match is None or text[match.end() :][:1] != "{"
            else _elements(text, match.end())
        )
    if match := _TEMPLATE.search(text):
        return sum("${" in line for line in match[1].split("\n"))
    match = _EACH.search(text)
    return None if match is None else _of_script(text, match.end(), file)


def sources(ending: str, text: str) -> tuple[list[str], list[tuple[int, str]]]:
    """The names of the tables that a test goes through, and with its line what takes a part of
    one.
    """
    pattern, part = (_GO_WHOLE, _GO_PART) if ending == ".go" else (_EACH_WHOLE, _EACH_PART)
    parts = [(text.count("\n", 0, match.start()), match[1]) for match in part.finditer(text)]
    return pattern.findall(text), parts


def _of_script(text: str, at: int, file: str) -> int | None:
    if text[at : at + 1] == "[":
        return _elements(text, at)
    name = re.match(r"\w+(?=\s*\))", text[at:])
    table = name and re.search(rf"\b{name[0]}\b[^=\n]*=\s*(?=\[)", file)
    return _elements(file, table.end()) if table else None


def _of_go(text: str, file: str) -> int | None:
    """The rows of all tables that the test goes through."""
    counts = []
    for name in dict.fromkeys(_GO_WHOLE.findall(text)):
        pattern = re.compile(_GO_TABLE.format(name))
        tables = [(text, table.end()) for table in pattern.finditer(text)]
        if not tables and (outside := pattern.search(file)):
            tables = [(file, outside.end())]
        for source, start in tables:
            kind = _STRUCT.match(source, start)
            at = kind.end() if kind else start
            if source[start:].lstrip("*").startswith("struct"):
                at = end(source, at)
                at += len(source[at:]) - len(source[at:].lstrip())
            if source[at : at + 1] == "{":
                counts.append(_elements(source, at))
    return sum(counts) if counts else None


def _elements(text: str, at: int) -> int:
    """The elements between the bracket at ``at`` and the one that closes it."""
    depth, number, is_open = 0, 0, False
    for part in _parts(text, at):
        if part in _CLOSING:
            is_open = is_open or depth == 1
            depth += 1
        elif part in ("]", "}", ")"):
            depth -= 1
        elif depth == 1 and part == ",":
            number, is_open = number + is_open, False
        elif depth == 1:
            is_open = True
        if not depth:
            break
    return number + is_open


def end(text: str, at: int) -> int:
    """Where the bracket at ``at`` is closed."""
    depth = 0
    for match in _PART.finditer(text, at):
        depth += (match[0] in _CLOSING) - (match[0] in ("]", "}", ")"))
        if not depth:
            return match.end()
    return len(text)


def _parts(text: str, at: int) -> Iterator[str]:
    """The brackets, commas and words of a text, without blanks and comments."""
    for match in _PART.finditer(text, at):
        if match[0].strip() and not match[0].startswith(("//", "/*")):
            yield match[0]
