"""The values that tests of Rust compare: literals to alter, conditions taken apart, ends."""

from __future__ import annotations

from rlm_ci.canary.forms import token
from rlm_ci.canary.rust.source import COMPARED, HOLDS, RustClaim, RustFunction, RustSpan, text
from rlm_ci.source.grammars import field, named

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

    from tree_sitter import Node

_NUMBERS = {"integer_literal", "float_literal"}
_LITERALS = _NUMBERS | {
    "boolean_literal", "char_literal", "string_literal", "raw_string_literal",
}  # fmt: skip
_COMPARES = {"==", "!=", "<", "<=", ">", ">="}
#: What is made of a literal, and stays another thing when the literal is another.
_MADE_OF = {"to_string", "to_owned", "into", "to_vec"}
_HOLDING = {
    "parenthesized_expression", "reference_expression", "array_expression", "tuple_expression",
    "field_initializer_list",
}  # fmt: skip
#: What a compiler knows to come to its end.
_GOING_ON = {"if_expression", "match_expression", "for_expression", "while_expression", "block"}
_LETTERS = "bcdfghjkmpqsvwxz"


def returned(function: Node) -> str | None:
    """What a test returns that ends well; None where that cannot be said."""
    kind = field(function, "return_type")
    if kind == function or text(kind) == "()":
        return ""
    last = [text(one) for one in named(field(function, "body"))[-1:]]
    return " Ok(())" if "Result" in text(kind) or last == ["Ok(())"] else None


def end_of(test: RustFunction) -> int:
    """Where a statement can stand so that it is the last, or the last before a value."""
    inside = [one for one in named(test.body) if one.type != "label"]
    if not inside:
        return test.body.start_byte + 1
    last = inside[-1]
    ends = last.type == "expression_statement" and text(last).endswith((";", "}"))
    returns = field(test.node, "return_type") != test.node
    if ends and not returns and named(last)[0].type in _GOING_ON:
        return last.end_byte
    return last.start_byte


def returns(body: Node) -> Iterator[Node]:
    """Where a function returns before its end."""
    waiting = [body]
    while waiting:
        for one in named(waiting.pop()):
            if one.type == "return_expression":
                yield one
            elif one.type not in ("closure_expression", "function_item", "async_block"):
                waiting.append(one)


def leaves_of(value: RustSpan) -> Iterator[tuple[RustSpan, tuple[RustSpan, Node, RustSpan] | None]]:
    """What a condition is made of, with the sides and the operator of those that compare."""
    shift = value.shift
    waiting = [value.node]
    while waiting:
        node = waiting.pop()
        left, operator, right = (field(node, one) for one in ("left", "operator", "right"))
        sign = text(operator)
        if node.type == "parenthesized_expression":
            waiting += named(node)
        elif node.type == "unary_expression" and text(node).startswith("!"):
            waiting += named(node)[-1:]
        elif node.type == "binary_expression" and sign in ("&&", "||"):
            waiting += [right, left]
        elif node.type == "binary_expression" and sign in _COMPARES:
            yield RustSpan(node, shift), (RustSpan(left, shift), operator, RustSpan(right, shift))
        elif not node.type.startswith("let_"):
            yield RustSpan(node, shift), None


def literals(claim: RustClaim) -> list[RustSpan]:
    """The literals that a claim expects: with another, it cannot hold."""
    if claim.kind == COMPARED and claim.name == "assert_eq":
        return _first([claim.values[1].node, claim.values[0].node], claim.values[0].shift)
    found: list[RustSpan] = []
    waiting = [claim.values[0].node] if claim.kind == HOLDS else []
    while waiting:
        node = waiting.pop()
        sign = text(field(node, "operator"))
        sides = [field(node, "right"), field(node, "left")]
        if node.type == "parenthesized_expression":
            waiting += named(node)
        elif node.type == "binary_expression" and sign == "&&":
            waiting += sides
        elif node.type == "binary_expression" and sign == "==":
            found += _first(sides, claim.values[0].shift)
    return found


def _first(sides: list[Node], shift: int) -> list[RustSpan]:
    """The literals of the first side that has any."""
    for one in sides:
        if found := [RustSpan(node, shift) for node in _expected(one)]:
            return found
    return []


def _expected(node: Node) -> list[Node]:
    """The literals that are values in an expression made of nothing but them."""
    found: list[Node] = []
    waiting = [node]
    while waiting:
        node = waiting.pop()
        if node.type in _LITERALS and not text(node).startswith(("b", "c")):
            found.append(node)
        elif node.type == "unary_expression" and text(node).startswith("-"):
            waiting += [one for one in named(node) if one.type in _NUMBERS]
        elif node.type == "array_expression" and field(node, "length") != node:
            continue  # [value; count]
        elif node.type in _HOLDING:
            waiting += named(node)
        elif node.type == "struct_expression":
            waiting.append(field(node, "body"))
        elif node.type == "field_initializer":
            waiting.append(field(node, "value"))
        elif node.type == "call_expression":
            called = field(node, "function")
            name = text(called).rpartition("::")[2]
            made = called.type == "field_expression" and text(field(called, "field")) in _MADE_OF
            if made:
                waiting.append(field(called, "value"))
            elif name[:1].isupper() or text(called) == "String::from":  # a constructor: no code
                waiting += named(field(node, "arguments"))
    return found


def another(node: Node, chance: Random) -> str:
    """Another literal of the same kind, which fits wherever this one does."""
    old = text(node)
    if node.type == "boolean_literal":
        return "false" if old == "true" else "true"
    if node.type in ("string_literal", "raw_string_literal"):
        return f'"{token(chance)}"'
    if node.type == "char_literal":
        return f"'{chance.choice([one for one in _LETTERS if one not in old])}'"
    return _number(old, chance, whole=node.type == "integer_literal")


def _number(old: str, chance: Random, *, whole: bool) -> str:
    """Another number, of the same type."""
    base = {"0x": 16, "0o": 8, "0b": 2}.get(old[:2], 10)
    marks = "iu" if whole and base != 10 else "iuf"
    suffix = next((old[at:] for at, one in enumerate(old) if one in marks), "")
    digits = old.removesuffix(suffix).replace("_", "")
    kind = "" if whole else ".0" if digits.endswith((".", ".0")) else ".5"
    try:
        value = int(digits, base) if whole else float(digits)
    except (ValueError, OverflowError):  # of a length that Python has not
        value = -1
    if whole and value > 120:
        return f"{chance.randrange(int(value) // 2, int(value))}{suffix}"
    made = chance.choice([one for one in range(1, 121) if float(f"{one}{kind}") != value])
    return f"{made}{kind}{suffix}"
