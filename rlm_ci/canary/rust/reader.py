"""Tests of Rust that must fail, or must pass: functions with the attribute ``test``.

A claim is a macro that asserts, an ``if`` that panics, or a call of a function beside the test
that makes claims: that one is copied, for others use it too. Whatever is put in compiles without
a warning of its own, since a crate may deny them: hence ``if true``.
"""

from __future__ import annotations

from rlm_ci.canary import forms
from rlm_ci.canary.forms import ChangedTest, ChangedText, FoundTest, token
from rlm_ci.canary.rust import values
from rlm_ci.canary.rust.inline_tests import restored
from rlm_ci.canary.rust.source import COMPARED, CONDITION, HELPER, HOLDS, MACRO, RustSource, text
from rlm_ci.canary.splicing import Edit, Edits, rooted, spliced
from rlm_ci.source.grammars import field, named

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from random import Random

    from tree_sitter import Node

    from rlm_ci.canary.rust.source import RustClaim, RustFunction

__all__ = ["ENDINGS", "change", "restored", "tests"]

ENDINGS = (".rs",)


def tests(path: str, text: str) -> list[FoundTest]:
    """The tests of a file, named from the modules in it inward."""
    return [
        FoundTest(
            one.name,
            min([one.node, *one.attributes], key=lambda node: node.start_byte).start_point.row + 1,
            one.node.end_point.row + 1,
            1 if one.panics else len(one.claims),
        )
        for one in _read(path, text).tests
    ]


def change(
    path: str, text: str, wanted: Mapping[str, str], chance: Random, *, plain: bool = False
) -> ChangedText:
    """The text with each of the ``wanted`` tests in its form."""
    changes = _Changes(_read(path, text), chance, plain=plain)
    made = {
        one.name: done
        for one in changes.source.tests
        if one.name in wanted and (done := changes.make(one, wanted[one.name]))
    }
    return ChangedText(changes.text(), made)


def _read(path: str, text: str) -> RustSource:
    return RustSource(*rooted("Rust", path, text))


