"""Ruby: methods are public unless a line above them hides them."""

from __future__ import annotations

import re

from rlm_ci.source import grammars
from rlm_ci.source.grammar_walk import DefinitionScope, Dialect, Walk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from tree_sitter import Node

    from rlm_ci.source.grammar_walk import LeadingComment

_ACCESS = {"private", "protected", "public", "module_function"}
_MARKED = tuple(f"{word} " for word in sorted(_ACCESS))
_LOADED = re.compile(r"(require|require_relative|load)\s*\(?\s*(['\"])([^'\"#\n]+)\2")
_LATER = re.compile(r"autoload\s*\(?\s*:(\w+)\s*,\s*(['\"])([^'\"#\n]+)\2")
_ATTRIBUTES = re.compile(r"attr_(?:reader|accessor|writer)\b")
_MADE = re.compile(r"(?:alias_method|define_method)\s*\(?\s*(:\w+[?!=]?)")
#: The state of a scope in ``class << self``.
_OF_CLASS = "of class"
_ROUTE = re.compile(r"(get|post|put|delete|patch)\s*\(?\s*(['\"])(/[^'\"\n]{0,200})\2")
_TASK = re.compile(r"(?:task|multitask)\s*\(?\s*(?::(\w+)|(\w+):|['\"]([^'\"\n]+)['\"])")


def _of_class(walk: Walk, scope: DefinitionScope, node: Node, _note: LeadingComment) -> None:
    body = walk.fields(node).get("body")
    if body is not None:
        _inside(walk, scope.replace(kind=_OF_CLASS), body)


def _constant(walk: Walk, scope: DefinitionScope, node: Node, note: LeadingComment) -> None:
    left = walk.fields(node).get("left")
    if left is not None and left.type == "constant":
        name = walk.text(left)
        walk.define("constant", name, node, scope, note, is_public=True)


def _alias(walk: Walk, scope: DefinitionScope, node: Node, note: LeadingComment) -> None:
    if scope.prefix:
        _generated_method(
            walk, scope, node, note, [walk.text(child) for _, child in grammars.parts(node)][1:]
        )


def _word(walk: Walk, _scope: DefinitionScope, node: Node, _note: LeadingComment) -> None:
    word = walk.text(node)
    walk.access = word if word in _ACCESS else walk.access


def _if(walk: Walk, _scope: DefinitionScope, node: Node, _note: LeadingComment) -> None:
    if "__FILE__" in walk.text(node)[:60]:
        walk.enter("main", walk.path, node)


def _class(walk: Walk, scope: DefinitionScope, node: Node, note: LeadingComment) -> None:
    fields = walk.fields(node)
    if "name" not in fields:
        return
    end = fields["superclass"].end_byte if "superclass" in fields else fields["name"].end_byte
    name = walk.text(fields["name"]).replace("::", ".")
    inner = walk.define(node.type, name, node, scope, note, walk.head(node, end), is_public=True)
    if "body" in fields:
        # The first comments of a body come before its node.
        row = node.start_point.row
        first = [
            child
            for _, child in grammars.parts(node)
            if child.type == "comment"
            and row < child.start_point.row < fields["body"].start_point.row
        ]
        _inside(walk, inner, fields["body"], first)


def _inside(walk: Walk, scope: DefinitionScope, body: Node, first: Sequence[Node] = ()) -> None:
    """Read a body, in which ``private`` alone hides all that follows, after ``first`` comments."""
    hidden = {
        name
        for child in (node for _, node in grammars.parts(body))
        if child.type == "call"
        and (words := re.match(r"(?:private|protected)\s*\(?\s*(:.*)", walk.text(child)[:500]))
        for name in re.findall(r":(\w+[?!=]?)", words[1])
    }
    start = len(walk.symbols)
    outside, walk.access = walk.access, ""
    walk.body(body, scope, first)
    walk.access = outside
    for at in range(start, len(walk.symbols)):
        symbol = walk.symbols[at]
        if symbol.name.removeprefix(scope.prefix) in hidden:
            walk.symbols[at] = symbol.replace(is_public=False)


def _method(
    walk: Walk, scope: DefinitionScope, node: Node, note: LeadingComment, *, hidden: bool = False
) -> None:
    fields = walk.fields(node)
    if "name" not in fields:
        return
    parameters = fields.get("parameters")
    end = parameters.end_byte if parameters is not None else fields["name"].end_byte
    kind = "method" if scope.prefix else "function"
    name = walk.text(fields["name"])
    hidden = hidden or (node.type == "method" and walk.access in ("private", "protected"))
    head = walk.head(node, end)
    if scope.kind == _OF_CLASS and node.type == "method":
        head = re.sub(r"^def\s+", "def self.", head)
    walk.define(kind, name, node, scope, note, head, is_public=not hidden)
    if name.startswith("test_"):
        walk.test(node)


def _generated_method(
    walk: Walk, scope: DefinitionScope, node: Node, note: LeadingComment, names: Sequence[str]
) -> None:
    """A method that is made by its name alone; the first of ``names``."""
    name = names[0].lstrip(":") if names else ""
    if re.fullmatch(r"\w+[?!=]?", name):
        hidden = walk.access in ("private", "protected")
        walk.define("method", name, node, scope, note, is_public=not hidden)


def _call(walk: Walk, scope: DefinitionScope, node: Node, note: LeadingComment) -> None:
    text = walk.text(node)[:400]
    loaded = _LOADED.match(text)
    later = None if loaded else _LATER.match(text)
    if loaded:
        level = 1 if loaded[1] == "require_relative" else 0
        walk.bring(loaded[3], (), node, level)
    elif later:
        walk.bring(later[3], (later[1],), node)
    elif scope.prefix and _ATTRIBUTES.match(text):
        for name in re.findall(r":(\w+)", text):
            hidden = walk.access in ("private", "protected")
            walk.define("variable", name, node, scope, note, is_public=not hidden)
    elif scope.prefix and (match := _MADE.match(text)):
        _generated_method(walk, scope, node, note, [match[1]])
    elif scope.prefix and text.startswith(_MARKED):
        arguments = walk.fields(node).get("arguments")
        for _, child in grammars.parts(arguments) if arguments is not None else ():
            if child.type in ("method", "singleton_method"):
                hidden = text.startswith(("private", "protected"))
                _method(walk, scope, child, note, hidden=hidden)
    elif not scope.prefix and (route := _ROUTE.match(text)):
        walk.enter("route", f"{route[1].upper()} {route[3]}", node)
    elif (task := _TASK.match(text)) and walk.path.lower().endswith(("rakefile", ".rake")):
        walk.enter("task", task[1] or task[2] or task[3], node)
    elif text.startswith(("describe ", "RSpec.describe", "context ", "it ")):
        walk.test(node)


DIALECT = Dialect(
    {
        **dict.fromkeys(("class", "module"), _class),
        **dict.fromkeys(("method", "singleton_method"), _method),
        "singleton_class": _of_class,
        "assignment": _constant,
        "alias": _alias,
        "identifier": _word,
        "call": _call,
        "if": _if,
    },
    opening=frozenset({"call"}),
)
