"""What tests of Python assert: the statements that can fail them, and what these say.

Both who weakens a test and who changes it to see it fail go by this.
"""

from __future__ import annotations

import ast
from collections import deque

from rlm_ci.source.python.names import Function, callee, catches, name_of
from rlm_ci.source.python.statements import BRANCHING, blocks
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: What a number of thousands of digits, and the like, raise.
BROKEN = (SyntaxError, ValueError, RecursionError, MemoryError)
ASSERT, CALL, BLOCK, GUARD = "assert", "call", "block", "guard"
#: A call that may judge by itself: by its name, or as the end of a test without other claims.
HELPER = "helper"
#: Whether a failure of a statement fails the test: always; only if a checking block around it lets
#: it pass; not for sure, because the code around it may catch the failure.
OPEN, CHECKED, SHUT = 0, 1, 2
_RAISES = ("raises", "assertRaises", "assertRaisesRegex", "assertRaisesRegexp", "RaisesGroup")
_CHECKING = (*_RAISES, "warns", "deprecated_call")
#: Calls of unittest whose meaning is an expression of their arguments.
MEANINGS = {
    "assertEqual": "{0} == {1}", "assertEquals": "{0} == {1}", "assertTrue": "{0}",
    "assertFalse": "not {0}", "assertIn": "{0} in {1}", "assertNotIn": "{0} not in {1}",
    "assertIs": "{0} is {1}", "assertIsNot": "{0} is not {1}", "assertIsNone": "{0} is None",
    "assertIsNotNone": "{0} is not None", "assertGreater": "{0} > {1}",
    "assertGreaterEqual": "{0} >= {1}", "assertLess": "{0} < {1}", "assertLessEqual": "{0} <= {1}",
}  # fmt: skip
_ALWAYS = "assert True"
#: What runs behind these never does; a way out of the whole test is an escape by itself.
_ENDS = (ast.Continue, ast.Break)
_EMPTY = frozenset(("[]", "()", "{}", "''", "set()", "range(0)", "iter([])", "iter(())"))


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


def statements(test: Function) -> Iterator[tuple[ast.stmt, int]]:
    """The statements of a function in the order of the text, each with its shield."""
    waiting = [(node, OPEN) for node in reversed(test.body)]
    while waiting:
        node, shield = waiting.pop()
        yield node, shield
        if not isinstance(node, BRANCHING):
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
        return GUARD if len(node.body) == 1 and not node.orelse and fails(node.body[0]) else ""
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


def fails(node: ast.stmt) -> bool:
    """Whether a statement does nothing but fail the test."""
    if isinstance(node, ast.Raise):
        raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
        return name_of(raised) == "AssertionError"
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


# ── what they say ──


def text_of(node: ast.AST) -> str:
    try:
        return ast.unparse(node)
    except BROKEN:
        return f"a {type(node).__name__.lower()} that is too large"


def claims(function: ast.AST) -> Iterator[tuple[int, str]]:
    """The claims that run, each with its line."""
    seen = set[int]()
    for node in reached(function):
        name = callee(node)
        if id(node) in seen or name == "AssertionError":
            continue
        if isinstance(node, ast.Try) and (failing := _expected(node)):
            seen.update(id(child) for child in ast.walk(failing))
            yield node.lineno, f"raises({text_of(node.handlers[0].type or node)})"
        elif isinstance(node, ast.Assert):
            is_vain = always_true(node.test)
            yield node.lineno, _ALWAYS if is_vain else f"assert {text_of(node.test)}"
        elif isinstance(node, ast.Raise) and fails(node):
            yield node.lineno, text_of(node)
        elif not isinstance(node, ast.Call):
            continue
        elif name == "fail":  # its message claims nothing
            yield node.lineno, f"{text_of(node.func)}()"
        elif name in ("assertTrue", "assert_") and node.args and always_true(node.args[0]):
            yield node.lineno, _ALWAYS
        elif name.lower().startswith("assert") or name in ("raises", "warns"):
            yield node.lineno, text_of(node)


