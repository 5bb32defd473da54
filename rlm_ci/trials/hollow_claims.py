"""What the text of a test says of its claims: they compare alike, ask mocks, are in a handler."""

from __future__ import annotations

import re

from rlm_ci.canary import readers
from rlm_ci.canary.claim_edits import text_of
from rlm_ci.canary.forms import REACHED, UnparsableError
from rlm_ci.canary.splicing import rooted
from rlm_ci.source.grammars import named
from rlm_ci.source.languages import language
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from random import Random

    from tree_sitter import Node

    from rlm_ci.trials.touched_tests import TouchedTest

_MOCKS = re.compile(
    r"\b(?:(?:Magic|Async|Property|NonCallable)?Mock\(|patch(?:\.object|\.dict)?\(|create_autospec"
    r"|mocker\.|monkeypatch\.setattr|(?:jest|vi|sinon|mock)\.(?:fn|mock|spyOn|stub|method)\b)"
)
#: Tests that may compare what they make with its like, or with itself.
_OF_EQUALITY = re.compile(
    r"(?i)eq(?!uation)|same|hash|determin|idempot|cach|memo|stable|repeat|consisten|identi|reflex"
    r"|singleton|copy|pickl|round.?trip|order|compar|reproduc|seed|twice|again"
)
_HANDLER = re.compile(r"\bexcept\b|\bcatch\b|\bsuppress\(|catch_unwind|\brecover\(\)")
_EQUAL_CALLS = re.compile(
    r"(?:.*[.:])?(?:_?assert_?(?:list|dict|set|tuple|sequence|multiline|count|almost)?_?equals?"
    r"|equal|equals|deepEqual|strictEqual|deepStrictEqual|toBe|toEqual|toStrictEqual|DeepEqual"
    r"|Equal|EqualValues|Exactly|eql|eq|same|assert_eq)",
    re.IGNORECASE,
)
_EXPECT = re.compile(r"expect\(")
_BINARY = frozenset(("comparison_operator", "binary_expression"))
_EQUALS = frozenset(("==", "===", "!=", "!=="))
#: Claims of each language: kinds of nodes, and how their text begins.
_CLAIMS = {
    "Python": re.compile(
        r"assert\b|self\.(?:assert\w+|fail)\(|(?:with )?pytest\.(?:raises|warns|fail)"
        r"|\w+\.assert_\w+\(|np\.testing\.|with self\.assert"
    ),
    "Go": re.compile(r"(?:assert|require)\.\w+\(|if\b[^{]*\{[^}]*\.(?:Error|Fatal|Fail)"),
    "Rust": re.compile(r"(?:debug_)?assert\w*!|panic!"),
}  # fmt: skip
_SCRIPT = re.compile(r"(?:await )?(?:expect|assert)\b|t\.\w+\(")
_HOLDERS = frozenset((
    "expression_statement", "assert_statement", "with_statement", "if_statement",
    "return_statement", "macro_invocation", "arrow_function",
))  # fmt: skip


class TextSigns(Value):
    """What the text of a test says: so many ``claims``, and of these so many ``tautologies``."""

    claims: int = 0
    tautologies: int = 0
    has_mocks: bool = False
    has_handler: bool = False
    is_of_equality: bool = False


def signs(path: str, content: bytes, tests: Sequence[TouchedTest]) -> dict[str, TextSigns]:
    """The signs of the tests of a file, by name; empty for a file that cannot be read."""
    try:
        _, root = rooted(language(path), path, content.decode("utf-8", "surrogateescape"))
    except UnparsableError:
        return {}
    nodes = list(_below(root))
    by_name = {}
    for test in tests:
        inside = [
            node
            for node in nodes
            if test.line <= node.start_point.row + 1 and node.end_point.row + 1 <= test.end
        ]
        claims = [node for node in inside if _is_claim(node, path)]
        claims = [node for node in claims if not any(_is_within(node, other) for other in claims)]
        values = _values(inside)
        by_name[test.name] = TextSigns(
            len(claims),
            sum(_is_tautology(node, values) for node in claims),
            _MOCKS.search(test.text) is not None,
            _HANDLER.search(test.text) is not None,
            _OF_EQUALITY.search(test.name.rpartition("::")[2]) is not None,
        )
    return by_name


