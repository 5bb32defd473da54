"""The literals that claims in Rust expect, and what claims must refuse beside them."""

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
from rlm_ci.canary.forms import FAR, NEAR, PART, STYLE, token
from rlm_ci.canary.rust.source import COMPARED, HOLDS, MACRO, RustSpan
from rlm_ci.canary.splicing import Edit, spliced
from rlm_ci.source.grammars import field, named_children, text_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from random import Random

    from tree_sitter import Node

    from rlm_ci.canary.rust.source import RustClaim, RustSource, RustTest

_NUMBERS = {"integer_literal", "float_literal"}
_LITERALS = _NUMBERS | {
    "boolean_literal", "char_literal", "string_literal", "raw_string_literal",
}  # fmt: skip
#: Methods whose result differs if the literal differs.
_MADE_OF = {"to_string", "to_owned", "into", "to_vec"}
_HOLDING = {
    "parenthesized_expression", "reference_expression", "array_expression", "tuple_expression",
    "field_initializer_list",
}  # fmt: skip
#: Constructors of the standard library: no code of the repository looks at what is in them.
_WRAPPERS = {"Some", "Ok", "Err"}
_COMPARING = re.compile(r"eq|cmp|.*(?:equal|same|equivalent).*", re.IGNORECASE)
#: Nodes of an expression that may be evaluated once more, if its names are no variables.
_AGAIN = _LITERALS | _HOLDING | {
    "call_expression", "arguments", "field_expression", "field_identifier", "identifier",
    "scoped_identifier", "field_initializer", "struct_expression", "type_identifier",
    "string_content", "escape_sequence", "unary_expression", "generic_function",
    "type_arguments", "primitive_type", "shorthand_field_initializer", "scoped_type_identifier",
}  # fmt: skip


def questions(
    test: RustTest, source: RustSource, chance: Random
) -> list[tuple[RustClaim, list[TypedQuestion]]]:
    """What the comparisons and own macros of a test must refuse."""
    asker = _Questions(test, source, chance)
    questioned: list[tuple[RustClaim, list[TypedQuestion]]] = []
    past = 0
    for claim in sorted((*test.claims, *test.macros), key=lambda claim: claim.node.start_byte):
        if claim.node.start_byte >= past and (questions := asker.of(claim)):
            questioned.append((claim, questions))
            past = claim.node.end_byte
    return questioned


