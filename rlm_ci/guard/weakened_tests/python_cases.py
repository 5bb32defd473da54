"""The tests of a Python file by its syntax tree, with the number of rows in tables of cases."""

from __future__ import annotations

import ast
from functools import cached_property, partial
from itertools import chain

from rlm_ci.guard.weakened_tests.cases import Case, CaseFile, Facts, TestClass
from rlm_ci.guard.weakened_tests.python_claims import replaced
from rlm_ci.guard.weakened_tests.python_skips import skips
from rlm_ci.source.python import tests
from rlm_ci.source.python.claims import BROKEN, claims, escapes, has_claims, reached, text_of
from rlm_ci.source.python.names import Function, callee
from rlm_ci.source.python.statements import BRANCHING
from rlm_ci.source.python.syntax import first_line, parsed

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Iterator


#: Calls that give as many items as they get.
_SAME = frozenset(
    ("list", "tuple", "sorted", "reversed", "enumerate", "iter", "items", "keys", "values", "copy")
)
_LISTED = (ast.List, ast.Tuple, ast.Set)
_COMPREHENSIONS = (ast.ListComp, ast.GeneratorExp, ast.SetComp)


class CaseTables:
    """The tables that the body of a module, and its classes, assign."""

    def __init__(self, body: Iterable[ast.stmt]) -> None:
        self._rows: dict[str, int | None] = {}
        self._values: dict[str, ast.expr] = {}
        self._read(body, is_sure=True)

    def _read(self, body: Iterable[ast.stmt], *, is_sure: bool) -> None:
        for node in body:
            if isinstance(node, ast.ClassDef):
                self._read(node.body, is_sure=is_sure)
            elif isinstance(node, BRANCHING):
                inside = chain(getattr(node, "body", ()), getattr(node, "orelse", ()))
                self._read(inside, is_sure=False)
            elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for target in targets:
                    if isinstance(target, ast.Name):
                        self._rows[target.id] = self.rows(node.value) if is_sure else None
                        self._values[target.id] = node.value
            elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                self._add(node.target.id, self.rows(node.value) if is_sure else None)
            elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
                self._called(node.value, is_sure=is_sure)

    def _called(self, call: ast.Call, *, is_sure: bool) -> None:
        if not isinstance(call.func, ast.Attribute) or not isinstance(call.func.value, ast.Name):
            return
        name, method = call.func.value.id, call.func.attr
        if name in self._rows and method == "clear":
            self._rows[name] = 0
        elif name in self._rows:
            more = self.rows(call.args[0]) if method == "extend" and call.args else None
            self._add(name, {"append": 1, "add": 1}.get(method, more) if is_sure else None)

    def _add(self, name: str, rows: int | None) -> None:
        before = self._rows.get(name)
        self._rows[name] = None if before is None or rows is None else before + rows

    def rows(self, node: ast.expr) -> int | None:
        """How many items there are; None if that is computed."""
        if isinstance(node, _LISTED):
            return self._sum(
                item.value if isinstance(item, ast.Starred) else None for item in node.elts
            )
        if isinstance(node, ast.Dict):
            return None if None in node.keys else len(node.keys)
        if isinstance(node, ast.Name):
            return self._rows.get(node.id)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            return self._sum([node.left, node.right])
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
            return self._sliced(node.value, node.slice)
        if isinstance(node, _COMPREHENSIONS):
            (first, *others) = node.generators
            return None if others or first.ifs else self.rows(first.iter)
        if isinstance(node, ast.Call) and callee(node) in _SAME:
            inner = node.args[0] if node.args else getattr(node.func, "value", None)
            return self.rows(inner) if inner is not None else 0
        return None

    def _sum(self, parts: Iterable[ast.expr | None]) -> int | None:
        """One for each None, and the rows of the others."""
        rows = [1 if part is None else self.rows(part) for part in parts]
        return None if None in rows else sum(row or 0 for row in rows)

    def _sliced(self, table: ast.expr, cut: ast.Slice) -> int | None:
        rows = self.rows(table)
        try:
            ends = [
                None if node is None else ast.literal_eval(node)
                for node in (cut.lower, cut.upper, cut.step)
            ]
            return None if rows is None else len(range(rows)[slice(*ends)])
        except (ValueError, TypeError):
            return None

    def listed(self, tables: Iterable[ast.expr]) -> int | None:
        """How many cases these tables have; of equal ones that are written out, one counts."""
        rows = [_distinct(table) or self.rows(table) for table in tables]
        return None if None in rows else sum(row or 0 for row in rows)

    @cached_property
    def text(self) -> str:
        """The tables by name, with their rows."""
        return "\n".join(
            f"{name} = {text_of(value)}: {self._rows.get(name)}"
            for name, value in self._values.items()
        )

    def filters(self, tables: Iterable[ast.expr]) -> Iterator[tuple[int, str]]:
        """What leaves out cases by a condition or a slice, with its line."""
        for table in tables:
            value = self._values.get(table.id, table) if isinstance(table, ast.Name) else table
            if _is_filter(value):
                yield table.lineno, text_of(value)


