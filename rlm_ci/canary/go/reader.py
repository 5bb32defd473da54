"""Changes tests of Go into other forms.

A claim is an ``if`` that fails the test, or a call of an assertion library.
"""

from __future__ import annotations

from rlm_ci.canary.claim_edits import COMPARES, ClaimEdits, another, leaves
from rlm_ci.canary.forms import IDLE, REWORDED, ChangedTest, ChangedText, FoundTest, token
from rlm_ci.canary.go.alterations import expected, questions, scope_of
from rlm_ci.canary.splicing import rooted
from rlm_ci.source.go.tests import ASSERTION, CONDITION, GoTest, GoTests, departs
from rlm_ci.source.grammars import below, field, text_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from random import Random

    from tree_sitter import Node

    from rlm_ci.canary.claim_edits import TypedQuestion
    from rlm_ci.source.go.tests import GoClaim

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
_REVERSED = {name: (other, count) for a, b, count in _OPPOSITES for name, other in ((a, b), (b, a))}
#: The types of the first arguments of assertions, for calls in a function of their own.
_TAKEN = {
    **dict.fromkeys(("NoError", "Error", "EqualError", "ErrorContains", "NilError"), "error"),
    **dict.fromkeys(("True", "False"), "bool"),
    **dict.fromkeys((
        "Equal", "NotEqual", "EqualValues", "NotEqualValues", "Exactly", "Nil", "NotNil", "Len",
        "Contains", "NotContains", "Empty", "NotEmpty", "Zero", "NotZero", "ElementsMatch",
        "Greater", "GreaterOrEqual", "Less", "LessOrEqual",
    ), "interface{}"),
}  # fmt: skip
#: Expressions whose values always have a type.
_TYPED = {"call_expression", "index_expression", "slice_expression", "type_assertion_expression"}
_UNTYPED = {"real", "imag", "complex", "min", "max"}


def tests(path: str, text: str, _names: object = None) -> list[FoundTest]:  # noqa: PT028 - no test
    """The tests of a file, its fuzz targets and its examples with an output."""
    return [
        FoundTest(test.name, test.node.start_point.row + 1, test.node.end_point.row + 1)
        for test in _read(path, text).tests
    ]


def change(
    path: str, text: str, form_by_name: Mapping[str, str], chance: Random, *, plain: bool = False
) -> ChangedText:
    """The text with each test of ``form_by_name`` in its form."""
    return _Changes(_read(path, text), chance, plain=plain).changed(form_by_name)


def _read(path: str, text: str) -> GoTests:
    return GoTests(*rooted("Go", path, text))


