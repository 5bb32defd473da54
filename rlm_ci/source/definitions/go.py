"""Go: a name that begins with a capital is public."""

from __future__ import annotations

import re

from rlm_ci.source import grammars
from rlm_ci.source.grammar_walk import DefinitionScope, Dialect, Walk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tree_sitter import Node

    from rlm_ci.source.grammar_walk import LeadingComment

_TYPES = {"struct_type": "struct", "interface_type": "interface"}
_VALUES = {"const_spec": "constant", "var_spec": "variable"}
_RECEIVER = re.compile(r"\(\s*(?:\w+\s+)?\*?\s*(\w+)")
#: ``const X = 1``, or a list of them in brackets.
_SPECS = ("const_declaration", "var_declaration", "type_declaration", "import_declaration")


def _specs(walk: Walk, scope: DefinitionScope, node: Node, note: LeadingComment) -> None:
    inner = grammars.named_children(node)
    lists = [child for child in inner if child.type.endswith("_list")]
    if lists or any(child.type == "(" for _, child in grammars.parts(node)):
        walk.body(lists[0] if lists else node, scope)
    else:
        for child in inner:
            walk.visit(scope, child, note)


def _value(walk: Walk, scope: DefinitionScope, node: Node, note: LeadingComment) -> None:
    for field, child in grammars.parts(node):
        name = walk.text(child) if field == "name" else "_"
        if name not in ("_", ","):
            shown = _is_shown(name)
            walk.define(_VALUES[node.type], name, node, scope, note, is_public=shown)


def _is_shown(name: str) -> bool:
    return name[:1].isupper()


def _type(walk: Walk, scope: DefinitionScope, node: Node, note: LeadingComment) -> None:
    fields = walk.fields(node)
    if not {"name", "type"} <= fields.keys():
        return
    name, what = walk.text(fields["name"]), fields["type"]
    kind = _TYPES.get(what.type, "type")
    head = f"type {walk.head(node, what)} {kind}" if kind != "type" else f"type {walk.line(node)}"
    inner = walk.define(kind, name, node, scope, note, head, is_public=_is_shown(name))
    if kind == "interface":
        walk.body(what, inner)


def _element(walk: Walk, scope: DefinitionScope, node: Node, _note: LeadingComment) -> None:
    name = walk.text(walk.fields(node).get("name", node))
    walk.define("method", name, node, scope, is_public=_is_shown(name))


def _function(walk: Walk, scope: DefinitionScope, node: Node, note: LeadingComment) -> None:
    fields = walk.fields(node)
    if "name" not in fields:
        return
    name = walk.text(fields["name"])
    head = walk.head(node, fields.get("body", node.end_byte))
    if "receiver" in fields:
        owner = _RECEIVER.match(walk.text(fields["receiver"]))
        shown = owner is not None and _is_shown(owner[1]) and _is_shown(name)
        full = f"{owner[1]}.{name}" if owner else name
        walk.define("method", full, node, scope, note, head, is_public=shown)
        return
    walk.define("function", name, node, scope, note, head, is_public=_is_shown(name))
    if name == "main" and b"package main" in walk.content:
        walk.enter("main", walk.path, node)
    elif name.startswith(("Test", "Benchmark", "Fuzz", "Example")):
        walk.test(node)


def _import(walk: Walk, _scope: DefinitionScope, node: Node, _note: LeadingComment) -> None:
    path = walk.fields(node).get("path")
    if path is not None:
        walk.bring(walk.text(path).strip('"`'), (), node)


DIALECT = Dialect(
    {
        "import_spec": _import,
        "method_elem": _element,
        **dict.fromkeys(_SPECS, _specs),
        **dict.fromkeys(_VALUES, _value),
        **dict.fromkeys(("type_spec", "type_alias"), _type),
        **dict.fromkeys(("function_declaration", "method_declaration"), _function),
    },
    opening=frozenset({"package_clause"}),
)
