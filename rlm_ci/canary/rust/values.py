"""Literals, conditions and ends of tests in Rust."""

from __future__ import annotations

from rlm_ci.canary.claim_edits import COMPARES, leaves, text_of
from rlm_ci.canary.rust.source import COMPARED, HOLDS, RustClaim, RustFunction, RustSpan
from rlm_ci.source.grammars import field, named

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from tree_sitter import Node

_NUMBERS = {"integer_literal", "float_literal"}
_LITERALS = _NUMBERS | {
    "boolean_literal", "char_literal", "string_literal", "raw_string_literal",
}  # fmt: skip
#: What is made of a literal, and stays another thing when the literal is another.
_MADE_OF = {"to_string", "to_owned", "into", "to_vec"}
_HOLDING = {
    "parenthesized_expression", "reference_expression", "array_expression", "tuple_expression",
    "field_initializer_list",
}  # fmt: skip
#: What a compiler knows to come to its end.
_GOING_ON = {"if_expression", "match_expression", "for_expression", "while_expression", "block"}


def returned(function: Node) -> str | None:
    """What a test returns if it ends well; None if that is unknown."""
    kind = field(function, "return_type")
    if kind == function or text_of(kind) == "()":
        return ""
    last = [text_of(one) for one in named(field(function, "body"))[-1:]]
    return " Ok(())" if "Result" in text_of(kind) or last == ["Ok(())"] else None


def end_of(test: RustFunction) -> int:
    """Where a last statement can be put, in front of the value of a function."""
    inside = [one for one in named(test.body) if one.type != "label"]
    if not inside:
        return test.body.start_byte + 1
    last = inside[-1]
    ends = last.type == "expression_statement" and text_of(last).endswith((";", "}"))
    returns = field(test.node, "return_type") != test.node
    if ends and not returns and named(last)[0].type in _GOING_ON:
        return last.end_byte
    return last.start_byte


def returns(body: Node) -> Iterator[Node]:
    """The early returns of a function."""
    waiting = [body]
    while waiting:
        for one in named(waiting.pop()):
            if one.type == "return_expression":
                yield one
            elif one.type not in ("closure_expression", "function_item", "async_block"):
                waiting.append(one)


def leaves_of(value: RustSpan) -> Iterator[tuple[RustSpan, tuple[RustSpan, Node, RustSpan] | None]]:
    """The parts of a condition, with sides and operator of those that compare."""
    for node in leaves(value.node, "&&", "||", negated=True):
        left, operator, right = (field(node, one) for one in ("left", "operator", "right"))
        sides = RustSpan(left, value.shift), operator, RustSpan(right, value.shift)
        compares = node.type == "binary_expression" and text_of(operator) in COMPARES
        if not node.type.startswith("let_"):
            yield RustSpan(node, value.shift), sides if compares else None


def literals(claim: RustClaim) -> list[RustSpan]:
    """The literals that a claim expects: with another, it cannot hold."""
    if claim.kind == COMPARED and claim.name == "assert_eq":
        return _first([claim.values[1].node, claim.values[0].node], claim.values[0].shift)
    found: list[RustSpan] = []
    for node in leaves(claim.values[0].node, "&&") if claim.kind == HOLDS else ():
        if node.type == "binary_expression" and text_of(field(node, "operator")) == "==":
            found += _first([field(node, "right"), field(node, "left")], claim.values[0].shift)
    return found


def _first(sides: list[Node], shift: int) -> list[RustSpan]:
    for one in sides:
        if found := [RustSpan(node, shift) for node in _expected(one)]:
            return found
    return []


def _expected(node: Node) -> list[Node]:
    """The literals that an expression is made of; none if there is more in it."""
    found: list[Node] = []
    waiting = [node]
    while waiting:
        node = waiting.pop()
        if node.type in _LITERALS and not text_of(node).startswith(("b", "c")):
            found.append(node)
        elif node.type == "unary_expression" and text_of(node).startswith("-"):
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
            name = text_of(called).rpartition("::")[2]
            made = called.type == "field_expression" and text_of(field(called, "field")) in _MADE_OF
            if made:
                waiting.append(field(called, "value"))
            elif name[:1].isupper() or text_of(called) == "String::from":  # a constructor: no code
                waiting += named(field(node, "arguments"))
    return found
