"""The literals that claims in Go expect, and what claims must refuse beside them.

Operators of Go cannot be replaced; methods and functions by which the tests compare can.
"""

from __future__ import annotations

import re

from rlm_ci.canary import near
from rlm_ci.canary.claim_edits import (
    ClaimAlteration,
    TypedQuestion,
    leaves,
    replaced,
    varied,
)
from rlm_ci.canary.forms import FAR, PART, token
from rlm_ci.source.go.tests import ASSERTION, CONDITION, HELPER
from rlm_ci.source.grammars import below, field, named_children, text_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from random import Random

    from tree_sitter import Node

    from rlm_ci.source.go.tests import GoClaim, GoTest, GoTests

_BASIC = {"string", "byte", "rune", "float32", "float64"} | {
    f"{sign}int{size}" for sign in ("", "u") for size in ("", "8", "16", "32", "64")
}
_NUMBERS = {"int_literal", "float_literal"}
_LITERALS = _NUMBERS | {
    "interpreted_string_literal", "raw_string_literal", "rune_literal", "true", "false",
}  # fmt: skip
#: Calls that are true if a literal in their arguments is the expected one.
_EQUAL = {"DeepEqual", "Equal", "EqualFold", "Contains", "HasPrefix", "HasSuffix"}
#: Functions and methods that compare, and packages whose functions no product can replace.
_COMPARING = re.compile(r"eq|cmp|.*(?:equal|same|compare).*", re.IGNORECASE)
_STANDARD = {"reflect", "bytes", "strings", "slices", "maps", "errors"}
#: Assertions that compare with a literal, and those with the literal as last argument.
_ASSERTED = {"Equal", "EqualValues", "Exactly", "Len", "EqualError", "DeepEqual"}
_LAST = {"Len", "EqualError"}


def expected(claim: GoClaim) -> list[Node]:
    """The literals that a claim expects: with another one it is false."""
    if claim.kind == ASSERTION and claim.name in _ASSERTED:
        return _first(claim.values[:2][:: -1 if claim.name in _LAST else 1])
    if claim.kind != CONDITION or claim.name != "consequence":
        return []
    literals: list[Node] = []
    for node in leaves(claim.node, "||"):
        sign = text_of(field(node, "operator"))
        if node.type == "binary_expression" and sign == "!=":
            literals += _first((field(node, "right"), field(node, "left")))
        elif node.type == "unary_expression" and sign == "!":
            call = field(node, "operand")
            if text_of(field(field(call, "function"), "field")) in _EQUAL:
                literals += _first(named_children(field(call, "arguments"))[::-1])
    return literals


def _first(sides: Sequence[Node]) -> list[Node]:
    return next((literals for side in sides if (literals := _literals_in(side))), [])


def _literals_in(node: Node) -> list[Node]:
    """The literals that an expression consists of; none if it has other parts."""
    literals: list[Node] = []
    waiting = [node]
    while waiting:
        node = waiting.pop()
        if node.type in _LITERALS:
            literals.append(node)
        elif node.type == "unary_expression":
            waiting += [
                part
                for part in named_children(node)
                if part.type in (*_NUMBERS, "composite_literal")
            ]
        elif node.type in ("parenthesized_expression", "literal_element", "literal_value"):
            waiting += named_children(node)
        elif node.type == "keyed_element":
            waiting.append(named_children(node)[-1])  # never a key: two could be the same
        elif node.type == "composite_literal":
            waiting.append(field(node, "body"))
        elif node.type == "type_conversion_expression":
            waiting.append(field(node, "operand"))
        elif node.type == "call_expression" and text_of(field(node, "function")) in _BASIC:
            waiting += named_children(field(node, "arguments"))
    return literals


def scope_of(claim: GoClaim, test: GoTest, source: GoTests) -> Node:
    """The body of the function whose parameter the reporter of a claim is."""
    node = claim.site.parent
    while node is not None and node != test.node:
        if node.type == "func_literal" and claim.reporter in source.reporters(node):
            return field(node, "body")
        node = node.parent
    return test.body


def questions(
    test: GoTest, source: GoTests, chance: Random
) -> list[tuple[GoClaim, list[TypedQuestion]]]:
    """What the comparisons and helpers of a test must refuse."""
    asker = _Questions(test, source, chance)
    questioned: list[tuple[GoClaim, list[TypedQuestion]]] = []
    past = 0
    for claim in sorted((*test.claims, *test.helpers), key=lambda claim: claim.site.start_byte):
        node = claim.node if claim.kind == CONDITION else claim.site
        if node.start_byte >= past and (questions := asker.of(claim)):
            questioned.append((claim, questions))
            past = node.end_byte
    return questioned


