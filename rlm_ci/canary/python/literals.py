"""The literals of Python tests, and others in their place."""

from __future__ import annotations

import ast

from rlm_ci.canary import near as near_values
from rlm_ci.canary.forms import token
from rlm_ci.canary.python.source import PAD
from rlm_ci.source.python.names import callee

TYPE_CHECKING = False
if TYPE_CHECKING:
    from random import Random


def far(node: ast.expr, chance: Random) -> str:
    """Another literal of the same kind, far from it; for a constructor all of its literals."""
    if isinstance(node, ast.Call):
        texts = [far(argument, chance) for argument in node.args]
        texts += [f"{word.arg}={far(word.value, chance)}" for word in node.keywords]
        return f"{ast.unparse(node.func)}({', '.join(texts)})"
    value = ast.literal_eval(node)
    if isinstance(value, bool):
        return str(not value)
    if isinstance(value, str | bytes):
        text = _latin(value)
        cut = chance.randrange(len(text) + 1)
        start, end = chance.choice(((text[:cut], text[cut:]), ("", "")))
        new = start + token(chance) + end
        return f"({new if isinstance(value, str) else new.encode('latin-1')!a}{PAD})"
    while True:
        number = chance.randrange(10**5, 10**7)
        if not abs(value - number) <= 10**4:  # also for nan
            break
    if isinstance(value, int):
        return f"({number}{PAD})"
    return f"({complex(number, 1) if isinstance(value, complex) else number + 0.5!r}{PAD})"


def nearby(node: ast.expr, chance: Random) -> list[str]:
    """Literals that differ a little: a number by up to 3 on either side, a text in one letter."""
    value = ast.literal_eval(node)
    if isinstance(value, bool | complex) or value != value:  # noqa: PLR0124 - nan
        return []
    if isinstance(value, int | float):
        numbers = [value + step for step in near_values.steps(chance) if value + step != value]
        return [f"({number!r})" for number in (*numbers, *([value * 1.01] if value % 1 else []))]
    letter = near_values.lettered(_latin(value), chance)
    return [_text(value, letter)] if letter else []


def restyled(node: ast.expr, chance: Random) -> list[str]:
    """The same text in another case, and with one blank more."""
    value = ast.literal_eval(node)
    if not isinstance(value, str | bytes):
        return []
    return [_text(value, style) for style in near_values.restyled(_latin(value), chance)]


def _latin(value: str | bytes) -> str:
    """Bytes as the text of Latin 1 that has them."""
    return value if isinstance(value, str) else value.decode("latin-1")


def _text(value: str | bytes, new: str) -> str:
    return f"({new if isinstance(value, str) else new.encode('latin-1')!a})"


def impossible(chance: Random, *, above: bool) -> str:
    """A number that is above, or below, whatever a test may have."""
    number = chance.randrange(10**30, 10**36)
    return f"({number if above else -number})"


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


def kind_of(node: ast.AST | None) -> type | None:
    """The type of a literal; None for another node."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        kind = kind_of(node.operand)
        return kind if kind in (int, float, complex) else None
    kind = type(node.value) if isinstance(node, ast.Constant) else None
    return kind if kind in (bool, int, float, complex, str, bytes) else None


def is_text(node: ast.expr) -> bool:
    return kind_of(node) in (str, bytes)


def is_number(node: ast.expr) -> bool:
    return kind_of(node) in (int, float)


def literals_in(node: ast.expr) -> list[ast.expr]:
    """The literals of an operand, with the containers that consist of them.

    A call is a class with literals alone; a number of ``approx`` is no literal of the operand.
    """
    waiting, nodes = [node], []
    while waiting:
        current = waiting.pop()
        if kind_of(current) or is_made_of_literals(current) or callee(current) == "approx":
            nodes.append(current)
        elif isinstance(current, ast.List | ast.Tuple | ast.Set):
            nodes.append(current)
            waiting += current.elts
        elif isinstance(current, ast.Dict):
            keys = [key.value for key in current.keys if isinstance(key, ast.Constant)]
            # One entry may replace another if not all keys are known.
            if len(keys) == len(current.keys) and len(set(keys)) == len(keys):
                nodes.append(current)
                waiting += [part for part in [*current.keys, *current.values] if part]
    return nodes


def is_made_of_literals(node: ast.AST) -> bool:
    """Whether it calls a class with literals alone."""
    name = callee(node)
    if not isinstance(node, ast.Call) or not name[:1].isupper():
        return False
    nodes = arguments(node)
    is_named = all(word.arg for word in node.keywords)
    return bool(nodes) and is_named and all(kind_of(argument) for argument in nodes)


def arguments(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(word.value for word in call.keywords)]


def resized(container: ast.expr, texts: list[str], chance: Random) -> list[str]:
    """A container without one of its elements, whose texts are given, and with one more."""
    is_dict = isinstance(container, ast.Dict)
    more = f'"{token(chance)}": 1' if is_dict else f'"{token(chance)}"'
    sizes = near_values.resized(texts, more)
    if isinstance(container, ast.List):
        return [f"[{', '.join(size)}]" for size in sizes]
    if isinstance(container, ast.Tuple):
        return [f"({''.join(f'{part}, ' for part in size)})" for size in sizes]
    return [f"{{{', '.join(size)}}}" if size or is_dict else "set()" for size in sizes]
