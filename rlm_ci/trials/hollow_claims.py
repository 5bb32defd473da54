"""What the text of a test says of its claims: they compare alike, ask mocks, are in a handler."""

from __future__ import annotations

import re
from bisect import bisect_left

from rlm_ci.canary import readers
from rlm_ci.canary.forms import REACHED, UnparsableError
from rlm_ci.canary.splicing import Edit, encoded, rooted, spliced
from rlm_ci.source.go.tests import GoTests
from rlm_ci.source.grammars import below, named_children, text_of
from rlm_ci.source.languages import language
from rlm_ci.trials.standing_alone import uses_project
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from random import Random

    from tree_sitter import Node

    from rlm_ci.canary.forms import FoundTest
    from rlm_ci.trials.touched_tests import TouchedTest

_MOCKS = re.compile(
    r"\b(?:(?:Magic|Async|Property|NonCallable)?Mock\(|patch(?:\.object|\.dict)?\(|create_autospec"
    r"|mocker\.|monkeypatch\.setattr|(?:jest|vi|sinon|mock)\.(?:fn|mock|spyOn|stub|method)\b)"
)
#: Tests that ask for the same answer twice, and tests of what is equal.
_OF_REPEATS = re.compile(
    r"(?i)hash|determin|idempot|cach|memo|repeat|consisten|stable|singleton|seed|reproduc|twice"
    r"|again|pickl|copy"
)
_OF_EQUALITY = re.compile(r"(?i)(?:^|_)eq(?:ual\w*)?(?:_|$)|same|identi|reflex|compar|order")
_HANDLER = re.compile(r"\bexcept\b|\bcatch\b|\bsuppress\(|catch_unwind|\brecover\(\)")
_EQUAL_CALLS = re.compile(
    r"(?:.*[.:])?(?:_?assert_?(?:list|dict|set|tuple|sequence|multiline|count|almost)?_?equals?"
    r"|equal|equals|deepEqual|strictEqual|deepStrictEqual|toBe|toEqual|toStrictEqual|DeepEqual"
    r"|Equal|EqualValues|Exactly|eql|eq|same|assert_eq)",
    re.IGNORECASE,
)
#: An object is made.
_MADE = re.compile(r"(?:\w+\.)*(?:[A-Z]\w*|new[A-Z]\w*)\(")
_MADE_IN_GO = re.compile(r"&|(?:\w+\.)*New\w*\(")
_BINDINGS = frozenset((
    "assignment", "variable_declarator", "short_var_declaration", "let_declaration", "var_spec",
))  # fmt: skip
#: What a name may stand for another thing by: a sum of its own, another value, a call of a method.
_CHANGES = frozenset((
    "augmented_assignment", "augmented_assignment_expression", "compound_assignment_expr",
    "assignment_expression", "assignment_statement", "expression_statement",
))  # fmt: skip
#: Statements that may call something.
_STATEMENTS = frozenset(("expression_statement", *_BINDINGS))
_CHANGED = re.compile(r"(?:await)?(\w+)(?:(?:[.\[].*?)?[-+*/|&^%]*=(?!=)|\.[\w.]+\()")
#: What compares alike by itself, of so many characters, and what no code decides.
_LONGEST = 400
_ALIKE = re.compile(r"(.+?)={2,3}\1")
_CONSTANT = re.compile(r"[\d.()+*/%-]+|true|false|True|False|'[^']*'|\"[^\"]*\"")
#: Claims of a test that are compared.
_MOST = 300
#: How many names are followed to what they stand for.
_DEEP = 4
_EXPECT = re.compile(r"expect\(")
_BINARY = frozenset(("comparison_operator", "binary_expression"))
_EQUALS = frozenset(("==", "===", "!=", "!=="))
#: Claims of each language: kinds of nodes, and how their text begins.
_CLAIMS = {
    "Python": re.compile(
        r"assert\b|self\.(?:assert\w+|fail)\(|(?:with )?pytest\.(?:raises|warns|fail)"
        r"|\w+\.assert_\w+\(|np\.testing\.|with self\.assert"
    ),
    "Rust": re.compile(r"(?:debug_)?assert\w*!|panic!"),
}  # fmt: skip
_SCRIPTS = (".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx")
#: Tests of types, which only a compiler runs.
_TYPED = (".ts", ".mts", ".cts", ".tsx")
_OF_TYPES = re.compile(r"(?i)\btypes?\b|@ts-|expectType|assertType|\bsatisfies\b")
_SCRIPT = re.compile(r"(?:await )?(?:expect|assert)\b|t\.\w+\(")
_HOLDERS = frozenset((
    "expression_statement", "assert_statement", "with_statement", "if_statement",
    "return_statement", "macro_invocation", "arrow_function",
))  # fmt: skip


