"""Changes tests and literals, for the readers of Go and Rust."""

from __future__ import annotations

import re

from rlm_ci.canary import near
from rlm_ci.canary.forms import (
    ACCEPTS,
    ALTERED,
    FAR,
    IDLE,
    INVERTED,
    JUDGES,
    NEAR,
    NEARLY,
    PART,
    REACHED,
    REWORDED,
    STOPPED,
    ChangedTest,
    ChangedText,
    halves,
    token,
)
from rlm_ci.canary.splicing import Edit, spliced
from rlm_ci.source.grammars import field, named_children, text_of
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from random import Random
    from typing import Any

    from tree_sitter import Node

#: A part of ``switch``, ``select`` or ``match``.
_CASES = frozenset((
    "expression_case", "default_case", "type_case", "communication_case", "match_arm",
))  # fmt: skip
COMPARES = frozenset(("==", "!=", "<", "<=", ">", ">="))


_INTEGER = re.compile(r"([0-9]{1,30})((?:[iu][0-9a-z]+)?)")
#: How far another small number is, which a tolerance by design refuses.
_FAR = 40
#: The most alterations of a question.
_MOST = 24
#: The largest integers of the types that a compiler may give to a literal.
_LARGEST = [2 ** (bits - sign) - 1 for bits in (8, 16, 32, 64) for sign in (1, 0)]


class ClaimAlteration(Value):
    """A condition that a right result refuses, and ``judged``, by which the start tree judges it.

    That is about no operand, unless the ``kind`` is NEAR.
    """

    kind: str
    condition: str
    judged: str = ""


class TypedQuestion(Value):
    """Texts of operands by the names that the conditions have for them."""

    operands: Mapping[str, str]
    alterations: tuple[ClaimAlteration, ...]


class ClaimEdits:
    """The edits of one file, of a ``source`` with ``content`` and ``tests``."""

    def __init__(self, source: Any, chance: Random, *, plain: bool) -> None:
        self.source = source
        self._chance, self._plain = chance, plain
        #: Insertions that end something go before those that begin something.
        self._opened: list[Edit] = []
        self._closed: list[Edit] = []

    def changed(self, form_by_name: Mapping[str, str]) -> ChangedText:
        """The text with each test of ``form_by_name`` in its form."""
        changed_tests = {
            test.name: done
            for test in self.source.tests
            if test.name in form_by_name and (done := self.make(test, form_by_name[test.name]))
        }
        edits = [*reversed(self._closed), *self._opened]
        return ChangedText(spliced(self.source.content, edits), changed_tests)

    def make(self, test: Any, form: str) -> ChangedTest | None:
        """Change one test; None if it cannot have the form."""
        word = token(self._chance)
        if form in (NEARLY, ACCEPTS, JUDGES):
            if questions := self._questions(test):
                return self._nearly(test, questions, form, word)
            if form != NEARLY:
                return None
            form = ALTERED
        if form == IDLE:
            return ChangedTest(form) if self._idle(test) else None
        if form == REWORDED:
            self._begin(test, self._constants())
            self._claims(test, form, word)
            return ChangedTest(form)
        if form == ALTERED:
            literals = self._literals(test.claims)
            for claim, places in literals:
                self._alter(claim, places, word)
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

    def _alter(self, claim: Any, literals: Sequence[Any], word: str) -> None:
        raise NotImplementedError

    def _questions(self, test: Any) -> list[tuple[Any, list[TypedQuestion]]]:
        """What claims must refuse; no claim is within another one."""
        raise NotImplementedError

    def _noted(self, condition: str, action: str) -> str:
        """A statement that does something under a condition."""
        raise NotImplementedError

    def _shown(self, test: Any, start: str, end: str) -> str:
        """A statement that prints a token, whose text has it in two pieces."""
        raise NotImplementedError

    def _ask(self, claim: Any, queries: Sequence[tuple[TypedQuestion, list[str]]]) -> None:
        """Put statements that use the operands of questions in the place of a claim."""
        raise NotImplementedError

    def _conclude(self, test: Any, claims: Sequence[Any], word: str, flag: str) -> str:
        """Make a test fail at its end, unless it ran the statement that is returned.

        Without a ``flag`` it always fails.
        """
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

    def _nearly(
        self, test: Any, queries: list[tuple[Any, list[TypedQuestion]]], form: str, word: str
    ) -> ChangedTest:
        flag = token(self._chance) if form == NEARLY else ""
        accept = self._conclude(test, [claim for claim, _ in queries], word, flag)
        kinds: dict[str, str] = {}
        for claim, questions in queries:
            texts: list[tuple[TypedQuestion, list[str]]] = []
            for question in questions:
                steps = []
                for alteration in question.alterations:
                    mark = token(self._chance) if form != NEARLY else ""
                    condition, shown = alteration.condition, accept
                    if mark:
                        kinds[mark] = alteration.kind
                        shown = self._shown(test, *halves(mark, on_branch=False))
                    if form == JUDGES:
                        condition = alteration.judged
                    if form == JUDGES and alteration.kind != NEAR and condition:
                        self._begin(test, self._noted(condition, shown))
                    elif condition:
                        steps.append(self._noted(condition, shown))
                texts += [(question, steps)] if steps else []
            if texts:
                self._ask(claim, texts)
        tokens = (word,) if form == NEARLY else (word, *kinds)
        return ChangedTest(form, tokens, kinds)

    def _literals(self, claims: Iterable[Any]) -> list[tuple[Any, Sequence[Any]]]:
        """The literals of each claim that has any; none if no claim is sure to be reached."""
        claim_literals = [(claim, some) for claim in claims if (some := self._expected(claim))]
        certain = [pair for pair in claim_literals if pair[0].certain]
        return certain[:1] if self._plain else claim_literals if certain else []

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
            waiting += named_children(node)[-1:]
        elif node.type == "binary_expression" and text_of(field(node, "operator")) in joins:
            waiting += [field(node, "right"), field(node, "left")]
        else:
            yield node


