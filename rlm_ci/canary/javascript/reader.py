"""Changes tests in JavaScript and TypeScript, for node, jest, vitest, mocha and the like.

A test is a call of ``test`` or ``it`` with a function; a claim is a chain from ``expect``, a call
of ``assert``, or of a method of the ``t`` that tap and ava pass to a test.
"""

from __future__ import annotations

import re

from rlm_ci.canary import forms
from rlm_ci.canary.forms import ChangedTest, ChangedText, FoundTest, UnparsableError, token
from rlm_ci.canary.javascript import literals
from rlm_ci.canary.javascript.alterations import Alterations
from rlm_ci.canary.javascript.claims import TAP
from rlm_ci.canary.javascript.forms import ClaimForms, is_changeable, thrown
from rlm_ci.canary.javascript.syntax import DIALECTS, SCOPES, JavaScriptSource, SyntaxNode
from rlm_ci.canary.javascript.tests import EACH, JavaScriptTest, find
from rlm_ci.canary.splicing import Edit, spliced

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from random import Random

    from rlm_ci.canary.javascript.alterations import AlteredClaim
    from rlm_ci.canary.javascript.claims import JavaScriptClaim

ENDINGS = tuple(DIALECTS)
#: Usual names of a parameter that a test calls when it is done.
_CALLBACK = re.compile(r"_?(?:done|cb|callback|next|end|finish(?:ed)?)")
#: Tests of types, as vitest and tsd name their files.
_IS_OF_TYPES = re.compile(r"[.-](?:test|spec)-d\.[cm]?tsx?$")


def tests(path: str, text: str, _names: object = None) -> list[FoundTest]:  # noqa: PT028 - no test
    """The tests of a file in the order of the text, without skipped ones and suites.

    Raises UnparsableError for a text that is not of its language, or of types alone.
    """
    if _IS_OF_TYPES.search(path):
        raise UnparsableError(f"{path} is checked for its types, and does not run")
    source = JavaScriptSource(path, text)
    return [FoundTest(test.name, test.call.line, test.call.last) for test in find(source)]


def change(
    path: str, text: str, form_by_name: Mapping[str, str], chance: Random, *, plain: bool = False
) -> ChangedText:
    """The text with each test of ``form_by_name`` in its form; all of one name have the same."""
    source = JavaScriptSource(path, text)
    changes = _Changes(source, chance, plain=plain)
    tests: dict[str, ChangedTest] = {}
    for test in find(source):
        if test.name in form_by_name:
            new = changes.make(test, form_by_name[test.name])
            tests[test.name] = _both(tests[test.name], new) if test.name in tests else new
    return ChangedText(spliced(source.content, changes.all()), tests)


def _both(test: ChangedTest, other: ChangedTest) -> ChangedTest:
    have_tokens = test.tokens and other.tokens
    form = test.form if test.form == other.form else forms.INVERTED
    return ChangedTest(form, test.tokens + other.tokens if have_tokens else ())


