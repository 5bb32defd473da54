"""Changes tests of Rust into other forms: functions with an attribute such as ``test``.

A claim is a macro that asserts, or an ``if`` that panics. New code compiles without warnings, which
a crate may deny: hence ``if true``.
"""

from __future__ import annotations

from rlm_ci.canary.claim_edits import COMPARES, ClaimEdits, another, leaves
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
from rlm_ci.canary.rust.alterations import expected, questions
from rlm_ci.canary.rust.source import COMPARED, CONDITION, HOLDS, MACRO, RustSource, RustSpan
from rlm_ci.canary.splicing import rooted
from rlm_ci.source.grammars import field, named_children, text_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from random import Random

    from tree_sitter import Node

    from rlm_ci.canary.claim_edits import TypedQuestion
    from rlm_ci.canary.rust.source import RustClaim, RustTest

ENDINGS = (".rs",)
#: Expressions after which code may run, as the compiler sees it.
_GOING_ON = {"if_expression", "match_expression", "for_expression", "while_expression", "block"}
#: Macros after which no code can run.
_ENDS = {"panic", "unreachable", "todo", "unimplemented"}


def tests(path: str, text: str, _names: object = None) -> list[FoundTest]:  # noqa: PT028 - no test
    """The tests of a file; names begin with the modules in it."""
    return [
        FoundTest(
            test.name,
            min([test.node, *test.attributes], key=lambda node: node.start_byte).start_point.row
            + 1,
            test.node.end_point.row + 1,
        )
        for test in _read(path, text).tests
    ]


