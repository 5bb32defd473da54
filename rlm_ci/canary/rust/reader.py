"""Changes tests of Rust into other forms: functions with an attribute such as ``test``.

A claim is a macro that asserts, or an ``if`` that panics. New code compiles without warnings, which
a crate may deny: hence ``if true``.
"""

from __future__ import annotations

from rlm_ci.canary.claim_edits import COMPARES, ClaimEdits, another, leaves, text_of
from rlm_ci.canary.forms import (
    ACCEPTS,
    ALTERED,
    IDLE,
    JUDGES,
    NEARLY,
    REACHED,
    REWORDED,
    STOPPED,
    ChangedTest,
    ChangedText,
    FoundTest,
    token,
)
from rlm_ci.canary.rust.source import COMPARED, CONDITION, HOLDS, MACRO, RustSource, RustSpan
from rlm_ci.canary.splicing import rooted
from rlm_ci.source.grammars import field, named

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from random import Random

    from tree_sitter import Node

    from rlm_ci.canary.rust.source import RustClaim, RustTest

ENDINGS = (".rs",)
_NUMBERS = {"integer_literal", "float_literal"}
_LITERALS = _NUMBERS | {
    "boolean_literal", "char_literal", "string_literal", "raw_string_literal",
}  # fmt: skip
#: Methods whose result differs if the literal differs.
_MADE_OF = {"to_string", "to_owned", "into", "to_vec"}
_HOLDING = {
    "parenthesized_expression", "reference_expression", "array_expression", "tuple_expression",
    "field_initializer_list",
}  # fmt: skip
#: Expressions after which code may run, as the compiler sees it.
_GOING_ON = {"if_expression", "match_expression", "for_expression", "while_expression", "block"}


def tests(path: str, text: str, _names: object = None) -> list[FoundTest]:  # noqa: PT028 - no test
    """The tests of a file; names begin with the modules in it."""
    return [
        FoundTest(
            one.name,
            min([one.node, *one.attributes], key=lambda node: node.start_byte).start_point.row + 1,
            one.node.end_point.row + 1,
        )
        for one in _read(path, text).tests
    ]


def change(
    path: str, text: str, wanted: Mapping[str, str], chance: Random, *, plain: bool = False
) -> ChangedText:
    """The text with each of the ``wanted`` tests in its form."""
    return _Changes(_read(path, text), chance, plain=plain).changed(wanted)


def _read(path: str, text: str) -> RustSource:
    return RustSource(*rooted("Rust", path, text))