class TextSigns(Value):
    """What the text of a test says: so many ``claims``, and of these so many ``tautologies``.

    ``is_alone``: it uses nothing of the project (not known of Python).
    """

    claims: int = 0
    tautologies: int = 0
    has_mocks: bool = False
    has_handler: bool = False
    is_of_equality: bool = False
    is_alone: bool = False


def signs(path: str, content: bytes, tests: Sequence[TouchedTest]) -> dict[str, TextSigns]:
    """The signs of the tests of a file, by name; empty for a file that cannot be read."""
    try:
        _, root = rooted(language(path), path, content.decode("utf-8", "surrogateescape"))
    except UnparsableError:
        return {}
    nodes = list(below(root))
    asserting = _asserting(path, nodes)
    by_name = {}
    for test in tests:
        inside = _inside(nodes, test)
        claims = _claims(inside, asserting)
        values = _values(inside, path, asserting)
        passed = _passed(inside, asserting)
        is_of_types = path.endswith(_TYPED) and bool(_OF_TYPES.search(f"{test.name}\n{test.text}"))
        by_name[test.name] = TextSigns(
            len(claims),
            sum(_is_tautology(node, values, passed, path) for node in claims[:_MOST]),
            _MOCKS.search(test.text) is not None,
            _HANDLER.search(test.text) is not None,
            is_of_types or _is_of_equality(test.name.rpartition("::")[2], claims),
            not is_of_types and not uses_project(path, root, inside),
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
            caught = _caught(path, text, forms)
            others = {name: form for name, form in forms.items() if name not in caught}
            changed = readers.of(path).change(path, text, others, chance, plain=True)
            text = _thrown(path, changed.text, caught)
        except UnparsableError:
            continue
        texts[path] = text.encode(readers.encoding(path, contents[path]), "surrogateescape")
        keys |= {(path, name) for name in (*changed.changed_tests, *caught)}
    return texts, keys


def _caught(path: str, text: str, names: Collection[str]) -> list[str]:
    """The tests of JavaScript all of whose claims have a handler around them.

    The reader leaves such claims out, and would end the test in their place.
    """
    return [
        name
        for name, claims in _claims_by_test(path, text, names)
        if claims and all(map(_is_handled, claims))
    ]


def _thrown(path: str, text: str, names: Collection[str]) -> str:
    """The text with a throw before each claim of these tests of JavaScript."""
    edits = [
        Edit(claim.start_byte, claim.start_byte, 'throw new Error("it must fail"); ')
        for _, claims in _claims_by_test(path, text, names)
        for claim in claims
    ]
    return spliced(encoded(text), edits) if edits else text


def _claims_by_test(
    path: str, text: str, names: Collection[str]
) -> Iterator[tuple[str, list[Node]]]:
    """The statements that claim something, by test. Raises UnparsableError."""
    if not path.endswith(_SCRIPTS) or not names:
        return
    _, root = rooted(language(path), path, text)
    nodes = list(below(root))
    asserting = _asserting(path, nodes)
    for test in readers.of(path).tests(path, text):
        if test.name in names:
            claims = _claims(_inside(nodes, test), asserting)
            yield test.name, [claim for claim in claims if claim.type == "expression_statement"]


def _is_handled(node: Node) -> bool:
    """Whether a node is in what a ``try`` tries, and a handler catches."""
    while (above := node.parent) is not None:
        is_tried = above.type == "try_statement" and above.child_by_field_name("body") == node
        if is_tried and above.child_by_field_name("handler") is not None:
            return True
        node = above
    return False


def _inside(nodes: Sequence[Node], test: TouchedTest | FoundTest) -> list[Node]:
    """Those of the nodes of a file, in the order of its text, that are in a test."""
    first, last = (
        bisect_left(nodes, line, key=lambda node: node.start_point.row)
        for line in (test.line - 1, test.end)
    )
    return [node for node in nodes[first:last] if node.end_point.row < test.end]


def _asserting(path: str, nodes: Sequence[Node]) -> set[Node]:
    """The nodes that claim something: statements, and in Go the conditions around failures."""
    if not path.endswith(".go"):
        return {node for node in nodes if _is_claim(node, path)}
    asserting = set()
    for call, is_failure in GoTests(nodes[0].text or b"", nodes[0]).assertions():
        node = call.parent
        while node is not None and node.type not in _HOLDERS:
            node = node.parent
        if node is not None and node.type != "if_statement":
            asserting.add(node)
        while is_failure and node is not None:
            if node.type == "if_statement":
                asserting.add(node)
            node = node.parent
    return asserting


def _claims(nodes: Iterable[Node], asserting: Collection[Node]) -> list[Node]:
    """The outermost of the nodes that claim something, in the order of the text."""
    claims = []
    past = 0
    inner = (node for node in nodes if node in asserting)
    for node in sorted(inner, key=lambda node: (node.start_byte, -node.end_byte)):
        if node.start_byte >= past:
            claims.append(node)
            past = node.end_byte
    return claims


def _is_of_equality(name: str, claims: Iterable[Node]) -> bool:
    """Whether a test may compare alike on purpose, by its name."""
    if _OF_REPEATS.search(name):
        return True
    sides = [side for claim in claims for side in _sides(claim)[:1]]
    return _OF_EQUALITY.search(name) is not None and any("(" not in side for side in sides)


def _is_claim(node: Node, path: str) -> bool:
    if node.type not in _HOLDERS:
        return False
    text = text_of(node)
    if node.type == "arrow_function":  # a body that is an expression
        body = node.child_by_field_name("body")
        text = text_of(body) if body is not None and body.type == "call_expression" else ""
    return _CLAIMS.get(language(path), _SCRIPT).match(text.removeprefix("return ")) is not None


def _values(
    nodes: Iterable[Node], path: str, asserting: Collection[Node]
) -> dict[str, list[tuple[int, str]]]:
    """What each name of a test stands for, from which byte on."""
    values: dict[str, list[tuple[int, str]]] = {}
    for node in nodes:
        if node.type in _CHANGES and node not in asserting:
            text = _folded(text_of(node))
            changed = _CHANGED.match(text)
            if changed and not (path.endswith(".py") and text.startswith(f"{changed[1]}=")):
                values.setdefault(changed[1], []).append((node.end_byte, text))
        if node.type not in _BINDINGS:
            continue
        name, value = (
            next(filter(None, map(node.child_by_field_name, keys)), None)
            for keys in (("left", "name", "pattern"), ("right", "value"))
        )
        if name is not None and value is not None:
            row = node.end_byte, _folded(text_of(value))
            values.setdefault(text_of(name), []).append(row)
    return values


def _passed(nodes: Iterable[Node], asserting: Collection[Node]) -> dict[str, list[tuple[int, str]]]:
    """The statements that give each name of a test to a call, which may change it, by their end."""
    passed: dict[str, list[tuple[int, str]]] = {}
    for node in nodes:
        if node.type not in _STATEMENTS or node in asserting:
            continue
        text = text_of(node)
        for name in set(re.findall(r"\w+", text.partition("(")[2])):
            passed.setdefault(name, []).append((node.end_byte, _folded(text)))
    return passed


def _bound_text(text: str, at: int, values: Mapping[str, list[tuple[int, str]]]) -> tuple[str, int]:
    """What a text stands for at a byte, and since which: if it is a name, its last value."""
    for _ in range(_DEEP):
        at, text = max((row for row in values.get(text, ()) if row[0] <= at), default=(at, text))
    return text, at


def _is_changed(
    text: str, begun: int, last: int, values: Mapping[str, list[tuple[int, str]]]
) -> bool:
    """Whether a name in a text stands for another thing since a byte."""
    names = re.findall(r"\w+", text)
    return any(begun < at <= last for name in names for at, _ in values.get(name, ()))


def _folded(text: str) -> str:
    return "".join(text.split())


def _is_tautology(
    claim: Node,
    values: Mapping[str, list[tuple[int, str]]],
    passed: Mapping[str, list[tuple[int, str]]],
    path: str,
) -> bool:
    """Whether a claim compares two texts that are the same, or stand for the same."""
    sides = _sides(claim)
    if len(sides) != 2:
        return False
    left, right = map(_folded, sides)
    alike = _ALIKE.fullmatch(left) if len(left) < _LONGEST else None
    if alike and right in ("true", "True"):
        left = right = alike[1]
    if _CONSTANT.fullmatch(left) and _CONSTANT.fullmatch(right):
        return True
    if (_MADE_IN_GO if path.endswith(".go") else _MADE).match(left):
        return False  # an equality of two objects that are made alike
    at = claim.end_byte  # what an ``if`` of Go binds in its head counts
    if left == right:
        return True
    bound, first = _bound_text(left, at, values)
    other, second = _bound_text(right, at, values)
    # What was bound to no call may be another thing since, and so may what a call was given.
    begun, last = min(first, second), claim.start_byte
    others = {
        name: [row for row in rows if bound not in row[1]] for name, rows in passed.items()
    }  # what is not one of the two
    is_changed = any(_is_changed(bound, begun, last, rows) for rows in (values, others))
    return "(" in bound and bound == other and not is_changed


def _sides(claim: Node) -> list[str]:
    """The two things that a claim compares, else nothing."""
    for node in below(claim):
        if node.type in _BINARY:
            operator = next((text_of(child) for child in node.children if not child.is_named), "")
            is_equality = operator.startswith("!=") == _is_refused(claim, node)
            return (
                [text_of(child) for child in named_children(node)]
                if is_equality and operator in _EQUALS
                else []
            )
        if node.type in ("call", "call_expression"):
            function = node.child_by_field_name("function")
            inner = node.child_by_field_name("arguments")
            if (
                function is None
                or inner is None
                or (claim.type == "if_statement" and not _is_denied(node))
                or re.search(r"\.not\b", text_of(function))
                or not _EQUAL_CALLS.fullmatch(
                    re.sub(r"\(.*\)", "", text_of(function), flags=re.DOTALL)
                )
            ):
                continue
            arguments = [text_of(argument) for argument in named_children(inner)]
            subject = next(
                (each for each in below(function) if each.type == "call_expression"), None
            )
            if subject is not None and _EXPECT.match(text_of(subject)):
                got = subject.child_by_field_name("arguments")
                return (
                    [*(text_of(each) for each in named_children(got))][:1] + arguments[:1]
                    if got
                    else []
                )
            arguments = arguments[1:] if arguments[:1] == ["t"] else arguments
            return arguments[:2]
        if node.type == "macro_invocation" and text_of(node).startswith("assert_eq!"):
            return _split(text_of(node).partition("!")[2].strip()[1:-1])[:2]
        if node.type == "macro_invocation" and text_of(node).startswith("assert!"):
            return [_split(text_of(node).partition("!")[2].strip()[1:-1])[0], "true"]
    return []


def _is_denied(node: Node) -> bool:
    return node.parent is not None and text_of(node.parent).startswith("!")


def _is_refused(claim: Node, node: Node) -> bool:
    """Whether a comparison that holds makes the test fail, as the condition of an ``if``."""
    above = node.parent
    outer = above.parent if above is not None and text_of(above).startswith("(") else None
    is_opposite = outer is not None and text_of(outer).startswith("!")
    return (claim.type == "if_statement") != is_opposite


def _split(text: str) -> list[str]:
    """What commas part that are in no brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return parts
