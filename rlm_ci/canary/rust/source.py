"""The tests in a file of Rust, and their claims."""

from __future__ import annotations

from rlm_ci.source.grammars import field, named_children, parse, parts, text_of
from rlm_ci.source.test_files import MAY_JUDGE
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from tree_sitter import Node

#: Kinds of claims: a condition, two compared values, an unknown macro, an ``if`` that panics.
HOLDS, COMPARED, MACRO, CONDITION = "holds", "compared", "macro", "condition"
_COMPARED = {"assert_eq": "==", "assert_ne": "!="}
#: Attributes of a test with several cases, by the last name of their paths.
_CASES = {"case", "values", "test_case", "files"}
_TESTS = {"test", "rstest", "test_case"}
#: Around the arguments of a macro, so that they can be read as an expression.
_BEFORE, _BEHIND = b"fn a(){a(", b");}"


class RustSpan(Value):
    """A part of the file; ``node`` may belong to a tree that begins at ``shift``."""

    node: Node
    shift: int = 0

    @property
    def start(self) -> int:
        return self.node.start_byte + self.shift

    @property
    def end(self) -> int:
        return self.node.end_byte + self.shift


class RustClaim(Value):
    """A claim: the node of the macro or ``if``, and the values that it is about.

    ``rest``: where arguments follow the values, or -1; ``certain``: every passing run reaches it.
    """

    kind: str
    node: Node
    certain: bool
    values: tuple[RustSpan, ...] = ()
    text_at: int = -1
    name: str = ""


class RustTest:
    """A test with its attributes; ``name`` begins with its modules in this file."""

    def __init__(self, name: str, node: Node, attributes: list[Node]) -> None:
        parameters = named_children(field(node, "parameters"))
        marks = [
            *attributes,
            *(parameter for parameter in parameters if parameter.type == "attribute_item"),
        ]
        has_cases = not _CASES.isdisjoint(map(attribute_name, marks))
        self.name = f"{name}::*" if has_cases else name
        self.node, self.attributes, self.body = node, attributes, field(node, "body")
        self.claims: list[RustClaim] = []
        #: Calls of other macros, which may judge by themselves.
        self.macros: list[RustClaim] = []
        panics = (
            attribute for attribute in attributes if attribute_name(attribute) == "should_panic"
        )
        #: The attribute that requires a panic.
        self.panics = next(panics, None)


def attribute_name(item: Node) -> str:
    """The last name in an attribute: ``test`` of ``#[tokio::test]``."""
    attribute = next(iter(named_children(item)), item)
    path = next(iter(named_children(attribute)), attribute)
    return text_of(path).rpartition("::")[2]


def is_for_tests(item: Node) -> bool:
    """Whether an attribute is ``cfg(test)``, or ``cfg(all(test, …))``."""
    if attribute_name(item) != "cfg":
        return False
    trees = [node for node in named_children(named_children(item)[0]) if node.type == "token_tree"]
    while trees:
        before = ""
        for node in named_children(trees.pop()):
            if node.type == "identifier":
                before = text_of(node)
                if before == "test":
                    return True
            elif node.type == "token_tree" and before == "all":
                trees.append(node)
    return False


def is_test(item: Node) -> bool:
    name = attribute_name(item)
    return name in _TESTS or name.endswith("_test")


class RustSource:
    def __init__(self, content: bytes, root: Node) -> None:
        self.content = content
        self.tests: list[RustTest] = []
        self._module(root)
        for test in self.tests:
            claims = list(self._claims(test))
            test.macros = [claim for claim in claims if claim.kind == MACRO]
            is_own = {claim for claim in test.macros if not claim.name.startswith("assert")}
            test.claims = [claim for claim in claims if claim not in is_own] or claims

    def _module(self, root: Node) -> None:
        waiting = [(root, "")]
        while waiting:
            holder, prefix = waiting.pop()
            attributes: list[Node] = []
            for node in named_children(holder):
                if node.type == "attribute_item":
                    attributes.append(node)
                    continue
                name, body = text_of(field(node, "name")), field(node, "body")
                if node.type == "mod_item" and body != node:
                    waiting.append((body, f"{prefix}{name}::"))
                elif node.type == "function_item" and any(map(is_test, attributes)):
                    self.tests.append(RustTest(prefix + name, node, attributes))
                attributes = []
        self.tests.sort(key=lambda test: test.node.start_byte)

    def _claims(self, function: RustTest) -> Iterator[RustClaim]:
        waiting = [(function.body, True)]
        while waiting:
            node, certain = waiting.pop()
            skipped = None
            if node.type == "macro_invocation":
                yield from self._macro(node, certain=certain)
            elif node.type == "if_expression":
                skipped = field(node, "consequence")
                condition = field(node, "condition")
                if _panics(skipped) and not condition.type.startswith("let_"):
                    yield RustClaim(CONDITION, node, certain, (RustSpan(condition),))
                else:
                    skipped = None
            open_ = node.type not in ("closure_expression", "match_arm", "function_item")
            inside = [
                (child, certain and open_ and (node.type != "if_expression" or name == "condition"))
                for name, child in parts(node)
                if child != skipped
            ]
            waiting += reversed(inside)

    def _macro(self, node: Node, *, certain: bool) -> Iterator[RustClaim]:
        name = text_of(field(node, "macro")).rpartition("::")[2].removeprefix("debug_")
        tree = named_children(node)[-1]
        start, end = tree.start_byte + 1, tree.end_byte - 1
        is_known = name.startswith("assert")
        is_statement = node.parent is not None and node.parent.type == "expression_statement"
        if not (is_known or (is_statement and MAY_JUDGE.match(name))):
            return
        if self.content[start - 1 : start] != b"(":
            return
        count = 1 if name == "assert" else 2 if name in _COMPARED else 0
        values = self._arguments(start, end)
        if not count or len(values) < count:
            if is_known or len(values) > 1:
                yield RustClaim(MACRO, node, certain, tuple(values), name=name)
            return
        text_at = values[count].start if len(values) > count else -1
        yield RustClaim(
            COMPARED if count == 2 else HOLDS, node, certain, tuple(values[:count]), text_at, name
        )

    def _arguments(self, start: int, end: int) -> list[RustSpan]:
        """The arguments of a macro, if they are expressions."""
        root = parse("Rust", _BEFORE + self.content[start:end] + _BEHIND)
        if root is None or root.has_error:
            return []
        node = root
        while node.type != "call_expression":
            inner = named_children(node)
            if not inner:
                return []
            node = inner[-1]
        shift = start - len(_BEFORE)
        return [RustSpan(argument, shift) for argument in named_children(field(node, "arguments"))]


def _panics(block: Node) -> bool:
    for statement in named_children(block):
        node = (
            named_children(statement)[0] if statement.type == "expression_statement" else statement
        )
        if node.type == "macro_invocation" and text_of(field(node, "macro")) == "panic":
            return True
    return False
