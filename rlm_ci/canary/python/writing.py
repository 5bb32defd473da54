"""Writes the claims of a Python test reversed, reworded, or with another expected literal."""

from __future__ import annotations

import ast

from rlm_ci.canary.forms import halves, token
from rlm_ci.canary.python.alterations import OPERATORS
from rlm_ci.canary.python.literals import equal
from rlm_ci.canary.python.source import PAD, PythonSource, lines
from rlm_ci.canary.splicing import Edit, encoded
from rlm_ci.source.python.claims import PythonClaim, call_of, kind_of, meaning, raising
from rlm_ci.source.python.names import callee
from rlm_ci.source.python.statements import COMPOUND

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from rlm_ci.canary.python.alterations import ClaimQuestion

#: A claim that skips its test has not failed; one line, as no line may move.
_NOT_SKIPPED = "Exception if __import__('sys').exc_info()[0].__name__ != 'SkipTest' else ()"


class ClaimWriter:
    """Writes the claims of one test; a failure has ``word`` as its message."""

    def __init__(self, source: PythonSource, chance: Random, word: str, *, plain: bool) -> None:
        self._source = source
        self._chance = chance
        self._plain = plain
        self._word, self._said = word, f'"{word}"'
        #: Lines that the test may gain without moving the code after it.
        self.spare = 0
        self.fail = f"raise AssertionError({self._said}{PAD})"

    def failing(self) -> str:
        low, high = sorted(self._chance.sample(range(1000), 2))
        ways = (
            f"assert {high} < {low}, {self._said}",
            f"assert not {self._constant()}, {self._said}",
            f"assert {self._quoted()} == {self._quoted()}, {self._said}",
        )
        return self.fail if self._plain else self._chance.choice((self.fail, *ways))

    def reaching(self, claim: PythonClaim) -> str:
        """A failure in the place of a claim."""
        start, end = halves(self._word, on_branch=claim.on_branch)
        return f'raise AssertionError("{start}" "{end}"{PAD})'

    def decoy(self) -> str:
        """A statement without effect."""
        return f"{token(self._chance)} = {self._constant()}"

    def _quoted(self) -> str:
        return f'"{token(self._chance)}"'

    def _constant(self) -> str:
        number = self._chance.randrange(2, 10**6)
        ways = (str(number), str(number % 98 + 2), f"[{number}, {number % 100}]", self._quoted())
        return self._chance.choice(ways)

    def reversed(self, claim: PythonClaim) -> list[Edit]:
        node = claim.node
        if isinstance(node, ast.Assert):
            return [self._source.replaced(node, self._denied(node, node.test))]
        if isinstance(node, ast.If):
            return self._guard(node, f"not ({self._source.text(node.test)})", self.fail)
        if isinstance(node, ast.With | ast.AsyncWith):
            return self._block(node)
        return [self._source.replaced(node, self._denied_call(node))]

    def altered(
        self, claim: PythonClaim, questions: Sequence[ClaimQuestion], *, goes_on: bool
    ) -> list[Edit]:
        """Ask what must not be true: if it is, the test passes, else it ``goes_on``, or fails."""
        bound, texts, raising_ = [], [], []
        for question in questions:
            names = [token(self._chance) for _ in question.operands]
            safe = [
                alteration.condition(names)
                for alteration in question.alterations
                if alteration.is_safe
            ]
            unsafe = [
                alteration.condition(names)
                for alteration in question.alterations
                if not alteration.is_safe
            ]
            used = self._bound(question, names, [*safe, *unsafe])
            either = " or ".join(f"({condition})" for condition in safe)
            if unsafe and used:
                bound.append(used)
                texts += [either] if either else []
            elif either:
                texts.append(f"{used} and ({either})" if used else either)
            raising_ += unsafe
        node, truth = (
            claim.node,
            " or ".join(f"({text})" if len(texts) > 1 else text for text in texts),
        )
        if not raising_:
            return [self._source.replaced(node, self._expected(node, truth, goes_on=goes_on))]
        if len(raising_) == 1 and not bound and not texts:
            return [
                self._source.replaced(
                    node, self._tried(node, f"assert {raising_[0]}", goes_on=goes_on)
                )
            ]
        ends = "return" if goes_on else "pass"
        more = [f"if ({truth}): {ends}"] if texts else []
        for condition in raising_:
            more += [f"try: assert {condition}", f"except {_NOT_SKIPPED}: pass", f"else: {ends}"]
        if not goes_on:
            more.append(self.fail)
        first = "; ".join(bound) or more.pop(0)
        return [self._source.replaced(node, first + self._lines(node, *more))]

    def noting(
        self, questions: Sequence[ClaimQuestion], helpers: str, *, at_start: bool
    ) -> tuple[list[str], dict[str, str]]:
        """Statements that note the words of alterations that are accepted, or judged; the kinds."""
        steps, kinds = [], {}
        for question in questions:
            names = [token(self._chance) for _ in question.operands]
            noted = []
            for alteration in question.alterations:
                word = token(self._chance)
                kinds[word] = alteration.kind
                condition = alteration.judged if at_start else alteration.condition(names)
                if not condition or "await " in condition:
                    continue
                asks = f"({condition})"
                if not at_start:
                    asks = f'{helpers}["accepts"](lambda: ({condition}))'
                start, end = halves(word, on_branch=False)  # runners quote the text of a test
                noted.append(f'{asks} and {helpers}["note"]("{start}" "{end}")')
            if not at_start:
                steps += [used] if (used := self._bound(question, names, noted)) else []
            steps += noted
        return steps, kinds

    def _bound(self, question: ClaimQuestion, names: Sequence[str], texts: Sequence[str]) -> str:
        """A true expression that gives operands their names, if a condition has these."""
        pairs = zip(names, question.operands, strict=True)
        used = [
            f"{name} := ({self._source.text(node)})"
            for name, node in pairs
            if any(name in condition for condition in texts)
        ]
        return f"[{', '.join(used)}]" if used else ""

    def reworded(self, claim: PythonClaim) -> list[Edit]:
        node = claim.node
        if isinstance(node, ast.If):
            again = f"not (not ({self._source.text(node.test)}))"
            return self._guard(node, None if self._plain else again, None)
        if isinstance(node, ast.With | ast.AsyncWith):
            return self._reworded_block(node)
        if self._plain:
            text = self._source.text(node)
            new = f"{self.decoy()}; {text}; {self.decoy()}"
        elif isinstance(node, ast.Assert):
            new = self._reworded_assert(node)
        else:
            new = self._reworded_call(node)
        return [self._source.replaced(node, new)]

    def before(self, node: ast.stmt, statement: str) -> Edit:
        start = self._source.span(node)[0]
        gap = "; "
        if isinstance(node, COMPOUND):
            gap = self._source.newline + self._source.indent(node)
        return Edit(start, start, statement.replace(PAD, "") + gap)

    def after(self, node: ast.stmt, statement: str) -> Edit:
        end = self._source.span(node)[1]
        statement = statement.replace(PAD, "")
        if not isinstance(node, COMPOUND) and not self._source.alone(node):
            return Edit(end, end, f"; {statement}")
        end = self._source.line_end(end)
        return Edit(end, end, self._lines(node, statement))

    def returned(self, node: ast.Return, failing: str) -> Edit:
        """A failure in place of a return."""
        value = f"({self._source.text(node.value)}); " if node.value else ""
        return self._source.replaced(node, value + failing)

    def _lines(self, node: ast.stmt, *statements: str) -> str:
        """More lines, indented as a node."""
        start = self._source.newline + self._source.indent(node)
        return "".join(start + statement.replace(PAD, "") for statement in statements)

    def _denied(self, node: ast.stmt, test: ast.expr) -> str:
        """A statement that fails if an expression is true, or a call of unittest passes."""
        message, text = self._said, self._truth(test)
        if self._plain:
            return f"assert not ({text}{PAD}), {message}"
        value = token(self._chance)
        ways = [
            f"assert not ({text}{PAD}), {message}",
            f"assert (not ({text}{PAD})) is True, {message}",
            f"assert False if ({text}{PAD}) else True, {message}",
            f"{value} = ({text}{PAD}); {self.decoy()}; assert not {value}, {message}",
        ]
        if _lives(test):
            return ways[0]
        if isinstance(test, ast.Compare) and len(test.ops) == 1:
            first, other = token(self._chance), token(self._chance)
            left, right = self._source.text(test.left), self._source.text(test.comparators[0])
            operator = OPERATORS[type(test.ops[0])]
            ways.append(
                f"{first} = ({left}); {self.decoy()}; {other} = ({right});"
                f" assert not ({first} {operator} {other}{PAD}), {message}"
            )
        if self._source.alone(node):
            ways.append(f"if ({text}{PAD}): {self.fail}")
            ways.append(f"if ({text}{PAD}): {self.decoy()}; {self.fail}")
        return self._pick(node, ways)

    def _denied_call(self, node: ast.stmt) -> str:
        call, text = call_of(node), self._source.text(node)
        # By its meaning: a failure after it would say nothing about the call.
        if call and self._meaning(call) and not isinstance(getattr(node, "value", None), ast.Await):
            return self._denied(node, call)
        ways = [f"{text}; {self.failing()}"]
        if call is None or self._plain:
            return ways[0]
        ways.append(f"assert not [{text}{PAD}], {self._said}")
        if self._source.alone(node):
            ways.append(f"if [{text}{PAD}]: {self.fail}")
        return self._pick(node, ways)

    def _truth(self, test: ast.expr, *edits: Edit) -> str:
        """An expression that is true if a claim holds, with edits in it."""
        if not isinstance(test, ast.Call) or not (form := self._meaning(test)):
            return self._source.text(test, edits)
        texts = []
        for argument in test.args:
            start, end = self._source.span(argument)
            inner = [edit for edit in edits if start <= edit.start <= edit.end <= end]
            texts.append(f"({self._source.text(argument, inner)})")
        return form.format(*texts)

    def _meaning(self, call: ast.AST) -> str:
        return "" if callee(call) in self._source.own_asserts else meaning(call)

    def _guard(self, node: ast.If, test: str | None, body: str | None) -> list[Edit]:
        edits = [self._source.replaced(node.test, f"({test}{PAD})")] if test else []
        if body:
            return [*edits, self._source.replaced(node.body[0], body)]
        return [*edits, self.before(node.body[0], self.decoy())]

    def _block(self, node: ast.With | ast.AsyncWith) -> list[Edit]:
        """A block in which nothing may be raised; if that cannot be written, a failure after it."""
        behind = [self.after(node, self.failing())]
        call = node.items[0].context_expr
        if (
            len(node.items) > 1
            or not raising(node)
            or isinstance(node, ast.AsyncWith)
            or not isinstance(call, ast.Call)
        ):
            return behind
        exception = self._only_exception(call)
        start, first = self._source.span(node)[0], self._source.span(node.body[0])[0]
        items = self._source.span(node.items[0].optional_vars or call)[1]
        colon = self._source.raw.find(b":", items, first)
        if not exception or colon < 0 or set(self._source.raw[start:colon]) & set(b"\r\n#"):
            return behind
        caught = f"except ({exception}): {self.fail} from None"
        end = self._source.line_end(self._source.span(node)[1])
        return [Edit(start, colon, "try"), Edit(end, end, self._lines(node, caught))]

    def _only_exception(self, call: ast.Call) -> str:
        """The exception that has to be raised, if nothing but a message is checked besides."""
        names = {word.arg for word in call.keywords}
        if len(call.args) != 1 or callee(call) == "RaisesGroup" or not names <= {"match", "msg"}:
            return ""
        inner = (ast.Await, ast.NamedExpr, ast.Starred)
        if any(isinstance(node, inner) for node in ast.walk(call.args[0])):
            return ""
        return self._source.text(call.args[0])

    def _expected(self, node: ast.stmt, test: str, *, goes_on: bool) -> str:
        """A check of an altered expectation."""
        tried = self._tried(node, f"assert ({test})", goes_on=goes_on)
        is_alone = self._source.alone(node)
        if self._plain and is_alone:
            return tried
        if goes_on:
            return self._pick(node, (f"if ({test}{PAD}): return", tried))
        value = token(self._chance)
        ways = [
            f"assert ({test}{PAD}), {self._said}",
            f"{value} = ({test}{PAD}); {self.decoy()}; assert {value}, {self._said}",
        ]
        if is_alone:
            ways.append(f"if not ({test}{PAD}): {self.fail}")
        return ways[0] if self._plain else self._chance.choice(ways)

    def _tried(self, node: ast.stmt, statement: str, *, goes_on: bool) -> str:
        """A statement after whose failure the test continues, or else fails with its message."""
        caught = "pass" if goes_on else f"{self.fail} from None"
        more = ["else: return"] if goes_on else []
        return f"try: {statement}{self._lines(node, f'except {_NOT_SKIPPED}: {caught}', *more)}"

    def _reworded_assert(self, node: ast.Assert) -> str:
        message, test = self._said, node.test
        first, other = token(self._chance), token(self._chance)
        if _lives(test):
            text = self._source.text(test)
            return f"{self.decoy()}; assert ({text}{PAD}), {message}; {self.decoy()}"
        if self._source.alone(node) and not self._chance.randrange(3):
            text = self._source.text(test)
            return f"if not ({text}{PAD}): {self.decoy()}; {self.fail}"
        if isinstance(test, ast.Compare) and len(test.ops) == 1:
            operator = test.ops[0]
            if not isinstance(operator, ast.Is | ast.IsNot):
                left, right = self._same(test.left), self._same(test.comparators[0])
                return (
                    f"{first} = ({left}); {self.decoy()}; {other} = ({right});"
                    f" assert ({first} {OPERATORS[type(operator)]} {other}{PAD}), {message};"
                    f" del {first}, {other}"
                )
        text = self._source.text(test)
        return f"{first} = ({text}{PAD}); {self.decoy()}; assert {first}, {message}; del {first}"

    def _reworded_call(self, node: ast.stmt) -> str:
        """A call with its arguments in variables, up to one that is unpacked."""
        call, function = call_of(node), token(self._chance)
        if call is None:
            return self._source.text(node)
        parts, moved, texts = [f"{function} = ({self._source.text(call.func)})"], [function], []
        stars = False
        arguments: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
        for argument in arguments:
            inner: ast.expr = argument.value if isinstance(argument, ast.keyword) else argument
            stars = stars or isinstance(inner, ast.Starred) or getattr(argument, "arg", "") is None
            if stars:
                texts.append(self._source.text(argument))
                continue
            name = token(self._chance)
            moved.append(name)
            parts.append(f"{name} = ({self._same(inner)})")
            texts.append(f"{argument.arg}={name}" if isinstance(argument, ast.keyword) else name)
        parts.insert(self._chance.randrange(len(parts) + 1), self.decoy())
        awaits = "await " if isinstance(getattr(node, "value", None), ast.Await) else ""
        called = f"{awaits}{function}({', '.join(texts)}{PAD})"
        return "; ".join([*parts, called, f"del {', '.join(moved)}"])

    def _reworded_block(self, node: ast.With | ast.AsyncWith) -> list[Edit]:
        edits = []
        if not isinstance(node.body[0], COMPOUND) and not kind_of(node.body[0]):
            edits.append(self.before(node.body[0], self.decoy()))
        calls = [item.context_expr for item in node.items if not self._plain]
        keywords = [word for call in calls if isinstance(call, ast.Call) for word in call.keywords]
        for word in keywords:
            if again := equal(word.value, self._chance):
                edits += [self._source.replaced(word.value, f"({again}{PAD})")]
        return edits

    def _same(self, node: ast.expr) -> str:
        return equal(node, self._chance) or self._source.text(node)

    def _pick(self, node: ast.stmt, ways: Sequence[str]) -> str:
        """One of the ways for which there are enough lines."""
        had = lines(encoded(self._source.text(node)))
        more = {way: max(lines(encoded(way)) - had, 0) for way in ways}
        chosen = self._chance.choice([way for way in ways if more[way] <= self.spare] or ways[:1])
        self.spare -= more[chosen]
        return chosen


def _lives(test: ast.expr) -> bool:
    """Whether both sides of a comparison create objects, which may get the same address.

    In an assert, pytest keeps the first until the second is made.
    """
    return isinstance(test, ast.Compare) and all(
        any(isinstance(inner, ast.Call) for node in ast.walk(side) for inner in _call_parts(node))
        for side in [test.left, *test.comparators]
    )


def _call_parts(node: ast.AST) -> list[ast.expr]:
    return [node.func, *node.args] if isinstance(node, ast.Call) else []
