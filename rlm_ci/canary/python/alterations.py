"""What a Python test claims, as questions with answers that no right product gives.

A claim is taken apart into questions. Each binds its operands once, and has alterations: conditions
over the names of the operands, which are false unless the product lies. A test that failed at the
start gets all of them (NEARLY), so that no draw decides: its three copies cost the same as before.
"""

from __future__ import annotations

import ast
import re

from rlm_ci.canary.forms import FAR, NEAR, PART, STYLE, UNUSED, token
from rlm_ci.canary.python.literals import (
    arguments,
    far,
    impossible,
    is_made_of_literals,
    is_number,
    is_text,
    kind_of,
    literals_in,
    nearby,
    resized,
    restyled,
)
from rlm_ci.source.python.claims import CALL, HELPER, call_of, meaning
from rlm_ci.source.python.names import callee
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from random import Random

    from rlm_ci.canary.python.source import PythonSource
    from rlm_ci.source.python.claims import PythonClaim

    #: A text in place of an operand, perhaps by the name of that.
    _Text = str | Callable[[str], str]

#: Calls that compare their first two arguments: of unittest, nose and numpy.
_COMPARING = re.compile(
    r"assert(?:List|Tuple|Dict|Set|Sequence|Count|MultiLine|Almost)?Equal"
    r"|assertEquals|assert_(?:(?:array_|almost_)?equal|equals|allclose)"
)
#: Functions that return whether two values are equal, or nearly so.
_CLOSE = {"isclose", "allclose", "array_equal"}
#: Calls that compare the arguments of a mock's calls.
_CALLED = re.compile(r"assert_(?:called|awaited)(?:_once)?_with|assert_any_(?:call|await)")
OPERATORS = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
    ast.Is: "is", ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in",
}  # fmt: skip
#: Methods of texts and sets that are true of their parts.
_ASKED = {"startswith", "endswith", "issuperset"}
_ABOVE, _BELOW = (ast.Gt, ast.GtE), (ast.Lt, ast.LtE)
#: The most alterations of a question, and the most text of them.
_MOST, _LONGEST = 24, 20_000
#: Nodes that may not be evaluated again.
_ONCE = (ast.Call, ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)
#: What ACCEPTS and JUDGES need; ``touched`` gives a value that notes whatever is done with it.
HELPERS = """
def note(word):
    words.append(word)
    print(word)
def accepts(claim):
    try: return bool(claim())
    except Exception: return False
def several(value, near):
    if isinstance(value, dict): value = list(value.values())
    if type(value) in (list, tuple, set): return any(several(one, near) for one in value)
    if type(value) in (bool, int, float, complex, str, bytes): return False
    close = [one for number in (0, *near) for one in range(int(number) - 999, int(number) + 1000)]
    text = str(value)
    close += [text, text + "x", text[1:], text[:-1]]
    return sum(accepts(lambda: value == one) for one in set(close)) > 1
def tolerant(value, near): return accepts(lambda: several(value(), near))
def touched(claim):
    uses = []
    def used(*_, **__): uses.append(1); raise ValueError
    names = "eq ne lt le gt ge hash bool len iter getitem contains call int float "
    names += "index add radd sub rsub mul rmul mod rmod truediv rtruediv floordiv neg abs getattr"
    kind = type("Value", (), {f"__{name}__": used for name in names.split()})
    accepts(lambda: claim(kind()))
    return bool(uses)
"""


class PythonAlteration(Value):
    """A condition over the names of operands; accepting it means what its ``kind`` says.

    ``judged`` is the expression by which the start tree judges it; ``is_safe``: it cannot raise.
    """

    kind: str
    condition: Callable[[Sequence[str]], str]
    judged: str = ""
    is_safe: bool = True


class ClaimQuestion(Value):
    """Operands, each evaluated once, and what must not be true of them."""

    operands: tuple[ast.expr, ...]
    alterations: tuple[PythonAlteration, ...]


