"""What Python code calls and what it catches, by the nodes of its tree."""

from __future__ import annotations

import ast

Function = ast.FunctionDef | ast.AsyncFunctionDef
#: Exceptions of which a failed assertion is one.
_CATCHES = {"AssertionError", "Exception", "BaseException", "failureException"}


def callee(node: ast.AST | None) -> str:
    """The last part of the name that is called, or ""."""
    function = node.func if isinstance(node, ast.Call) else None
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def catches(kind: ast.expr | None) -> bool:
    """Whether a handler of these exceptions catches a failed claim; None means all."""
    if isinstance(kind, ast.Tuple):
        return any(map(catches, kind.elts))
    name = kind.attr if isinstance(kind, ast.Attribute) else getattr(kind, "id", "")
    return kind is None or name in _CATCHES
