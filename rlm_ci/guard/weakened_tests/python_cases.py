"""The tests of a file of Python, by its syntax tree."""

from __future__ import annotations

import ast
import re
from functools import partial

from rlm_ci.guard.weakened_tests import case_tables
from rlm_ci.guard.weakened_tests.case_tables import CaseTables
from rlm_ci.guard.weakened_tests.cases import Case, CaseFile, Facts, TestClass
from rlm_ci.guard.weakened_tests.python_claims import (
    BROKEN,
    claims,
    escapes,
    is_never,
    replaced,
    text_of,
)  # fmt: skip
from rlm_ci.guard.weakened_tests.python_skips import skips
from rlm_ci.source.python.calls import Function
from rlm_ci.source.python.syntax import parsed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: How the names of tests begin by default.
TESTS = re.compile("test")
_NO_PYTHON = "is no valid Python"


def read(text: str, pattern: re.Pattern[str] = TESTS) -> CaseFile:
    """The tests of a file; with a flaw, if it is no Python of this version.

    ``pattern``: how the names of tests begin.
    """
    try:
        if (module := parsed(text)) is None:
            return CaseFile(flaw=_NO_PYTHON)
        lines = text.split("\n")
        tables = CaseTables(module.body)
        tests, helpers = (
            tuple(
                Case(name, node.lineno, _source(lines, node), partial(_facts, node, tables))
                for name, node in functions
            )
            for functions in (_tests(module.body, pattern), _helpers(module.body, pattern))
        )
        return CaseFile(
            tests, tuple(skips(text, module)), helpers=helpers,
            classes=dict(_classes(module.body)), tables=tables.text,
        )  # fmt: skip
    except BROKEN:
        return CaseFile(flaw=_NO_PYTHON)


def _source(lines: list[str], node: Function) -> str:
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    return "\n".join(lines[first - 1 : node.end_lineno])


def _tests(
    body: Iterable[ast.stmt], pattern: re.Pattern[str], prefix: str = ""
) -> Iterator[tuple[str, Function]]:
    """The test functions that are left when the module has run."""
    tests: dict[str, tuple[str, Function]] = {}
    for node in body:
        if isinstance(node, Function):
            if pattern.match(node.name) and not _is_fixture(node):
                tests[node.name] = (prefix + node.name, node)
            else:
                tests.pop(node.name, None)
        elif isinstance(node, ast.ClassDef):
            owner = f"{prefix}{node.name}."
            tests = {key: test for key, test in tests.items() if not key.startswith(owner)}
            tests.update((name, (name, test)) for name, test in _tests(node.body, pattern, owner))
        elif isinstance(node, ast.Assign | ast.Delete):
            for target in node.targets:
                name = text_of(target)
                owner = f"{prefix}{name}"
                tests = {
                    key: test
                    for key, test in tests.items()
                    if key not in (name, owner) and not key.startswith(f"{owner}.")
                }
        elif isinstance(node, ast.If | ast.Try | ast.With):
            inside = [*([] if is_never(node) else node.body), *getattr(node, "orelse", ())]
            tests.update(
                (test.name, (name, test)) for name, test in _tests(inside, pattern, prefix)
            )
    yield from tests.values()


def _is_fixture(node: Function) -> bool:
    return any(text_of(mark).partition("(")[0].endswith("fixture") for mark in node.decorator_list)


def _helpers(body: Iterable[ast.stmt], pattern: re.Pattern[str]) -> Iterator[tuple[str, Function]]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from _helpers(node.body, pattern)
        elif isinstance(node, Function) and not pattern.match(node.name):
            yield node.name, node


def _classes(body: Iterable[ast.stmt], prefix: str = "") -> Iterator[tuple[str, TestClass]]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            name = prefix + node.name
            bases = tuple(text_of(base) for base in (*node.bases, *node.keywords))
            has_init = any(getattr(child, "name", "") == "__init__" for child in node.body)
            yield name, TestClass(bases, has_init)
            yield from _classes(node.body, f"{name}.")
        elif isinstance(node, ast.If | ast.Try | ast.With):
            yield from _classes([*node.body, *getattr(node, "orelse", ())], prefix)


def _facts(function: Function, tables: CaseTables) -> Facts:
    listed, looped = list(case_tables.decorator_tables(function)), list(case_tables.loops(function))
    return Facts(
        tuple(claims(function)), tuple(escapes(function)), tables.listed(listed),
        tuple(map(tables.rows, looped)), tuple(tables.filters([*listed, *looped])),
        tuple(map(text_of, [*listed, *looped])), tuple(arg.arg for arg in function.args.args),
        tuple(replaced(function)),
    )  # fmt: skip
