"""What a claim in JavaScript must refuse: other values than the expected one, far and near.

Every alteration of a claim is tried, and none may be accepted: so no draw decides. What a claim is
about is evaluated once.
"""

from __future__ import annotations

import re

from rlm_ci.canary import near
from rlm_ci.canary.forms import FAR, NEAR, PART, token
from rlm_ci.canary.javascript import literals
from rlm_ci.canary.javascript.claims import (
    ASSERT,
    BODY,
    CHAI,
    EXPECT,
    OTHER,
    RETURNED,
    STATEMENT,
    JavaScriptClaim,
)
from rlm_ci.canary.javascript.syntax import FUNCTIONS, SyntaxNode
from rlm_ci.canary.splicing import Edit
from rlm_ci.source.test_files import MAY_JUDGE
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from random import Random

    from rlm_ci.canary.javascript.syntax import JavaScriptSource
    from rlm_ci.canary.javascript.tests import JavaScriptTest

#: Methods that compare exactly, and those that bound a number from below or above.
_EXACT = frozenset({
    "toBe", "toEqual", "toStrictEqual", "toMatchObject", "toHaveLength", "toHaveBeenCalledTimes",
    "toBeCalledTimes", "toHaveBeenCalledWith", "toHaveBeenLastCalledWith", "toBeCalledWith",
    "lastCalledWith", "toHaveReturnedWith", "toHaveValue", "toHaveAttribute", "toHaveProperty",
    "equal", "equals", "eq", "eql", "eqls", "lengthOf", "length", "property",
    "strictEqual", "deepEqual", "deepStrictEqual",
})  # fmt: skip
_BELOW = frozenset({
    "toBeLessThan", "toBeLessThanOrEqual", "below", "lt", "lessThan", "most", "lte", "<", "<=",
    "isBelow", "isAtMost",
})  # fmt: skip
_ABOVE = frozenset({
    "toBeGreaterThan", "toBeGreaterThanOrEqual", "above", "gt", "greaterThan", "least", "gte",
    ">", ">=", "isAbove", "isAtLeast",
})  # fmt: skip
_TRUE = frozenset({"ok", "isTrue", "isOk", "toBeTruthy", "true"})
_EQUAL = frozenset({"==", "==="})
_ASKED = frozenset({"startsWith", "endsWith", "includes"})
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_MOST = 24


class JavaScriptAlteration(Value):
    """Edits of a claim; ``judged`` are two calls, the first of which the start tree accepts."""

    kind: str
    edits: tuple[Edit, ...]
    judged: tuple[str, str] | None = None


class AlteredClaim(Value):
    """A claim with what it is about, to be evaluated once, and its alterations."""

    claim: JavaScriptClaim
    bound: tuple[SyntaxNode, ...]
    alterations: tuple[JavaScriptAlteration, ...]


