"""Claims of tests in JavaScript: chains from ``expect``, calls of ``assert`` and of ``t.is``."""

from __future__ import annotations

import re
from itertools import pairwise

from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rlm_ci.canary.javascript.syntax import ChainLink, JavaScriptSource, SyntaxNode

#: The place of a claim: a statement, a returned value, the body of an arrow, an inner expression.
STATEMENT, RETURNED, BODY, INNER = "statement", "returned", "body", "inner"
#: The kind of a claim: matchers of jest, words of chai, methods of assert, of the ``t`` of tap and
#: ava, a comparison with a snapshot, or a claim of unknown meaning.
EXPECT, CHAI, ASSERT, TAP, SNAPSHOT, OTHER = "expect", "chai", "assert", "tap", "snapshot", "other"
#: The expected answer of a request, maybe far behind it: ``get("/").expect(200).end(done)``.
REQUEST = "request"

_ASSERT = frozenset({"assert", "node:assert", "assert/strict", "node:assert/strict"})
_RUNNERS = frozenset({"node:test", "test", "ava", "tape", "tap"})
_KNOWN = frozenset({
    "test", "it", "specify", "fit", "describe", "suite", "context", "expect", "assert", "chai",
})  # fmt: skip
#: Methods and their opposites, both ways.
OPPOSITES = {
    ASSERT: (
        ("equal", "notEqual"), ("strictEqual", "notStrictEqual"), ("deepEqual", "notDeepEqual"),
        ("deepStrictEqual", "notDeepStrictEqual"), ("match", "doesNotMatch"),
        ("throws", "doesNotThrow"), ("rejects", "doesNotReject"), ("isTrue", "isNotTrue"),
        ("isFalse", "isNotFalse"), ("isNull", "isNotNull"), ("isUndefined", "isDefined"),
        ("include", "notInclude"), ("isOk", "isNotOk"), ("instanceOf", "notInstanceOf"),
        ("isArray", "isNotArray"), ("property", "notProperty"), ("exists", "notExists"),
        ("eql", "notEql"), ("isEmpty", "isNotEmpty"), ("isString", "isNotString"),
    ),
    TAP: (
        ("is", "not"), ("equal", "notEqual"), ("deepEqual", "notDeepEqual"), ("same", "notSame"),
        ("strictSame", "strictNotSame"), ("true", "false"), ("truthy", "falsy"), ("ok", "notOk"),
        ("throws", "notThrows"), ("throwsAsync", "notThrowsAsync"), ("regex", "notRegex"),
        ("match", "notMatch"), ("like", "unlike"),
    ),
}  # fmt: skip
OPPOSITE = {
    kind: {method: other for a, b in pairs for method, other in ((a, b), (b, a))}
    for kind, pairs in OPPOSITES.items()
}
_CHAI_WORDS = frozenset({
    "to", "be", "been", "is", "that", "which", "and", "has", "have", "with", "at", "of", "same",
    "but", "does", "still", "also", "not", "deep", "nested", "own", "ordered", "any", "all",
    "itself", "eventually",
})  # fmt: skip
_BEFORE_EXPECT = frozenset({"expect", "soft", "poll", "element"})
_PROMISES = frozenset({
    "resolves", "rejects", "doesNotReject", "throwsAsync", "notThrowsAsync", "poll", "element",
    "eventually", "rejected", "rejectedWith", "fulfilled",
})  # fmt: skip
#: A function that calls its argument again until the claims are true.
_RETRIES = re.compile(r"wait|retry|eventually|poll|until", re.IGNORECASE)
_AROUND = frozenset({"await_expression", "parenthesized_expression"})


class JavaScriptClaim(Value):
    """A chain that claims something.

    ``statement`` is its statement, or the expression with ``await``; ``subject`` what ``expect``
    gets, ``arguments`` what the last call or method gets.
    """

    statement: SyntaxNode
    site: str
    kind: str
    method: str
    links: list[ChainLink]
    subject: tuple[SyntaxNode, ...]
    arguments: tuple[SyntaxNode, ...]
    is_awaited: bool
    is_promise: bool

    def names(self) -> set[str]:
        return {link.name for link in self.links}


