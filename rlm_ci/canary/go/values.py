"""Literals and conditions in tests of Go."""

from __future__ import annotations

from rlm_ci.canary.claim_edits import COMPARES, leaves, text_of
from rlm_ci.canary.go.source import ASSERTION, CONDITION, GoClaim, below
from rlm_ci.source.grammars import field, named

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tree_sitter import Node

_BASIC = {"string", "byte", "rune", "float32", "float64"} | {
    f"{sign}int{size}" for sign in ("", "u") for size in ("", "8", "16", "32", "64")
}
_NUMBERS = {"int_literal", "float_literal"}
_LITERALS = _NUMBERS | {
    "interpreted_string_literal", "raw_string_literal", "rune_literal", "true", "false",
}  # fmt: skip
#: Calls that hold where a literal in their arguments is the expected one.
_EQUAL = {"DeepEqual", "Equal", "EqualFold", "Contains", "HasPrefix", "HasSuffix"}
#: Their values have a type, whatever stands in them.
_TYPED = {"call_expression", "index_expression", "slice_expression", "type_assertion_expression"}
_UNTYPED = {"real", "imag", "complex", "min", "max"}
#: Assertions that a literal makes, and those of them that have it last.
_ASSERTED = {"Equal", "EqualValues", "Exactly", "Len", "EqualError", "DeepEqual"}
_LAST = {"Len", "EqualError"}


def is_bound(node: Node) -> bool:
    """Whether an expression means something else within a function of its own."""
    return any(
        one.type in ("func_literal", "variadic_argument")
        or (one.type == "identifier" and text_of(one) == "recover")
        for one in below(node)
    )


def leaves_of(condition: Node, names: set[str]) -> Iterator[tuple[Node, Node | None]]:
    """The parts of a condition, each with its operator if it compares typed values.

    A constant gets its type from where it stands.
    """
    for node in leaves(condition, "&&", "||", negated=True):
        if not is_bound(node):
            operator = field(node, "operator")
            compares = node.type == "binary_expression" and text_of(operator) in COMPARES
            yield node, operator if compares and _is_typed(field(node, "left"), names) else None


def _is_typed(node: Node, names: set[str]) -> bool:
    while node.type == "selector_expression":
        node = field(node, "operand")
    if node.type == "call_expression":
        return text_of(field(node, "function")) not in _UNTYPED
    return node.type in _TYPED or (node.type == "identifier" and text_of(node) in names)


def literals(claim: GoClaim) -> list[Node]:
    """The literals that a claim expects: with another, it cannot hold."""
    if claim.kind == ASSERTION and claim.name in _ASSERTED:
        return _first(claim.values[:2][:: -1 if claim.name in _LAST else 1])
    if claim.kind != CONDITION or claim.name != "consequence":
        return []
    found: list[Node] = []
    for node in leaves(claim.node, "||"):
        sign = text_of(field(node, "operator"))
        if node.type == "binary_expression" and sign == "!=":
            found += _first((field(node, "right"), field(node, "left")))
        elif node.type == "unary_expression" and sign == "!":
            call = field(node, "operand")
            if text_of(field(field(call, "function"), "field")) in _EQUAL:
                found += _first(named(field(call, "arguments"))[::-1])
    return found


def _first(sides: Sequence[Node]) -> list[Node]:
    return next((found for one in sides if (found := _expected(one))), [])


def _expected(node: Node) -> list[Node]:
    """The literals that an expression is made of; none if there is more in it."""
    found: list[Node] = []
    waiting = [node]
    while waiting:
        node = waiting.pop()
        if node.type in _LITERALS:
            found.append(node)
        elif node.type == "unary_expression":
            waiting += [one for one in named(node) if one.type in _NUMBERS]
        elif node.type in ("parenthesized_expression", "literal_element", "literal_value"):
            waiting += named(node)
        elif node.type == "keyed_element":
            waiting.append(named(node)[-1])  # never a key: two could be the same
        elif node.type == "composite_literal":
            waiting.append(field(node, "body"))
        elif node.type == "type_conversion_expression":
            waiting.append(field(node, "operand"))
        elif node.type == "call_expression" and text_of(field(node, "function")) in _BASIC:
            waiting += named(field(node, "arguments"))
    return found
