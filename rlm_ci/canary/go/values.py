"""The values that tests of Go compare: literals to alter, and conditions taken apart."""

from __future__ import annotations

from rlm_ci.canary.forms import token
from rlm_ci.canary.go.source import ASSERTION, CONDITION, GoClaim, GoSource, below
from rlm_ci.source.grammars import field, named

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from random import Random

    from tree_sitter import Node

_BASIC = {"string", "byte", "rune", "float32", "float64"} | {
    f"{sign}int{size}" for sign in ("", "u") for size in ("", "8", "16", "32", "64")
}
_NUMBERS = {"int_literal", "float_literal"}
_WORDS = {"interpreted_string_literal", "raw_string_literal"}
_LITERALS = _NUMBERS | _WORDS | {"rune_literal", "true", "false"}
#: Calls that hold where a literal in their arguments is the expected one.
_EQUAL = {"DeepEqual", "Equal", "EqualFold", "Contains", "HasPrefix", "HasSuffix"}
_COMPARES = {"==", "!=", "<", "<=", ">", ">="}
#: Their values have a type, whatever stands in them.
_TYPED = {"call_expression", "index_expression", "slice_expression", "type_assertion_expression"}
_UNTYPED = {"real", "imag", "complex", "min", "max"}
#: Assertions that a literal makes, and those of them that have it last.
_ASSERTED = {"Equal", "EqualValues", "Exactly", "Len", "EqualError", "DeepEqual"}
_LAST = {"Len", "EqualError"}


def is_bound(source: GoSource, node: Node) -> bool:
    """Whether an expression may mean another thing within a function of its own."""
    return any(
        one.type in ("func_literal", "variadic_argument")
        or (one.type == "identifier" and source.text(one) == "recover")
        for one in below(node)
    )


def leaves_of(
    source: GoSource, condition: Node, names: set[str]
) -> Iterator[tuple[Node, Node | None]]:
    """What a condition is made of, and the operator of that which compares two values.

    A comparison whose left side may be a constant has none: it has a type in its place alone.
    """
    waiting = [condition]
    while waiting:
        node = waiting.pop()
        left, operator, right = (field(node, one) for one in ("left", "operator", "right"))
        sign = source.text(operator)
        if node.type == "parenthesized_expression":
            waiting += named(node)
        elif node.type == "unary_expression" and sign == "!":
            waiting.append(field(node, "operand"))
        elif node.type == "binary_expression" and sign in ("&&", "||"):
            waiting += [right, left]
        elif not is_bound(source, node):
            compares = node.type == "binary_expression" and sign in _COMPARES
            yield node, operator if compares and _is_typed(source, left, names) else None


def _is_typed(source: GoSource, node: Node, names: set[str]) -> bool:
    """Whether an expression has a type of its own, as a constant may not."""
    while node.type == "selector_expression":
        node = field(node, "operand")
    if node.type == "call_expression":
        return source.text(field(node, "function")) not in _UNTYPED
    return node.type in _TYPED or (node.type == "identifier" and source.text(node) in names)


def literals(source: GoSource, claim: GoClaim) -> list[Node]:
    """The literals that a claim expects: with another, it cannot hold."""
    if claim.kind == ASSERTION:
        if claim.name not in _ASSERTED:
            return []
        return _first(source, claim.values[:2][:: -1 if claim.name in _LAST else 1])
    if claim.kind != CONDITION or claim.name != "consequence":
        return []
    found: list[Node] = []
    waiting = [claim.node]
    while waiting:
        node = waiting.pop()
        sides = (field(node, "right"), field(node, "left"))
        sign = source.text(field(node, "operator"))
        if node.type == "parenthesized_expression":
            waiting += named(node)
        elif node.type == "binary_expression" and sign == "||":
            waiting += sides
        elif node.type == "binary_expression" and sign == "!=":
            found += _first(source, sides)
        elif node.type == "unary_expression" and sign == "!":
            call = field(node, "operand")
            called = field(call, "function")
            if source.text(field(called, "field")) in _EQUAL:
                found += _first(source, named(field(call, "arguments"))[::-1])
    return found


def _first(source: GoSource, sides: Sequence[Node]) -> list[Node]:
    """The literals of the first side that has any."""
    return next((found for one in sides if (found := _expected(source, one))), [])


def _expected(source: GoSource, node: Node) -> list[Node]:
    """The literals that are values in an expression made of nothing but them."""
    found: list[Node] = []
    waiting = [node]
    while waiting:
        node = waiting.pop()
        if node.type in _LITERALS:
            found.append(node)
        elif node.type == "unary_expression":
            operand = field(node, "operand")
            waiting += [operand] if operand.type in _NUMBERS else []
        elif node.type in ("parenthesized_expression", "literal_element", "literal_value"):
            waiting += named(node)
        elif node.type == "keyed_element":
            waiting.append(named(node)[-1])  # never a key: two could be the same
        elif node.type == "composite_literal":
            waiting.append(field(node, "body"))
        elif node.type == "type_conversion_expression":
            waiting.append(field(node, "operand"))
        elif node.type == "call_expression" and source.text(field(node, "function")) in _BASIC:
            waiting += named(field(node, "arguments"))
    return found


def another(node: Node, chance: Random) -> str:
    """Another literal of the same kind, which fits wherever this one does."""
    text = (node.text or b"").decode("utf-8", "surrogateescape")
    if node.type in ("true", "false"):
        return "false" if node.type == "true" else "true"
    if node.type in _WORDS:
        return f'"{token(chance)}"'
    if node.type == "rune_literal":
        return f"'{chance.choice([one for one in 'bcdfghjkmnpqrstvwxz' if one not in text])}'"
    digits = text.replace("_", "")
    try:
        value = float(digits) if node.type == "float_literal" else _whole(digits)
    except (ValueError, OverflowError):  # of a notation, or a length, that Python has not
        value = -1
    if node.type == "float_literal":
        kind = ".0" if value == value // 1 else ".5"
        return next(
            made
            for one in chance.sample(range(1, 100), 2)
            if float(made := f"{one}{kind}") != value
        )
    if value > 120:
        return str(chance.randrange(int(value) // 2, int(value)))
    return str(chance.choice([one for one in range(1, 121) if one != value]))


def _whole(digits: str) -> int:
    if len(digits) > 1 and digits[0] == "0" and digits[1].isdigit():
        return int(digits, 8)
    return int(digits, 0)
