"""Python that its own parser refuses: of another version, or with a mistake in it."""

from __future__ import annotations

import re

from rlm_ci import grammars

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tree_sitter import Node

    from rlm_ci.recursion.syntax.walking import Note, Scope, Walk

COMMENTS = frozenset({"comment"})
LEADS: frozenset[str] = frozenset()
OPEN = frozenset({"import_statement", "import_from_statement", "expression_statement"})
_THROUGH = {
    "if_statement", "try_statement", "else_clause", "elif_clause", "except_clause", "block",
    "finally_clause", "with_statement",
}  # fmt: skip


def visit(walk: Walk, scope: Scope, node: Node, note: Note) -> None:
    kind = node.type
    if kind in ("import_statement", "import_from_statement", "future_import_statement"):
        _import(walk, node)
    elif kind in _THROUGH:
        walk.body(node, scope.replace(depth=scope.depth + 1))
    elif kind == "decorated_definition":
        inner = walk.fields(node).get("definition")
        if inner is not None:
            _define(walk, scope, inner, node)
    elif kind in ("class_definition", "function_definition"):
        _define(walk, scope, node, node)
    elif kind == "expression_statement" and not scope.kind:
        left = next(
            (walk.fields(one).get("left") for _, one in grammars.parts(node)
             if one.type == "assignment"), None,
        )  # fmt: skip
        if left is not None and left.type == "identifier":
            name = walk.text(left)
            what = "constant" if name.isupper() else "variable"
            shown = not name.startswith("_")
            walk.define(what, name, node, scope, _none(note), walk.line(node), is_public=shown)


def _none(note: Note) -> Note:
    """In Python, a comment is no documentation."""
    return note.replace(comments=(), leads=())


def _define(walk: Walk, scope: Scope, node: Node, whole: Node) -> None:
    from rlm_ci.recursion.syntax.walking import Note

    fields = walk.fields(node)
    if "name" not in fields or "body" not in fields:
        return
    name = walk.text(fields["name"])
    is_class = node.type == "class_definition"
    kind = "class" if is_class else "method" if scope.kind else "function"
    special = bool(scope.kind) and name.startswith("__") and name.endswith("__")
    inner = walk.define(
        kind, name, whole, scope, Note(), walk.head(node, fields["body"]),
        is_public=special or not name.startswith("_"),
    )  # fmt: skip
    if is_class:
        walk.body(fields["body"], inner)


def _import(walk: Walk, node: Node) -> None:
    text = " ".join(re.sub(r"#[^\n]*|[()\\]", " ", walk.text(node)[:8000]).split())
    taken = re.fullmatch(r"from (\.*) ?(\S*) ?import (.*)", text)
    if taken:
        parts = [one.split() for one in taken[3].split(",") if one.strip()]
        names, here = tuple(one[0] for one in parts), tuple(one[-1] for one in parts)
        walk.bring(taken[2], names, node, len(taken[1]), here if here != names else ())
        return
    for one in text.removeprefix("import ").split(","):
        if one.strip():
            walk.bring(one.split()[0], (), node)