class Alterations:
    def __init__(self, source: JavaScriptSource, chance: Random) -> None:
        self._source, self._chance = source, chance

    def of(self, test: JavaScriptTest, claims: Sequence[JavaScriptClaim]) -> list[AlteredClaim]:
        """The claims of a test that can be altered, and its calls that may judge by themselves."""
        altered_claims = [self._claim(claim) for claim in claims if _is_plain(claim)]
        altered_claims += [self._helper(helper) for helper in _helpers(self._source, test)]
        return [claim for claim in altered_claims if claim is not None and claim.alterations]

    def _claim(self, claim: JavaScriptClaim) -> AlteredClaim | None:
        if claim.kind == EXPECT and not literals.is_known(claim):
            return self._custom(claim)
        far = literals.altered(self._source, claim, self._chance)
        alterations = [JavaScriptAlteration(FAR, (far[0],))] if far else []
        nodes = literals.expected(self._source, claim)
        if claim.method in _EXACT and not any(
            below.kind in ("call_expression", "new_expression")
            for node in nodes
            for below in _all(node)
        ):
            close = list(self._nearby(nodes, is_part=claim.method == "toMatchObject"))
            alterations += self._chance.sample(close, min(_MOST, len(close)))
        sides = claim.subject if claim.kind in (EXPECT, CHAI) else claim.arguments[:1]
        if claim.method in _BELOW | _ABOVE:
            at = 0 if claim.kind in (EXPECT, CHAI) else 1
            alterations += self._impossible(
                claim.arguments[at : at + 1], is_above=claim.method in _ABOVE
            )
        elif claim.method in _TRUE or [self._source.text(node) for node in nodes] == ["true"]:
            conditions = [condition for side in sides for condition in self._conditions(side)]
            if conditions:
                places = [edit for condition in conditions for edit in condition.edits]
                operands = [operand for side in sides for operand in _operands(side, places)]
                return AlteredClaim(claim, tuple(operands), (*conditions, *alterations[:1]))
        edited = {(edit.start, edit.end) for alteration in alterations for edit in alteration.edits}
        bound = tuple(
            node
            for node in (*claim.subject[:1], *(claim.arguments if claim.kind == ASSERT else ()))
            if not any(node.start <= start and end <= node.end for start, end in edited)
            and node.kind not in (*FUNCTIONS, "string", "number", "spread_element")
        )
        return AlteredClaim(claim, bound, tuple(alterations))

    # ── values ──

    def _nearby(
        self, nodes: Sequence[SyntaxNode], *, is_part: bool
    ) -> Iterator[JavaScriptAlteration]:
        for node in literals.literals(self._source, tuple(nodes)):
            text = self._source.text(node)
            for kind, new in (
                *((NEAR, number) for number in self._numbers(node, text)),
                *near.quoted(text, self._chance),
            ):
                yield JavaScriptAlteration(kind, (Edit(node.start, node.end, new),))
        for node in (below for syntax_node in nodes for below in _all(syntax_node)):
            for new in self._sizes(node, is_part=is_part):
                yield JavaScriptAlteration(NEAR, (Edit(node.start, node.end, new),))

    def _numbers(self, node: SyntaxNode, text: str) -> list[str]:
        if node.kind != "number" or not _NUMBER.fullmatch(text):
            return []
        steps = near.steps(self._chance)
        numbers = [f"({int(text) + step})" for step in steps] if "." not in text else []
        return numbers or [repr(float(text) + steps[0]), repr(float(text) * 1.01 + 0.001)]

    def _sizes(self, node: SyntaxNode, *, is_part: bool) -> Iterator[str]:
        """An array or object without one of its elements, and with one more."""
        inner = node.inner()
        if node.kind not in ("array", "object") or any(
            syntax_node.kind == "spread_element" for syntax_node in inner
        ):
            return
        texts = [self._source.text(syntax_node) for syntax_node in inner]
        start, end = ("[", "]") if node.kind == "array" else ("{", "}")
        word = token(self._chance)
        more = f'"{word}"' if node.kind == "array" else f"{word}: 1"
        longer, *shorter = near.resized(texts, more)
        yield f"{start}{', '.join(longer)}{end}"
        for text, elements in zip(texts, shorter, strict=True):
            if not is_part and "undefined" not in text:
                yield f"{start}{', '.join(elements)}{end}"

    def _impossible(
        self, nodes: Sequence[SyntaxNode], *, is_above: bool
    ) -> list[JavaScriptAlteration]:
        number = f"{'' if is_above else '-'}{self._chance.randrange(10**30, 10**36)}"
        return [
            JavaScriptAlteration(FAR, (Edit(node.start, node.end, f"({number})"),))
            for node in nodes
            if node.kind == "number" and not self._source.text(node).endswith("n")
        ]

    def _conditions(self, node: SyntaxNode) -> list[JavaScriptAlteration]:
        """What a condition must refuse: ``a === 3``, ``a < 3``, ``a.startsWith("b")``."""
        if node.kind == "parenthesized_expression":
            return [condition for inner in node.inner() for condition in self._conditions(inner)]
        if node.kind == "call_expression":
            _, links = self._source.chain(node)
            if len(links) < 2 or links[-2].name not in _ASKED:
                return []
            return [
                JavaScriptAlteration(
                    FAR, (Edit(syntax_node.start, syntax_node.end, f'"{token(self._chance)}"'),)
                )
                for syntax_node in links[-1].arguments[:1]
                if syntax_node.kind == "string"
            ]
        left, right = node.part("left"), node.part("right")
        sign = node.part("operator")
        if node.kind != "binary_expression" or not (left and right and sign):
            return []
        operator = self._source.text(sign)
        if operator == "&&":
            return [*self._conditions(left), *self._conditions(right)]
        if operator in _BELOW and (distance := self._distance(left)):
            return distance
        if operator in _BELOW | _ABOVE:
            is_above = operator in _ABOVE
            return [
                *self._impossible((right,), is_above=is_above),
                *self._impossible((left,), is_above=not is_above),
            ]
        side = right if literals.literals(self._source, (right,)) else left
        return list(self._nearby((side,), is_part=False)) if operator in _EQUAL else []

    def _distance(self, node: SyntaxNode) -> list[JavaScriptAlteration]:
        """``Math.abs(a - b)``: far more than what it is compared with."""
        if node.kind != "call_expression" or not self._source.text(node).startswith("Math.abs("):
            return []
        nodes = self._source.chain(node)[1][-1].arguments
        return [
            JavaScriptAlteration(
                FAR,
                (Edit(syntax_node.end, syntax_node.end, f" - {self._chance.randrange(10**30)}"),),
            )
            for syntax_node in nodes[:1]
            if syntax_node.kind == "binary_expression" and syntax_node.has("-")
        ]

    # ── own matchers and helpers ──

    def _custom(self, claim: JavaScriptClaim) -> AlteredClaim | None:
        """A matcher of the repository: the start judges it with the expected value as subject."""
        subject = claim.subject[:1]
        if not subject or claim.is_promise or "not" in claim.names():
            return None
        alterations = self._judged(claim, claim.arguments, subject)
        return AlteredClaim(claim, subject, tuple(alterations))

    def _helper(self, claim: JavaScriptClaim) -> AlteredClaim | None:
        operands = tuple(
            node
            for node in claim.arguments
            if node.kind not in (*FUNCTIONS, "spread_element")
            and not literals.literals(self._source, (node,))
        )
        if not operands:
            return None
        return AlteredClaim(claim, operands, tuple(self._judged(claim, claim.arguments, operands)))

    def _judged(
        self, claim: JavaScriptClaim, nodes: Sequence[SyntaxNode], operands: Sequence[SyntaxNode]
    ) -> Iterator[JavaScriptAlteration]:
        syntax_node = expression(claim)
        for node in literals.literals(self._source, tuple(nodes))[:_MOST]:
            text = self._source.text(node)
            close = self._numbers(node, text)
            close += [new for _, new in near.quoted(text, self._chance)]
            far = literals.another(self._source, node, self._chance)[0]
            same = [Edit(operand.start, operand.end, f"({text})") for operand in operands]
            for new in (far, *close):
                edit = Edit(node.start, node.end, new)
                calls = (
                    self._source.text(syntax_node, same),
                    self._source.text(syntax_node, [*same, edit]),
                )
                yield JavaScriptAlteration(PART, (edit,), calls)


