"""Tests of Go that must fail, or must pass: its functions, its assertions, its literals.

A claim is an ``if`` that fails the test, a call of an assertion library, or a call of a function
of the same file that takes ``t`` and makes claims: that one is copied, for others use it too.
"""

from __future__ import annotations

from functools import partial

from rlm_ci.canary import forms
from rlm_ci.canary.forms import ChangedTest, ChangedText, FoundTest, token
from rlm_ci.canary.go import source as go_source
from rlm_ci.canary.go import values as go_values
from rlm_ci.canary.go.source import ASSERTION, CONDITION, HELPER, GoFunction
from rlm_ci.canary.splicing import Edits, rooted, spliced

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from random import Random

    from tree_sitter import Node

    from rlm_ci.canary.go.source import GoClaim

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


def tests(path: str, text: str) -> list[FoundTest]:
    """The tests of a file, its fuzz targets and its examples with an output."""
    source = _read(path, text)
    return [
        FoundTest(
            one.name, one.node.start_point.row + 1, one.node.end_point.row + 1, len(one.claims)
        )
        for one in source.tests
    ]


def change(
    path: str, text: str, wanted: Mapping[str, str], chance: Random, *, plain: bool = False
) -> ChangedText:
    """The text with each of the ``wanted`` tests in its form."""
    changes = _Changes(_read(path, text), chance, plain=plain)
    made = {
        one.name: changes.make(one, wanted[one.name])
        for one in changes.source.tests
        if one.name in wanted
    }
    return ChangedText(changes.text(), made)


def _read(path: str, text: str) -> go_source.GoSource:
    return go_source.GoSource(*rooted("Go", path, text))