class _Changes(ClaimEdits):
    def make(self, test: RustTest, form: str) -> ChangedTest | None:
        if test.panics is None or form == REWORDED:
            return super().make(test, form)
        if form == IDLE and not self._idle(test):
            return None
        form = ALTERED if form == NEARLY else form
        if form in (ACCEPTS, JUDGES):
            return None
        word = token(self._chance)
        altered = form in (ALTERED, REACHED)
        self._exchange(test.panics, f'#[should_panic(expected = "{word}")]' if altered else "")
        if form == STOPPED:
            self._begin(test, self._panic(word))
        # Inverted, without its attribute, the expected panic fails it.
        return ChangedTest(form, (word,) if altered or form == STOPPED else ())

    def _idle(self, test: RustTest) -> bool:
        returned = _returned(test.node)
        if returned is None:
            return False
        self._begin(test, f"if true {{ return{returned}; }}")
        return True

    def _fail(self, test: RustTest, word: str, *, at_end: bool) -> None:
        start = test.body.start_byte + 1
        if at_end:
            start = _end_of(test)
            for node in _returns(test.body):
                self._enclose(node, f"{{ {self._panic(word)} ", " }")
        self._insert(start, f" {self._panic(word)} ")

    def _replace(self, start: int, end: int, text: str) -> None:
        lines = self.source.content.count(b"\n", start, end)
        super()._replace(start, end, text + "\n" * lines)

    def _constants(self) -> str:
        return f'let _ = ({self._chance.randrange(1, 120)}, "{token(self._chance)}");'

    def _panic(self, word: str) -> str:
        return f'if true {{ panic!("{word}"); }}'

    def _expected(self, claim: RustClaim) -> list[RustSpan]:
        return _expected_of(claim)

    def _alter(self, claim: RustClaim, literal: RustSpan, word: str) -> None:
        self._replace(literal.start, literal.end, another(literal.node, self._chance))
        self._say(claim, word)

    def _say(self, claim: RustClaim, word: str) -> None:
        """Make a macro print the token; the old message stays, so that its variables are used."""
        behind = claim.values[-1].end
        if claim.rest < 0:
            self._replace(behind, claim.node.end_byte - 1, f', "{word}"')
            return
        self._around(claim.node.start_byte, "{ ", claim.node.end_byte, " } }")
        self._replace(behind, claim.rest, f', "{word}"); if false {{ panic!(')

    def _reach(self, claim: RustClaim, start: str, end: str) -> None:
        failing = f'if true {{ panic!("{{}}{{}}", "{start}", "{end}"); }}'
        self._enclose(claim.node, f"{{ {failing} ", " }")

    def _reverse(self, claim: RustClaim, word: str) -> None:
        if claim.kind == MACRO:
            self._enclose(claim.node, "{ ", f"; {self._panic(word)} }}")
            return
        if claim.kind == COMPARED:
            self._compare(claim, holds=False, word=word)
            return
        before, after = self._pick(("!(", ")"), ("(", ") == false"))
        first = claim.values[0]
        self._around(first.start, before, first.end, after)
        if claim.kind == HOLDS:
            self._say(claim, word)
        else:
            body = field(claim.node, "consequence")
            self._insert(body.start_byte + 1, f" {self._panic(word)}")

    def _compare(self, claim: RustClaim, *, holds: bool, word: str = "") -> None:
        """Pass the result of a comparison to the same macro, so that imports stay in use."""
        start, end = claim.node.start_byte, claim.node.end_byte
        one, other = claim.values
        left, right = token(self._chance), token(self._chance)
        compared = [f"*{left} == *{right}", str(holds).lower()]
        if not self._plain:
            self._chance.shuffle(compared)
        macro = self.source.content[start : named(claim.node)[-1].start_byte].decode()
        call = f"{macro}({', '.join(compared)}"
        self._replace(start, one.start, "match (&(")
        self._replace(one.end, other.start, "), &(")
        if not word or claim.rest < 0:
            message = f', "{word}"' if word else ""
            behind = end - 1 if claim.rest < 0 else claim.rest
            message += ", " if claim.rest >= 0 else ""
            self._replace(other.end, behind, f")) {{ ({left}, {right}) => {call}{message}")
            self._close(end, " }")
            return
        self._replace(
            other.end, claim.rest,
            f')) {{ ({left}, {right}) => {{ {call}, "{word}"); if false {{ panic!(',
        )  # fmt: skip
        self._close(end, " } } }")

    def _reword(self, claim: RustClaim, _test: RustTest) -> None:
        if claim.kind == COMPARED:
            if not self._plain:
                self._compare(claim, holds=True)
            return
        if claim.kind not in (HOLDS, CONDITION):
            return
        value = claim.values[0]
        if self._plain:
            self._around(value.start, "!!(", value.end, ")")
            return
        for leaf, sides in _leaves_of(value):
            whole = leaf.start == value.start and leaf.end == value.end
            before, after = ("", "") if whole else ("(", ")")
            name, other = token(self._chance), token(self._chance)
            if sides is None:
                before += f"{{ {self._constants()} let {name} = "
                self._around(leaf.start, before, leaf.end, f"; {name} }}{after}")
                continue
            left, sign, right = sides
            behind = f")) {{ ({name}, {other}) => *{name} {text_of(sign)} *{other} }}{after}"
            self._around(leaf.start, f"{before}match (&(", leaf.end, behind)
            self._replace(left.end, right.start, "), &(")


