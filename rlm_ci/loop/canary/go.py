"""Tests of Go that must fail, or must pass: its functions, its assertions, its literals.

A claim is an ``if`` that fails the test, a call of an assertion library, or a call of a function
of the same file that takes ``t`` and makes claims: that one is copied, for others use it too.
"""

from __future__ import annotations

from rlm_ci.grammars import parse
from rlm_ci.loop.canary import go_source, go_values
from rlm_ci.loop.canary.forms import (
    ALTERED,
    IDLE,
    INVERTED,
    REACHED,
    REWORDED,
    STOPPED,
    Changed,
    Made,
    Test,
    UnreadableError,
    token,
)
from rlm_ci.loop.canary.go_source import ASSERTION, CONDITION, HELPER, Function
from rlm_ci.loop.canary.splicing import Edit, encoded, spliced

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from random import Random

    from tree_sitter import Node

    from rlm_ci.loop.canary.go_source import Claim

ENDINGS = ("_test.go",)
#: Assertions that every testify has, their opposites, and how many arguments they take.
_OPPOSITES = (
    ("Equal", "NotEqual", 2),
    ("Nil", "NotNil", 1),
    ("True", "False", 1),
    ("NoError", "Error", 1),
    ("Empty", "NotEmpty", 1),
    ("Zero", "NotZero", 1),
    ("Contains", "NotContains", 2),
    ("Panics", "NotPanics", 1),
)
_REVERSED = {one: (other, count) for a, b, count in _OPPOSITES for one, other in ((a, b), (b, a))}
#: What the first arguments of assertions are, where a function may hand them over.
_TAKEN = {
    **dict.fromkeys(("NoError", "Error", "EqualError", "ErrorContains", "NilError"), "error"),
    **dict.fromkeys(("True", "False"), "bool"),
    **dict.fromkeys((
        "Equal", "NotEqual", "EqualValues", "NotEqualValues", "Exactly", "Nil", "NotNil", "Len",
        "Contains", "NotContains", "Empty", "NotEmpty", "Zero", "NotZero", "ElementsMatch",
        "Greater", "GreaterOrEqual", "Less", "LessOrEqual",
    ), "interface{}"),
}  # fmt: skip


def tests(path: str, text: str) -> list[Test]:
    """The tests of a file, its fuzz targets and its examples with an output."""
    source = _read(path, text)
    return [
        Test(one.name, one.node.start_point.row + 1, one.node.end_point.row + 1, len(one.claims))
        for one in source.tests
    ]


def change(
    path: str, text: str, wanted: Mapping[str, str], chance: Random, *, plain: bool = False
) -> Changed:
    """The text with each of the ``wanted`` tests in its form."""
    changes = _Changes(_read(path, text), chance, plain=plain)
    made = {
        one.name: changes.make(one, wanted[one.name])
        for one in changes.source.tests
        if one.name in wanted
    }
    return Changed(changes.text(), made)


def _read(path: str, text: str) -> go_source.Source:
    content = encoded(text)
    root = parse("Go", content)
    if root is None or root.has_error:
        raise UnreadableError(f"{path}: this is not Go that can be read")
    return go_source.Source(content, root)