def _operands(node: SyntaxNode, places: Sequence[Edit]) -> Iterator[SyntaxNode]:
    """The largest parts of a condition that nothing alters, and that do more than name a value."""
    if all(edit.end < node.start or node.end < edit.start for edit in places):
        if node.kind in ("call_expression", "await_expression", "member_expression"):
            yield node
        return
    for syntax_node in node.inner():
        if node.kind != "arguments" or syntax_node.kind not in FUNCTIONS:
            yield from _operands(syntax_node, places)


def expression(claim: JavaScriptClaim) -> SyntaxNode:
    return claim.statement.inner()[0] if claim.site in (STATEMENT, RETURNED) else claim.statement


def _all(node: SyntaxNode) -> Iterator[SyntaxNode]:
    yield node
    yield from node.below()


def _is_plain(claim: JavaScriptClaim) -> bool:
    """Whether a claim throws where it fails, and can be asked several times in its place."""
    names = claim.names()
    is_open = claim.is_promise and not claim.is_awaited
    is_known = claim.kind in (EXPECT, CHAI, ASSERT)
    return is_known and not is_open and not names & {"not", "soft", "poll", "element", "eventually"}


def _helpers(source: JavaScriptSource, test: JavaScriptTest) -> list[JavaScriptClaim]:
    """Calls in a test that may judge by themselves: by their names, or at the end of one."""
    body = test.function.part("body")
    if body is None:
        return []
    if body.kind == "call_expression":
        nodes = [(body, body, BODY)]
    else:
        nodes = [
            (node, node.inner()[0], STATEMENT)
            for node in body.inner()
            if node.kind == "expression_statement" and node.inner()[0].kind == "call_expression"
        ]
    claimed = [(claim.statement.start, claim.statement.end) for claim in test.claims]
    claims = []
    for node, call, site in nodes:
        root, links = source.chain(call)
        name = next((link.name for link in reversed(links) if link.name), source.text(root))
        is_last = not test.claims and node is nodes[-1][0]
        is_free = not any(start < node.end and node.start < end for start, end in claimed)
        if links and is_free and (is_last or MAY_JUDGE.match(name)):
            claims.append(
                JavaScriptClaim(
                    node, site, OTHER, name, links, (), links[-1].arguments,
                    is_awaited=False, is_promise=False,
                )
            )  # fmt: skip
    return claims