class _Changes(Edits):
    """The edits of one file, one form after the other."""

    def __init__(self, source: RustSource, chance: Random, *, plain: bool) -> None:
        super().__init__(source.content, chance, plain=plain)
        self.source = source

    def text(self) -> str:
        """The changed text, with the copies of helpers at the ends of their modules."""
        changed = self._taken()
        seen: set[int] = set()
        for helper, copy in self._copied():
            at = helper.module.end_byte - (helper.module.type == "declaration_list")
            changed.append(Edit(at, at, f"\n{copy}\n"))
            if helper.node.id not in seen:  # all that called it may call copies
                seen.add(helper.node.id)
                start = helper.node.start_byte
                changed.append(Edit(start, start, "#[allow(dead_code)] "))
        return spliced(self.source.content, changed)

    def make(self, test: RustFunction, form: str) -> ChangedTest | None:
        """Change one test; None where it cannot have the form."""
        word, start = token(self._chance), test.body.start_byte + 1
        if test.panics is not None:
            return self._panicking(test, test.panics, form, word)
        if form == forms.IDLE:
            returned = values.returned(test.node)
            if returned is not None:
                self._insert(start, f" if true {{ return{returned}; }}")
            return None if returned is None else ChangedTest(form)
        if form == forms.REWORDED:
            self._insert(start, f" {self._constants()}")
            self._claims(test, form, word)
            return ChangedTest(form)
        literals = self._literals(test.claims, values.literals) if form == forms.ALTERED else []
        if literals:
            for claim, one in literals:
                made = values.another(one.node, self._chance)
                self._replace(one.start, one.end, made)
                self._say(claim, word)
            return ChangedTest(form, (word,))
        form = forms.INVERTED if form == forms.ALTERED else form
        if test.claims and form != forms.STOPPED:
            return ChangedTest(form, self._claims(test, form, word))
        if form == forms.INVERTED:  # wherever it ends
            start = values.end_of(test)
            for node in values.returns(test.body):
                self._around(node.start_byte, f"{{ {self._panic(word)} ", node.end_byte, " }")
        self._insert(start, f" {self._panic(word)} ")
        return ChangedTest(form, (word,))

    def _replace(self, start: int, end: int, text: str) -> None:
        """Put text in the place of other; lines stay where they are."""
        lines = self.source.content.count(b"\n", start, end)
        super()._replace(start, end, text + "\n" * lines)

    def _constants(self) -> str:
        return f'let _ = ({self._chance.randrange(1, 120)}, "{token(self._chance)}");'

    def _panic(self, word: str) -> str:
        return f'if true {{ panic!("{word}"); }}'

    def _panicking(
        self, test: RustFunction, attribute: Node, form: str, word: str
    ) -> ChangedTest | None:
        """A test that has to panic: its claim is the attribute."""
        start = test.body.start_byte + 1
        if form == forms.REWORDED:
            self._insert(start, f" {self._constants()}")
            return ChangedTest(form)
        returned = values.returned(test.node)
        if form == forms.IDLE and returned is None:
            return None
        altered = form in (forms.ALTERED, forms.REACHED)
        said = f'#[should_panic(expected = "{word}")]' if altered else ""
        self._replace(attribute.start_byte, attribute.end_byte, said)
        if form == forms.IDLE:
            self._insert(start, f" if true {{ return{returned}; }}")
        if form == forms.STOPPED:
            self._insert(start, f" {self._panic(word)}")
        # Inverted, it fails with the panic that it had to end with.
        return ChangedTest(form, (word,) if altered or form == forms.STOPPED else ())

    def _say(self, claim: RustClaim, word: str) -> None:
        """Let a macro say the token; what it said before stays, so that it is still used."""
        behind = claim.values[-1].end
        if claim.rest < 0:
            self._replace(behind, claim.node.end_byte - 1, f', "{word}"')
            return
        self._around(claim.node.start_byte, "{ ", claim.node.end_byte, " } }")
        self._replace(behind, claim.rest, f', "{word}"); if false {{ panic!(')

    def _claims(self, function: RustFunction, form: str, word: str) -> tuple[str, ...]:
        """Change all claims of a function; what the failure of one of them may print."""
        tokens = {word: None}
        for claim in function.claims:
            start, end = claim.node.start_byte, claim.node.end_byte
            if claim.kind == HELPER:
                self._call(function, claim, form)
                tokens[self._tokens[form]] = None
            elif form == forms.REACHED:
                self._around(start, f"{{ {self._panic(word)} ", end, " }")
            elif form == forms.REWORDED:
                self._reword(claim)
            elif claim.kind == MACRO:
                self._around(start, "{ ", end, f"; {self._panic(word)} }}")
            else:
                self._invert(claim, word)
        return tuple(tokens)

    def _call(self, function: RustFunction, claim: RustClaim, form: str) -> None:
        """Call a copy of a helper in which its claims have the form."""
        helper = self.source.helper(function, claim.name)
        if helper is not None:
            copy = self._copy(helper, form)
            called = field(claim.node, "function")
            self._replace(called.start_byte, called.end_byte, copy)

    def _invert(self, claim: RustClaim, word: str) -> None:
        first = claim.values[0]
        if claim.kind == COMPARED:
            self._compare(claim, holds=False, word=word)
            return
        ways = (("!(", ")"), ("(", ") == false"))
        before, after = ways[0] if self._plain else self._chance.choice(ways)
        self._around(first.start, before, first.end, after)
        if claim.kind == HOLDS:
            self._say(claim, word)
        else:
            body = field(claim.node, "consequence")
            self._insert(body.start_byte + 1, f" {self._panic(word)}")

    def _compare(self, claim: RustClaim, *, holds: bool, word: str = "") -> None:
        """Compare what a macro compares, and hand it what came of that.

        It is the same macro, which may be imported, and stays in use.
        """
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
            said = f', "{word}"' if word else ""
            behind = end - 1 if claim.rest < 0 else claim.rest
            said += ", " if claim.rest >= 0 else ""
            self._replace(other.end, behind, f")) {{ ({left}, {right}) => {call}{said}")
            self._close(end, " }")
            return
        self._replace(
            other.end, claim.rest,
            f')) {{ ({left}, {right}) => {{ {call}, "{word}"); if false {{ panic!(',
        )  # fmt: skip
        self._close(end, " } } }")

    def _reword(self, claim: RustClaim) -> None:
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
        for leaf, sides in values.leaves_of(value):
            whole = leaf.start == value.start and leaf.end == value.end
            before, after = ("", "") if whole else ("(", ")")
            name, other = token(self._chance), token(self._chance)
            if sides is None:
                self._around(
                    leaf.start, f"{before}{{ {self._constants()} let {name} = ",
                    leaf.end, f"; {name} }}{after}",
                )  # fmt: skip
                continue
            left, sign, right = sides
            self._around(
                leaf.start, f"{before}match (&(",
                leaf.end, f")) {{ ({name}, {other}) => *{name} {text(sign)} *{other} }}{after}",
            )  # fmt: skip
            self._replace(left.end, right.start, "), &(")