class _Questions:
    def __init__(self, test: GoTest, source: GoTests, chance: Random) -> None:
        self._test, self._source, self._chance = test, source, chance
        self._values = self._constants()

    def of(self, claim: GoClaim) -> list[TypedQuestion]:
        if any(node.type == "func_literal" for node in below(claim.node)):
            return []
        if claim.kind == HELPER or (claim.kind == ASSERTION and not claim.testify):
            call = named_children(claim.site)[0]
            reporter = next(iter(named_children(field(call, "arguments"))), call)
            is_given = text_of(reporter) == claim.reporter
            is_test = not self._test.name.startswith("Fuzz")
            return self._helper(claim, call, reporter) if is_given and is_test else []
        if claim.kind != CONDITION or claim.name != "consequence":
            return []
        return [question for leaf in leaves(claim.node, "||") for question in self._compared(leaf)]

    def _constants(self) -> dict[str, Node]:
        """The variables that have a single value, which is made of literals."""
        values: dict[str, list[Node | None]] = {}
        for node in below(self._test.node):
            if node.type in ("short_var_declaration", "assignment_statement", "range_clause"):
                left, right = (
                    named_children(field(node, "left")),
                    named_children(field(node, "right")),
                )
                is_single = node.type == "short_var_declaration" and len(left) == len(right) == 1
                for target in left:
                    values.setdefault(text_of(target), []).append(right[0] if is_single else None)
        return {
            name: value[0]
            for name, value in values.items()
            if len(value) == 1 and value[0] is not None and self._is_constant(value[0])
        }

    def _is_constant(self, node: Node) -> bool:
        return all(
            part.type not in ("call_expression", "func_literal", "identifier")
            or (part.type == "identifier" and text_of(part) not in self._test.names)
            or text_of(field(part, "function")) in _BASIC
            for part in below(node)
        )

    def _literal(self, node: Node) -> Node | None:
        """The expression of literals that a node is, or that is the value of its variable."""
        node = self._values.get(text_of(node), node)
        return node if self._is_constant(node) and _literals_in(node) else None

    def _compared(self, leaf: Node) -> list[TypedQuestion]:
        """``!a.Equal(b)``, ``!Equal(a, b)`` or ``a.Compare(b) != 0``."""
        call, suffix = field(leaf, "operand"), ""
        if leaf.type == "binary_expression" and text_of(field(leaf, "operator")) == "!=":
            call, suffix = field(leaf, "left"), f" == {text_of(field(leaf, 'right'))}"
        elif leaf.type != "unary_expression" or not text_of(leaf).startswith("!"):
            return []
        function = field(call, "function")
        owner, method = field(function, "operand"), text_of(field(function, "field"))
        if call.type != "call_expression" or not _COMPARING.fullmatch(method or text_of(function)):
            return []
        values = named_children(field(call, "arguments"))
        is_method = function.type == "selector_expression"
        if is_method and owner.type == "identifier" and text_of(owner) not in self._test.names:
            if text_of(owner) in _STANDARD:
                return []
            is_method = False
        sides = [*([owner] if is_method else []), *values]
        side = next(
            (operand for operand in reversed(sides) if self._literal(operand) is not None), None
        )
        operands = [operand for operand in sides if operand != side]
        if side is None or len(operands) != 1 or "variadic_argument" in {v.type for v in values}:
            return []
        return self._question(
            call, side, operands[0], lambda text: text + suffix,
            receiver=owner if is_method else None,
        )  # fmt: skip

    def _helper(self, claim: GoClaim, call: Node, reporter: Node) -> list[TypedQuestion]:
        """``same(t, a, b)``, asked with a reporter of its own."""
        values = claim.values[:2]
        side = next((value for value in reversed(values) if self._literal(value) is not None), None)
        operands = [value for value in values if value != side]
        if side is None or len(operands) != 1 or not all(map(self._is_constant, claim.values[2:])):
            return []
        mock, done, ends = (token(self._chance) for _ in range(3))

        def ran(text: str) -> str:
            return (
                f"func() bool {{ {mock} := new({self._source.testing}.T); "
                f"{done} := make(chan bool); go func() {{ {ends} := false; "
                f"defer func() {{ recover(); {done} <- {ends} }}(); {text}; {ends} = true }}(); "
                f"return <-{done} && !{mock}.Failed() }}()"
            )

        return self._question(call, side, operands[0], ran, reporter=(reporter, mock))

    def _question(
        self,
        call: Node,
        side: Node,
        operand: Node,
        question: Callable[[str], str],
        *,
        receiver: Node | None = None,
        reporter: tuple[Node, str] | None = None,
    ) -> list[TypedQuestion]:
        value = self._literal(side)
        if value is None:
            return []
        name, places = token(self._chance), _literals_in(value)
        expected_text = text_of(value)
        is_judged = receiver is None or _is_composite(value)

        def called(texts: Mapping[Node, str]) -> str:
            """The call with other texts; a method may need the address of a value."""
            edits = {
                node: f"(&{text.removeprefix('&')})" if node == receiver and text != name else text
                for node, text in texts.items()
            }
            return question(replaced(call, {**edits, **dict([reporter] if reporter else [])}))

        alterations = []
        for kind, new in varied(value, places, _sizes(value, self._chance), self._chance, places):
            weight = PART if reporter and kind == FAR else kind
            judged = ""
            if weight == PART and is_judged:
                accepted = called({operand: expected_text, side: expected_text})
                judged = f"{accepted} && !({called({operand: expected_text, side: new})})"
            elif weight == PART:
                continue
            alterations.append(ClaimAlteration(weight, called({operand: name, side: new}), judged))
        return [TypedQuestion({name: text_of(operand)}, tuple(alterations))]


def _is_composite(node: Node) -> bool:
    return text_of(node).removeprefix("&")[-1:] == "}"


def _sizes(value: Node, chance: Random) -> Iterator[tuple[Node, str]]:
    """Slices and maps with an element more, and without each of them."""
    for node in below(value):
        kind = field(node, "type").type if node.type == "composite_literal" else ""
        body = field(node, "body")
        texts = [text_of(element) for element in named_children(body) if element.type != "comment"]
        if kind not in ("slice_type", "map_type") or not texts:
            continue
        more, (key, colon, value_text) = texts[-1], texts[-1].partition(":")
        if kind == "map_type":
            if key[:1] != '"':
                continue
            more = f'"{token(chance)}"{colon}{value_text}'
        elif colon:
            continue
        for elements in near.resized(texts, more):
            yield body, f"{{{', '.join(elements)}}}"
