"""C#: what is marked ``public`` is, and what an interface holds."""

from __future__ import annotations

import re

from rlm_ci import grammars

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tree_sitter import Node

    from rlm_ci.recursion.syntax.walking import Note, Scope, Walk

COMMENTS = frozenset({"comment"})
LEADS: frozenset[str] = frozenset()
OPEN = frozenset({
    "using_directive", "namespace_declaration", "file_scoped_namespace_declaration",
    "preproc_if", "global_attribute",
})  # fmt: skip
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
_BODIES = ("accessors", "constructor_initializer", "body", "value", "arrow_expression_clause")
_ROUTE = re.compile(r"\[Http(Get|Post|Put|Delete|Patch)(?:\(\"([^\"]*)\")?")


def visit(walk: Walk, scope: Scope, node: Node, note: Note) -> None:
    kind = node.type
    if kind == "using_directive":
        _using(walk, node)
    elif kind in ("namespace_declaration", "file_scoped_namespace_declaration"):
        fields = walk.fields(node)
        if "name" in fields:
            name = walk.text(fields["name"])
            walk.define(
                "module", name, node, scope, type(note)(), f"namespace {name}", is_public=True
            )
        walk.body(fields.get("body", node), scope.replace(depth=scope.depth + 1))
    elif kind in ("preproc_if", "preproc_else", "preproc_elif", "declaration_list"):
        walk.body(node, scope.replace(depth=scope.depth + 1))
    elif kind in _TYPES:
        _type(walk, scope, node, note)
    elif kind in _MEMBERS:
        _member(walk, scope, node, note)
    elif kind in ("field_declaration", "event_field_declaration"):
        _field(walk, scope, node, note)
    elif kind == "global_statement" and not any(one.kind == "main" for one in walk.entries):
        walk.enter("main", walk.path, node)


def _modifiers(walk: Walk, node: Node) -> tuple[set[str], int, str]:
    """The modifiers, where the text begins behind attributes, and these."""
    words, since, notes = set(), node.start_byte, ""
    for _, child in grammars.parts(node):
        if child.type == "attribute_list":
            since = child.end_byte
            notes += walk.text(child)
        elif child.type == "modifier":
            words.add(walk.text(child))
    return words, since, notes


def _is_shown(words: set[str], scope: Scope) -> bool:
    return "public" in words or (scope.kind == "interface" and "private" not in words)


def _type(walk: Walk, scope: Scope, node: Node, note: Note) -> None:
    fields = walk.fields(node)
    if "name" not in fields:
        return
    words, since, _ = _modifiers(walk, node)
    body = fields.get("body")
    kind = _TYPES[node.type]
    if kind == "class" and "struct" in fields:
        kind = "struct"
    head = walk.head(since, body if body is not None else node.end_byte)
    inner = walk.define(
        kind, walk.text(fields["name"]), node, scope, note, head, is_public=_is_shown(words, scope)
    )
    if body is None:
        return
    if kind == "enum":
        for _, child in grammars.parts(body):
            name = walk.fields(child).get("name") if child.is_named else None
            if name is not None:
                walk.define(
                    "constant", walk.text(name), child, inner, type(note)(), walk.line(child),
                    is_public=True,
                )  # fmt: skip
    else:
        walk.body(body, inner)


def _member(walk: Walk, scope: Scope, node: Node, note: Note) -> None:
    fields = walk.fields(node)
    words, since, notes = _modifiers(walk, node)
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
    shown = _is_shown(words, scope)
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


def _field(walk: Walk, scope: Scope, node: Node, note: Note) -> None:
    words, since, _ = _modifiers(walk, node)
    if not words & {"public", "protected", "internal"} and scope.kind != "interface":
        return
    kind = "constant" if "const" in words or {"static", "readonly"} <= words else "variable"
    declared = walk.fields(node).get("variable_declaration")
    for _, child in grammars.parts(declared) if declared is not None else ():
        name = walk.fields(child).get("name") if child.type == "variable_declarator" else None
        if name is not None:
            walk.define(
                kind, walk.text(name), node, scope, note, walk.head(since, node.end_byte),
                is_public=_is_shown(words, scope),
            )  # fmt: skip


def _using(walk: Walk, node: Node) -> None:
    text = " ".join(walk.text(node).rstrip("; \r\n").split())
    text = text.removeprefix("global ").removeprefix("using ")
    static = text.startswith("static ")
    text = text.removeprefix("static ").rpartition("=")[2].strip()
    module, _, name = text.rpartition(".")
    if static and module:
        walk.bring(module, (name,), node)
    elif text:
        walk.bring(text, (), node)