class _Changes(Edits):
    """The edits of one file, one form after the other."""

    def __init__(self, source: go_source.GoSource, chance: Random, *, plain: bool) -> None:
        super().__init__(source.content, chance, plain=plain)
        self.source = source

    def text(self) -> str:
        """The changed text, with the copies of helpers at its end."""
        changed = spliced(self.source.content, self._taken())
        return "\n".join([changed, *(f"{copy}\n" for _, copy in self._copied())])

    def make(self, test: GoFunction, form: str) -> ChangedTest:
        """Change one test."""
        word = token(self._chance)
        body = test.body.start_byte + 1
        if test.output:
            return self._example(test, test.output, form, word)
        if form == forms.IDLE:  # a fuzz target that returns at once is an error
            is_fuzz = test.name.startswith("Fuzz") and test.reporter
            self._insert(body, f" {test.reporter}.SkipNow();" if is_fuzz else " return;")
            return ChangedTest(form)
        if form == forms.REWORDED:
            self._insert(body, f" {self._constants()}")
            self._claims(test, form, word)
            return ChangedTest(form)
        reporter = self._reporter(test)
        expected = partial(go_values.literals, self.source)
        literals = self._literals(test.claims, expected) if form == forms.ALTERED else []
        if literals:
            self._alter(literals, word)
            return ChangedTest(form, (word,))
        form = forms.INVERTED if form == forms.ALTERED else form
        if form == forms.STOPPED or not (test.claims or form == forms.INVERTED):
            self._insert(body, f" {self._fatal(reporter, word)};")
            return ChangedTest(form, (word,))
        if test.claims:
            return ChangedTest(form, self._claims(test, form, word))
        self._insert(body, f" defer func() {{ if !{reporter}.Skipped() {{ "
                           f"{self._error(reporter, word)} }} }}();")  # fmt: skip
        return ChangedTest(form, (word,))

    def _enclose(self, node: Node, before: str, after: str) -> None:
        self._around(node.start_byte, before, node.end_byte, after)

    def _exchange(self, node: Node, text: str) -> None:
        self._replace(node.start_byte, node.end_byte, text)

    def _constants(self) -> str:
        return f'_ = {self._chance.randrange(1, 120)}; _ = "{token(self._chance)}";'

    def _fatal(self, reporter: str, word: str) -> str:
        ways = ('{0}.Fatal("{1}")', '{0}.Fatalf("%s", "{1}")', '{0}.Log("{1}"); {0}.FailNow()')
        return (ways[0] if self._plain else self._chance.choice(ways)).format(reporter, word)

    def _error(self, reporter: str, word: str) -> str:
        ways = ('{0}.Error("{1}")', '{0}.Errorf("%s", "{1}")', '{0}.Log("{1}"); {0}.Fail()')
        return (ways[0] if self._plain else self._chance.choice(ways)).format(reporter, word)

    def _reporter(self, test: GoFunction) -> str:
        """What fails the test; it gets a name where it has none."""
        if test.reporter:
            return test.reporter
        name = token(self._chance)
        if test.unnamed.type == "identifier":  # _
            self._exchange(test.unnamed, name)
        else:
            self._insert(test.unnamed.start_byte, f"{name} ")
        return name

    def _example(
        self, test: GoFunction, output: tuple[int, int], form: str, word: str
    ) -> ChangedTest:
        """An example is judged by a comment."""
        start, end = output
        if form == forms.REWORDED:
            self._insert(test.body.start_byte + 1, f" {self._constants()}")
            return ChangedTest(form)
        if form == forms.IDLE:
            self._replace(start, end, "None:")
            return ChangedTest(form)
        self._insert(end, f" {word}")
        return ChangedTest(form, (word,))

    def _alter(self, literals: list[tuple[GoClaim, Node]], word: str) -> None:
        for claim, node in literals:
            self._exchange(node, go_values.another(node, self._chance))
            if claim.body is not None:
                self._insert(claim.body.start_byte + 1, f' {claim.reporter}.Log("{word}");')
            else:
                self._insert(claim.site.start_byte, f'{claim.reporter}.Log("{word}"); ')

    def _claims(self, function: GoFunction, form: str, word: str) -> tuple[str, ...]:
        """Change all claims of a function; what the failure of one of them may print."""
        tokens = {word: None}
        claims = function.claims
        if form == forms.INVERTED:  # where a goroutine ends early, others may wait, or panic
            claims = [one for one in claims if not one.aside] or claims
        for claim in claims:
            if claim.kind == HELPER:
                self._exchange(claim.node, self._copy(self.source.helpers[claim.name], form))
                tokens[self._tokens[form]] = None
            elif form == forms.REACHED:
                self._insert(claim.site.start_byte, f"{self._fatal(claim.reporter, word)}; ")
            elif form == forms.REWORDED:
                self._reword(claim, function.names)
            elif claim.body is not None:
                self._negate(claim, claim.body, word)
            else:
                self._oppose(claim, word)
        return tuple(tokens)

    def _negate(self, claim: GoClaim, body: Node, word: str) -> None:
        ways = (("!(", ")"), ("(", ") == false"), ("(", ") != true"))
        self._enclose(claim.node, *(ways[0] if self._plain else self._chance.choice(ways)))
        start, end = body.start_byte + 1, body.end_byte - 1
        ends = claim.ends or go_source.departs(body)
        if ends:
            self._insert(start, f" {self._fatal(claim.reporter, word)};")
        else:  # what it would print may not exist where the claim holds
            self._insert(start, f" {self._error(claim.reporter, word)}; if false {{")
            self._close(end, "}")
        if claim.other is None and ends and claim.name == "consequence":
            # The claim does not hold, and a test that went on might panic, and end all others.
            self._close(end + 1, f" else {{ {claim.reporter}.SkipNow() }}")
        elif claim.other is not None and claim.other.type == "block":
            self._insert(claim.other.start_byte + 1, f' {claim.reporter}.Log("{word}");')

    def _oppose(self, claim: GoClaim, word: str) -> None:
        """Reverse a call of an assertion library: by its opposite, or behind it."""
        other, count = _REVERSED.get(claim.name, ("", 0))
        values = claim.values
        if not self._plain and other and claim.testify and len(values) == count:
            self._exchange(claim.node, other)
            self._close(values[-1].end_byte, f', "{word}"')
            return
        self._close(claim.site.end_byte, f"; {self._fatal(claim.reporter, word)}")

    def _reword(self, claim: GoClaim, names: set[str]) -> None:
        if self._plain:
            if claim.kind == CONDITION:
                self._enclose(claim.node, "(", ") == true")
            return
        if claim.kind == ASSERTION:
            taken = _TAKEN.get(claim.name)
            count = _REVERSED.get(claim.name, ("", 1))[1]
            for value in claim.values[:count] if taken else ():
                if not go_values.is_bound(self.source, value):
                    self._enclose(value, f"func() {taken} {{ {self._constants()} return ", " }()")
            return
        for leaf, operator in go_values.leaves_of(self.source, claim.node, names):
            name = token(self._chance)
            begin = f"func() bool {{ {self._constants()} {name} := "
            if operator is None:
                self._enclose(leaf, begin, f"; return bool({name}) }}()")
            else:
                self._enclose(leaf, begin, " }()")
                sign = self.source.text(operator)
                self._exchange(operator, f"; return {name} {sign}")
