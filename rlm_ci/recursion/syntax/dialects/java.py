"""Java: what is marked ``public`` is, and what an interface holds."""

from __future__ import annotations

import re

from rlm_ci import grammars

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tree_sitter import Node

    from rlm_ci.recursion.syntax.walking import Note, Scope, Walk

COMMENTS = frozenset({"line_comment", "block_comment"})
LEADS: frozenset[str] = frozenset()
OPEN = frozenset({"package_declaration", "import_declaration"})
_TYPES = {
    "class_declaration": "class", "interface_declaration": "interface",
    "enum_declaration": "enum", "record_declaration": "class",
    "annotation_type_declaration": "interface",
}  # fmt: skip
_METHODS = {
    "method_declaration", "constructor_declaration", "compact_constructor_declaration",
    "annotation_type_element_declaration",
}  # fmt: skip
_ROUTE = re.compile(r"@(Get|Post|Put|Delete|Patch|Request)Mapping\s*(?:\([^\"()]*\"([^\"]*)\")?")


def visit(walk: Walk, scope: Scope, node: Node, note: Note) -> None:
    kind = node.type
    if kind == "import_declaration":
        _import(walk, node)
    elif kind == "package_declaration":
        name = walk.text(node).removeprefix("package").strip(" \t\r\n;")
        walk.define("module", name, node, scope, type(note)(), f"package {name}", is_public=True)
    elif kind in _TYPES:
        _type(walk, scope, node, note)
    elif kind in _METHODS:
        _method(walk, scope, node, note)
    elif kind in ("field_declaration", "constant_declaration"):
        _field(walk, scope, node, note)
    elif kind == "enum_constant":
        name_of = walk.fields(node).get("name")
        if name_of is not None:
            name = walk.text(name_of)
            walk.define("constant", name, node, scope, note, name, is_public=True)
    elif kind == "enum_body_declarations":
        walk.body(node, scope)


def _modifiers(walk: Walk, node: Node) -> tuple[set[str], int, str]:
    """The modifiers of a declaration, where its text begins behind annotations, and these."""
    words: set[str] = set()
    since = node.start_byte
    notes = ""
    for _, child in grammars.parts(node):
        if child.type == "modifiers":
            for _, one in grammars.parts(child):
                if one.type in ("annotation", "marker_annotation"):
                    notes += walk.text(one)
                    since = one.end_byte
                else:
                    words.add(one.type)
        break
    return words, since, notes


def _is_shown(words: set[str], scope: Scope) -> bool:
    return "public" in words or (scope.kind == "interface" and "private" not in words)


def _type(walk: Walk, scope: Scope, node: Node, note: Note) -> None:
    fields = walk.fields(node)
    if "name" not in fields:
        return
    words, since, _ = _modifiers(walk, node)
    head = walk.head(since, fields.get("body", node.end_byte))
    inner = walk.define(
        _TYPES[node.type], walk.text(fields["name"]), node, scope, note, head,
        is_public=_is_shown(words, scope),
    )  # fmt: skip
    if "body" in fields:
        walk.body(fields["body"], inner)


def _method(walk: Walk, scope: Scope, node: Node, note: Note) -> None:
    fields = walk.fields(node)
    if "name" not in fields:
        return
    words, since, notes = _modifiers(walk, node)
    name = walk.text(fields["name"])
    head = walk.head(since, fields.get("body", node.end_byte))
    walk.define("method", name, node, scope, note, head, is_public=_is_shown(words, scope))
    if name == "main" and {"public", "static"} <= words:
        walk.enter("main", f"{scope.prefix}main", node)
    route = _ROUTE.search(notes)
    if route:
        verb = "ANY" if route[1] == "Request" else route[1].upper()
        walk.enter("route", f"{verb} {route[2] or '/'}", node)
    if "@Test" in notes or "@ParameterizedTest" in notes:
        walk.test(node)


def _field(walk: Walk, scope: Scope, node: Node, note: Note) -> None:
    words, since, _ = _modifiers(walk, node)
    constant = {"static", "final"} <= words or scope.kind == "interface"
    if "private" in words or not (constant or words & {"public", "protected"}):
        return
    for field, child in grammars.parts(node):
        name = walk.fields(child).get("name") if field == "declarator" else None
        if name is not None:
            walk.define(
                "constant" if constant else "variable", walk.text(name), node, scope, note,
                walk.head(since, node.end_byte), is_public=_is_shown(words, scope),
            )  # fmt: skip


def _import(walk: Walk, node: Node) -> None:
    text = walk.text(node).removeprefix("import").strip(" \t\r\n;")
    path = "".join(text.removeprefix("static ").split())
    module, _, name = path.rpartition(".")
    if name == "*" or text.startswith("static "):
        walk.bring(module, (name,), node)
    else:
        walk.bring(path, (), node)
