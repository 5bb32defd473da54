"""The names and texts in expressions of Python, as they are written."""

from __future__ import annotations

import ast


def name_of(node: ast.AST | None) -> str:
    """``c`` of ``c`` and of ``a.b.c``; "" of anything else."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def last_name(node: ast.expr) -> str:
    """``c`` of ``a.b.c(...)[...]``."""
    while isinstance(node, ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return name_of(node)


def dotted(node: ast.AST) -> str:
    """``a.b`` of names alone; "" for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def is_class(name: str) -> bool:
    """Whether a name is written as that of a class."""
    return name.rpartition(".")[2].lstrip("_")[:1].isupper()


def text_of(node: ast.AST | None) -> str:
    """The text of a literal; "" for anything else."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