def _returned(function: Node) -> str | None:
    """The value that a passing test returns; None if that is unknown."""
    kind = field(function, "return_type")
    if kind == function or text_of(kind) == "()":
        return ""
    last = [text_of(one) for one in named(field(function, "body"))[-1:]]
    return " Ok(())" if "Result" in text_of(kind) or last == ["Ok(())"] else None


def _end_of(test: RustTest) -> int:
    """The place for a last statement, before the value of a function."""
    inside = [one for one in named(test.body) if one.type != "label"]
    if not inside:
        return test.body.start_byte + 1
    last = inside[-1]
    ends = last.type == "expression_statement" and text_of(last).endswith((";", "}"))
    returns = field(test.node, "return_type") != test.node
    if ends and not returns and named(last)[0].type in _GOING_ON:
        return last.end_byte
    return last.start_byte


def _returns(body: Node) -> Iterator[Node]:
    """The early returns of a function."""
    waiting = [body]
    while waiting:
        for one in named(waiting.pop()):
            if one.type == "return_expression":
                yield one
            elif one.type not in ("closure_expression", "function_item", "async_block"):
                waiting.append(one)


def _leaves_of(
    value: RustSpan,
) -> Iterator[tuple[RustSpan, tuple[RustSpan, Node, RustSpan] | None]]:
    """The parts of a condition, with sides and operator of those that compare."""
    for node in leaves(value.node, "&&", "||", negated=True):
        left, operator, right = (field(node, one) for one in ("left", "operator", "right"))
        sides = RustSpan(left, value.shift), operator, RustSpan(right, value.shift)
        compares = node.type == "binary_expression" and text_of(operator) in COMPARES
        if not node.type.startswith("let_"):
            yield RustSpan(node, value.shift), sides if compares else None


def _expected_of(claim: RustClaim) -> list[RustSpan]:
    """The literals that a claim expects: with another one it is false."""
    if claim.kind == COMPARED and claim.name == "assert_eq":
        return _first([claim.values[1].node, claim.values[0].node], claim.values[0].shift)
    found: list[RustSpan] = []
    for node in leaves(claim.values[0].node, "&&") if claim.kind == HOLDS else ():
        if node.type == "binary_expression" and text_of(field(node, "operator")) == "==":
            found += _first([field(node, "right"), field(node, "left")], claim.values[0].shift)
    return found


def _first(sides: list[Node], shift: int) -> list[RustSpan]:
    for one in sides:
        if found := [RustSpan(node, shift) for node in _literals_in(one)]:
            return found
    return []


def _literals_in(node: Node) -> list[Node]:
    """The literals that an expression consists of; none if it has other parts."""
    found: list[Node] = []
    waiting = [node]
    while waiting:
        node = waiting.pop()
        if node.type in _LITERALS and not text_of(node).startswith(("b", "c")):
            found.append(node)
        elif node.type == "unary_expression" and text_of(node).startswith("-"):
            waiting += [one for one in named(node) if one.type in _NUMBERS]
        elif node.type == "array_expression" and field(node, "length") != node:
            continue  # [value; count]
        elif node.type in _HOLDING:
            waiting += named(node)
        elif node.type == "struct_expression":
            waiting.append(field(node, "body"))
        elif node.type == "field_initializer":
            waiting.append(field(node, "value"))
        elif node.type == "call_expression":
            called = field(node, "function")
            name = text_of(called).rpartition("::")[2]
            made = called.type == "field_expression" and text_of(field(called, "field")) in _MADE_OF
            if made:
                waiting.append(field(called, "value"))
            elif name[:1].isupper() or text_of(called) == "String::from":  # a constructor: no code
                waiting += named(field(node, "arguments"))
    return found