class _Questions:
    def __init__(self, test: RustTest, source: RustSource, chance: Random) -> None:
        self._source, self._chance = source, chance
        self._names: set[str] = set()
        values: dict[str, list[Node]] = {}
        for node in below(test.node):
            pattern = field(node, "pattern")
            if pattern == node:
                continue
            self._names |= {text_of(part) for part in below(pattern) if part.type == "identifier"}
            if node.type == "let_declaration" and pattern.type == "identifier":
                values.setdefault(text_of(pattern), []).append(field(node, "value"))
        #: The variables with a single value, which is made of literals.
        self._values = {
            name: nodes[0]
            for name, nodes in values.items()
            if len(nodes) == 1 and self._is_constant(nodes[0])
        }

    def of(self, claim: RustClaim) -> list[TypedQuestion]:
        if claim.kind == MACRO:
            return self._macro(claim)
        if claim.kind == COMPARED and claim.name == "assert_eq":
            left, right = (span.node for span in claim.values)
            return self._compared(left, right)
        spans = []
        for leaf in leaves(claim.values[0].node, "&&") if claim.kind == HOLDS else ():
            if leaf.type == "binary_expression" and text_of(field(leaf, "operator")) == "==":
                spans += self._compared(field(leaf, "left"), field(leaf, "right"))
            elif leaf.type == "call_expression":
                spans += self._called(leaf)
        return spans

    def _is_constant(self, node: Node) -> bool:
        """Whether an expression consists of literals, constants and constructors."""
        if not self._is_repeatable(node):
            return False
        calls = (part for part in below(node) if part.type == "call_expression")
        return all(_is_constructor(call) for call in calls)

    def _is_repeatable(self, node: Node) -> bool:
        return all(
            _is_list(part)
            or (
                part.type in _AGAIN
                and (part.type != "identifier" or text_of(part) not in self._names)
            )
            for part in _outside_lists(node)
        )

    def _literal(self, node: Node) -> tuple[str, Node] | None:
        """The expression of literals that a node is, or that its variable has; what is before."""
        shown = node
        while shown.type == "reference_expression":
            shown = field(shown, "value")
        prefix = text_of(node).removesuffix(text_of(shown))
        value = self._values.get(text_of(shown))
        prefix, node = ("", node) if value is None else (prefix, value)
        return (prefix, node) if self._is_constant(node) and _literals_in(node) else None

    def _compared(self, left: Node, right: Node) -> list[TypedQuestion]:
        """``a == b``, where a type of the repository may decide."""
        names = f"_{token(self._chance)}", f"_{token(self._chance)}"
        sides = (right, left)
        side = next((operand for operand in sides if self._literal(operand) is not None), None)
        literal = None if side is None else self._literal(side)
        if literal is None:
            return []
        prefix, value = literal
        number, at = _span(text_of(value)), int(side == right)

        def compared(new: str) -> str:
            pair = [f"*{name}" for name in names]
            pair[at] = new
            return " == ".join(pair)

        alterations = []
        for kind, new, part in self._varied(value):
            judged = ""
            if part:
                expected_text, other = part
                judged = (
                    f"({expected_text}) == ({expected_text}) && !(({expected_text}) == ({other}))"
                )
            elif kind == NEAR and number:  # whether the value at the start equals several numbers
                several = token(self._chance)
                equal = compared(f"*{several}")
                judged = f"({number}).filter(|{several}| {equal}).count() > 1"
            alterations.append(ClaimAlteration(kind, compared(f"({prefix}{new})"), judged))
        operands = dict(zip(names, (text_of(left), text_of(right)), strict=True))
        return [TypedQuestion(operands, tuple(alterations))]

    def _called(self, call: Node) -> list[TypedQuestion]:
        """``a.equals(&b)``: the start tree is asked with b as both."""
        function, values = field(call, "function"), named_children(field(call, "arguments"))
        method = text_of(field(function, "field"))
        if function.type != "field_expression" or not _COMPARING.fullmatch(method):
            return []
        owner = field(function, "value")
        literal = self._literal(values[0]) if len(values) == 1 else None
        if literal is None or not list(_parts(literal[1])):
            return []
        prefix, value = literal
        name, expected_text = f"_{token(self._chance)}", text_of(value)
        receiver = f"({expected_text.lstrip('& ')})"

        def called(subject: str, new: str) -> str:
            return replaced(call, {owner: subject, values[0]: prefix + new})

        alterations = [
            ClaimAlteration(
                kind,
                called(name, new),
                f"{called(receiver, expected_text)} && !{called(receiver, new)}"
                if kind == PART
                else "",
            )
            for kind, new, _ in self._varied(value)
        ]
        return [TypedQuestion({name: text_of(owner)}, tuple(alterations))]

    def _macro(self, claim: RustClaim) -> list[TypedQuestion]:
        """``same!(a, b)``, which panics or not: the start tree is asked with b as both."""
        spans = claim.values[:2]
        side = next((operand for operand in reversed(spans) if self._literal(operand.node)), None)
        operand = next((operand for operand in spans if operand != side), None)
        if (
            side is None
            or operand is None
            or not all(self._is_repeatable(span.node) for span in claim.values)
        ):
            return []
        start, content = claim.node.start_byte, claim.node.text or b""

        def passes(texts: Mapping[RustSpan, str]) -> str:
            text = spliced(
                content, [Edit(s.start - start, s.end - start, new) for s, new in texts.items()]
            )
            panic = "::std::panic"
            closure = f"{panic}::AssertUnwindSafe(|| {{ {text}; }})"
            return f"{panic}::catch_unwind({closure}).is_ok()"

        prefix, value = self._literal(side.node) or ("", side.node)
        valid = prefix + text_of(value)
        alterations = [
            ClaimAlteration(
                PART,
                passes({side: prefix + new}),
                f"{passes({operand: valid})} && !{passes({operand: valid, side: prefix + new})}",
            )
            for kind, new, _ in self._varied(value)
            if kind in (FAR, NEAR, PART)
        ]
        return [TypedQuestion({}, tuple(alterations))]

    def _varied(self, value: Node) -> Iterator[tuple[str, str, tuple[str, str] | None]]:
        """Other values: the kind, the text, and what the start tree compares for a part."""
        places, parts = _literals_in(value), list(_parts(value))
        inner = {literal for part in parts for literal in _literals_in(part)}
        for kind, new in varied(value, places, _sizes(value), self._chance, inner):
            if kind in (FAR, STYLE) or not parts:
                yield kind, new, None
        for part in parts:
            expected_text, others = text_of(part), _literals_in(part)
            for kind, new in varied(part, others, _sizes(part), self._chance, others):
                if kind == PART:
                    yield kind, replaced(value, {part: new}), (expected_text, new)


