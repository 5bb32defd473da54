"""Code lines of rlm_ci by room: ``python benchmarks/code_lines.py [FOLDER]``.

A line counts if a token other than a comment begins, goes on or ends on it. Blank lines, comments
and docstrings do not count. ``FOLDER`` is the top of a clone, this one by default.
"""

from __future__ import annotations

import ast
import sys
import tokenize
from collections import Counter
from pathlib import Path

#: Tokens that are no code.
SILENT = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
    tokenize.ENCODING, tokenize.ENDMARKER,
}  # fmt: skip
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def code_lines(path: Path) -> int:
    """The number of code lines of a Python file."""
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            docstring = node.body[0]
            docstrings.update(range(docstring.lineno, (docstring.end_lineno or 0) + 1))
    lines: set[int] = set()
    with path.open("rb") as stream:
        for token in tokenize.tokenize(stream.readline):
            if token.type not in SILENT:
                lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - docstrings)


def main() -> None:
    top = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent)
    package = top / "rlm_ci"
    rooms: Counter[str] = Counter()
    for path in sorted(package.rglob("*.py")):
        rooms[path.relative_to(package).parts[0].removesuffix(".py")] += code_lines(path)
    for room, lines in rooms.most_common():
        print(f"{lines:7,}  {room}")
    print(f"{rooms.total():7,}  in all, {rooms.total() - rooms['lab']:,} outside of lab")


if __name__ == "__main__":
    main()
