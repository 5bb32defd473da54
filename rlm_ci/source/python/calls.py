"""What Python code calls and what it catches, by the nodes of its tree."""

from __future__ import annotations

import ast

from rlm_ci.source.python.names import name_of

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
