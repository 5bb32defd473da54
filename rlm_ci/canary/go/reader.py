"""Tests of Go in other forms.

A claim is an ``if`` that fails the test, a call of an assertion library, or a call of a function
of the same file that takes ``t`` and makes claims.
"""

from __future__ import annotations

from rlm_ci.canary.claim_edits import ClaimEdits, another, text_of
from rlm_ci.canary.forms import IDLE, INVERTED, REWORDED, ChangedTest, ChangedText, FoundTest, token
from rlm_ci.canary.go import values
from rlm_ci.canary.go.source import ASSERTION, CONDITION, GoFunction, GoSource, departs
from rlm_ci.canary.splicing import rooted, spliced

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


def tests(path: str, text: str, _names: object = None) -> list[FoundTest]:  # noqa: PT028 - no test
    """The tests of a file, its fuzz targets and its examples with an output."""
    return [
        FoundTest(one.name, one.node.start_point.row + 1, one.node.end_point.row + 1)
        for one in _read(path, text).tests
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


def _read(path: str, text: str) -> GoSource:
    return GoSource(*rooted("Go", path, text))


class _Changes(ClaimEdits):
    def text(self) -> str:
        changed = spliced(self.source.content, self._taken())
        return "\n".join([changed, *(f"{copy}\n" for _, copy in self._copied())])

    def make(self, test: GoFunction, form: str) -> ChangedTest:
        if test.output is None:
            return super().make(test, form) or ChangedTest(form)
        start, end = test.output
        if form == REWORDED:
            self._begin(test, self._constants())
        elif form == IDLE:
            self._replace(start, end, "None:")
        else:
            word = token(self._chance)
            self._insert(end, f" {word}")
            return ChangedTest(form, (word,))
        return ChangedTest(form)

    def _idle(self, test: GoFunction) -> bool:
        # A fuzz target that returns at once is an error.
        is_fuzz = test.name.startswith("Fuzz") and test.reporter
        self._begin(test, f"{test.reporter}.SkipNow();" if is_fuzz else "return;")
        return True

    def _fail(self, test: GoFunction, word: str, *, at_end: bool) -> None:
        reporter = self._reporter(test)
        failing = f"{self._fatal(reporter, word)};"
        if at_end:
            error = self._error(reporter, word)
            failing = f"defer func() {{ if !{reporter}.Skipped() {{ {error} }} }}();"
        self._begin(test, failing)

    def _expected(self, claim: GoClaim) -> list[Node]:
        return values.literals(claim)

    def _constants(self) -> str:
        return f'_ = {self._chance.randrange(1, 120)}; _ = "{token(self._chance)}";'

    def _fatal(self, reporter: str, word: str) -> str:
        ways = ('{0}.Fatal("{1}")', '{0}.Fatalf("%s", "{1}")', '{0}.Log("{1}"); {0}.FailNow()')
        return str(self._pick(*ways)).format(reporter, word)

    def _error(self, reporter: str, word: str) -> str:
        ways = ('{0}.Error("{1}")', '{0}.Errorf("%s", "{1}")', '{0}.Log("{1}"); {0}.Fail()')
        return str(self._pick(*ways)).format(reporter, word)

    def _reporter(self, test: GoFunction) -> str:
        """What fails the test; an unnamed parameter gets a name."""
        if test.reporter:
            return test.reporter
        name = token(self._chance)
        if test.unnamed.type == "identifier":  # _
            self._exchange(test.unnamed, name)
        else:
            self._insert(test.unnamed.start_byte, f"{name} ")
        return name

    def _alter(self, claim: GoClaim, literal: Node, word: str) -> None:
        self._exchange(literal, another(literal, self._chance))
        at, log = claim.site.start_byte, f'{claim.reporter}.Log("{word}");'
        if claim.body is not None:
            at, log = claim.body.start_byte + 1, f" {log}"
        self._insert(at, log)

    def _chosen(self, claims: list[GoClaim], form: str) -> list[GoClaim]:
        if form == INVERTED:  # where a goroutine ends early, others may wait, or panic
            return [one for one in claims if not one.aside] or claims
        return claims

    def _reach(self, claim: GoClaim, word: str) -> None:
        self._insert(claim.site.start_byte, f"{self._fatal(claim.reporter, word)}; ")

    def _reverse(self, claim: GoClaim, word: str) -> None:
        if claim.body is None:
            self._oppose(claim, word)
            return
        self._enclose(claim.node, *self._pick(("!(", ")"), ("(", ") == false"), ("(", ") != true")))
        start, end = claim.body.start_byte + 1, claim.body.end_byte - 1
        ends = claim.ends or departs(claim.body)
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
        """Reverse an assertion of a library by its opposite, else fail behind it."""
        other, count = _REVERSED.get(claim.name, ("", 0))
        if not self._plain and other and claim.testify and len(claim.values) == count:
            self._exchange(claim.node, other)
            self._close(claim.values[-1].end_byte, f', "{word}"')
        else:
            self._close(claim.site.end_byte, f"; {self._fatal(claim.reporter, word)}")

    def _reword(self, claim: GoClaim, function: GoFunction) -> None:
        if self._plain:
            if claim.kind == CONDITION:
                self._enclose(claim.node, "(", ") == true")
        elif claim.kind == ASSERTION:
            taken = _TAKEN.get(claim.name)
            count = _REVERSED.get(claim.name, ("", 1))[1]
            for value in claim.values[:count] if taken else ():
                if not values.is_bound(value):
                    self._enclose(value, f"func() {taken} {{ {self._constants()} return ", " }()")
        else:
            for leaf, operator in values.leaves_of(claim.node, function.names):
                name = token(self._chance)
                begin = f"func() bool {{ {self._constants()} {name} := "
                if operator is None:
                    self._enclose(leaf, begin, f"; return bool({name}) }}()")
                else:
                    self._enclose(leaf, begin, " }()")
                    self._exchange(operator, f"; return {name} {text_of(operator)}")
