"""Go: what begins with a capital is public."""

from __future__ import annotations

import re

from rlm_ci import grammars

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tree_sitter import Node

    from rlm_ci.recursion.syntax.walking import Note, Scope, Walk

COMMENTS = frozenset({"comment"})
LEADS: frozenset[str] = frozenset()
OPEN = frozenset({"package_clause"})
_TYPES = {"struct_type": "struct", "interface_type": "interface"}
_RECEIVER = re.compile(r"\(\s*(?:\w+\s+)?\*?\s*(\w+)")


def visit(walk: Walk, scope: Scope, node: Node, note: Note) -> None:
    kind = node.type
    if kind in ("const_declaration", "var_declaration", "type_declaration", "import_declaration"):
        _specs(walk, scope, node, note)
    elif kind in ("const_spec", "var_spec"):
        what = "constant" if kind == "const_spec" else "variable"
        for field, child in grammars.parts(node):
            if field == "name":
                name = walk.text(child)
                if name not in ("_", ","):
                    _named(walk, what, name, node, scope, note, walk.line(node))
    elif kind in ("type_spec", "type_alias"):
        _type(walk, scope, node, note)
    elif kind == "import_spec":
        path = walk.fields(node).get("path")
        if path is not None:
            walk.bring(walk.text(path).strip('"`'), (), node)
    elif kind in ("function_declaration", "method_declaration"):
        _function(walk, scope, node, note)
    elif kind == "package_clause":
        pass


def _specs(walk: Walk, scope: Scope, node: Node, note: Note) -> None:
    """``const X = 1``, or a list of them in brackets."""
    inner = [child for _, child in grammars.parts(node) if child.is_named]
    lists = [child for child in inner if child.type.endswith("_list")]
    if lists:
        walk.body(lists[0], scope)
    elif any(child.type == "(" for _, child in grammars.parts(node)):
        walk.body(node, scope)
    else:
        for child in inner:
            if child.type not in COMMENTS:
                visit(walk, scope, child, note)


def _named(  # noqa: PLR0917 - as ``define``, whose last one follows from the name
    walk: Walk, kind: str, name: str, node: Node, scope: Scope, note: Note, head: str
) -> Scope:
    return walk.define(kind, name, node, scope, note, head, is_public=name[:1].isupper())


def _type(walk: Walk, scope: Scope, node: Node, note: Note) -> None:
    fields = walk.fields(node)
    name, what = fields.get("name"), fields.get("type")
    if name is None or what is None:
        return
    kind = _TYPES.get(what.type, "type")
    head = f"type {walk.head(node, what)} {kind}" if kind != "type" else f"type {walk.line(node)}"
    inner = _named(walk, kind, walk.text(name), node, scope, note, head)
    if kind == "interface":
        for _, child in grammars.parts(what):
            method = walk.fields(child).get("name") if child.type == "method_elem" else None
            if method is not None:
                _named(
                    walk, "method", walk.text(method), child, inner, type(note)(), walk.line(child)
                )


def _function(walk: Walk, scope: Scope, node: Node, note: Note) -> None:
    fields = walk.fields(node)
    if "name" not in fields:
        return
    name = walk.text(fields["name"])
    head = walk.head(node, fields.get("body", node.end_byte))
    if "receiver" in fields:
        owner = _RECEIVER.match(walk.text(fields["receiver"]))
        shown = owner is not None and owner[1][:1].isupper() and name[:1].isupper()
        full = f"{owner[1]}.{name}" if owner else name
        walk.define("method", full, node, scope, note, head, is_public=shown)
        return
    _named(walk, "function", name, node, scope, note, head)
    if name == "main" and b"package main" in walk.content:
        walk.enter("main", walk.path, node)
    elif name.startswith(("Test", "Benchmark", "Fuzz", "Example")):
        walk.test(node)