class ClaimQuestions:
    """The questions of the claims of one test; ``helpers``: the name that HELPERS have there."""

    def __init__(
        self, source: PythonSource, chance: Random, helpers: str, *, is_nearly: bool
    ) -> None:
        self._source, self._chance = source, chance
        self._helpers, self._is_nearly = helpers, is_nearly

    def of(self, claim: PythonClaim) -> list[ClaimQuestion]:
        if isinstance(claim.node, ast.Assert):
            questions = self._of_test(claim.node.test)
        else:
            call = call_of(claim.node) if claim.kind in (CALL, HELPER) else None
            questions = self._of_call(claim, call) if call is not None else []
        return [question for question in questions if question.alterations]

    def _of_call(self, claim: PythonClaim, call: ast.Call) -> list[ClaimQuestion]:
        name = callee(call)
        is_awaited = isinstance(getattr(claim.node, "value", None), ast.Await)
        if claim.kind == HELPER:
            return [] if is_awaited or not self._is_nearly else [self._helper(call, "[{}]")]
        if name not in self._source.own_asserts and (form := meaning(call)):
            return self._of_meaning(call, form)
        template = "[await {}]" if is_awaited else "[{}]"
        if _CALLED.fullmatch(name):
            return self._altered_call(call, arguments(call), template)
        is_compared = _COMPARING.fullmatch(name) and len(call.args) > 1
        if not is_compared or any(isinstance(argument, ast.Starred) for argument in call.args[:2]):
            return []
        return self._altered_call(call, _expected(call.args), template)

    def _of_meaning(self, call: ast.Call, form: str) -> list[ClaimQuestion]:
        """The questions of a call of unittest, as of the assert that it stands for."""
        test = ast.parse(form.format("a", "b"), mode="eval").body
        if isinstance(test, ast.Name):
            return self._of_test(call.args[0])
        if not isinstance(test, ast.Compare):
            return []
        test.left = call.args[0]
        test.comparators = call.args[1:2] if "{1}" in form else test.comparators
        return self._of_test(test) if "{1}" in form else []

    def _of_test(self, test: ast.expr) -> list[ClaimQuestion]:
        if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
            return [question for value in test.values for question in self._of_test(value)]
        if isinstance(test, ast.Compare):
            special = (self._distance(test) or self._item(test)) if self._is_nearly else None
            return [special or self._compared(test)]
        if isinstance(test, ast.Call) and callee(test) in _CLOSE and len(test.args) > 1:
            return self._altered_call(test, _expected(test.args))
        if not self._is_nearly:
            return []
        if isinstance(test, ast.Subscript):
            return [question for question in [self._item(test)] if question]
        if isinstance(test, ast.Call):
            if callee(test) in _ASKED:
                return self._altered_call(test, test.args[:1])
            return [self._helper(test, "{}")]
        return []

    # ── comparisons ──

    def _compared(self, test: ast.Compare) -> ClaimQuestion:
        operands = [test.left, *test.comparators]

        def condition(index: int, at: int, text: _Text) -> Callable[[Sequence[str]], str]:
            def written(names: Sequence[str]) -> str:
                new = text if isinstance(text, str) else text(names[at])
                pair = [names[index], names[index + 1]]
                pair[at - index] = new
                return f" {OPERATORS[type(test.ops[index])]} ".join(pair)

            return written

        alterations = [
            PythonAlteration(kind, condition(index, at, text), judged, kind != PART)
            for index, operator in enumerate(test.ops)
            for at, kind, text, judged in self._of_pair(index, operands, operator)
        ]
        longest = max(len(self._source.text(operand)) for operand in operands)
        limit = max(3, min(_MOST, _LONGEST // longest))
        if len(alterations) > limit:
            alterations = [alterations[0], *self._chance.sample(alterations[1:], limit - 1)]
        return ClaimQuestion(tuple(operands), tuple(alterations))

    def _of_pair(
        self, index: int, operands: list[ast.expr], operator: ast.cmpop
    ) -> Iterator[tuple[int, str, _Text, str]]:
        """The alterations of two neighbours: which is replaced, the kind, by what, how judged."""
        left, right = operands[index : index + 2]
        if isinstance(operator, ast.Eq):
            at = index if not literals_in(right) and not _matches(right) else index + 1
            yield from self._equal(at, 2 * index + 1 - at, operands)
        elif isinstance(operator, ast.Is):
            for at in (index, index + 1):
                if kind_of(operands[at]) is bool:
                    yield at, FAR, far(operands[at], self._chance), ""
        elif isinstance(operator, ast.In):
            yield from self._contained(index, left, right)
        elif self._is_nearly and isinstance(operator, _ABOVE + _BELOW):
            is_below = isinstance(operator, _BELOW)
            for at, is_above in ((index, is_below), (index + 1, not is_below)):
                if is_number(operands[at]):
                    yield at, FAR, impossible(self._chance, above=is_above), ""
            at = index if is_below else index + 1
            small = operands[at]
            if isinstance(small, ast.Call) and callee(small) == "items":
                small = getattr(small.func, "value", small)
            if isinstance(small, ast.Set | ast.Dict) and (places := self._literals(small)):
                yield at, FAR, self._with(operands[at], self._chance.choice(places)), ""

    def _equal(
        self, at: int, beside: int, operands: list[ast.expr]
    ) -> Iterator[tuple[int, str, _Text, str]]:
        side, other = operands[at], operands[beside]
        places = self._literals(side)
        if places:
            yield at, FAR, self._with(side, self._chance.choice(places)), ""
        if not self._is_nearly or _matches(side) or _matches(other):
            return
        if not places:
            yield at, FAR, self._changed, ""
            yield beside, FAR, self._changed, ""
        elif all(
            not isinstance(node, _ONCE) or is_made_of_literals(node) for node in ast.walk(side)
        ):
            numbers = [ast.literal_eval(node) for node in literals_in(side) if is_number(node)]
            value = self._source.text(other)
            judged = f'{self._helpers}["tolerant"](lambda: ({value}), {numbers})'
            for node in literals_in(side):
                if not isinstance(node, ast.Call):
                    yield from ((at, *new) for new in self._nearly_equal(side, node, judged))
                elif not is_made_of_literals(other):
                    text = self._source.text(side)
                    for new in self._parts(side, node):
                        accepted = f"({text}) == ({text})"
                        yield at, PART, new, self._refused(accepted, f"({text}) == ({new})")

    def _nearly_equal(
        self, side: ast.expr, node: ast.expr, judged: str
    ) -> Iterator[tuple[str, str, str]]:
        if kind_of(node):
            texts = nearby(node, self._chance)
        else:
            texts = resized(node, self._elements(node), self._chance)
        for new in texts:
            yield NEAR, self._with(side, node, new), judged
        for new in restyled(node, self._chance) if kind_of(node) else ():
            yield STYLE, self._with(side, node, new), ""

    def _contained(
        self, index: int, left: ast.expr, right: ast.expr
    ) -> Iterator[tuple[int, str, _Text, str]]:
        if is_text(left):
            yield index, FAR, far(left, self._chance), ""
        if not self._is_nearly:
            return
        inside = self._source.text(right)
        for new in nearby(left, self._chance) if is_text(left) else ():
            yield index, PART, new, self._refused(f"[{inside}]", f"{new} in ({inside})")
        if is_number(left):  # a right interval may have one of them, and hardly both
            high, low = (impossible(self._chance, above=way) for way in (True, False))
            yield (
                index + 1,
                FAR,
                lambda name: f"{name} and {high} in {name} and {low} in {name}",
                "",
            )
        elif is_text(right):
            yield index + 1, FAR, f'"{token(self._chance)}"', ""
        elif all(map(kind_of, getattr(right, "elts", [None]))):
            yield index + 1, FAR, f'["{token(self._chance)}"]', ""

    def _distance(self, test: ast.Compare) -> ClaimQuestion | None:
        """``abs(a - b) < c``: far more than c."""
        call = test.left
        if len(test.ops) > 1 or not isinstance(test.ops[0], _BELOW):
            return None
        if callee(call) not in ("abs", "fabs") or not isinstance(call, ast.Call):
            return None
        inner = call.args[0] if len(call.args) == 1 else None
        if not isinstance(inner, ast.BinOp) or not isinstance(inner.op, ast.Sub):
            return None
        number, name = impossible(self._chance, above=True), self._source.text(call.func)
        sign = OPERATORS[type(test.ops[0])]

        def condition(names: Sequence[str]) -> str:
            return f"{name}({names[0]} - {names[1]} - {number}) {sign} {names[2]}"

        operands = (inner.left, inner.right, test.comparators[0])
        return ClaimQuestion(operands, (PythonAlteration(FAR, condition, is_safe=False),))

    def _item(self, test: ast.expr) -> ClaimQuestion | None:
        """``a["key"]``, which may be said not to be None: a right one has no other key."""
        item = test.left if isinstance(test, ast.Compare) else test
        suffix = ""
        if isinstance(test, ast.Compare):
            none = test.comparators[0]
            if not isinstance(test.ops[0], ast.IsNot) or getattr(none, "value", "") is not None:
                return None
            suffix = " is not None"
        if not isinstance(item, ast.Subscript) or not is_text(item.slice):
            return None
        key, owner = f'"{token(self._chance)}"', self._source.text(item.value)
        judged = self._refused(f"[{owner}]", f"({owner})[{key}]{suffix}")

        def condition(names: Sequence[str]) -> str:
            return f"{names[0]}[{key}]{suffix}"

        return ClaimQuestion(
            (item.value,), (PythonAlteration(PART, condition, judged, is_safe=False),)
        )

    # ── calls ──

    def _altered_call(
        self, call: ast.Call, sides: Sequence[ast.expr], form: str = "{}"
    ) -> list[ClaimQuestion]:
        """A call with one literal of ``sides`` altered."""
        places = [literal for side in sides for literal in self._literals(side)]
        if not places:
            return []
        text = form.replace("{}", self._with(call, self._chance.choice(places)))
        return [ClaimQuestion((), (PythonAlteration(FAR, lambda _: text, is_safe=False),))]

    def _helper(self, call: ast.Call, form: str) -> ClaimQuestion:
        """A call that judges by itself: a helper of the tests, or a method of what they test."""
        nodes = [argument for argument in arguments(call) if not isinstance(argument, ast.Starred)]
        operands = [node for node in nodes if not literals_in(node)]
        places = [literal for node in nodes for literal in self._literals(node)]
        receiver = call.func.value if isinstance(call.func, ast.Attribute) else None
        if not operands and places and receiver is not None and not is_made_of_literals(receiver):
            operands = [receiver]
        altered = []
        for node in places if operands else ():
            for new in (far(node, self._chance), *self._nearly(node)):
                same = dict.fromkeys(operands, f"({self._source.text(node)})")
                accepted = form.replace("{}", self._with_all(call, same))
                other = form.replace("{}", self._with_all(call, {**same, node: new}))
                altered.append((PART, node, new, self._refused(accepted, other)))
        if not operands:
            while isinstance(receiver, ast.Call):
                places += [
                    literal for each in arguments(receiver) for literal in self._literals(each)
                ]
                receiver = getattr(receiver.func, "value", None)
            for node in places if isinstance(getattr(call.func, "value", None), ast.Call) else ():
                value = token(self._chance)
                touched = f"lambda {value}: {self._with(call, node, value)}"
                judged = f'{self._helpers}["touched"]({touched})'
                altered.append((UNUSED, node, "object()", judged))
        if len(altered) > _MOST:
            altered = self._chance.sample(altered, _MOST)

        def condition(node: ast.expr, new: str) -> Callable[[Sequence[str]], str]:
            return lambda names: form.replace(
                "{}", self._with_all(call, {**dict(zip(operands, names, strict=True)), node: new})
            )

        alterations = tuple(
            PythonAlteration(kind, condition(at, new), judged, is_safe=False)
            for kind, at, new, judged in altered
        )
        return ClaimQuestion(tuple(operands), alterations)

    # ── texts ──

    def _literals(self, side: ast.expr) -> list[ast.expr]:
        """The literals of an operand, classes made of them among them, without containers."""
        nodes = []
        for node in literals_in(side):
            if callee(node) == "approx" and isinstance(node, ast.Call):
                nodes += [literal for arg in node.args[:1] for literal in self._literals(arg)]
            elif kind_of(node) or isinstance(node, ast.Call):
                nodes.append(node)
        return nodes

    def _nearly(self, node: ast.expr) -> list[str]:
        if isinstance(node, ast.Call):
            return self._parts(node, node)
        return nearby(node, self._chance)

    def _parts(self, side: ast.expr, call: ast.Call) -> list[str]:
        """``side`` with a single argument of a call in it altered, each far and by a little."""
        return [
            self._with(side, argument, new)
            for argument in arguments(call)
            for new in (
                far(argument, self._chance),
                *nearby(argument, self._chance),
                *restyled(argument, self._chance),
            )
        ]

    def _changed(self, name: str) -> str:
        """A value that differs from another, whatever that is."""
        word, number = token(self._chance), self._chance.randrange(10**7, 10**8)
        return (
            f'({name} + ["{word}"] if isinstance({name}, list) else {name} + "{word}" if '
            f'isinstance({name}, str) else {{**{name}, "{word}": 1}} if isinstance({name}, dict) '
            f"else {name} * 3 + {number} if isinstance({name}, int | float) else "
            f'({name}, "{word}"))'
        )

    def _elements(self, container: ast.expr) -> list[str]:
        if isinstance(container, ast.Dict):
            pairs = zip(container.keys, container.values, strict=True)
            return [f"{self._source.text(k)}: {self._source.text(v)}" for k, v in pairs if k]
        return [self._source.text(element) for element in getattr(container, "elts", ())]

    def _with(self, node: ast.expr, literal: ast.expr, new: str = "") -> str:
        """The text of ``node`` with another literal at one place, a far one if none is given."""
        return self._with_all(node, {literal: new or far(literal, self._chance)})

    def _with_all(self, node: ast.expr, texts: Mapping[ast.expr, str]) -> str:
        edits = [self._source.replaced(node, new) for node, new in texts.items()]
        return self._source.text(node, edits)

    def _refused(self, accepted: str, new: str) -> str:
        """Whether the start tree refuses what is new, although it accepts what is known."""
        accepts = f'{self._helpers}["accepts"]'
        return f"{accepts}(lambda: {accepted}) and not {accepts}(lambda: {new})"


def _expected(sides: Sequence[ast.expr]) -> list[ast.expr]:
    """The side of a comparison that has literals."""
    left, right = sides[:2]
    return [right] if literals_in(right) or _matches(right) else [left]


def _matches(node: ast.expr) -> bool:
    """Whether an operand may be an object made for comparing, such as ``IsInt()``."""
    name = callee(node) or getattr(node, "attr", getattr(node, "id", ""))
    return (name[:1].isupper() and not is_made_of_literals(node)) or name == "approx"
