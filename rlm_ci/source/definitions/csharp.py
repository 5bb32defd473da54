"""C#: definitions marked ``public``, and members of interfaces, are public."""

from __future__ import annotations

import re

from rlm_ci.source import grammars
from rlm_ci.source.grammar_walk import Dialect, is_open, namespace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tree_sitter import Node

    from rlm_ci.source.grammar_walk import DefinitionScope, LeadingComment, Walk

_TYPES = {
    "class_declaration": "class", "struct_declaration": "struct", "enum_declaration": "enum",
    "interface_declaration": "interface", "record_declaration": "class",
    "record_struct_declaration": "struct", "delegate_declaration": "type",
}  # fmt: skip
_MEMBERS = {
    "method_declaration": "method", "constructor_declaration": "method",
    "property_declaration": "variable", "indexer_declaration": "method",
    "operator_declaration": "method", "event_declaration": "variable",
    "conversion_operator_declaration": "method",
}  # fmt: skip
_NAMESPACES = ("namespace_declaration", "file_scoped_namespace_declaration")
_BODIES = ("accessors", "constructor_initializer", "body", "value", "arrow_expression_clause")
_ROUTE = re.compile(r"\[Http(Get|Post|Put|Delete|Patch)(?:\(\"([^\"]*)\")?")


def _type(walk: Walk, scope: DefinitionScope, node: Node, note: LeadingComment) -> None:
    words, since, _ = walk.modifiers(node)
    kind = "struct" if "struct" in walk.fields(node) else _TYPES[node.type]
    walk.declare(kind, node, scope, note, since, is_public=is_open(words, scope))


def _enum_member(walk: Walk, scope: DefinitionScope, node: Node, _note: LeadingComment) -> None:
    if scope.kind == "enum":
        walk.each("constant", node, "", scope, is_public=True)


def _member(walk: Walk, scope: DefinitionScope, node: Node, note: LeadingComment) -> None:
    fields = walk.fields(node)
    words, since, notes = walk.modifiers(node)
    if "name" in fields:
        name = walk.text(fields["name"])
    elif node.type == "indexer_declaration":
        name = "this[]"
    else:
        signs = [child for field, child in grammars.parts(node) if field == "operator"]
        operator = signs[0] if signs else fields.get("type")
        name = f"operator {walk.text(operator)}" if operator is not None else "operator"
    ends = [fields[part].start_byte for part in _BODIES if part in fields]
    head = walk.head(since, min([node.end_byte, *ends]))
    kind = _MEMBERS[node.type]
    shown = is_open(words, scope)
    if kind == "variable" and not shown and not words & {"protected", "internal"}:
        return
    walk.define(kind, name, node, scope, note, head, is_public=shown)
    if name == "Main" and "static" in words:
        walk.enter("main", f"{scope.prefix}Main", node)
    route = _ROUTE.search(notes)
    if route:
        walk.enter("route", f"{route[1].upper()} {route[2] or '/'}", node)
    if re.search(r"\[(?:Fact|Theory|Test|TestMethod|TestCase)\b", notes):
        walk.test(node)


def _field(walk: Walk, scope: DefinitionScope, node: Node, note: LeadingComment) -> None:
    words, since, _ = walk.modifiers(node)
    if not words & {"public", "protected", "internal"} and scope.kind != "interface":
        return
    kind = "constant" if "const" in words or {"static", "readonly"} <= words else "variable"
    walk.each(
        kind, node, "variable_declarator", scope, note, walk.head(since, node.end_byte),
        is_public=is_open(words, scope), within=walk.fields(node).get("variable_declaration"),
    )  # fmt: skip


def _statement(walk: Walk, _scope: DefinitionScope, node: Node, _note: LeadingComment) -> None:
    if not any(entry.kind == "main" for entry in walk.entries):
        walk.enter("main", walk.path, node)


def _using(walk: Walk, _scope: DefinitionScope, node: Node, _note: LeadingComment) -> None:
    text = " ".join(walk.text(node).rstrip("; \r\n").split())
    text = text.removeprefix("global ").removeprefix("using ")
    static = text.startswith("static ")
    text = text.removeprefix("static ").rpartition("=")[2].strip()
    module, _, name = text.rpartition(".")
    if static and module:
        walk.bring(module, (name,), node)
    elif text:
        walk.bring(text, (), node)


DIALECT = Dialect(
    {
        "using_directive": _using,
        "global_statement": _statement,
        "enum_member_declaration": _enum_member,
        **dict.fromkeys(_NAMESPACES, namespace),
        **dict.fromkeys(_TYPES, _type),
        **dict.fromkeys(_MEMBERS, _member),
        **dict.fromkeys(("field_declaration", "event_field_declaration"), _field),
    },
    through=frozenset({"preproc_if", "preproc_else", "preproc_elif", "declaration_list"}),
    opening=frozenset({"using_directive", *_NAMESPACES, "preproc_if", "global_attribute"}),
)
