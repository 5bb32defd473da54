"""Edits of Python source: bugs of sixteen kinds, and rewrites that change nothing.

An edit replaces bytes of a file and leaves the rest to the letter.
"""

from __future__ import annotations

import ast

from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: The kind of an edit that changes nothing.
HARMLESS = "harmless"
_COMPARED = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">"}
_EQUAL = {ast.Eq: "!=", ast.NotEq: "==", ast.In: "not in", ast.NotIn: "in"}
_FLIPPED = {ast.Lt: ">", ast.LtE: ">=", ast.Gt: "<", ast.GtE: "<="}
_ARITHMETIC = {ast.Add: "-", ast.Sub: "+", ast.Mult: "+", ast.FloorDiv: "*"}
_METHODS = {
    "strip": "lstrip", "lstrip": "rstrip", "rstrip": "lstrip", "startswith": "endswith",
    "endswith": "startswith", "find": "rfind", "rfind": "find", "partition": "rpartition",
    "rpartition": "partition", "split": "rsplit", "lower": "upper", "upper": "lower",
    "min": "max", "max": "min", "any": "all", "all": "any",
}  # fmt: skip
_DROPPED = ("lower", "strip", "rstrip", "lstrip", "casefold", "copy", "upper")


class SourceEdit(Value):
    """The bytes from ``start`` to ``end`` of a file, and what stands there then."""

    kind: str
    line: int
    start: int
    end: int
    text: str


def apply(source: bytes, edits: list[SourceEdit]) -> bytes:
    """``source`` with ``edits``, which do not overlap."""
    for source_edit in sorted(edits, key=lambda edit: -edit.start):
        source = source[: source_edit.start] + source_edit.text.encode() + source[source_edit.end :]
    return source


def overlap(edit: SourceEdit, other: SourceEdit) -> bool:
    return edit.start <= other.end and other.start <= edit.end


class _File:
    def __init__(self, source: bytes) -> None:
        self.source = source
        self.starts = [0]
        for line in source.split(b"\n"):
            self.starts.append(self.starts[-1] + len(line) + 1)

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        end_line, end_column = node.end_lineno or node.lineno, node.end_col_offset or 0
        start = self.starts[node.lineno - 1] + node.col_offset
        return start, self.starts[end_line - 1] + end_column

    def text(self, node: ast.expr | ast.stmt) -> str:
        start, end = self.span(node)
        return self.source[start:end].decode()

    def edit(self, kind: str, node: ast.expr | ast.stmt, text: str) -> SourceEdit:
        return SourceEdit(kind, node.lineno, *self.span(node), text)

    def between(
        self, kind: str, left: ast.expr, right: ast.expr, text: str
    ) -> Iterator[SourceEdit]:
        """The operator between two operands; none where a bracket or comment is there too."""
        start, end = self.span(left)[1], self.span(right)[0]
        source = self.source[start:end].decode()
        if source.strip() and not set(source) & set("()#\n\\"):
            yield SourceEdit(kind, left.lineno, start, end, f" {text} ")


def bugs(source: bytes) -> list[SourceEdit]:
    """Every bug that can be planted in a file, in the order of the file."""
    return _edits(source, _BUGS)


def rewrites(source: bytes) -> list[SourceEdit]:
    """Edits of a file that change nothing of what it does."""
    return _edits(source, _REWRITES)


def _edits(
    source: bytes, makers: tuple[Callable[[_File, ast.AST], Iterator[SourceEdit]], ...]
) -> list[SourceEdit]:
    file = _File(source)
    edits = [
        edit
        for function in ast.walk(ast.parse(source))
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
        for statement in function.body
        for node in ast.walk(statement)
        for maker in makers
        for edit in maker(file, node)
    ]
    return sorted(
        dict.fromkeys(edits),
        key=lambda source_edit: (
            source_edit.start,
            source_edit.end,
            source_edit.kind,
            source_edit.text,
        ),
    )


# ── bugs ──


def _comparison(file: _File, node: ast.AST) -> Iterator[SourceEdit]:
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        operator, right = type(node.ops[0]), node.comparators[0]
        if operator in _COMPARED:
            yield from file.between("boundary", node.left, right, _COMPARED[operator])
        elif operator in _EQUAL:
            yield from file.between("comparison", node.left, right, _EQUAL[operator])


def _boolean(file: _File, node: ast.AST) -> Iterator[SourceEdit]:
    if isinstance(node, ast.BoolOp) and len(node.values) == 2:
        text = "or" if isinstance(node.op, ast.And) else "and"
        yield from file.between("boolean-operator", node.values[0], node.values[1], text)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield file.edit("lost-not", node, f"({file.text(node.operand)})")


def _arithmetic(file: _File, node: ast.AST) -> Iterator[SourceEdit]:
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        yield from file.between("arithmetic", node.left, node.right, _ARITHMETIC[type(node.op)])
        if isinstance(node.right, ast.Constant) and type(node.right.value) is int:
            yield file.edit("off-by-one", node.right, str(node.right.value + 1))


