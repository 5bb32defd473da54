"""The claims of a Python test: asserts, calls that assert, blocks that must raise, guards."""

from __future__ import annotations

import ast
import re

from rlm_ci.canary.python.source import COMPOUND
from rlm_ci.source.python.names import Function, callee, catches
from rlm_ci.source.python.statements import DEFINITIONS, blocks
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

ASSERT, CALL, BLOCK, GUARD = "assert", "call", "block", "guard"
#: A call that may judge by itself: by its name, or as the end of a test without other claims.
HELPER = "helper"
_HELPERS = re.compile(
    r"_*(?:assert|check|expect|verify|ensure|validate|require|must|should|same|equal|compare)",
    re.IGNORECASE,
)
#: Whether a failure of a statement fails the test: always; only if a checking block around it lets
#: it pass; not for sure, because the code around it may catch the failure.
OPEN, CHECKED, SHUT = 0, 1, 2
_RAISES = ("raises", "assertRaises", "assertRaisesRegex", "assertRaisesRegexp", "RaisesGroup")
_CHECKING = (*_RAISES, "warns", "deprecated_call")
#: Calls of unittest whose meaning is an expression of their arguments.
MEANINGS = {
    "assertEqual": "{0} == {1}",
    "assertEquals": "{0} == {1}",
    "assertTrue": "{0}",
    "assertFalse": "not {0}",
    "assertIn": "{0} in {1}",
    "assertNotIn": "{0} not in {1}",
    "assertIs": "{0} is {1}",
    "assertIsNot": "{0} is not {1}",
    "assertIsNone": "{0} is None",
    "assertIsNotNone": "{0} is not None",
    "assertGreater": "{0} > {1}",
    "assertGreaterEqual": "{0} >= {1}",
    "assertLess": "{0} < {1}",
    "assertLessEqual": "{0} <= {1}",
}


class PythonClaim(Value):
    """A statement that can fail the test; ``on_branch``: behind a condition or a handler."""

    node: ast.stmt
    kind: str
    shield: int
    on_branch: bool = False


class PythonClaims(Value):
    """The claims of a test; ``nested``: all are in functions inside, for it or others to call."""

    all: tuple[PythonClaim, ...]
    nested: bool = False

    @property
    def reversible(self) -> tuple[PythonClaim, ...]:
        return tuple(claim for claim in self.all if claim.shield == OPEN)


def claims_of(test: Function) -> PythonClaims:
    """The claims of a test in the order of the text."""
    direct = PythonClaims(tuple(_claims(test)))
    if direct.reversible:
        return direct
    inside = tuple(claim for inner in _inner(test) for claim in _claims(inner))
    return PythonClaims(inside, nested=True) if inside else direct


def helpers_of(test: Function, claims: PythonClaims) -> list[PythonClaim]:
    """The calls of a test that may judge by themselves, its claims apart."""
    claimed = {id(claim.node) for claim in claims.all}
    last = test.body[-1] if not claims.all else None
    return [
        PythonClaim(node, HELPER, shield)
        for node, shield in statements(test)
        if shield < SHUT and id(node) not in claimed and (call := call_of(node)) is not None
        if node is last or _HELPERS.match(callee(call))
    ]


def statements(test: Function) -> Iterator[tuple[ast.stmt, int]]:
    """The statements of a function in the order of the text, each with its shield."""
    waiting = [(node, OPEN) for node in reversed(test.body)]
    while waiting:
        node, shield = waiting.pop()
        yield node, shield
        if not isinstance(node, COMPOUND) or isinstance(node, DEFINITIONS):
            continue
        around = max(shield, _shield(node))
        children = []
        for at, block in enumerate(blocks(node)):
            # The `try` does not catch what follows its body.
            children += [(child, shield if at else around) for child in block]
        waiting += reversed(children)


def meaning(call: ast.AST) -> str:
    """The claim of a call of unittest, with {0} and {1} for its arguments; "" for other calls."""
    form = MEANINGS.get(callee(call), "")
    if not form or not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return ""
    needed = 2 if "{1}" in form else 1
    plain = not any(isinstance(argument, ast.Starred) for argument in call.args)
    messages = all(word.arg == "msg" for word in call.keywords)
    is_method = isinstance(call.func.value, ast.Name) and call.func.value.id == "self"
    return (
        form if is_method and plain and messages and needed <= len(call.args) <= needed + 1 else ""
    )


def raising(node: ast.With | ast.AsyncWith) -> bool:
    return any(callee(item.context_expr) in _RAISES for item in node.items)


def _claims(test: Function) -> Iterator[PythonClaim]:
    branches = {
        id(below)
        for node in ast.walk(test)
        for statement in _branch(node)
        for below in ast.walk(statement)
    }
    elifs = set()
    for node, shield in statements(test):
        if isinstance(node, ast.If) and len(node.orelse) == 1:
            elifs.add(id(node.orelse[0]))
        kind = kind_of(node)
        # An `elif` looks like an `if` that is alone in an `else`.
        if kind and not (kind == GUARD and id(node) in elifs):
            yield PythonClaim(node, kind, shield, id(node) in branches)


def _branch(node: ast.AST) -> list[ast.stmt]:
    """What a node runs only under a condition, or for an exception."""
    if isinstance(node, ast.If):
        return [*node.body, *node.orelse]
    return node.body if isinstance(node, ast.ExceptHandler | ast.match_case) else []


def kind_of(node: ast.stmt) -> str:
    """The kind of a statement's claim, or ""."""
    if isinstance(node, ast.Assert):
        can_hold = not isinstance(node.test, ast.Constant) or node.test.value
        return ASSERT if can_hold else ""
    if isinstance(node, ast.With | ast.AsyncWith):
        return BLOCK if any(_checks(item.context_expr) for item in node.items) else ""
    if isinstance(node, ast.If):
        return GUARD if len(node.body) == 1 and not node.orelse and _fails(node.body[0]) else ""
    call = call_of(node)
    name = callee(call)
    if call is None or not (name.startswith("assert") or name == "raises"):
        return ""
    # With the exception alone it is for a `with`.
    return "" if name in _CHECKING and len(call.args) + len(call.keywords) < 2 else CALL


def call_of(node: ast.stmt) -> ast.Call | None:
    """The call that is a whole statement, awaited or not."""
    value = node.value if isinstance(node, ast.Expr) else None
    value = value.value if isinstance(value, ast.Await) else value
    return value if isinstance(value, ast.Call) else None


def _checks(node: ast.expr) -> bool:
    name = callee(node)
    return name in _CHECKING or name.startswith("assert")


def _fails(node: ast.stmt) -> bool:
    if isinstance(node, ast.Raise):
        raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
        return isinstance(raised, ast.Name) and raised.id == "AssertionError"
    return callee(call_of(node)) == "fail"


def _shield(node: ast.stmt) -> int:
    if isinstance(node, ast.With | ast.AsyncWith):
        names = [callee(item.context_expr) for item in node.items]
        if raising(node) or "suppress" in names:
            return SHUT
        return CHECKED if kind_of(node) else OPEN
    if isinstance(node, ast.Try | ast.TryStar):
        return SHUT if any(catches(handler.type) for handler in node.handlers) else OPEN
    return OPEN


def _inner(test: Function) -> list[Function]:
    """The functions in a test in the order of the text: it calls them, or passes them on."""
    inner = (node for node in ast.walk(test) if isinstance(node, Function) and node is not test)
    return sorted(inner, key=lambda node: (node.lineno, node.col_offset))
