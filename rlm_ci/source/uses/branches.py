"""Where a file branches and repeats: the conditions and loops around its lines, by its syntax."""

from __future__ import annotations

import ast
import re

from rlm_ci.source import grammars
from rlm_ci.source.outline import language_of
from rlm_ci.source.python import syntax
from rlm_ci.source.python.statements import every
from rlm_ci.values import Row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tree_sitter import Node

#: Kinds of a branch: one of several, one that may be skipped, one that may run more than once.
ALT, OPT, LOOP = "alt", "opt", "loop"
#: Characters of a condition, and bytes in which the text before a body is looked for.
_LONGEST, _HEAD = 80, 400
_IFS = frozenset(("else_if_clause", "elsif", "if", "if_expression", "if_let_expression",
                  "if_statement", "unless"))  # fmt: skip
_SWITCHES = frozenset((
    "expression_switch_statement", "type_switch_statement", "select_statement", "switch_statement",
    "switch_expression", "match_expression", "case",
))  # fmt: skip
_ARMS = frozenset((
    "expression_case", "type_case", "communication_case", "default_case", "switch_case",
    "switch_default", "switch_block_statement_group", "switch_rule", "switch_section", "match_arm",
    "case_statement", "default_statement", "when", "match_conditional_expression",
))  # fmt: skip
#: Kinds of an arm whose first child is what it compares with.
_VALUED = ("expression", "type", "communication", "switch_case", "switch_b", "switch_r", "switch_s",
           "case", "match_c", "when")  # fmt: skip
_LOOPS = frozenset((
    "for_statement", "for_in_statement", "while_statement", "do_statement", "for_expression",
    "while_expression", "loop_expression", "enhanced_for_statement", "foreach_statement",
    "for_range_loop", "while", "until", "for",
))  # fmt: skip
_HANDLERS = frozenset(("catch_clause", "rescue"))
#: What begins a branch, and says no more than its kind.
_WORDS = re.compile(
    r"^(?:else\s+)?(?:if|elsif|unless|case|when|for|foreach|while|do|loop|switch|match|select)\b\s*"
)
_ENDS = re.compile(r"\s*(?:\{|=>|->|:|\bthen|\bdo)\s*$")


class Branch(Row):
    """Lines that run if ``text`` holds, or for each of what it says, which stands at ``line``.

    ``group`` is the line of the statement whose branches exclude each other.
    """

    kind: str
    group: int
    line: int
    line_start: int
    line_end: int
    text: str


def branches(path: str, content: bytes) -> tuple[Branch, ...]:
    """The branches of a file, those around others first; () if it cannot be parsed.

    A branch that begins in the line of its condition is left out: a call there may be a part of
    either.
    """
    language = language_of(path, content)
    unsorted: Iterable[Branch] = ()
    if language == "Python":
        file = syntax.read(content)
        unsorted = _in_python(file.module) if file is not None else ()
    elif language in grammars.LANGUAGES:
        root = grammars.parse(language, content)
        unsorted = _in_tree(root) if root is not None else ()
    return tuple(sorted(unsorted, key=lambda branch: (branch.line_start, -branch.line_end)))


def around(branches: Iterable[Branch], line: int) -> tuple[Branch, ...]:
    """The branches that a line is in, the outermost first."""
    return tuple(branch for branch in branches if branch.line_start <= line <= branch.line_end)


def _branch(kind: str, group: int, lines: tuple[int, int, int], text: str) -> Branch:
    shown = " ".join(text.split())
    shown = shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 1]}…"
    return Branch.of((kind, group, *lines, shown))


# ── Python ──


class _Arm(Row):
    """A branch with the node of its condition, or, of an ``else``, the one before it."""

    text: str
    head: ast.expr | ast.pattern | ast.stmt
    body: Sequence[ast.stmt]


def _in_python(module: ast.Module) -> Iterator[Branch]:
    seen: set[ast.stmt] = set()
    for node in every(module):
        if isinstance(node, ast.If) and node not in seen:
            chain = [node]
            while len(chain[-1].orelse) == 1 and isinstance(chain[-1].orelse[0], ast.If):
                chain.append(chain[-1].orelse[0])
            seen.update(chain)
            arms = [_Arm(ast.unparse(link.test), link.test, link.body) for link in chain]
            if chain[-1].orelse:
                arms.append(_Arm("else", chain[-1].body[-1], chain[-1].orelse))
            yield from _arms(node.lineno, arms)
        elif isinstance(node, ast.Match):
            subject = ast.unparse(node.subject)
            yield from _arms(node.lineno, [
                _Arm(f"{subject} is {ast.unparse(arm.pattern)}", arm.guard or arm.pattern, arm.body)
                for arm in node.cases
            ])  # fmt: skip
        elif isinstance(node, ast.For | ast.AsyncFor):
            text = f"for {ast.unparse(node.target)} in {ast.unparse(node.iter)}"
            yield from _arms(node.lineno, [_Arm(text, node.iter, node.body)], LOOP)
        elif isinstance(node, ast.While):
            text = f"while {ast.unparse(node.test)}"
            yield from _arms(node.lineno, [_Arm(text, node.test, node.body)], LOOP)
        elif isinstance(node, ast.Try):
            for handler in node.handlers:
                text = (
                    f"on {ast.unparse(handler.type)}" if handler.type is not None else "on an error"
                )
                yield from _arms(
                    handler.lineno, [_Arm(text, handler.type or handler.body[0], handler.body)]
                )