def _index(file: _File, node: ast.AST) -> Iterator[SourceEdit]:
    if not isinstance(node, ast.Subscript):
        return
    if isinstance(node.slice, ast.Slice):
        for bound in (node.slice.lower, node.slice.upper):
            if bound is not None:
                yield file.edit("wrong-slice", bound, f"{file.text(bound)} + 1")
    elif isinstance(node.slice, ast.Constant) and type(node.slice.value) is int:
        yield file.edit("wrong-index", node.slice, str(node.slice.value + 1))


def _call(file: _File, node: ast.AST) -> Iterator[SourceEdit]:
    if not isinstance(node, ast.Call):
        return
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if name in _METHODS:
        start, end = file.span(node.func)
        yield SourceEdit("wrong-method", node.lineno, end - len(name), end, _METHODS[name])
    if isinstance(node.func, ast.Attribute) and name in _DROPPED and not node.args:
        yield file.edit("lost-normalisation", node, file.text(node.func.value))
    plain = (ast.Name, ast.Constant, ast.Attribute)
    if len(node.args) == 2 and not node.keywords and all(isinstance(a, plain) for a in node.args):
        first, second = node.args
        start, end = file.span(first)[0], file.span(second)[1]
        text = f"{file.text(second)}, {file.text(first)}"
        yield SourceEdit("swapped-arguments", node.lineno, start, end, text)
    if name == "get" and len(node.args) == 2:
        start, end = file.span(node.args[0])[1], file.span(node.args[1])[1]
        yield SourceEdit("lost-default", node.lineno, start, end, "")


def _branch(file: _File, node: ast.AST) -> Iterator[SourceEdit]:
    if isinstance(node, ast.If):
        yield file.edit("wrong-branch", node.test, f"not ({file.text(node.test)})")
        leaves = (ast.Return, ast.Raise, ast.Continue)
        if not node.orelse and len(node.body) == 1 and isinstance(node.body[0], leaves):
            yield file.edit("lost-guard", node.body[0], "pass")
    if isinstance(node, ast.Continue):
        yield file.edit("early-end", node, "break")
    if isinstance(node, ast.Break):
        yield file.edit("late-end", node, "continue")


def _assignment(file: _File, node: ast.AST) -> Iterator[SourceEdit]:
    if isinstance(node, ast.AugAssign):
        text = f"{file.text(node.target)} = {file.text(node.value)}"
        yield file.edit("lost-accumulation", node, text)
    elements = node.elts if isinstance(node, (ast.Tuple, ast.Set, ast.List)) else []
    if len(elements) > 2 and all(isinstance(element, ast.Constant) for element in elements):
        start, end = file.span(elements[-2])[1], file.span(elements[-1])[1]
        yield SourceEdit("lost-element", elements[-1].lineno, start, end, "")


_BUGS = (_comparison, _boolean, _arithmetic, _index, _call, _branch, _assignment)


# ── rewrites ──


def _flip(file: _File, node: ast.AST) -> Iterator[SourceEdit]:
    """``a < b`` as ``b > a``, of operands that do nothing."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _FLIPPED:
        left, right = node.left, node.comparators[0]
        if all(isinstance(operand, (ast.Name, ast.Constant)) for operand in (left, right)):
            text = f"{file.text(right)} {_FLIPPED[type(node.ops[0])]} {file.text(left)}"
            yield file.edit(HARMLESS, node, text)


def _choice(file: _File, node: ast.AST) -> Iterator[SourceEdit]:
    if isinstance(node, ast.IfExp):
        test, body, other = map(file.text, (node.test, node.body, node.orelse))
        yield file.edit(HARMLESS, node, f"{other} if not ({test}) else {body}")


def _counted(file: _File, node: ast.AST) -> Iterator[SourceEdit]:
    """``n += 1`` as ``n = n + 1``, of a number."""
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        value = node.value
        if isinstance(value, ast.Constant) and type(value.value) is int:
            sign = {ast.Add: "+", ast.Sub: "-"}.get(type(node.op))
            if sign:
                name = node.target.id
                yield file.edit(HARMLESS, node, f"{name} = {name} {sign} {value.value}")


def _result(file: _File, node: ast.AST) -> Iterator[SourceEdit]:
    """``return f(x)`` in two statements."""
    if isinstance(node, ast.Return) and isinstance(node.value, (ast.Call, ast.BinOp)):
        start = file.span(node)[0]
        before = file.source[:start].rpartition(b"\n")[2]
        text = file.text(node.value)
        if not before.strip() and "\n" not in text:  # the statement begins its line
            indent = before.decode()
            yield file.edit(HARMLESS, node, f"outcome = {text}\n{indent}return outcome")


def _quotes(file: _File, node: ast.AST) -> Iterator[SourceEdit]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        text = file.text(node)
        plain = (
            node.value.isascii()
            and node.value.isprintable()
            and not set(node.value) & set("'\"\\{}")
        )
        if plain and text in (f'"{node.value}"', f"'{node.value}'"):
            mark = "'" if text[0] == '"' else '"'
            yield file.edit(HARMLESS, node, f"{mark}{node.value}{mark}")


_REWRITES = (_flip, _choice, _counted, _result, _quotes)
