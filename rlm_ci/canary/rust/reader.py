"""Tests of Rust in other forms: functions with an attribute such as ``test``.

A claim is a macro that asserts, an ``if`` that panics, or a call of a function beside the test
that makes claims. What is put in compiles without warnings, as a crate may deny them: hence
``if true``.
"""

from __future__ import annotations

from rlm_ci.canary.claim_edits import ClaimEdits, another, text_of
from rlm_ci.canary.forms import (
    ALTERED,
    IDLE,
    REACHED,
    REWORDED,
    STOPPED,
    ChangedTest,
    ChangedText,
    FoundTest,
    token,
)
from rlm_ci.canary.rust import values
from rlm_ci.canary.rust.source import COMPARED, CONDITION, HOLDS, MACRO, RustSource
from rlm_ci.canary.splicing import Edit, rooted, spliced
from rlm_ci.source.grammars import field, named

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from random import Random

    from rlm_ci.canary.rust.source import RustClaim, RustFunction, RustSpan

ENDINGS = (".rs",)


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
    changes = _Changes(_read(path, text), chance, plain=plain)
    made = {
        one.name: done
        for one in changes.source.tests
        if one.name in wanted and (done := changes.make(one, wanted[one.name]))
    }
    return ChangedText(changes.text(), made)


def _read(path: str, text: str) -> RustSource:
    return RustSource(*rooted("Rust", path, text))


class _Changes(ClaimEdits):
    def text(self) -> str:
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
        if test.panics is None or form == REWORDED:
            return super().make(test, form)
        if form == IDLE and not self._idle(test):
            return None
        word = token(self._chance)
        altered = form in (ALTERED, REACHED)
        self._exchange(test.panics, f'#[should_panic(expected = "{word}")]' if altered else "")
        if form == STOPPED:
            self._begin(test, self._panic(word))
        # Inverted, it fails with the panic that it had to end with.
        return ChangedTest(form, (word,) if altered or form == STOPPED else ())

    def _idle(self, test: RustFunction) -> bool:
        returned = values.returned(test.node)
        if returned is None:
            return False
        self._begin(test, f"if true {{ return{returned}; }}")
        return True

    def _fail(self, test: RustFunction, word: str, *, at_end: bool) -> None:
        start = test.body.start_byte + 1
        if at_end:
            start = values.end_of(test)
            for node in values.returns(test.body):
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
        return values.literals(claim)

    def _alter(self, claim: RustClaim, literal: RustSpan, word: str) -> None:
        self._replace(literal.start, literal.end, another(literal.node, self._chance))
        self._say(claim, word)

    def _say(self, claim: RustClaim, word: str) -> None:
        """Let a macro print the token; the old message stays, so that its variables are used."""
        behind = claim.values[-1].end
        if claim.rest < 0:
            self._replace(behind, claim.node.end_byte - 1, f', "{word}"')
            return
        self._around(claim.node.start_byte, "{ ", claim.node.end_byte, " } }")
        self._replace(behind, claim.rest, f', "{word}"); if false {{ panic!(')

    def _reach(self, claim: RustClaim, word: str) -> None:
        self._enclose(claim.node, f"{{ {self._panic(word)} ", " }")

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
        """Hand the result of a comparison to the same macro, so that imports stay in use."""
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

    def _reword(self, claim: RustClaim, _function: RustFunction) -> None:
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
                before += f"{{ {self._constants()} let {name} = "
                self._around(leaf.start, before, leaf.end, f"; {name} }}{after}")
                continue
            left, sign, right = sides
            behind = f")) {{ ({name}, {other}) => *{name} {text_of(sign)} *{other} }}{after}"
            self._around(leaf.start, f"{before}match (&(", leaf.end, behind)
            self._replace(left.end, right.start, "), &(")
