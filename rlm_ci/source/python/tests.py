"""The tests of a Python file and what they assert, found once for all who ask."""

from __future__ import annotations

import ast
import re
from functools import cached_property
from weakref import WeakKeyDictionary

from rlm_ci.source.python.claims import claims_of, is_never, text_of
from rlm_ci.source.python.names import Function, last_name
from rlm_ci.source.python.statements import BRANCHING, DEFINITIONS, blocks
from rlm_ci.values import Row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rlm_ci.source.python.claims import PythonClaims

#: How the names of tests begin by default.
TESTS = re.compile("test")


class _Binding(Row):
    """A function or class, or a statement that takes names away or gives them other values.

    ``name``: that of a definition with those of what encloses it (``TestA::test_b``), or of what
    encloses the statement. ``is_usual``: nothing but classes encloses it; ``is_sure``: no branch
    is around it; ``runs``: no branch that never runs is.
    """

    name: str
    node: Function | ast.ClassDef | ast.Assign | ast.Delete
    is_usual: bool
    is_sure: bool
    runs: bool


class PythonTests:
    """The tests in the body of a module."""

    def __init__(self, body: Sequence[ast.stmt]) -> None:
        self.body = body
        self._claims: dict[Function, PythonClaims] = {}

    @cached_property
    def _usual(self) -> list[_Binding]:
        """What classes alone enclose, in the order of the text."""
        return list(_bindings(self.body, in_functions=False))

    def definitions(self) -> Iterator[tuple[str, Function | ast.ClassDef, bool]]:
        """Every function and class by its name, and whether nothing but classes encloses it."""
        for binding in _bindings(self.body, in_functions=True):
            if isinstance(binding.node, DEFINITIONS):
                yield binding.name, binding.node, binding.is_usual

    def classes(self) -> Iterator[tuple[str, ast.ClassDef]]:
        """The classes that nothing but classes encloses, by name."""
        for binding in self._usual:
            if isinstance(binding.node, ast.ClassDef):
                yield binding.name, binding.node

    def tests(self, pattern: re.Pattern[str] = TESTS) -> list[tuple[str, Function]]:
        """The test functions that are left when the module has run, by name.

        ``pattern``: how the names of tests begin.
        """
        tests: dict[str, Function] = {}
        for binding in self._usual:
            node, name = binding.node, binding.name
            if not binding.runs:
                continue
            if isinstance(node, Function):
                if pattern.match(node.name) and not is_fixture(node):
                    tests[name] = node
                elif binding.is_sure:
                    tests.pop(name, None)
            elif binding.is_sure:
                for owner in _taken(node, name) & self._names:
                    inner = f"{owner}::"
                    tests = {
                        key: test
                        for key, test in tests.items()
                        if key != owner and not key.startswith(inner)
                    }
        return list(tests.items())

    def helpers(self, pattern: re.Pattern[str] = TESTS) -> Iterator[Function]:
        """The functions and methods whose names are none of tests, but those in a branch."""
        for binding in self._usual:
            node = binding.node
            if isinstance(node, Function) and binding.is_sure and not pattern.match(node.name):
                yield node

    def claims(self, test: Function) -> PythonClaims:
        """The claims of a test in the order of the text."""
        if test not in self._claims:
            self._claims[test] = claims_of(test)
        return self._claims[test]

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(
            binding.name for binding in self._usual if isinstance(binding.node, DEFINITIONS)
        )


def of(module: ast.Module) -> PythonTests:
    """The tests of a file by its tree, which ``syntax`` keeps for all who read the same text."""
    tests = _TESTS_BY_MODULE.get(module)
    if tests is None:
        tests = _TESTS_BY_MODULE[module] = PythonTests(module.body)
    return tests


#: As long as others have the tree.
_TESTS_BY_MODULE: WeakKeyDictionary[ast.Module, PythonTests] = WeakKeyDictionary()


def is_fixture(node: Function) -> bool:
    return any(last_name(mark) == "fixture" for mark in node.decorator_list)


def _taken(node: ast.ClassDef | ast.Assign | ast.Delete, name: str) -> set[str]:
    """The names that mean something else behind a statement; ``name`` is that of its binding."""
    if isinstance(node, ast.ClassDef):
        return {name}
    before = f"{name}::" if name else ""
    return {before + text_of(target).replace(".", "::") for target in node.targets}


def _bindings(body: Iterable[ast.stmt], *, in_functions: bool) -> Iterator[_Binding]:
    waiting = [(node, "", True, True, True) for node in reversed([*body])]
    while waiting:
        node, owner, is_usual, is_sure, runs = waiting.pop()
        if isinstance(node, DEFINITIONS):
            owner = f"{owner}::{node.name}" if owner else node.name
            yield _Binding(owner, node, is_usual, is_sure, runs)
            if isinstance(node, Function):
                if not in_functions:
                    continue
                is_usual = False
        elif isinstance(node, BRANCHING):
            is_sure = False
        else:
            if isinstance(node, ast.Assign | ast.Delete):
                yield _Binding(owner, node, is_usual, is_sure, runs)
            continue
        never = getattr(node, "body", None) if is_never(node) else None
        waiting += [
            (child, owner, is_usual, is_sure, runs and block is not never)
            for block in reversed(blocks(node))
            for child in reversed(block)
        ]