class _Changes:
    def __init__(self, source: JavaScriptSource, chance: Random, *, plain: bool) -> None:
        self._source, self._chance = source, chance
        self._forms = ClaimForms(source, chance, plain=plain)
        self._edits: list[Edit] = []

    def all(self) -> list[Edit]:
        """All edits; TypeScript is not checked for its types."""
        if not (self._edits and self._source.is_typed):
            return self._edits
        first = next(node for node in self._source.root.inner() if node.kind != "hash_bang_line")
        # Behind other comments: some are for the runner if they are the first thing in a file.
        at, comment = first.start, "// @ts-nocheck"
        if self._source.content[:at].endswith(b"\n\n"):
            return [Edit(at - 1, at - 1, comment), *self._edits]
        return [Edit(at, at, f"{comment}\n"), *self._edits]

    def make(self, test: JavaScriptTest, form: str) -> ChangedTest:
        word = token(self._chance)
        claims = [claim for claim in test.claims if is_changeable(self._source, claim)]
        if form == forms.IDLE:
            if all(
                claim.kind != TAP for claim in test.claims
            ):  # a test of ava has to claim something
                self._idle(test.function)
            return ChangedTest(form)
        if form == forms.REWORDED:
            self._reword(test)
            return ChangedTest(form)
        if form == forms.STOPPED:
            self._begin(test.function, thrown(word))
            return ChangedTest(form, (word,))
        if form in (forms.NEARLY, forms.ACCEPTS, forms.JUDGES):
            if altered := Alterations(self._source, self._chance).of(test, claims):
                return self._altered(test, altered, form, word)
            form = forms.ALTERED if form == forms.NEARLY else form
        if form in (forms.ACCEPTS, forms.JUDGES):
            return ChangedTest(form)
        if form == forms.ALTERED:
            pairs = [literals.altered(self._source, claim, self._chance) for claim in claims]
            if any(pairs):
                self._edits += [pair[0] for pair in pairs if pair]
                return ChangedTest(form, tuple(pair[1] for pair in pairs if pair))
            form = forms.INVERTED
        if not claims:
            self._end(test, f'new Error("{word}")')
            return ChangedTest(forms.STOPPED if form == forms.INVERTED else form, (word,))
        if form == forms.REACHED:
            self._edits += [self._forms.reached(claim, word) for claim in claims]
            return ChangedTest(form, (word,))
        return ChangedTest(form, (word, *self._invert(claims, word)))

    def _altered(
        self, test: JavaScriptTest, altered: list[AlteredClaim], form: str, word: str
    ) -> ChangedTest:
        """The test fails with what it accepts, or unless it accepts anything."""
        name, kinds = token(self._chance), {}
        for claim in altered:
            edit, more = self._forms.altered(claim, name, form)
            self._edits.append(edit)
            kinds.update(more)
        if form == forms.NEARLY:
            self._end(test, f'new Error("{word}")', unless=f"globalThis.{name}")
            return ChangedTest(form, (word,))
        start, end = forms.halves(word, on_branch=False)
        words = f'["{start}" + "{end}", ...(globalThis.{name} ?? [])].join(" ")'
        self._end(test, f"new Error({words})")
        return ChangedTest(form, (word, *kinds), kinds)

    def _invert(self, claims: list[JavaScriptClaim], word: str) -> list[str]:
        """Reverse claims; returns what their failures print besides ``word``."""
        others = []
        for claim in claims:
            edit, thrown = self._forms.inverted(claim, word)
            self._edits.append(edit)
            others += [thrown] if thrown != word else []
        return others

    def _reword(self, test: JavaScriptTest) -> None:
        edits = [edit for claim in test.claims for edit in self._forms.reworded(claim)]
        self._edits += edits
        if edits:
            return
        body = _body(test.function)
        nothing = f"void {self._chance.randrange(1, 10**6)}"
        if body.kind != "statement_block":
            self._insert(body.start, f"({nothing}, ")
            self._insert(body.end, ")")
            return
        first = _directive(test.function)
        self._insert(body.start + 1 if first is None else first.end, f"; {nothing};")

    def _begin(self, function: SyntaxNode, statement: str) -> None:
        body = _body(function)
        if body.kind == "statement_block":
            self._insert(body.start + 1, f" {statement}")
        else:
            self._insert(body.start, f"{{ {statement} return ")
            self._insert(body.end, "; }")

    def _end(self, test: JavaScriptTest, error: str, unless: str = "") -> None:
        """Make a test fail at its end, on every path, unless an expression is true."""
        function = test.function
        body = _body(function)
        done = self._callback(test)
        failing = f"if (!{unless}) throw {error};" if unless else f"throw {error};"
        if done and body.kind == "statement_block":
            inner = token(self._chance)
            argument = f"{unless} ? null : {error}" if unless else error
            copied = f"({inner} => Object.assign(() => {inner}({argument}), {inner}))({done})"
            self._insert(body.start + 1, f" {done} = {copied};")
        elif body.kind == "statement_block":
            returns = any(node.kind == "return_statement" for node in body.below(SCOPES))
            if returns:
                self._insert(body.start + 1, " try {")
            close = f"}} finally {{ {failing} }} " if returns else f"; {failing} "
            self._insert(body.end - 1, close)
        elif function.has("async"):
            self._insert(body.start, "{ await ")
            self._insert(body.end, f"; {failing} }}")
        else:
            value, fail = token(self._chance), token(self._chance)
            self._insert(body.start, f"{{ const {value} = ")
            self._insert(
                body.end,
                f"; const {fail} = () => {{ {failing} }}; return {value} && "
                f'typeof {value}.then === "function" ? {value}.then({fail}) : {fail}(); }}',
            )

    def _callback(self, test: JavaScriptTest) -> str:
        """The last parameter, if the test calls it when it is done."""
        function = test.function
        _, links = self._source.chain(test.call)
        if function.has("async") or any(link.name in EACH for link in links):
            return ""
        node = next((parameter.identifier() for parameter in function.parameters()[-1:]), None)
        name = "" if node is None else self._source.text(node)
        is_called = any(
            syntax_node.kind == "identifier"
            and syntax_node.field == "function"
            and self._source.text(syntax_node) == name
            for syntax_node in _body(function).below()
        )
        return name if is_called or _CALLBACK.fullmatch(name) else ""

    def _idle(self, function: SyntaxNode) -> None:
        """Make a test return at once; no runner waits for a parameter with a default."""
        single = function.part("parameter")
        if single is not None:
            self._insert(single.start, "(")
            self._insert(single.end, " = undefined)")
        elif _directive(function) is None:
            for parameter in function.parameters()[:1]:
                if (
                    parameter.identifier()
                    and parameter.kind != "optional_parameter"
                    and not parameter.has("=")
                ):
                    self._insert(parameter.end, " = undefined")
        self._begin(function, "return;")

    def _insert(self, at: int, text: str) -> None:
        self._edits.append(Edit(at, at, text))


def _body(function: SyntaxNode) -> SyntaxNode:
    body = function.part("body")
    return function if body is None else body


def _directive(function: SyntaxNode) -> SyntaxNode | None:
    """``"use strict"`` at the start of a function, where it has to stay first."""
    for node in _body(function).inner()[:1]:
        if node.kind == "expression_statement" and node.inner()[0].kind == "string":
            return node
    return None
