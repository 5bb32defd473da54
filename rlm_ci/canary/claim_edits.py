"""Changes tests and literals, for the readers of Go and Rust."""

from __future__ import annotations

from rlm_ci.canary.forms import (
    ACCEPTS,
    ALTERED,
    IDLE,
    INVERTED,
    JUDGES,
    NEARLY,
    REACHED,
    REWORDED,
    STOPPED,
    ChangedTest,
    ChangedText,
    halves,
    token,
)
from rlm_ci.canary.splicing import Edit, spliced
from rlm_ci.source.grammars import field, named

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from random import Random
    from typing import Any

    from tree_sitter import Node

#: A part of ``switch``, ``select`` or ``match``.
_CASES = frozenset((
    "expression_case", "default_case", "type_case", "communication_case", "match_arm",
))  # fmt: skip
COMPARES = frozenset(("==", "!=", "<", "<=", ">", ">="))


class ClaimEdits:
    """The edits of one file, of a ``source`` with ``content`` and ``tests``."""

    def __init__(self, source: Any, chance: Random, *, plain: bool) -> None:
        self.source = source
        self._chance, self._plain = chance, plain
        #: Insertions that end something go before those that begin something.
        self._opened: list[Edit] = []
        self._closed: list[Edit] = []

    def changed(self, wanted: Mapping[str, str]) -> ChangedText:
        """The text with each of the ``wanted`` tests in its form."""
        made = {
            one.name: done
            for one in self.source.tests
            if one.name in wanted and (done := self.make(one, wanted[one.name]))
        }
        edits = [*reversed(self._closed), *self._opened]
        return ChangedText(spliced(self.source.content, edits), made)

    def make(self, test: Any, form: str) -> ChangedTest | None:
        """Change one test; None if it cannot have the form."""
        form = ALTERED if form == NEARLY else form
        if form in (ACCEPTS, JUDGES):
            return None
        word = token(self._chance)
        if form == IDLE:
            return ChangedTest(form) if self._idle(test) else None
        if form == REWORDED:
            self._begin(test, self._constants())
            self._claims(test, form, word)
            return ChangedTest(form)
        if form == ALTERED:
            literals = self._literals(test.claims)
            for claim, literal in literals:
                self._alter(claim, literal, word)
            if literals:
                return ChangedTest(form, (word,))
            form = INVERTED
        if test.claims and form != STOPPED:
            self._claims(test, form, word)
        else:
            self._fail(test, word, at_end=form == INVERTED)
        return ChangedTest(form, (word,))

    # ── what each language has ──

    def _expected(self, claim: Any) -> Sequence[Any]:
        """The literals that a claim expects; with another one it is false."""
        raise NotImplementedError

    def _alter(self, claim: Any, literal: Any, word: str) -> None:
        raise NotImplementedError

    def _constants(self) -> str:
        """Statements of no effect."""
        raise NotImplementedError

    def _idle(self, test: Any) -> bool:
        """Make a test return at once; returns whether it can."""
        raise NotImplementedError

    def _fail(self, test: Any, word: str, *, at_end: bool) -> None:
        """Make a test fail at its start, or at each of its ends."""
        raise NotImplementedError

    def _reach(self, claim: Any, start: str, end: str) -> None:
        """Make the test fail at a claim, with a token in two pieces."""
        raise NotImplementedError

    def _reword(self, claim: Any, test: Any) -> None:
        raise NotImplementedError

    def _reverse(self, claim: Any, word: str) -> None:
        raise NotImplementedError

    # ── what they share ──

    def _claims(self, test: Any, form: str, word: str) -> None:
        for claim in test.claims:
            if form == REACHED:
                self._reach(claim, *halves(word, on_branch=on_branch(claim.node)))
            elif form == REWORDED:
                self._reword(claim, test)
            else:
                self._reverse(claim, word)

    def _literals(self, claims: Iterable[Any]) -> list[tuple[Any, Any]]:
        """A literal of each claim that has any; none if no claim is sure to be reached."""
        found = [
            (claim, self._chance.choice(some))
            for claim in claims
            if (some := self._expected(claim))
        ]
        certain = [one for one in found if one[0].certain]
        return certain[:1] if self._plain else found if certain else []

    def _pick(self, *ways: Any) -> Any:
        return ways[0] if self._plain else self._chance.choice(ways)

    def _begin(self, test: Any, text: str) -> None:
        self._insert(test.body.start_byte + 1, f" {text}")

    def _insert(self, at: int, text: str) -> None:
        self._opened.append(Edit(at, at, text))

    def _close(self, at: int, text: str) -> None:
        self._closed.append(Edit(at, at, text))

    def _around(self, start: int, before: str, end: int, after: str) -> None:
        self._insert(start, before)
        self._close(end, after)

    def _replace(self, start: int, end: int, text: str) -> None:
        self._opened.append(Edit(start, end, text))

    def _enclose(self, node: Node, before: str, after: str) -> None:
        self._around(node.start_byte, before, node.end_byte, after)

    def _exchange(self, node: Node, text: str) -> None:
        self._replace(node.start_byte, node.end_byte, text)


def text_of(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "surrogateescape")


def on_branch(node: Node) -> bool:
    """Whether a node runs only under a condition, or for an error."""
    while (above := node.parent) is not None:
        if above.type in _CASES:
            return True
        if above.type in ("if_statement", "if_expression") and node not in (
            field(above, "condition"),
            field(above, "initializer"),
        ):
            return True
        node = above
    return False


def leaves(condition: Node, *joins: str, negated: bool = False) -> Iterator[Node]:
    """The operands that a condition joins by ``joins``, and negates if it may be ``negated``."""
    waiting = [condition]
    while waiting:
        node = waiting.pop()
        is_denied = node.type == "unary_expression" and text_of(node).startswith("!")
        if node.type == "parenthesized_expression" or (negated and is_denied):
            waiting += named(node)[-1:]
        elif node.type == "binary_expression" and text_of(field(node, "operator")) in joins:
            waiting += [field(node, "right"), field(node, "left")]
        else:
            yield node


def another(node: Node, chance: Random) -> str:
    """Another literal of the same kind, which fits wherever this one does."""
    text = text_of(node)
    if text in ("true", "false"):
        return "false" if text == "true" else "true"
    if node.type.endswith("string_literal"):
        return f'"{token(chance)}"'
    if node.type in ("char_literal", "rune_literal"):
        return f"'{chance.choice([one for one in 'bcdfghjkmpqsvwxz' if one not in text])}'"
    return _number(text, chance, whole=node.type in ("int_literal", "integer_literal"))


def _number(text: str, chance: Random, *, whole: bool) -> str:
    is_decimal = text[:2] not in ("0x", "0X", "0o", "0b")
    marks = "iu" if whole and not is_decimal else "iuf"
    suffix = next((text[at:] for at, one in enumerate(text) if one in marks), "")
    digits = text.removesuffix(suffix).replace("_", "")
    try:
        value = (int(digits, 10 if is_decimal else 0)) if whole else float(digits)
    except (ValueError, OverflowError):  # a notation or a length that Python does not read
        value = -1
    if whole and value > 120:
        return f"{chance.randrange(int(value) // 2, int(value))}{suffix}"
    kind = "" if whole else ".0" if value == value // 1 else ".5"
    made = chance.choice([one for one in range(1, 121) if float(f"{one}{kind}") != value])
    return f"{made}{kind}{suffix}"
