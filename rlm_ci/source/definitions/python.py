"""Python that its own parser refuses: for another version, or with a syntax error."""

from __future__ import annotations

import re

from rlm_ci.source import grammars
from rlm_ci.source.grammar_walk import DefinitionScope, Dialect, LeadingComment, Walk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tree_sitter import Node

_THROUGH = frozenset({
    "if_statement", "try_statement", "else_clause", "elif_clause", "except_clause", "block",
    "finally_clause", "with_statement",
})  # fmt: skip


def _assignment(walk: Walk, scope: DefinitionScope, node: Node, _note: LeadingComment) -> None:
    inner = [part for _, part in grammars.parts(node) if part.type == "assignment"]
    left = walk.fields(inner[0]).get("left") if inner and not scope.kind else None
    if left is not None and left.type == "identifier":
        name = walk.text(left)
        what = "constant" if name.isupper() else "variable"
        shown = not name.startswith("_")
        walk.define(what, name, node, scope, is_public=shown)


def _decorated(walk: Walk, scope: DefinitionScope, node: Node, _note: LeadingComment) -> None:
    inner = walk.fields(node).get("definition")
    if inner is not None:
        _define(walk, scope, inner, LeadingComment(leads=(node,)))


def _define(walk: Walk, scope: DefinitionScope, node: Node, note: LeadingComment) -> None:
    """Comments are no documentation in Python; decorators belong to the definition."""
    fields = walk.fields(node)
    if "name" not in fields or "body" not in fields:
        return
    name = walk.text(fields["name"])
    is_class = node.type == "class_definition"
    kind = "class" if is_class else "method" if scope.kind else "function"
    special = bool(scope.kind) and name.startswith("__") and name.endswith("__")
    inner = walk.define(
        kind, name, node, scope, note.replace(comments=()), walk.head(node, fields["body"]),
        is_public=special or not name.startswith("_"),
    )  # fmt: skip
    if is_class:
        walk.body(fields["body"], inner)


def _import(walk: Walk, _scope: DefinitionScope, node: Node, _note: LeadingComment) -> None:
    text = " ".join(re.sub(r"#[^\n]*|[()\\]", " ", walk.text(node)[:8000]).split())
    taken = re.fullmatch(r"from (\.*) ?(\S*) ?import (.*)", text)
    if taken:
        parts = [clause.split() for clause in taken[3].split(",") if clause.strip()]
        names, aliases = tuple(part[0] for part in parts), tuple(part[-1] for part in parts)
        walk.bring(taken[2], names, node, len(taken[1]), aliases if aliases != names else ())
        return
    for clause in text.removeprefix("import ").split(","):
        if clause.strip():
            walk.bring(clause.split()[0], (), node)


_IMPORTS = ("import_statement", "import_from_statement", "future_import_statement")
DIALECT = Dialect(
    {
        **dict.fromkeys(_IMPORTS, _import),
        "decorated_definition": _decorated,
        **dict.fromkeys(("class_definition", "function_definition"), _define),
        "expression_statement": _assignment,
    },
    through=_THROUGH,
    opening=frozenset({*_IMPORTS[:2], "expression_statement"}),
)
