"""Replaces the expected literals of claims in JavaScript by other or equal ones."""

from __future__ import annotations

import re

from rlm_ci.canary.forms import token
from rlm_ci.canary.javascript.claims import ASSERT, CHAI, EXPECT, REQUEST, TAP
from rlm_ci.canary.splicing import Edit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from random import Random

    from rlm_ci.canary.javascript.claims import JavaScriptClaim
    from rlm_ci.canary.javascript.syntax import JavaScriptSource, SyntaxNode

#: Methods that fail with any other value, and the index of the argument with the expected one.
_EXPECTED = {
    EXPECT: {
        **dict.fromkeys((
            "toBe", "toEqual", "toStrictEqual", "toMatchObject", "toHaveLength", "toContain",
            "toContainEqual", "toMatch", "toThrow", "toThrowError", "toHaveBeenCalledTimes",
            "toBeCalledTimes", "toHaveBeenCalledWith", "toHaveBeenLastCalledWith", "toBeCalledWith",
            "lastCalledWith", "toHaveReturnedWith", "toBeCloseTo", "toHaveTextContent",
            "toHaveValue", "toHaveDisplayValue",
        ), 0),
        **dict.fromkeys(("toHaveAttribute", "toHaveProperty"), 1),
    },
    CHAI: {
        **dict.fromkeys((
            "equal", "equals", "eq", "eql", "eqls", "include", "includes", "contain", "contains",
            "lengthOf", "length", "members", "match", "string", "throw", "throws", "a", "an",
        ), 0),
        "property": 1,
    },
    ASSERT: dict.fromkeys((
        "equal", "strictEqual", "deepEqual", "deepStrictEqual", "match", "include", "eql",
        "throws", "rejects",
    ), 1),
    TAP: dict.fromkeys((
        "is", "equal", "deepEqual", "same", "strictSame", "regex", "match", "like",
    ), 1),
    REQUEST: {"expect": 0},
}  # fmt: skip
#: Other matchers of jest and vitest, whose arguments are no expected values.
_BUILT_IN = frozenset({
    "toBeTruthy", "toBeFalsy", "toBeNull", "toBeUndefined", "toBeDefined", "toBeNaN",
    "toBeInstanceOf", "toBeTypeOf", "toHaveBeenCalled", "toBeCalled", "toHaveReturned",
    "toBeGreaterThan", "toBeGreaterThanOrEqual", "toBeLessThan", "toBeLessThanOrEqual", "toSatisfy",
})  # fmt: skip
_SIMPLE = frozenset({
    "string", "template_string", "number", "true", "false", "null", "undefined", "regex",
})  # fmt: skip
_WRAPPED = frozenset({
    "parenthesized_expression", "as_expression", "satisfies_expression", "unary_expression",
})  # fmt: skip
_ESCAPED = re.compile(r"[\\\r\n]")
_INTEGER = re.compile(r"0|[1-9][0-9]{0,8}")


def altered(
    source: JavaScriptSource, claim: JavaScriptClaim, chance: Random
) -> tuple[Edit, str] | None:
    """An edit that changes one expected literal, and the word that the failure prints."""
    nodes = literals(source, expected(source, claim))
    if not nodes:
        return None
    node = chance.choice(nodes)
    text, word = another(source, node, chance)
    return Edit(node.start, node.end, text), word


def is_known(claim: JavaScriptClaim) -> bool:
    return claim.method in _EXPECTED.get(claim.kind, {}) or claim.method in _BUILT_IN


def expected(source: JavaScriptSource, claim: JavaScriptClaim) -> tuple[SyntaxNode, ...]:
    """The arguments with what a claim expects; none if another value may be right, too."""
    positions = _EXPECTED.get(claim.kind, {})
    if "not" in claim.names() or claim.method not in positions:
        return ()
    at = positions[claim.method]
    nodes = claim.arguments if claim.kind == REQUEST else claim.arguments[at : at + 1]
    if claim.method in ("throws", "rejects"):  # a text would be the message
        return tuple(node for node in nodes if node.kind in ("object", "regex"))
    if claim.kind in (ASSERT, TAP) and not literals(source, nodes):
        return claim.arguments[:1] if "qual" in claim.method else ()
    return nodes


def another(source: JavaScriptSource, node: SyntaxNode, chance: Random) -> tuple[str, str]:
    """Another literal, far from it, and the word that a failure prints of it."""
    word = token(chance)
    if node.kind == "number":
        text = source.text(node)
        word = str(chance.randrange(10**7, 10**8)) + "n" * text.endswith("n")
        return word, word.rstrip("n")
    shapes = {
        "regex": "/{}/",
        "array": '["{}"]',
        "object": "{{ {}: 1 }}",
        "template_string": "`{}`",
    }
    shape = shapes.get(node.kind, '"{}"')
    if node.kind == "template_string":
        word += "\n" * source.text(node).count("\n")
    return shape.format(word), word.strip()


def literals(source: JavaScriptSource, nodes: tuple[SyntaxNode, ...]) -> list[SyntaxNode]:
    """The literals in expected values, without those that code computes with."""
    syntax_nodes, waiting = [], list(nodes[::-1])
    while waiting:
        node = waiting.pop()
        inner = node.inner()
        if node.kind in _SIMPLE:
            if node.kind != "template_string" or all(i.kind == "string_fragment" for i in inner):
                syntax_nodes.append(node)
        elif node.kind in ("array", "object") and not inner:
            syntax_nodes.append(node)
        elif node.kind == "array":
            waiting += inner[::-1]
        elif node.kind == "object":
            values = (
                syntax_node.part("value")
                for syntax_node in reversed(inner)
                if syntax_node.kind == "pair"
            )
            waiting += [value for value in values if value is not None]
        elif node.kind in _WRAPPED:
            is_sign = node.kind != "unary_expression" or node.has("-")
            waiting += inner[:1] if is_sign else []
        elif node.kind == "call_expression":
            root, links = source.chain(node)
            if source.text(root) == "expect" and "not" not in {link.name for link in links}:
                waiting += links[-1].arguments[::-1]
    return syntax_nodes


def same(source: JavaScriptSource, node: SyntaxNode, chance: Random) -> str | None:
    """Another expression for a literal; None if there is no simple one."""
    text = source.text(node)
    if node.kind == "string" and len(text) > 3 and not _ESCAPED.search(text):
        at = chance.randrange(2, len(text) - 1)
        quote = text[0]
        ways = (
            f"({text[:at]}{quote} + {quote}{text[at:]})",
            f'[{text[:at]}{quote}, {quote}{text[at:]}].join("")',
            f"{text[:at]}{quote}.concat({quote}{text[at:]})",
        )
        return chance.choice(ways)
    if node.kind == "number" and _INTEGER.fullmatch(text):
        other = chance.randrange(1, 1000)
        return f"({int(text) + other} - {other})"
    return None