class JavaScriptNames:
    """The meaning of the names in a file: imports, and variants of ``test``."""

    def __init__(self, source: JavaScriptSource) -> None:
        self._source = source
        self._words: dict[str, str] = {}
        #: Functions of assert that are called without it.
        self.methods: dict[str, str] = {}
        for node in source.root.below():
            if node.kind == "import_statement":
                self._import(node)
            elif node.kind == "variable_declarator":
                self._declared(node)

    def word(self, root: SyntaxNode) -> str:
        if root.kind != "identifier":
            return ""
        name = self._source.text(root)
        return self._words.get(name, name)

    def _import(self, node: SyntaxNode) -> None:
        module = node.part("source")
        if module is None:
            return
        for syntax_node in node.below():
            if syntax_node.kind == "import_specifier":
                name = syntax_node.part("name")
                self._bind(module, name, syntax_node.part("alias") or name)
            elif syntax_node.kind in ("import_clause", "namespace_import"):
                self._bind(module, None, syntax_node.child("identifier"))

    def _bind(self, module: SyntaxNode, name: SyntaxNode | None, local: SyntaxNode | None) -> None:
        if local is None:
            return
        origin, bound = self._source.text(module)[1:-1], self._source.text(local)
        imported = "default" if name is None else self._source.text(name)
        if imported in ("default", "strict") and origin in _ASSERT:
            self._words[bound] = "assert"
        elif origin in _ASSERT:
            self.methods[bound] = imported
        elif imported == "default" and origin in _RUNNERS:
            self._words[bound] = "test"
        elif imported in _KNOWN:
            self._words[bound] = imported

    def _declared(self, node: SyntaxNode) -> None:
        name, value = node.part("name"), node.part("value")
        if name is None or value is None:
            return
        variants = value.inner()[1:] if value.kind == "ternary_expression" else [value]
        for variant in variants:
            root, links = self._source.chain(variant)
            word, nodes = self.word(root), links[0].arguments if links else ()
            if word == "require" and nodes and nodes[0].kind == "string":
                if name.kind == "identifier":
                    self._bind(nodes[0], None, name)
                for bound in name.inner() if name.kind == "object_pattern" else ():
                    short = None if bound.kind == "pair_pattern" else bound
                    self._bind(nodes[0], bound.part("key") or short, bound.part("value") or short)
            elif name.kind == "identifier" and word in _KNOWN - {"expect", "chai"} and links:
                self._words.setdefault(self._source.text(name), word)

    def claims(self, function: SyntaxNode) -> list[JavaScriptClaim]:
        """The claims in a function in the order of the text; none is within another.

        Claims whose failure the code around them may catch are left out.
        """
        context = self._context(function)
        claims = []
        waiting = [function]
        while waiting:
            node = waiting.pop()
            claim = self._claim(node, context) if _is_top(node) else None
            if claim is None:
                catching = self._catching(node)
                waiting += [part for part in node.parts[::-1] if part.field != catching]
            else:
                claims.append(claim)
        return claims

    def _catching(self, node: SyntaxNode) -> str | None:
        """The field of a ``try``, or of a call that retries, in which a failure may be caught."""
        if node.kind == "try_statement":
            return "body" if node.part("handler") else None
        if node.kind != "call_expression":
            return None
        root, links = self._source.chain(node)
        word = next((link.name for link in reversed(links) if link.name), self.word(root))
        return "arguments" if _RETRIES.search(word) else None

    def _context(self, function: SyntaxNode) -> str:
        """The name of a test's first parameter, such as ``t``."""
        node = next((parameter.identifier() for parameter in function.parameters()), None)
        return "" if node is None else self._source.text(node)

    def _claim(self, node: SyntaxNode, context: str) -> JavaScriptClaim | None:
        root, links = self._source.chain(node)
        word = self.word(root)
        if not links:
            return None
        kind, method, subject = self._kind(word, links, context)
        if not kind:
            return None
        names = {link.name for link in links} | {method}
        syntax_node, site, is_awaited = _site(node)
        nodes, is_promise = links[-1].arguments, is_awaited or bool(names & _PROMISES)
        if kind == REQUEST:
            nodes = tuple(
                syntax_node for at in _expecting(links) for syntax_node in links[at].arguments
            )
            is_promise = is_awaited
        elif is_promise and not is_awaited and site == STATEMENT:
            return None  # nothing waits for it
        return JavaScriptClaim(
            syntax_node, site, kind, method, links, subject, nodes, is_awaited, is_promise
        )

    def _kind(
        self, word: str, links: list[ChainLink], context: str
    ) -> tuple[str, str, tuple[SyntaxNode, ...]]:
        """The kind, method and subject of a claim; empty if a chain claims nothing."""
        names = [link.name for link in links]
        if word == "expect" or names[0] == "expect":
            return _expected(links)
        if _expecting(links):
            return REQUEST, "expect", ()
        if "should" in names[:-1]:
            return (CHAI if _is_plain(links[names.index("should") + 1 :]) else OTHER), names[-1], ()
        if names == [""] and self._source.text(links[0].node.parts[0]) in self.methods:
            return _asserted(self.methods[self._source.text(links[0].node.parts[0])])
        if word != "assert" and names[0] == "assert":
            names = names[1:]
        elif word != "assert":
            is_tap = word == context and len(names) == 2 and not names[1]
            return (TAP, names[0], ()) if is_tap and names[0] in OPPOSITE[TAP] else ("", "", ())
        names = names[1:] if names[0] == "strict" else names
        if names == [""]:
            return ASSERT, "ok", ()
        return _asserted(names[0]) if len(names) == 2 and not names[1] else ("", "", ())