def _distinct(table: ast.expr) -> int:
    """How many different cases a list has; 0 for another table, or one that takes in others."""
    if not isinstance(table, _LISTED) or any(isinstance(row, ast.Starred) for row in table.elts):
        return 0
    return len(set(map(text_of, table.elts)))


def decorator_tables(function: Function) -> Iterator[ast.expr]:
    """The tables that the decorators of a test name."""
    for decorator in function.decorator_list:
        if callee(decorator) == "parametrize" and isinstance(decorator, ast.Call):
            nodes = [keyword.value for keyword in decorator.keywords if keyword.arg == "argvalues"]
            yield from [*decorator.args[1:2], *nodes][:1]


def loops(function: Function) -> Iterator[ast.expr]:
    """What the loops around claims go through."""
    for node in reached(function):
        if isinstance(node, ast.For | ast.AsyncFor) and any(map(has_claims, node.body)):
            yield node.iter


def _is_filter(node: ast.AST) -> bool:
    if isinstance(node, _COMPREHENSIONS):
        return any(generator.ifs for generator in node.generators)
    if isinstance(node, ast.Subscript):
        return isinstance(node.slice, ast.Slice)
    name = callee(node)
    inner = node.args[:1] if isinstance(node, ast.Call) and name in _SAME else []
    return name in ("filter", "islice") or any(map(_is_filter, inner))


_NO_PYTHON = "is no valid Python"


def read(text: str, pattern: re.Pattern[str] = tests.TESTS) -> CaseFile:
    """The tests of a file; with a flaw, if it is no Python of this version.

    ``pattern``: how the names of tests begin.
    """
    try:
        if (module := parsed(text)) is None:
            return CaseFile(flaw=_NO_PYTHON)
        python_tests, lines = tests.of(module), text.split("\n")
        tables = CaseTables(module.body)

        def case(name: str, node: Function) -> Case:
            source = "\n".join(lines[first_line(node) - 1 : node.end_lineno])
            return Case(name, node.lineno, source, partial(_facts, node, tables))

        return CaseFile(
            tuple(case(_dotted(name), node) for name, node in python_tests.tests(pattern)),
            tuple(skips(text, module)),
            helpers=tuple(case(node.name, node) for node in python_tests.helpers(pattern)),
            classes={_dotted(name): _class(node) for name, node in python_tests.classes()},
            tables=tables.text,
        )
    except BROKEN:
        return CaseFile(flaw=_NO_PYTHON)


def _dotted(name: str) -> str:
    return name.replace("::", ".")


def _class(node: ast.ClassDef) -> TestClass:
    bases = tuple(text_of(base) for base in (*node.bases, *node.keywords))
    return TestClass(bases, any(getattr(child, "name", "") == "__init__" for child in node.body))


def _facts(function: Function, tables: CaseTables) -> Facts:
    listed, looped = list(decorator_tables(function)), list(loops(function))
    return Facts(
        tuple(claims(function)), tuple(escapes(function)), tables.listed(listed),
        tuple(map(tables.rows, looped)), tuple(tables.filters([*listed, *looped])),
        tuple(map(text_of, [*listed, *looped])), tuple(arg.arg for arg in function.args.args),
        tuple(replaced(function)),
    )  # fmt: skip