class _Changes:
    """The edits of one file, one form after the other."""

    def __init__(self, source: go_source.Source, chance: Random, *, plain: bool) -> None:
        self.source, self._chance, self._plain = source, chance, plain
        #: Insertions that end something stand before those that begin something.
        self._opened: list[Edit] = []
        self._closed: list[Edit] = []
        #: The copies of helpers for each form: how each is called there, and the token in them.
        self._copies: dict[tuple[str, str], str] = {}
        self._tokens: dict[str, str] = {}
        self._waiting: list[tuple[str, str, str]] = []

    def text(self) -> str:
        """The changed text, with the copies of helpers at its end."""
        pieces = [self._spliced(0, len(self.source.content))]
        while self._waiting:  # a copy may need others
            name, copy, form = self._waiting.pop()
            helper = self.source.helpers[name]
            self._replace(helper.named, copy)
            self._claims(helper, form, self._tokens[form])
            pieces.append(self._spliced(helper.node.start_byte, helper.node.end_byte) + "\n")
        return "\n".join(pieces)

    def _spliced(self, start: int, end: int) -> str:
        """That part of the file with the edits so far, which are done with then."""
        edits = [
            Edit(one.start - start, one.end - start, one.text)
            for one in (*reversed(self._closed), *self._opened)
        ]
        self._opened, self._closed = [], []
        return spliced(self.source.content[start:end], edits)

    def make(self, test: Function, form: str) -> Made:
        """Change one test."""
        word = token(self._chance)
        body = test.body.start_byte + 1
        if test.output:
            return self._example(test, test.output, form, word)
        if form == IDLE:  # a fuzz target that returns at once is an error
            is_fuzz = test.name.startswith("Fuzz") and test.reporter
            self._open(body, f" {test.reporter}.SkipNow();" if is_fuzz else " return;")
            return Made(form)
        if form == REWORDED:
            self._open(body, f" {self._constants()}")
            self._claims(test, form, word)
            return Made(form)
        reporter = self._reporter(test)
        literals = self._literals(test) if form == ALTERED else []
        if literals:
            self._alter(literals, word)
            return Made(form, (word,))
        form = INVERTED if form == ALTERED else form
        if form == STOPPED or not (test.claims or form == INVERTED):
            self._open(body, f" {self._fatal(reporter, word)};")
            return Made(form, (word,))
        if test.claims:
            return Made(form, self._claims(test, form, word))
        self._open(body, f" defer func() {{ if !{reporter}.Skipped() {{ "
                         f"{self._error(reporter, word)} }} }}();")  # fmt: skip
        return Made(form, (word,))

    def _open(self, at: int, text: str) -> None:
        self._opened.append(Edit(at, at, text))

    def _around(self, node: Node, before: str, after: str) -> None:
        self._open(node.start_byte, before)
        self._closed.append(Edit(node.end_byte, node.end_byte, after))

    def _replace(self, node: Node, text: str) -> None:
        self._opened.append(Edit(node.start_byte, node.end_byte, text))

    def _constants(self) -> str:
        return f'_ = {self._chance.randrange(1, 120)}; _ = "{token(self._chance)}";'

    def _fatal(self, reporter: str, word: str) -> str:
        ways = ('{0}.Fatal("{1}")', '{0}.Fatalf("%s", "{1}")', '{0}.Log("{1}"); {0}.FailNow()')
        return (ways[0] if self._plain else self._chance.choice(ways)).format(reporter, word)

    def _error(self, reporter: str, word: str) -> str:
        ways = ('{0}.Error("{1}")', '{0}.Errorf("%s", "{1}")', '{0}.Log("{1}"); {0}.Fail()')
        return (ways[0] if self._plain else self._chance.choice(ways)).format(reporter, word)

    def _reporter(self, test: Function) -> str:
        """What fails the test; it gets a name where it has none."""
        if test.reporter:
            return test.reporter
        name = token(self._chance)
        if test.unnamed.type == "identifier":  # _
            self._replace(test.unnamed, name)
        else:
            self._open(test.unnamed.start_byte, f"{name} ")
        return name

    def _example(self, test: Function, output: tuple[int, int], form: str, word: str) -> Made:
        """An example is judged by a comment."""
        start, end = output
        if form == REWORDED:
            self._open(test.body.start_byte + 1, f" {self._constants()}")
            return Made(form)
        if form == IDLE:
            self._opened.append(Edit(start, end, "None:"))
            return Made(form)
        self._open(end, f" {word}")
        return Made(form, (word,))

    def _literals(self, test: Function) -> list[tuple[Claim, Node]]:
        """One literal of each claim that has any; none where no claim is sure to be reached."""
        found = [
            (claim, self._chance.choice(nodes))
            for claim in test.claims
            if (nodes := go_values.literals(self.source, claim))
        ]
        certain = [one for one in found if one[0].certain]
        return certain[:1] if self._plain else found if certain else []

    def _alter(self, literals: list[tuple[Claim, Node]], word: str) -> None:
        for claim, node in literals:
            self._replace(node, go_values.another(node, self._chance))
            if claim.body is not None:
                self._open(claim.body.start_byte + 1, f' {claim.reporter}.Log("{word}");')
            else:
                self._open(claim.site.start_byte, f'{claim.reporter}.Log("{word}"); ')

    def _claims(self, function: Function, form: str, word: str) -> tuple[str, ...]:
        """Change all claims of a function; what the failure of one of them may print."""
        tokens = {word: None}
        claims = function.claims
        if form == INVERTED:  # where a goroutine ends early, others may wait, or panic
            claims = [one for one in claims if not one.aside] or claims
        for claim in claims:
            if claim.kind == HELPER:
                self._replace(claim.node, self._copy(claim.node, form))
                tokens[self._tokens[form]] = None
            elif form == REACHED:
                self._open(claim.site.start_byte, f"{self._fatal(claim.reporter, word)}; ")
            elif form == REWORDED:
                self._reword(claim, function.names)
            elif claim.body is not None:
                self._negate(claim, claim.body, word)
            else:
                self._oppose(claim, word)
        return tuple(tokens)

    def _copy(self, name: Node, form: str) -> str:
        """The name of the copy of a helper in which its claims have the form."""
        text = self.source.text(name)
        made = self._copies.get((text, form))
        if made is not None:
            return made
        self._copies[text, form] = made = f"{text}_{token(self._chance)}"
        self._tokens.setdefault(form, token(self._chance))
        self._waiting.append((text, made, form))
        return made

    def _negate(self, claim: Claim, body: Node, word: str) -> None:
        ways = (("!(", ")"), ("(", ") == false"), ("(", ") != true"))
        self._around(claim.node, *(ways[0] if self._plain else self._chance.choice(ways)))
        start, end = body.start_byte + 1, body.end_byte - 1
        ends = claim.ends or go_source.departs(body)
        if ends:
            self._open(start, f" {self._fatal(claim.reporter, word)};")
        else:  # what it would print may not exist where the claim holds
            self._open(start, f" {self._error(claim.reporter, word)}; if false {{")
            self._closed.append(Edit(end, end, "}"))
        if claim.other is None and ends and claim.name == "consequence":
            # The claim does not hold, and a test that went on might panic, and end all others.
            self._closed.append(Edit(end + 1, end + 1, f" else {{ {claim.reporter}.SkipNow() }}"))
        elif claim.other is not None and claim.other.type == "block":
            self._open(claim.other.start_byte + 1, f' {claim.reporter}.Log("{word}");')

    def _oppose(self, claim: Claim, word: str) -> None:
        """Reverse a call of an assertion library: by its opposite, or behind it."""
        other, count = _REVERSED.get(claim.name, ("", 0))
        values = claim.values
        if not self._plain and other and claim.testify and len(values) == count:
            self._replace(claim.node, other)
            self._closed.append(Edit(values[-1].end_byte, values[-1].end_byte, f', "{word}"'))
            return
        end = claim.site.end_byte
        self._closed.append(Edit(end, end, f"; {self._fatal(claim.reporter, word)}"))

    def _reword(self, claim: Claim, names: set[str]) -> None:
        if self._plain:
            if claim.kind == CONDITION:
                self._around(claim.node, "(", ") == true")
            return
        if claim.kind == ASSERTION:
            taken = _TAKEN.get(claim.name)
            count = _REVERSED.get(claim.name, ("", 1))[1]
            for value in claim.values[:count] if taken else ():
                if not go_values.is_bound(self.source, value):
                    self._around(value, f"func() {taken} {{ {self._constants()} return ", " }()")
            return
        for leaf, operator in go_values.leaves_of(self.source, claim.node, names):
            name = token(self._chance)
            begin = f"func() bool {{ {self._constants()} {name} := "
            if operator is None:
                self._around(leaf, begin, f"; return bool({name}) }}()")
            else:
                self._around(leaf, begin, " }()")
                sign = self.source.text(operator)
                self._replace(operator, f"; return {name} {sign}")