def _is_top(node: SyntaxNode) -> bool:
    if node.kind not in ("call_expression", "member_expression"):
        return False
    above = node.above
    if above is None or node.field not in ("function", "object"):
        return True
    return above.kind not in ("call_expression", "member_expression", "non_null_expression")


def _site(call: SyntaxNode) -> tuple[SyntaxNode, str, bool]:
    node, is_awaited = call, False
    above = call.above
    while above is not None and (above.kind in _AROUND or above.has("void")):
        is_awaited |= above.kind == "await_expression"
        node, above = above, above.above
    if above is None:
        return node, INNER, is_awaited
    if above.kind == "expression_statement":
        return above, STATEMENT, is_awaited
    if above.kind == "return_statement":
        return above, RETURNED, is_awaited
    is_body = above.kind == "arrow_function" and node.field == "body"
    return node, BODY if is_body else INNER, is_awaited


def _expected(links: list[ChainLink]) -> tuple[str, str, tuple[SyntaxNode, ...]]:
    at = next((i for i, link in enumerate(links) if not link.name), -1)
    chain_links = links[at + 1 :]
    if at < 0 or not chain_links or {link.name for link in links[:at]} - _BEFORE_EXPECT:
        return "", "", ()
    subject = links[at].arguments
    names = [link.name for link in chain_links]
    method = next((name for name in reversed(names) if name), "")
    if "snapshot" in method.lower():
        return SNAPSHOT, method, subject
    is_matcher = method.endswith("CalledWith") or (method[:2] == "to" and method[2:3].isupper())
    if is_matcher and names[-2:] == [method, ""]:
        is_known = {*names[:-2]} <= {"not", "resolves", "rejects"}
        return (EXPECT if is_known else OTHER), method, subject
    return (CHAI if _is_plain(chain_links) else OTHER), method, subject


def _expecting(links: list[ChainLink]) -> list[int]:
    pairs = enumerate(pairwise(links), 1)
    return [at for at, (link, call) in pairs if at > 1 and link.name == "expect" and call.arguments]


def _is_plain(links: list[ChainLink]) -> bool:
    """Whether words of chai make a single claim, so that ``not`` reverses it."""
    words = [link.name for link in links]
    words = words[:-2] if words and not words[-1] else words[:-1]
    return {*words} <= _CHAI_WORDS


def _asserted(method: str) -> tuple[str, str, tuple[SyntaxNode, ...]]:
    if method == "fail":
        return "", "", ()
    if "snapshot" in method.lower():
        return SNAPSHOT, method, ()
    is_known = method == "ok" or method in OPPOSITE[ASSERT]
    return (ASSERT if is_known else OTHER), method, ()