def failing(
    contents: Mapping[str, bytes], tests: Iterable[TouchedTest], chance: Random
) -> tuple[dict[str, bytes], set[tuple[str, str]]]:
    """The files with each claim of the tests made to fail, and the tests that must fail then."""
    by_path: dict[str, dict[str, str]] = {}
    for test in tests:
        by_path.setdefault(test.path, {})[test.name] = REACHED
    texts, keys = {}, set()
    for path, forms in by_path.items():
        try:
            text = readers.decoded(path, contents[path])
            changed = readers.of(path).change(path, text, forms, chance, plain=True)
        except UnparsableError:
            continue
        texts[path] = changed.text.encode(readers.encoding(path, contents[path]), "surrogateescape")
        keys |= {(path, name) for name in changed.made}
    return texts, keys


def _below(root: Node) -> Iterator[Node]:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += node.named_children


def _is_within(node: Node, other: Node) -> bool:
    return other != node and other.start_byte <= node.start_byte and node.end_byte <= other.end_byte


def _is_claim(node: Node, path: str) -> bool:
    if node.type not in _HOLDERS:
        return False
    text = text_of(node)
    if node.type == "arrow_function":  # a body that is an expression
        body = node.child_by_field_name("body")
        text = text_of(body) if body is not None and body.type == "call_expression" else ""
    return _CLAIMS.get(language(path), _SCRIPT).match(text.removeprefix("return ")) is not None


def _values(nodes: Iterable[Node]) -> dict[str, str]:
    """What each name of a test stands for, "" where it is bound more than once."""
    values: dict[str, str] = {}
    for node in nodes:
        if node.type not in ("assignment", "variable_declarator", "short_var_declaration",
                             "let_declaration"):  # fmt: skip
            continue
        name = next(
            filter(None, (node.child_by_field_name(key) for key in ("left", "name", "pattern"))),
            None,
        )
        value = next(
            filter(None, (node.child_by_field_name(key) for key in ("right", "value"))), None
        )
        if name is not None and value is not None:
            text = text_of(name)
            values[text] = "" if text in values else _folded(text_of(value))
    return values


def _folded(text: str) -> str:
    return "".join(text.split())


def _is_tautology(claim: Node, values: Mapping[str, str]) -> bool:
    """Whether a claim compares two texts that are the same, or stand for the same."""
    sides = _sides(claim)
    if len(sides) != 2:
        return False
    left, right = map(_folded, sides)
    if re.match(r"(?:\w+\.)*(?:[A-Z]\w*|new[A-Z]\w*)\(", left):
        return False  # an equality of two objects that are made alike
    return left == right or (values.get(left) or left) == (values.get(right) or right)


def _sides(claim: Node) -> list[str]:
    """The two things that a claim compares, else nothing."""
    for node in _below(claim):
        if node.type in _BINARY:
            operator = next((text_of(child) for child in node.children if not child.is_named), "")
            return [text_of(child) for child in named(node)] if operator in _EQUALS else []
        if node.type in ("call", "call_expression"):
            function = node.child_by_field_name("function")
            inner = node.child_by_field_name("arguments")
            if (
                function is None
                or inner is None
                or not _EQUAL_CALLS.fullmatch(
                    re.sub(r"\(.*\)", "", text_of(function), flags=re.DOTALL)
                )
            ):
                continue
            arguments = [text_of(argument) for argument in named(inner)]
            subject = next(
                (each for each in _below(function) if each.type == "call_expression"), None
            )
            if subject is not None and _EXPECT.match(text_of(subject)):
                got = subject.child_by_field_name("arguments")
                return [*(text_of(each) for each in named(got))][:1] + arguments[:1] if got else []
            arguments = arguments[1:] if arguments[:1] == ["t"] else arguments
            return arguments[:2]
        if node.type == "macro_invocation" and text_of(node).startswith(
            ("assert_eq!", "assert_ne!")
        ):
            inside = text_of(node).partition("!")[2].strip()[1:-1]
            return inside.split(",")[:2] if inside.count(",") == 1 else []
    return []