def change(
    path: str, text: str, form_by_name: Mapping[str, str], chance: Random, *, plain: bool = False
) -> ChangedText:
    """The text with each test of ``form_by_name`` in its form."""
    return _Changes(_read(path, text), chance, plain=plain).changed(form_by_name)


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

    def _fail(self, test: RustTest, word: str, *, at_end: bool, when: str = "true") -> None:
        start, gap = test.body.start_byte + 1, " "
        if at_end:
            start, gap = _end_of(test)
            for node in _returns(test.body):
                self._enclose(node, f"{{ {self._panic(word, when)} ", " }")
        self._insert(start, f"{gap}{self._panic(word, when)} ")

    def _replace(self, start: int, end: int, text: str) -> None:
        lines = self.source.content.count(b"\n", start, end) - text.count("\n")
        super()._replace(start, end, text + "\n" * lines)

    def _constants(self) -> str:
        return f'let _ = ({self._chance.randrange(1, 120)}, "{token(self._chance)}");'

    def _panic(self, word: str, when: str = "true") -> str:
        return f'if {when} {{ panic!("{word}"); }}'

    def _expected(self, claim: RustClaim) -> list[RustSpan]:
        return expected(claim)

    def _alter(self, claim: RustClaim, literals: Sequence[RustSpan], word: str) -> None:
        for literal in literals:
            self._replace(literal.start, literal.end, another(literal.node, self._chance))
        self._say(claim, word)

    def _questions(self, test: RustTest) -> list[tuple[RustClaim, list[TypedQuestion]]]:
        return questions(test, self.source, self._chance)

    def _noted(self, condition: str, action: str) -> str:
        return f"if {condition} {{ {action} }}"

    def _shown(self, _test: RustTest, start: str, end: str) -> str:
        return f'::std::println!("{{}}{{}}", "{start}", "{end}");'

    def _ask(self, claim: RustClaim, queries: Sequence[tuple[TypedQuestion, list[str]]]) -> None:
        blocks = []
        for question, steps in queries:
            block = " ".join(steps)
            if question.operands:
                values = " ".join(f"&({value})," for value in question.operands.values())
                names = " ".join(f"{name}," for name in question.operands)
                block = f"match ({values}) {{ ({names}) => {{ {block} }} }}"
            blocks.append(block)
        if claim.text_at >= 0:  # its message may be the only use of a variable
            message = self.source.content[claim.text_at : claim.node.end_byte - 1].decode()
            blocks.append(f"if false {{ panic!({message}); }}")
        self._replace(claim.node.start_byte, claim.node.end_byte, f"{{ {' '.join(blocks)} }}")

    def _conclude(self, test: RustTest, _claims: Sequence[RustClaim], word: str, flag: str) -> str:
        if not flag:
            self._fail(test, word, at_end=True)
            return ""
        name, atomic = flag.upper(), "::std::sync::atomic"
        is_unset = f"!{name}.load({atomic}::Ordering::SeqCst)"
        self._fail(test, word, at_end=True, when=is_unset)
        self._begin(
            test, f"static {name}: {atomic}::AtomicBool = {atomic}::AtomicBool::new(false);"
        )
        return f"{name}.store(true, {atomic}::Ordering::SeqCst);"

    def _say(self, claim: RustClaim, word: str) -> None:
        """Make a macro print the token; the old message stays, so that its variables are used."""
        behind = claim.values[-1].end
        if claim.text_at < 0:
            self._replace(behind, claim.node.end_byte - 1, f', "{word}"')
            return
        self._around(claim.node.start_byte, "{ ", claim.node.end_byte, " } }")
        self._replace(behind, claim.text_at, f', "{word}"); if false {{ panic!(')

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
        span, other = claim.values
        left, right = token(self._chance), token(self._chance)
        compared = [f"*{left} == *{right}", str(holds).lower()]
        if not self._plain:
            self._chance.shuffle(compared)
        macro = self.source.content[start : named_children(claim.node)[-1].start_byte].decode()
        call = f"{macro}({', '.join(compared)}"
        self._replace(start, span.start, "match (&(")
        self._replace(span.end, other.start, "), &(")
        if not word or claim.text_at < 0:
            message = f', "{word}"' if word else ""
            behind = end - 1 if claim.text_at < 0 else claim.text_at
            message += ", " if claim.text_at >= 0 else ""
            self._replace(other.end, behind, f")) {{ ({left}, {right}) => {call}{message}")
            self._close(end, " }")
            return
        self._replace(
            other.end, claim.text_at,
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
            is_whole = leaf.start == value.start and leaf.end == value.end
            before, after = ("", "") if is_whole else ("(", ")")
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
    last = [text_of(node) for node in named_children(field(function, "body"))[-1:]]
    return " Ok(())" if "Result" in text_of(kind) or last == ["Ok(())"] else None


def _end_of(test: RustTest) -> tuple[int, str]:
    """The place for a last statement, before the value of a function, and what goes before it."""
    inside = [node for node in named_children(test.body) if node.type != "label"]
    if not inside:
        return test.body.start_byte + 1, " "
    last = inside[-1]
    is_statement = last.type == "expression_statement"
    inner = named_children(last)[0] if is_statement else last
    is_macro = inner.type == "macro_invocation" and text_of(field(inner, "macro")) not in _ENDS
    if field(test.node, "return_type") == test.node and text_of(last).endswith((";", "}", ")")):
        if is_statement and (is_macro or inner.type in _GOING_ON):
            return last.end_byte, " "
        if is_macro:
            return last.end_byte, "; "
    return last.start_byte, " "


def _returns(body: Node) -> Iterator[Node]:
    """The early returns of a function."""
    waiting = [body]
    while waiting:
        for node in named_children(waiting.pop()):
            if node.type == "return_expression":
                yield node
            elif node.type not in ("closure_expression", "function_item", "async_block"):
                waiting.append(node)


def _leaves_of(
    value: RustSpan,
) -> Iterator[tuple[RustSpan, tuple[RustSpan, Node, RustSpan] | None]]:
    """The parts of a condition, with sides and operator of those that compare."""
    for node in leaves(value.node, "&&", "||", negated=True):
        left, operator, right = (field(node, side) for side in ("left", "operator", "right"))
        sides = RustSpan(left, value.shift), operator, RustSpan(right, value.shift)
        compares = node.type == "binary_expression" and text_of(operator) in COMPARES
        if not node.type.startswith("let_"):
            yield RustSpan(node, value.shift), sides if compares else None
