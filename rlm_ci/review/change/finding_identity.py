"""Marks by which findings at two commits are the same: the rule, the message and the code.

The code is the name of a definition if the finding is on its head, a statement of Python without
annotations and layout, or any other text without white space. So moving, reformatting or
annotating code does not change the mark.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_left
from hashlib import sha256

from rlm_ci.source import outline as source_outline
from rlm_ci.source.python import syntax

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rlm_ci.recursion.nodes import LeafText
    from rlm_ci.report.findings import Finding

_NUMBER = re.compile(r"\d+")
#: The fields of a statement that hold others.
_BELOW = ("body", "handlers", "cases", "orelse", "finalbody")
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def marks(findings: Sequence[Finding], texts: Sequence[LeafText]) -> Iterator[str]:
    """The mark of each finding; ``texts`` hold the files of all."""
    contents = {text.path: text.complete for text in texts}
    files: dict[str, _File] = {}
    for finding in findings:
        location = finding.evidence[0]
        if location.path not in files:
            files[location.path] = _File(location.path, contents.get(location.path, b""))
        about = files[location.path].about(location.line_start, location.quote or "")
        # Numbers in a message are counts and lines.
        text = "\0".join((finding.rule, _NUMBER.sub("0", finding.message), about))
        yield sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def with_definition(claim: Finding, content: bytes) -> Finding:
    """A model's claim, whose ``subject`` is the innermost definition at its first line."""
    location = claim.evidence[0]
    line = location.line_start or 0
    around = [
        symbol for symbol in source_outline.outline(location.path, content).symbols
        if symbol.line_start <= line <= symbol.line_end
    ]  # fmt: skip
    inner = min(around, key=lambda symbol: symbol.line_end - symbol.line_start, default=None)
    return claim.replace(subject=inner.name if inner else None)


class _File:
    def __init__(self, path: str, content: bytes) -> None:
        self._module: ast.Module | None = None
        self._heads: dict[int, str] = {}
        # Cached: a file may have as many findings as lines.
        self._bodies: dict[ast.AST, tuple[list[ast.stmt], list[int]]] = {}
        self._written: dict[ast.AST, str | None] = {}
        if source_outline.language_of(path, content) == "Python":
            read = syntax.read(content)
            self._module = None if read is None else read.module
        else:
            outline = source_outline.outline(path, content)
            self._heads = {symbol.line_start: symbol.name for symbol in reversed(outline.symbols)}

    def about(self, line: int | None, quote: str) -> str:
        """The code at ``line``, whose text is ``quote``."""
        if line is None:
            return ""
        if line in self._heads:
            return f"definition {self._heads[line]}"
        statement = None if self._module is None else self._statement(self._module, line)
        return statement or "".join(quote.split())

    def _statement(self, module: ast.Module, line: int) -> str | None:
        """The innermost statement at ``line``, None where there is a comment, or nothing."""
        names: list[str] = []
        node: ast.AST = module
        while True:
            body, ends = self._body(node)
            at = bisect_left(ends, line)
            if at == len(body) or syntax.first_line(body[at]) > line:
                break
            node = body[at]
            if isinstance(node, _DEFINITIONS):
                names.append(node.name)
        if isinstance(node, ast.Module) or (body and line > syntax.first_line(body[0])):
            return None
        if isinstance(node, _DEFINITIONS):
            return f"definition {'.'.join(names)}"
        if node not in self._written:
            self._written[node] = _written(node)
        return self._written[node]

    def _body(self, node: ast.AST) -> tuple[list[ast.stmt], list[int]]:
        """The statements right below a node, and the last line of each."""
        if node not in self._bodies:
            body = _inside(node)
            self._bodies[node] = (body, [child.end_lineno or child.lineno for child in body])
        return self._bodies[node]


def _written(node: ast.AST) -> str | None:
    try:
        return ast.unparse(_bare(node))
    except (RecursionError, ValueError, AttributeError):
        return None


def _inside(node: ast.AST) -> list[ast.stmt]:
    nodes: list[ast.stmt] = []
    for name in _BELOW:
        below = getattr(node, name, None)
        for child in below if isinstance(below, list) else ():
            nodes += [child] if isinstance(child, ast.stmt) else _inside(child)
    return nodes


def _bare(node: ast.AST) -> ast.AST:
    """A statement without its annotation, and without those below it."""
    if isinstance(node, ast.AnnAssign):
        return ast.Assign([node.target], node.value, lineno=0) if node.value else node.target
    fields = dict(ast.iter_fields(node))
    below: dict[str, list[ast.stmt]] = {
        name: [] for name in _BELOW if isinstance(fields.get(name), list)
    }
    if "body" in below:
        below["body"] = [ast.Pass()]
    return type(node)(**{**fields, **below}) if below else node
