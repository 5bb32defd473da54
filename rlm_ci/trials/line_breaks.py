"""Edits of changed lines of code after which a test that looks at them fails.

A condition is negated, a statement dropped, an operator exchanged, two arguments swapped, a literal
altered. Each edit leaves the rest of the file to the letter.
"""

from __future__ import annotations

import re

from rlm_ci.canary.forms import UnparsableError
from rlm_ci.canary.rust.source import is_for_tests, is_test
from rlm_ci.canary.splicing import Edit, rooted, spliced
from rlm_ci.source.grammars import named_children, text_of
from rlm_ci.source.languages import language
from rlm_ci.source.python.syntax import parsed
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from tree_sitter import Node

#: Kinds of edits, worst first: what nobody notices then.
KINDS = NEGATED, DROPPED, OPERATOR, SWAPPED, LITERAL, LOST = (
    "with its condition negated", "without its statement", "with another operator",
    "with two arguments swapped", "with another literal", "without its value",
)  # fmt: skip
LANGUAGES = frozenset(("Python", "JavaScript", "TypeScript", "TSX", "Go", "Rust"))
_CONDITIONS = frozenset((
    "if_statement", "elif_clause", "while_statement", "ternary_expression", "if_expression",
    "conditional_expression",
))  # fmt: skip
_BINARY = frozenset((
    "binary_expression", "binary_operator", "comparison_operator", "boolean_operator",
))  # fmt: skip
_OPPOSITES = {
    "==": "!=", "!=": "==", "===": "!==", "!==": "===", "<": ">=", ">": "<=", "<=": ">", ">=": "<",
    "&&": "||", "||": "&&", "and": "or", "or": "and", "in": "not in", "not in": "in",
    "is": "is not", "is not": "is", "+": "-", "-": "+", "*": "+", "/": "*", "//": "*",
}  # fmt: skip
_INTEGERS = frozenset(("integer", "int_literal", "integer_literal", "number"))
_STRINGS = frozenset(("string", "interpreted_string_literal", "string_literal"))
_TRUTHS = {"true": "false", "false": "true", "True": "False", "False": "True"}
#: What a compiler or a reader uses, and no test can notice.
_APART = frozenset((
    "import_statement", "import_from_statement", "future_import_statement", "import_declaration",
    "use_declaration", "package_clause", "type", "type_annotation", "interface_declaration",
    "type_alias_declaration", "type_declaration", "attribute_item", "inner_attribute_item",
    "macro_definition", "decorator", "comment", "line_comment", "block_comment", "type_arguments",
    "type_parameters", "struct_item", "assert_statement",
))  # fmt: skip
#: A statement that tells people, or the developer, and changes nothing else.
_TELLS = re.compile(
    r"(?:await )?(?:(?:self|this|cls)\.)?_?(?:log\w*|logger|print\w*|warnings?|console"
    r"|fmt\.F?print\w*|slog|tracing|debug\w*|e?println!|trace!|info!|warn!|error!|t\.Helper)\b",
    re.IGNORECASE,
)
_STATEMENTS = frozenset((
    "expression_statement", "assignment_statement", "inc_statement", "dec_statement",
    "raise_statement", "throw_statement", "delete_statement",
))  # fmt: skip
#: Candidates of one line.
_MOST = 3


class LineBreak(Value):
    """An edit of one line of code: the bytes from ``start`` to ``end``, and what stands there then.

    ``within`` is the function that the line belongs to, "" for none.
    """

    path: str
    line: int
    kind: str
    start: int
    end: int
    text: str
    within: str = ""

    def broken(self, content: bytes) -> bytes:
        """The content of the file with the edit."""
        edited = spliced(content, [Edit(self.start, self.end, self.text)])
        return edited.encode("utf-8", "surrogateescape")


def breaks(path: str, content: bytes, lines: Collection[int]) -> dict[int, list[LineBreak]]:
    """The edits of each of these lines that has any, the strongest first.

    Raises UnparsableError for a file that is no code of a language known here.
    """
    name = language(path)
    if name not in LANGUAGES:
        raise UnparsableError(f"{path}: no language whose lines can be broken")
    text = content.decode("utf-8", "surrogateescape")
    _, root = rooted(name, path, text)
    by_line: dict[int, list[LineBreak]] = {}
    for node, within in _nodes(root):
        line = node.start_point.row + 1
        if line not in lines:
            continue
        for kind, start, end, new in _edits(node, name, is_inside=bool(within)):
            candidate = LineBreak(path, line, kind, start, end, new, within)
            by_line.setdefault(line, []).append(candidate)
    return {
        line: sorted(several, key=lambda each: KINDS.index(each.kind))[:_MOST]
        for line, several in sorted(by_line.items())
    }


