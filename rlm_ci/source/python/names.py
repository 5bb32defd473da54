"""What expressions of Python name, call and catch, by the nodes of their tree."""

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


Function = ast.FunctionDef | ast.AsyncFunctionDef
#: Exceptions of which a failed assertion is one.
_CATCHES = {"AssertionError", "Exception", "BaseException", "failureException"}


def callee(node: ast.AST | None) -> str:
    """The last part of the name that is called, or ""."""
    return name_of(node.func) if isinstance(node, ast.Call) else ""


def catches(kind: ast.expr | None) -> bool:
    """Whether a handler of these exceptions catches a failed claim; None means all."""
    if isinstance(kind, ast.Tuple):
        return any(map(catches, kind.elts))
    return kind is None or name_of(kind) in _CATCHES
