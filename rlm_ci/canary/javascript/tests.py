"""The tests in a file of JavaScript: calls of ``test`` and similar functions."""

from __future__ import annotations

import re

from rlm_ci.canary.javascript.claims import JavaScriptClaim, JavaScriptNames
from rlm_ci.canary.javascript.syntax import FUNCTIONS, SCOPES, JavaScriptSource, SyntaxNode
from rlm_ci.values import Value

_TESTS = frozenset({"test", "it", "specify", "fit"})
_SUITES = frozenset({"describe", "suite", "context", "fdescribe"})
EACH = frozenset({"each", "for"})
_MODIFIERS = EACH | {"only", "concurrent", "sequential", "parallel", "serial", "skipIf", "runIf"}
#: Modifiers of tests that do not run, or are meant to fail.
_LEFT = frozenset({"skip", "todo", "failing", "fails", "fail", "fixme", "expectFailure"})
_TABLE = re.compile(r"%[sdifjocOp#$%]|\$[\w.#]+")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "0": "\0"}


class JavaScriptTest(Value):
    """The call that makes a test, its function, and the claims in that."""

    name: str
    call: SyntaxNode
    function: SyntaxNode
    claims: tuple[JavaScriptClaim, ...]


def find(source: JavaScriptSource) -> list[JavaScriptTest]:
    """The tests that can be changed, in the order of the text, without skipped ones and suites."""
    return _Search(source).tests()


class _Search:
    def __init__(self, source: JavaScriptSource) -> None:
        self._source = source
        self._names = JavaScriptNames(source)
        #: The calls that make tests and suites: title, function, and whether it is a test.
        self._made: dict[SyntaxNode, tuple[str, SyntaxNode, bool]] = {}
        for node in source.root.below():
            if node.kind == "call_expression":
                self._look(node)
        self._calls = {function: call for call, (_, function, _) in self._made.items()}

    def tests(self) -> list[JavaScriptTest]:
        tests = {call: function for call, (_, function, is_test) in self._made.items() if is_test}
        outer = {self._calls[node] for call in tests for node in call.up() if node in self._calls}
        return [
            JavaScriptTest(self._name_of(call), call, function, tuple(self._names.claims(function)))
            for call, function in tests.items()
            if call not in outer and not any(map(self._is_left, (call, *call.up())))
        ]

    def _name_of(self, call: SyntaxNode) -> str:
        parts = [self._made[call][0]]
        for node in call.up():
            if node in self._calls:
                parts.append(self._made[self._calls[node]][0])
            elif node.kind in SCOPES and (node.above is None or node.above.kind != "arguments"):
                return "::".join(["*", *reversed(parts)])  # any suite may call it
        return "::".join(reversed(parts))

    def _look(self, call: SyntaxNode) -> None:
        root, links = self._source.chain(call)
        words = [self._names.word(root), *(link.name for link in links if link.name)]
        nodes = links[-1].arguments if links else ()
        at = next((i for i in (1, 0) if words[i : i + 1] and words[i] in _TESTS | _SUITES), -1)
        if at < 0 or links[-1].name or {*words[at + 1 :]} - _MODIFIERS - _LEFT:
            return
        function = self._function(nodes)
        if function is None or (at and len(nodes) < 2):
            return
        title = self._title(nodes[0], is_table=bool(EACH & {*words}))
        self._made[call] = title, function, words[at] in _TESTS

    def _is_left(self, node: SyntaxNode) -> bool:
        """Whether a call skips its test or suite, or expects it to fail."""
        if node.kind != "call_expression":
            return False
        root, links = self._source.chain(node)
        words = {self._names.word(root), *(link.name for link in links)}
        if words & _LEFT and words & (_TESTS | _SUITES):
            return True
        if node not in self._made:
            return bool(words & {"xit", "xtest", "xdescribe", "xcontext", "xspecify"})
        options = [
            pair
            for syntax_node in links[-1].arguments
            if syntax_node.kind == "object"
            for pair in syntax_node.inner()
        ]
        return any(
            self._source.text(key) in _LEFT and value.kind in ("true", "string")
            for option in options
            if (key := option.part("key")) and (value := option.part("value"))
        )

    @staticmethod
    def _function(nodes: tuple[SyntaxNode, ...]) -> SyntaxNode | None:
        """The last function among the arguments, maybe within a call."""
        for node in reversed(nodes):
            if node.kind in FUNCTIONS:
                return node
            syntax_node = node.part("arguments") if node.kind == "call_expression" else None
            for inner in reversed(syntax_node.inner() if syntax_node is not None else []):
                if inner.kind in FUNCTIONS:
                    return inner
        return None

    def _title(self, node: SyntaxNode, *, is_table: bool) -> str:
        if node.kind in FUNCTIONS:
            name = node.part("name")
            return "<anonymous>" if name is None else self._source.text(name)
        title = self._computed(node)
        return re.sub(r"\*+", "*", _TABLE.sub("*", title) if is_table else title)

    def _computed(self, node: SyntaxNode) -> str:
        """A title with ``*`` for its computed parts."""
        parts, waiting = [], [node]
        while waiting:
            syntax_node = waiting.pop()
            if syntax_node.kind in ("string", "template_string"):
                parts += [self._piece(inner) for inner in syntax_node.inner()]
            elif syntax_node.kind == "parenthesized_expression" or syntax_node.has("+"):
                waiting += syntax_node.inner()[::-1]
            else:
                parts.append("*")
        return "".join(parts)

    def _piece(self, node: SyntaxNode) -> str:
        text = self._source.text(node)
        if node.kind != "escape_sequence":
            return text if node.kind == "string_fragment" else "*"
        if text[1] in "ux":
            number = text[2:].strip("{}")
            return chr(int(number, 16)) if int(number, 16) < 0x110000 else "*"
        return _ESCAPES.get(text[1], "" if text[1] in "\r\n" else text[1:])