def _nodes(root: Node) -> Iterator[tuple[Node, str]]:
    """The nodes that a test may notice, each with the function around it."""
    waiting = [(root, "")]
    while waiting:
        node, within = waiting.pop()
        if node.type in _APART or _is_told(node):
            continue
        yield node, within
        if "function" in node.type or node.type in ("method_definition", "method_declaration"):
            called = node.child_by_field_name("name")
            within = text_of(called) if called is not None else within or "a function"
        attributes: list[Node] = []
        for child in node.children:
            if child.type == "attribute_item":
                attributes.append(child)
            elif any(is_for_tests(each) or is_test(each) for each in attributes):
                attributes = []
            else:
                attributes = []
                waiting.append((child, within))


def _is_told(node: Node) -> bool:
    """Whether a statement is documentation, or tells people what is going on."""
    if node.type not in ("expression_statement", "macro_invocation"):
        return False
    inner = named_children(node)[:1]
    return (bool(inner) and inner[0].type == "string") or bool(_TELLS.match(text_of(node)))


def _edits(node: Node, name: str, *, is_inside: bool) -> Iterator[tuple[str, int, int, str]]:
    """The edits of a node alone, as kind, start, end and text."""
    span = node.start_byte, node.end_byte
    if node.type in _CONDITIONS and (condition := _condition(node)) is not None:
        text = text_of(condition)
        new = f"not ({text})" if name == "Python" else f"!({text})"
        new = f"(!{text})" if condition.type == "parenthesized_expression" else new
        yield NEGATED, condition.start_byte, condition.end_byte, new
    elif node.type in _STATEMENTS and is_inside:
        yield from _dropped(node, name)
    elif node.type == "return_statement" and name not in ("Go", "Rust") and named_children(node):
        nothing = "None" if name == "Python" else "undefined"
        value = named_children(node)[0]
        if text_of(value) not in (nothing, "null"):
            yield LOST, value.start_byte, value.end_byte, nothing
    elif node.type in _BINARY:
        yield from _operators(node)
    elif node.type in ("argument_list", "arguments"):
        yield from _swapped(node)
    elif (text := text_of(node)) in _TRUTHS and not named_children(node):
        yield LITERAL, *span, _TRUTHS[text]
    elif node.type in _INTEGERS and text.isdecimal():
        yield LITERAL, *span, str(int(text) + 1)
    elif node.type in _STRINGS and len(text) > 2 and text[0] == text[-1] != text[1]:
        yield LITERAL, *span, f"{text[:-1]}x{text[-1]}"


def _condition(node: Node) -> Node | None:
    condition = node.child_by_field_name("condition")
    if node.type == "conditional_expression" and condition is None:
        condition = next(iter(named_children(node)[1:2]), None)
    if condition is None or condition.type in ("let_condition", "let_chain"):
        return None
    return condition


def _dropped(node: Node, name: str) -> Iterator[tuple[str, int, int, str]]:
    inner = next(iter(named_children(node)), None)
    if inner is None:
        return
    if inner.type == "assignment":
        value = inner.child_by_field_name("right")
        if value is not None and text_of(value) != "None":
            yield LOST, value.start_byte, value.end_byte, "None"
        return
    if name == "Rust" and not text_of(node).endswith(";"):
        return  # a block, whose lines have edits of their own
    nothing = {"Python": "pass", "Go": "", "Rust": ""}.get(name, ";")
    yield DROPPED, node.start_byte, node.end_byte, nothing


def _operators(node: Node) -> Iterator[tuple[str, int, int, str]]:
    operator = next((child for child in node.children if text_of(child) in _OPPOSITES), None)
    if operator is not None and not operator.named_children:
        new = _OPPOSITES[text_of(operator)]
        yield OPERATOR, operator.start_byte, operator.end_byte, new


def _swapped(node: Node) -> Iterator[tuple[str, int, int, str]]:
    values = named_children(node)
    plain = [value for value in values[:2] if not re.search("keyword|splat|spread", value.type)]
    if len(plain) == 2 and text_of(plain[0]) != text_of(plain[1]):
        first, second = plain
        between = (node.text or b"")[first.end_byte - node.start_byte :][
            : second.start_byte - first.end_byte
        ]
        text = f"{text_of(second)}{between.decode('utf-8', 'surrogateescape')}{text_of(first)}"
        yield SWAPPED, first.start_byte, second.end_byte, text


def is_code(path: str, content: bytes) -> bool:
    """Whether a file with an edit is still code of its language."""
    text, name = content.decode("utf-8", "surrogateescape"), language(path)
    if name == "Python":
        return parsed(text) is not None
    try:
        rooted(name, path, text)
    except UnparsableError:
        return False
    return True
