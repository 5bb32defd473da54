"""Java: definitions marked ``public``, and members of interfaces, are public."""

from __future__ import annotations

import re

from rlm_ci.source.grammar_walk import Dialect, is_open
from rlm_ci.source.signatures import folded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tree_sitter import Node

    from rlm_ci.source.grammar_walk import DefinitionScope, LeadingComment, Walk

_TYPES = {
    "class_declaration": "class", "interface_declaration": "interface",
    "enum_declaration": "enum", "record_declaration": "class",
    "annotation_type_declaration": "interface",
}  # fmt: skip
_METHODS = (
    "method_declaration", "constructor_declaration", "compact_constructor_declaration",
    "annotation_type_element_declaration",
)  # fmt: skip
_ROUTE = re.compile(r"@(Get|Post|Put|Delete|Patch|Request)Mapping\s*(?:\([^\"()]*\"([^\"]*)\")?")


def _type(walk: Walk, scope: DefinitionScope, node: Node, note: LeadingComment) -> None:
    words, since, _ = walk.modifiers(node)
    walk.declare(_TYPES[node.type], node, scope, note, since, is_public=is_open(words, scope))


def _method(walk: Walk, scope: DefinitionScope, node: Node, note: LeadingComment) -> None:
    words, since, notes = walk.modifiers(node)
    shown = is_open(words, scope)
    name = walk.declare("method", node, scope, note, since, is_public=shown)
    if name == "main" and {"public", "static"} <= words:
        walk.enter("main", f"{scope.prefix}main", node)
    route = _ROUTE.search(notes)
    if route:
        verb = "ANY" if route[1] == "Request" else route[1].upper()
        walk.enter("route", f"{verb} {route[2] or '/'}", node)
    if "@Test" in notes or "@ParameterizedTest" in notes:
        walk.test(node)


def _field(walk: Walk, scope: DefinitionScope, node: Node, note: LeadingComment) -> None:
    words, since, _ = walk.modifiers(node)
    constant = {"static", "final"} <= words or scope.kind == "interface"
    if "private" in words or not (constant or words & {"public", "protected"}):
        return
    kind, head = "constant" if constant else "variable", walk.head(since, node.end_byte)
    shown = is_open(words, scope)
    walk.each(kind, node, "declarator", scope, note, head, is_public=shown)


def _enum_constant(walk: Walk, scope: DefinitionScope, node: Node, note: LeadingComment) -> None:
    head = walk.text(walk.fields(node).get("name", node))
    walk.each("constant", node, "", scope, note, head, is_public=True)


def _package(walk: Walk, scope: DefinitionScope, node: Node, _note: LeadingComment) -> None:
    name = "".join(walk.text(node).removeprefix("package").split()).rstrip(";")
    walk.define("module", name, node, scope, head=folded(f"package {name}"), is_public=True)


def _import(walk: Walk, _scope: DefinitionScope, node: Node, _note: LeadingComment) -> None:
    text = walk.text(node).removeprefix("import").strip(" \t\r\n;")
    path = "".join(text.removeprefix("static ").split())
    module, _, name = path.rpartition(".")
    if name == "*" or text.startswith("static "):
        walk.bring(module, (name,), node)
    else:
        walk.bring(path, (), node)


DIALECT = Dialect(
    {
        "import_declaration": _import,
        "package_declaration": _package,
        "enum_constant": _enum_constant,
        **dict.fromkeys(_TYPES, _type),
        **dict.fromkeys(_METHODS, _method),
        **dict.fromkeys(("field_declaration", "constant_declaration"), _field),
    },
    through=frozenset({"enum_body_declarations"}),
    comments=frozenset({"line_comment", "block_comment"}),
    opening=frozenset({"package_declaration", "import_declaration"}),
)