class _Changes(ClaimEdits):
    def make(self, test: GoTest, form: str) -> ChangedTest | None:
        if test.output is None:
            return super().make(test, form)
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

    def _idle(self, test: GoTest) -> bool:
        # A fuzz target that returns at once is an error.
        is_fuzz = test.name.startswith("Fuzz")
        self._begin(test, f"{test.reporter}.SkipNow();" if is_fuzz else "return;")
        return True

    def _fail(self, test: GoTest, word: str, *, at_end: bool) -> None:
        failing = f"{self._fatal(test.reporter, word)};"
        if at_end:
            error = self._error(test.reporter, word)
            failing = f"defer func() {{ if !{test.reporter}.Skipped() {{ {error} }} }}();"
        self._begin(test, failing)

    def _expected(self, claim: GoClaim) -> list[Node]:
        return expected(claim)

    def _constants(self) -> str:
        return f'_ = {self._chance.randrange(1, 120)}; _ = "{token(self._chance)}";'

    def _fatal(self, reporter: str, word: str) -> str:
        ways = ('{0}.Fatal("{1}")', '{0}.Fatalf("%s", "{1}")', '{0}.Log("{1}"); {0}.FailNow()')
        return str(self._pick(*ways)).format(reporter, word)

    def _error(self, reporter: str, word: str) -> str:
        ways = ('{0}.Error("{1}")', '{0}.Errorf("%s", "{1}")', '{0}.Log("{1}"); {0}.Fail()')
        return str(self._pick(*ways)).format(reporter, word)

    def _alter(self, claim: GoClaim, literals: Sequence[Node], word: str) -> None:
        for literal in literals:
            self._exchange(literal, another(literal, self._chance))
        at, log = claim.site.start_byte, f'{claim.reporter}.Log("{word}");'
        if claim.body is not None:
            at, log = claim.body.start_byte + 1, f" {log}"
        self._insert(at, log)

    def _questions(self, test: GoTest) -> list[tuple[GoClaim, list[TypedQuestion]]]:
        return questions(test, self.source, self._chance)

    def _noted(self, condition: str, action: str) -> str:
        return f"if {condition} {{ {action} }};"

    def _shown(self, test: GoTest, start: str, end: str) -> str:
        return f'{test.reporter}.Log("{start}" + "{end}")'

    def _ask(self, claim: GoClaim, queries: Sequence[tuple[TypedQuestion, list[str]]]) -> None:
        blocks = []
        for question, steps in queries:
            bound = ""
            if question.operands:
                names = ", ".join(question.operands)
                bound = f"{names} := {', '.join(question.operands.values())};"
            blocks.append(f"func() {{ {bound} {' '.join(steps)} }}();")
        original = text_of(claim.node)
        if claim.kind == CONDITION:
            text = f"func() bool {{ {' '.join(blocks)} return false && ({original}) }}()"
            self._exchange(claim.node, text)
            return
        self._exchange(claim.site, f"{' '.join(blocks)} if false {{ {text_of(claim.site)} }}")

    def _conclude(self, test: GoTest, claims: Sequence[GoClaim], word: str, flag: str) -> str:
        scopes = {scope_of(claim, test, self.source): claim.reporter for claim in claims}
        for body, reporter in scopes.items():
            failing = self._error(reporter, word)
            unless = f"!{reporter}.Skipped()" + (f" && len({flag}) == 0" if flag else "")
            text = f"{reporter}.Cleanup(func() {{ if {unless} {{ {failing} }} }});"
            begin = f"{flag} := make(chan bool, 1); " if flag else ""
            self._insert(body.start_byte + 1, f" {begin}{text}")
        return f"select {{ case {flag} <- true: default: }}" if flag else ""

    def _reach(self, claim: GoClaim, start: str, end: str) -> None:
        failing = self._error if claim.passed else self._fatal
        word = f'{start}" + "{end}'
        self._insert(claim.site.start_byte, f"{failing(claim.reporter, word)}; ")

    def _reverse(self, claim: GoClaim, word: str) -> None:
        if claim.body is None:
            self._oppose(claim, word)
            return
        self._enclose(claim.node, *self._pick(("!(", ")"), ("(", ") == false"), ("(", ") != true")))
        start, end = claim.body.start_byte + 1, claim.body.end_byte - 1
        ends = claim.ends or departs(claim.body)
        if ends:
            self._insert(start, f" {self._fatal(claim.reporter, word)};")
        else:  # its message may use values that do not exist if the claim is true
            self._insert(start, f" {self._error(claim.reporter, word)}; if false {{")
            self._close(end, "}")
        if claim.other is None and ends and claim.name == "consequence":
            # After a false claim, the rest of the test might panic, and end all others.
            self._close(end + 1, f" else {{ {claim.reporter}.SkipNow() }}")
        elif claim.other is not None and claim.other.type == "block":
            self._insert(claim.other.start_byte + 1, f' {claim.reporter}.Log("{word}");')

    def _oppose(self, claim: GoClaim, word: str) -> None:
        """Reverse an assertion of a library by its opposite, else fail after it."""
        other, count = _REVERSED.get(claim.name, ("", 0))
        if not self._plain and other and claim.testify and len(claim.values) == count:
            self._exchange(claim.node, other)
            self._close(claim.values[-1].end_byte, f', "{word}"')
        else:
            self._close(claim.site.end_byte, f"; {self._fatal(claim.reporter, word)}")

    def _reword(self, claim: GoClaim, test: GoTest) -> None:
        if self._plain:
            if claim.kind == CONDITION:
                self._enclose(claim.node, "(", ") == true")
        elif claim.kind == ASSERTION:
            taken = _TAKEN.get(claim.name)
            count = _REVERSED.get(claim.name, ("", 1))[1]
            for value in claim.values[:count] if taken else ():
                if not _is_bound(value):
                    self._enclose(value, f"func() {taken} {{ {self._constants()} return ", " }()")
        else:
            for leaf, operator in _leaves_of(claim.node, test.names):
                name = token(self._chance)
                begin = f"func() bool {{ {self._constants()} {name} := "
                if operator is None:
                    self._enclose(leaf, begin, f"; return bool({name}) }}()")
                else:
                    self._enclose(leaf, begin, " }()")
                    self._exchange(operator, f"; return {name} {text_of(operator)}")


def _is_bound(node: Node) -> bool:
    """Whether an expression means something else within a function of its own."""
    return any(
        inner.type in ("func_literal", "variadic_argument")
        or (inner.type == "identifier" and text_of(inner) == "recover")
        for inner in below(node)
    )


def _leaves_of(condition: Node, names: set[str]) -> Iterator[tuple[Node, Node | None]]:
    """The parts of a condition, each with its operator if it compares typed values.

    A constant gets its type from the code around it.
    """
    for node in leaves(condition, "&&", "||", negated=True):
        if not _is_bound(node):
            operator = field(node, "operator")
            compares = node.type == "binary_expression" and text_of(operator) in COMPARES
            yield node, operator if compares and _is_typed(field(node, "left"), names) else None


def _is_typed(node: Node, names: set[str]) -> bool:
    while node.type == "selector_expression":
        node = field(node, "operand")
    if node.type == "call_expression":
        return text_of(field(node, "function")) not in _UNTYPED
    return node.type in _TYPED or (node.type == "identifier" and text_of(node) in names)
