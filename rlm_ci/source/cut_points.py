"""Finds the lines where a long file may be cut: before definitions and their comments."""

from __future__ import annotations

import ast

from rlm_ci.source.outline import language_of
from rlm_ci.source.python import syntax

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: A definition of more lines may also be cut before each of its members.
_LARGE = 300


def borders(path: str, content: bytes) -> tuple[int, ...]:
    """The first lines, 1-based and in order, of what is at the top level of a file.

    Decorators, and a comment right above, belong to the definition. Empty if no grammar knows the
    file, or all of it is one piece.
    """
    name = language_of(path, content)
    starts = _of_python(content) if name == "Python" else None
    if starts is None:
        from rlm_ci.source.grammar_walk import first_lines

        starts = first_lines(name, content, _LARGE)
    lines = content.split(b"\n")
    return tuple(sorted({_with_remarks(lines, line) for line in starts if line <= len(lines)}))


def _of_python(content: bytes) -> list[int] | None:
    python_syntax = syntax.read(content)
    return None if python_syntax is None else list(_statements(python_syntax.module.body))


def _statements(body: Sequence[ast.stmt]) -> Iterator[int]:
    for node in body:
        yield syntax.first_line(node)
        if isinstance(node, ast.ClassDef) and (node.end_lineno or 0) - node.lineno > _LARGE:
            yield from _statements(node.body)


def _with_remarks(lines: Sequence[bytes], line: int) -> int:
    """The first of the comment lines right above ``line``, else ``line``."""
    first = line
    while first > 1 and lines[first - 2].lstrip().startswith((b"#", b"//", b"/*", b"*", b"--")):
        if lines[first - 2].lstrip().startswith((b"#include", b"#endif", b"#define", b"#!")):
            break
        first -= 1
    return first