def varied(
    expression: Node,
    places: Sequence[Node],
    sizes: Iterable[tuple[Node, str]],
    chance: Random,
    parts: Collection[Node],
) -> list[tuple[str, str]]:
    """Texts of an expression with other literals, all at once or a single one, and their kinds.

    ``parts`` are the literals that go through code of the repository, such as a constructor's.
    """
    if not places:
        return []
    texts = [(FAR, replaced(expression, {literal: another(literal, chance) for literal in places}))]
    close: list[tuple[str, str]] = []
    for literal in places:
        text, is_part = text_of(literal), literal in parts
        news = [(NEAR, new) for new in _close(literal, chance)]
        if literal.type.endswith("string_literal"):
            news += near.quoted(text, chance)
        if is_part:
            news.append((PART, another(literal, chance)))
        for kind, new in news:
            weight = PART if is_part and kind == NEAR else kind
            close.append((weight, replaced(expression, {literal: new})))
    for node, new in sizes:
        close.append((PART if parts else NEAR, replaced(expression, {node: new})))
    return texts + chance.sample(close, min(len(close), _MOST - 1))


def replaced(root: Node, texts: Mapping[Node, str]) -> str:
    """The text of a node with others for some of those in it."""
    start = root.start_byte
    edits = [
        Edit(node.start_byte - start, node.end_byte - start, new) for node, new in texts.items()
    ]
    return spliced(root.text or b"", edits)


def _close(node: Node, chance: Random) -> list[str]:
    """Numbers that differ from a literal by up to 3, and are of each type that it may have."""
    text, (up, down) = text_of(node), near.steps(chance)
    if node.type == "float_literal":
        try:
            value = float(text)
        except ValueError:
            return []
        return [repr(value + up), repr(value * 1.01 + 0.001)]
    literal = _INTEGER.fullmatch(text)
    if node.type not in ("int_literal", "integer_literal") or literal is None:
        return []
    value, suffix = int(literal[1]), literal[2]
    is_last = any(value - 1 <= largest < value + up for largest in _LARGEST)
    steps = [*([] if is_last else [up]), *([max(down, -value)] if value else [])]
    return [f"{value + step}{suffix}" for step in steps]


def another(node: Node, chance: Random) -> str:
    """Another literal of the same kind, which fits wherever this one does."""
    text = text_of(node)
    if text in ("true", "false"):
        return "false" if text == "true" else "true"
    if node.type.endswith("string_literal"):
        return f'"{token(chance)}"'
    if node.type in ("char_literal", "rune_literal"):
        return f"'{chance.choice([letter for letter in 'bcdfghjkmpqsvwxz' if letter not in text])}'"
    return _number(text, chance, is_integer=node.type in ("int_literal", "integer_literal"))


def _number(text: str, chance: Random, *, is_integer: bool) -> str:
    is_decimal = text[:2] not in ("0x", "0X", "0o", "0b")
    marks = "iu" if is_integer and not is_decimal else "iuf"
    suffix = next((text[at:] for at, letter in enumerate(text) if letter in marks), "")
    digits = text.removesuffix(suffix).replace("_", "")
    try:
        value = (int(digits, 10 if is_decimal else 0)) if is_integer else float(digits)
    except (ValueError, OverflowError):  # a notation or a length that Python does not read
        value = -1
    if is_integer and value > 120:
        return f"{chance.randrange(int(value) // 2, int(value) * 3 // 4)}{suffix}"
    kind = "" if is_integer else ".0" if value == value // 1 else ".5"
    number = chance.choice([other for other in range(1, 121) if abs(other - value) >= _FAR])
    return f"{number}{kind}{suffix}"