def reached(function: ast.AST) -> Iterable[ast.AST]:
    """The nodes in it without those that can never run."""
    nodes = list(ast.walk(function))
    inner = [node for node in nodes if isinstance(node, Function) and node is not function]
    names = {node.id for node in nodes if inner and isinstance(node, ast.Name)}
    uncalled = {id(node) for node in inner if node.name not in names and not node.decorator_list}
    if not uncalled and not any(
        isinstance(node, _ENDS) or is_never(node) or _is_always(node) for node in nodes
    ):
        return nodes
    live, waiting = list[ast.AST](), deque([function])
    while waiting:
        node = waiting.popleft()
        if id(node) not in uncalled:
            live.append(node)
            waiting.extend(_inside(node))
    return live


def _inside(node: ast.AST) -> Iterator[ast.AST]:
    for name, value in ast.iter_fields(node):
        if isinstance(value, ast.AST):
            yield value
        elif isinstance(value, list) and not (
            (name == "body" and is_never(node)) or (name == "orelse" and _is_always(node))
        ):
            for child in value:
                if isinstance(child, ast.AST):
                    yield child
                if isinstance(child, _ENDS):
                    break


def is_never(node: ast.AST) -> bool:
    """Whether the body of a statement never runs."""
    if isinstance(node, ast.If | ast.While):
        is_false = isinstance(node.test, ast.Constant) and not node.test.value
        last = getattr(node.test, "attr", getattr(node.test, "id", ""))
        return is_false or last == "TYPE_CHECKING"
    return (
        isinstance(node, ast.For | ast.AsyncFor)
        and not isinstance(node.iter, ast.Name | ast.Attribute)
        and text_of(node.iter) in _EMPTY
    )


def _is_always(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and always_true(node.test)


def always_true(node: ast.AST) -> bool:
    """Whether a condition holds whatever is tested."""
    if isinstance(node, ast.Constant):
        return bool(node.value)
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return any(not isinstance(element, ast.Starred) for element in node.elts)
    if isinstance(node, ast.BoolOp):
        every = map(always_true, node.values)
        return any(every) if isinstance(node.op, ast.Or) else all(every)
    if isinstance(node, ast.JoinedStr):
        return any(map(always_true, node.values))
    return isinstance(node, ast.Lambda | ast.GeneratorExp)


def _expected(node: ast.Try) -> ast.stmt | None:
    """What fails where ``try`` raises nothing: it stands for ``raises()``."""
    if len(node.handlers) != 1 or node.handlers[0].type is None:
        return None
    last = (node.orelse or node.body)[-1]
    is_failing = fails(last) or (isinstance(last, ast.Assert) and text_of(last.test) == "False")
    return last if is_failing and (node.orelse or not catches(node.handlers[0].type)) else None


def escapes(function: Function) -> Iterator[tuple[int, str]]:
    """Ways out of a test that let it pass: those of functions in it are their own."""
    fails_at_last = _may_fail(function.body[-1]) and not isinstance(function.body[-1], BRANCHING)
    waiting: list[tuple[list[ast.stmt], bool]] = [(function.body, True)]
    while waiting:
        body, is_last = waiting.pop()
        for at, node in enumerate(body):
            ends = is_last and at == len(body) - 1
            if isinstance(node, ast.Return) and not ends and not fails_at_last:
                yield node.lineno, "return"
            if isinstance(node, ast.Try) and any(map(has_claims, node.body)):
                for handler in node.handlers:
                    if catches(handler.type) and not any(map(_may_fail, handler.body)):
                        yield handler.lineno, "handler that catches the failure"
            if isinstance(node, ast.With) and any(map(has_claims, node.body)):
                calls = [item.context_expr for item in node.items]
                for call in calls:
                    if callee(call) == "suppress" and any(map(catches, getattr(call, "args", ()))):
                        yield call.lineno, "suppress() around the failure"
            if isinstance(node, BRANCHING):
                may_go_on = node.body if isinstance(node, ast.If) else None
                waiting += [(block, ends and block is not may_go_on) for block in blocks(node)]


def has_claims(node: ast.AST) -> bool:
    return next(claims(node), None) is not None


def _may_fail(node: ast.AST) -> bool:
    return any(isinstance(child, ast.Raise) or callee(child) == "fail" for child in ast.walk(node))