def _arms(group: int, arms: Sequence[_Arm], kind: str = "") -> Iterator[Branch]:
    kind = kind or (ALT if len(arms) > 1 else OPT)
    for text, head, body in arms:
        first, last = body[0].lineno, body[-1].end_lineno or body[-1].lineno
        end = head.end_lineno or head.lineno
        if first > end:
            line = first if text == "else" else group if kind == LOOP else head.lineno
            yield _branch(kind, group, (line, first, last), text)


# ── other languages ──


def _in_tree(root: Node) -> Iterator[Branch]:
    for path in grammars.paths(root):
        node, field = path[-1]
        if not node.is_named:
            continue
        above = path[-2][0].type if path[1:] else ""
        if node.type in _IFS and not (field == "alternative" or above == "else_clause"):
            yield from _of_if(node)
        elif node.type in _SWITCHES:
            arms = list(_descendants(node))
            kind = ALT if len(arms) > 1 else OPT
            subject = _subject(node)
            for arm in arms:
                label = _condition(arm, _first_line(arm))
                text = f"{subject} is {label}" if subject and label else label or "else"
                yield from _body(kind, _line(node), arm, _inside(arm), text)
        elif node.type in _LOOPS:
            body = _child(node, "body")
            if body is not None:
                text = _condition(node, _until(node, body), is_loop=True)
                yield from _body(LOOP, _line(node), node, grammars.named_children(body), text)
        elif node.type in _HANDLERS:
            body = _child(node, "body")
            if body is not None:
                yield from _body(
                    OPT, _line(node), node, grammars.named_children(body), "on an error"
                )


def _of_if(node: Node) -> Iterator[Branch]:
    """The arms of a chain of conditions."""
    arms: list[tuple[str, Node, Node]] = []
    at: Node | None = node
    while at is not None:
        body = _child(at, "consequence") or _child(at, "body")
        if body is not None:
            arms.append((_condition(at, _until(at, body)), at, body))
        other = _child(at, "alternative")
        inner = (
            grammars.named_children(other) if other is not None and other.type not in _IFS else []
        )
        if other is not None and other.type in _IFS:
            at = other
        elif (
            len(inner) == 1
            and inner[0].type in _IFS
            and other is not None
            and other.type in ("else_clause", "else")
        ):
            at = inner[0]
        else:
            if other is not None:
                arms.append(("else", other, other))
            at = None
    kind = ALT if len(arms) > 1 else OPT
    for text, head, body in arms:
        yield from _body(kind, _line(node), head, grammars.named_children(body), text)


def _body(kind: str, group: int, head: Node, inner: Sequence[Node], text: str) -> Iterator[Branch]:
    """The branch of these statements, if they begin below the line of their head."""
    is_arm = head.type in _ARMS or head.type == "else"
    if inner and (is_arm or inner[0].start_point.row > head.start_point.row):
        end = inner[-1].end_point  # of Go, it may be behind the line break
        last = end.row + 1 if end.column else end.row
        yield _branch(kind, group, (_line(head), inner[0].start_point.row + 1, last), text)


def _inside(arm: Node) -> list[Node]:
    """The statements of an arm: what stands behind its pattern or value."""
    value = _child(arm, "value") if arm.type == "match_arm" else _child(arm, "body")
    if value is not None:
        return grammars.named_children(value) if "block" in value.type else [value]
    inner = grammars.named_children(arm)
    return inner[1:] if len(inner) > 1 and arm.type.startswith(_VALUED) else inner


def _descendants(node: Node) -> Iterator[Node]:
    """The arms of a switch, which may stand in its body."""
    for child in grammars.named_children(node):
        if child.type in _ARMS or child.type == "else":
            yield child
        elif child.type.endswith(("body", "block", "match_block")):
            yield from (arm for arm in grammars.named_children(child) if arm.type in _ARMS)


def _subject(node: Node) -> str:
    """What a switch looks at; "" of one whose arms are conditions."""
    body = _child(node, "body") or next(iter(_descendants(node)), None)
    return _condition(node, re.split(r"\{|\n", _until(node, body))[0]) if body is not None else ""


def _child(node: Node, name: str) -> Node | None:
    return next((child for field, child in grammars.parts(node) if field == name), None)


def _until(node: Node, body: Node) -> str:
    size = min(body.start_byte - node.start_byte, _HEAD)
    return (node.text or b"")[: max(0, size)].decode("utf-8", "replace")


def _first_line(arm: Node) -> str:
    """What an arm compares with, as it is written."""
    pattern = _child(arm, "pattern")
    if pattern is not None:
        return (pattern.text or b"")[:_HEAD].decode("utf-8", "replace")
    text = (arm.text or b"")[:_HEAD].decode("utf-8", "replace")
    return re.split(r"=>|->|(?<!:):(?![:=])|\n", text, maxsplit=1)[0]


def _condition(node: Node, text: str, *, is_loop: bool = False) -> str:
    """The condition without the words around it."""
    bare = _ENDS.sub("", " ".join(text.split()))
    if is_loop:
        return bare
    bare = _WORDS.sub("", bare)
    bare = "" if bare in ("default", "_", "else") else bare
    is_negated = node.type == "unless"
    if bare.startswith("(") and _closes(bare) == len(bare) - 1:
        bare = bare[1:-1]
    return f"not {bare}" if is_negated else bare


def _closes(text: str) -> int:
    """Where the bracket closes with which a text begins; -1 for nowhere."""
    depth = 0
    for at, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if not depth:
            return at
    return -1


def _line(node: Node) -> int:
    return node.start_point.row + 1
