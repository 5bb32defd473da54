"""PHP: members are public unless they are marked otherwise."""

from __future__ import annotations

import re

from rlm_ci import grammars

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tree_sitter import Node

    from rlm_ci.recursion.syntax.walking import Note, Scope, Walk

COMMENTS = frozenset({"comment"})
LEADS: frozenset[str] = frozenset()
OPEN = frozenset({"namespace_definition", "namespace_use_declaration", "declare_statement"})
_TYPES = {
    "class_declaration": "class", "interface_declaration": "interface",
    "trait_declaration": "trait", "enum_declaration": "enum",
}  # fmt: skip
_REQUIRED = re.compile(
    r"(?:require|include)(?:_once)?\s*\(?\s*(?:(__DIR__)\s*\.\s*)?(['\"])([^'\"$\n]+)\2"
)
_DEFINED = re.compile(r"define\s*\(\s*(['\"])(\w+)\1")


def visit(walk: Walk, scope: Scope, node: Node, note: Note) -> None:
    kind = node.type
    if kind == "namespace_use_declaration":
        _use(walk, node)
    elif kind == "namespace_definition":
        _namespace(walk, scope, node, note)
    elif kind in _TYPES:
        _type(walk, scope, node, note)
    elif kind in ("function_definition", "method_declaration"):
        _function(walk, scope, node, note)
    elif kind == "const_declaration":
        _constants(walk, scope, node, note)
    elif kind == "property_declaration":
        _properties(walk, scope, node, note)
    elif kind == "enum_case":
        _case(walk, scope, node, note)
    elif kind == "expression_statement":
        _expression(walk, scope, node, note)
    elif kind == "if_statement":
        for _, child in grammars.parts(node):  # ``if (!function_exists('f')) { function f ...``
            if child.type == "compound_statement":
                walk.body(child, scope.replace(depth=scope.depth + 1))


def _namespace(walk: Walk, scope: Scope, node: Node, note: Note) -> None:
    fields = walk.fields(node)
    if "name" in fields:
        name = walk.text(fields["name"])
        walk.define("module", name, node, scope, type(note)(), f"namespace {name}", is_public=True)
    if "body" in fields:
        walk.body(fields["body"], scope.replace(depth=scope.depth + 1))


def _case(walk: Walk, scope: Scope, node: Node, note: Note) -> None:
    name = walk.fields(node).get("name")
    if name is not None:
        walk.define("constant", walk.text(name), node, scope, note, walk.line(node), is_public=True)


def _hidden(walk: Walk, node: Node) -> bool:
    mark = walk.fields(node).get("visibility_modifier")
    return mark is not None and walk.text(mark) in ("private", "protected")


def _since(node: Node) -> int:
    """Where the text begins behind attributes."""
    return next(
        (one.end_byte for field, one in grammars.parts(node) if field == "attributes"),
        node.start_byte,
    )


def _type(walk: Walk, scope: Scope, node: Node, note: Note) -> None:
    fields = walk.fields(node)
    if "name" not in fields:
        return
    body = fields.get("body")
    head = walk.head(_since(node), body if body is not None else node.end_byte)
    inner = walk.define(
        _TYPES[node.type], walk.text(fields["name"]), node, scope, note, head, is_public=True
    )
    if body is not None:
        walk.body(body, inner)


def _function(walk: Walk, scope: Scope, node: Node, note: Note) -> None:
    fields = walk.fields(node)
    if "name" not in fields:
        return
    name = walk.text(fields["name"])
    head = walk.head(_since(node), fields.get("body", node.end_byte))
    kind = "method" if node.type == "method_declaration" else "function"
    shown = not _hidden(walk, node)
    walk.define(kind, name, node, scope, note, head, is_public=shown)
    if kind == "method" and name.startswith("test") and shown:
        walk.test(node)


def _constants(walk: Walk, scope: Scope, node: Node, note: Note) -> None:
    for _, child in grammars.parts(node):
        name = walk.fields(child).get("name") if child.type == "const_element" else None
        if name is not None:
            walk.define(
                "constant", walk.text(name), node, scope, note, walk.line(node),
                is_public=not _hidden(walk, node),
            )  # fmt: skip


def _properties(walk: Walk, scope: Scope, node: Node, note: Note) -> None:
    if _hidden(walk, node):
        return
    for _, child in grammars.parts(node):
        name = walk.fields(child).get("name") if child.type == "property_element" else None
        if name is not None:
            walk.define(
                "variable", walk.text(name), node, scope, note, walk.line(node), is_public=True
            )


def _expression(walk: Walk, scope: Scope, node: Node, note: Note) -> None:
    text = walk.text(node)[:400]
    required = _REQUIRED.match(text)
    defined = None if required else _DEFINED.match(text)
    if required:
        walk.bring(required[3].lstrip("/") if required[1] else required[3], (), node, 1)
    elif defined:
        walk.define("constant", defined[2], node, scope, note, walk.line(node), is_public=True)


def _use(walk: Walk, node: Node) -> None:
    r"""``use A\\B, C\\{D, E as F};``"""
    text = " ".join(walk.text(node)[:4000].rstrip(";").split()).removeprefix("use ")
    text = re.sub(r"^(?:function|const) ", "", text)
    group = re.fullmatch(r"(.*?)\\?\s*\{(.*)\}", text)
    parts = (
        [f"{group[1]}\\{one.strip()}" for one in group[2].split(",")] if group else text.split(",")
    )
    for part in parts:
        name = re.split(r"\s+as\s+", part.strip(), maxsplit=1, flags=re.IGNORECASE)[0]
        if name.strip("\\ "):
            walk.bring(name.strip("\\ "), (), node)