def below(node: Node) -> Iterator[Node]:
    waiting = [node]
    while waiting:
        yield (inner := waiting.pop())
        waiting += reversed(named_children(inner))


def _outside_lists(node: Node) -> Iterator[Node]:
    """The nodes of an expression, without those in ``vec![…]``."""
    waiting = [node]
    while waiting:
        yield (inner := waiting.pop())
        waiting += [] if _is_list(inner) else reversed(named_children(inner))


def _is_list(node: Node) -> bool:
    """Whether it is ``vec![1, 2]``, with literals alone."""
    if node.type != "macro_invocation" or text_of(field(node, "macro")) != "vec":
        return False
    tree = named_children(node)[-1]
    return ";" not in text_of(tree) and all(part.type in _LITERALS for part in named_children(tree))


def _is_constructor(call: Node) -> bool:
    called = field(call, "function")
    if called.type == "field_expression":
        return text_of(field(called, "field")) in _MADE_OF
    return _name(call)[:1].isupper() or text_of(called) == "String::from"


def _name(call: Node) -> str:
    return text_of(field(call, "function")).rpartition("::")[2]


def _parts(value: Node) -> Iterator[Node]:
    """The largest values of types that may be of the repository."""
    waiting = [value]
    while waiting:
        node = waiting.pop()
        is_call = node.type == "call_expression" and _name(node)[:1].isupper()
        is_own = node.type == "struct_expression" or (is_call and _name(node) not in _WRAPPERS)
        if is_own and _literals_in(node):
            yield node
        else:
            waiting += reversed(named_children(node))


def _span(text: str) -> str:
    """Numbers of the type of an integer, as a range."""
    if not (literal := re.fullmatch(r"([0-9]{1,18})([iu][0-9a-z]+)?", text)):
        return ""
    value, suffix = int(literal[1]), literal[2] or ""
    last = next(2**bits - 1 for bits in (7, 15, 31, 63) if value < 2**bits)
    start = max(0, value - 999)
    return f"{start}{suffix}..={min(last, value + 999)}{suffix}"


def _sizes(value: Node) -> Iterator[tuple[Node, str]]:
    """Vectors with an element more, and without each of them."""
    for node in below(value):
        if _is_list(node) and (
            texts := [text_of(part) for part in named_children(named_children(node)[-1])]
        ):
            for elements in near.resized(texts, texts[-1]):
                if elements:
                    yield node, f"vec![{', '.join(elements)}]"


def expected(claim: RustClaim) -> list[RustSpan]:
    """The literals that a claim expects: with another one it is false."""
    if claim.kind == COMPARED and claim.name == "assert_eq":
        return _first([claim.values[1].node, claim.values[0].node], claim.values[0].shift)
    spans: list[RustSpan] = []
    for node in leaves(claim.values[0].node, "&&") if claim.kind == HOLDS else ():
        if node.type == "binary_expression" and text_of(field(node, "operator")) == "==":
            spans += _first([field(node, "right"), field(node, "left")], claim.values[0].shift)
    return spans


def _first(sides: list[Node], shift: int) -> list[RustSpan]:
    for side in sides:
        if spans := [RustSpan(node, shift) for node in _literals_in(side)]:
            return spans
    return []


def _literals_in(node: Node) -> list[Node]:
    """The literals that an expression consists of; none if it has other parts."""
    literals: list[Node] = []
    waiting = [node]
    while waiting:
        node = waiting.pop()
        if node.type in _LITERALS and not text_of(node).startswith(("b", "c")):
            literals.append(node)
        elif node.type == "unary_expression" and text_of(node).startswith("-"):
            waiting += [part for part in named_children(node) if part.type in _NUMBERS]
        elif node.type == "array_expression" and field(node, "length") != node:
            continue  # [value; count]
        elif node.type in _HOLDING:
            waiting += named_children(node)
        elif _is_list(node):
            waiting += named_children(named_children(node)[-1])
        elif node.type == "struct_expression":
            waiting.append(field(node, "body"))
        elif node.type == "field_initializer":
            waiting.append(field(node, "value"))
        elif node.type == "call_expression":
            called = field(node, "function")
            name = text_of(called).rpartition("::")[2]
            is_made_of = (
                called.type == "field_expression" and text_of(field(called, "field")) in _MADE_OF
            )
            if is_made_of:
                waiting.append(field(called, "value"))
            elif name[:1].isupper() or text_of(called) == "String::from":  # a constructor: no code
                waiting += named_children(field(node, "arguments"))
    return literals
