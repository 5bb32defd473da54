"""Replaces literals of Python tests: expected ones by others, or any by equal ones."""

from __future__ import annotations

import ast
import re

from rlm_ci.canary.forms import token
from rlm_ci.canary.python.claims import CALL, PythonClaim, call_of
from rlm_ci.canary.python.source import PAD
from rlm_ci.source.python.calls import callee

TYPE_CHECKING = False
if TYPE_CHECKING:
    from random import Random

#: Calls that compare their first two arguments: of unittest, nose and numpy.
_COMPARING = re.compile(
    r"assert(?:List|Tuple|Dict|Set|Sequence|Count|MultiLine|Almost)?Equal"
    r"|assertEquals|assert_(?:(?:array_|almost_)?equal|equals|allclose)"
)
#: Functions that return whether two values are equal, or nearly so.
_CLOSE = {"isclose", "allclose", "array_equal"}
#: Calls that compare the arguments of a mock's calls.
_CALLED = re.compile(r"assert_(?:called|awaited)(?:_once)?_with|assert_any_(?:call|await)")


def literals(claim: PythonClaim) -> list[ast.expr]:
    """The literals of a claim; with another one it must fail."""
    if isinstance(claim.node, ast.Assert):
        return _of_test(claim.node.test)
    call = call_of(claim.node)
    if claim.kind != CALL or call is None:
        return []
    name = callee(call)
    if _CALLED.fullmatch(name):
        return [it for one in [*call.args, *(w.value for w in call.keywords)] for it in _of(one)]
    if len(call.args) < 2 or any(isinstance(one, ast.Starred) for one in call.args[:2]):
        return []
    if _COMPARING.fullmatch(name):
        return _of_pair(call.args[0], call.args[1])
    return _words(call.args[0]) if name == "assertIn" else []


def another(node: ast.expr, chance: Random) -> str:
    """Another literal of the same kind, far from it; for a constructor all of its literals."""
    if isinstance(node, ast.Call):
        given = [another(one, chance) for one in node.args]
        given += [f"{word.arg}={another(word.value, chance)}" for word in node.keywords]
        return f"{ast.unparse(node.func)}({', '.join(given)})"
    value = ast.literal_eval(node)
    if isinstance(value, bool):
        return str(not value)
    if isinstance(value, str | bytes):
        # Bytes are written as the text of Latin 1 that has them.
        known = value if isinstance(value, str) else value.decode("latin-1")
        cut = chance.randrange(len(known) + 1)
        start, end = chance.choice(((known[:cut], known[cut:]), ("", "")))
        new = start + token(chance) + end
        return f"({new if isinstance(value, str) else new.encode('latin-1')!a}{PAD})"
    while True:
        number = chance.randrange(10**5, 10**7)
        if not abs(value - number) <= 10**4:  # also for nan
            break
    if isinstance(value, int):
        return f"({number}{PAD})"
    return f"({complex(number, 1) if isinstance(value, complex) else number + 0.5!r}{PAD})"


def equal(node: ast.expr, chance: Random) -> str:
    """An expression that equals a constant, or ""."""
    value = node.value if isinstance(node, ast.Constant) else None
    if type(value) is int and value < 10**15:
        part = chance.randrange(1, 1000)
        return f"{value - part} + {part}"
    if isinstance(value, str | bytes) and len(value) > 1:
        cut = chance.randrange(1, len(value))
        return f"{value[:cut]!a} + {value[cut:]!a}"
    return ""


def _of_test(test: ast.expr) -> list[ast.expr]:
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return [one for value in test.values for one in _of_test(value)]
    if isinstance(test, ast.Call) and callee(test) in _CLOSE and len(test.args) > 1:
        return _of_pair(test.args[0], test.args[1])
    if not isinstance(test, ast.Compare):
        return []
    operands = [test.left, *test.comparators]
    if len(test.ops) > 1 and not all(isinstance(one, ast.Eq) for one in test.ops):
        return []  # another operand is compared with both its neighbours
    found = []
    for at, operator in enumerate(test.ops):
        if isinstance(operator, ast.Eq):
            found += _of_pair(operands[at], operands[at + 1])
        elif isinstance(operator, ast.Is):
            found += [one for one in operands[at : at + 2] if _constant(one) is bool]
        elif isinstance(operator, ast.In):
            found += _words(operands[at])
    return found


def _of_pair(left: ast.expr, right: ast.expr) -> list[ast.expr]:
    return _of(right) or ([] if _matches(right) else _of(left))


def _matches(node: ast.expr) -> bool:
    """Whether an operand may be an object made for comparing, such as ``IsInt()``."""
    name = callee(node) or getattr(node, "attr", getattr(node, "id", ""))
    return name[:1].isupper()


def _words(node: ast.expr) -> list[ast.expr]:
    return [node] if _constant(node) in (str, bytes) else []


def _constant(node: ast.expr) -> type | None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        kind = _constant(node.operand)
        return kind if kind in (int, float, complex) else None
    kind = type(node.value) if isinstance(node, ast.Constant) else None
    return kind if kind in (bool, int, float, complex, str, bytes) else None


def _of(node: ast.expr) -> list[ast.expr]:
    """The literals of an operand: itself, or those in a list, tuple, set or dict."""
    waiting, found = [node], []
    while waiting:
        one = waiting.pop()
        if _constant(one):
            found.append(one)
        elif isinstance(one, ast.List | ast.Tuple | ast.Set):
            waiting += one.elts
        elif isinstance(one, ast.Dict):
            keys = [key.value for key in one.keys if isinstance(key, ast.Constant)]
            # One entry may replace another if not all keys are known.
            if len(keys) == len(one.keys) and len(set(keys)) == len(keys):
                waiting += [part for part in [*one.keys, *one.values] if part]
        elif callee(one) == "approx" and isinstance(one, ast.Call):
            waiting += one.args[:1]
        elif _is_made_of_literals(one):
            found.append(one)
    return found


def _is_made_of_literals(node: ast.expr) -> bool:
    """Whether it calls a class with literals alone."""
    name = callee(node)
    if not isinstance(node, ast.Call) or not name[:1].isupper():
        return False
    given = [*node.args, *(word.value for word in node.keywords)]
    is_named = all(word.arg for word in node.keywords)
    return bool(given) and is_named and all(_constant(one) for one in given)
