"""Calls in Python, held against the parameters of what they call: by syntax, nothing is run."""

from __future__ import annotations

import ast

from rlm_ci.source.python import syntax
from rlm_ci.source.python.interface import ARGS, EITHER, KEYWORD, KWARGS, POSITIONAL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rlm_ci.source.python.interface import Parameter


def pass_alike(
    content: bytes, line: int, word: str, versions: Sequence[Sequence[Parameter]]
) -> bool:
    """Whether the calls of ``word`` on a line fit all versions of its parameters, in one way.

    False where there is no call, or where stars hide its arguments.
    """
    file = syntax.read(content)
    calls = list(_calls(file.module, line, word)) if file is not None else []
    return bool(calls) and all(_is_alike(call, versions) for call in calls)


def _calls(module: ast.Module, line: int, word: str) -> Iterator[ast.Call]:
    for node in ast.walk(module):
        if isinstance(node, ast.Call):
            callee = node.func
            is_name = isinstance(callee, ast.Name) and callee.id == word
            is_member = isinstance(callee, ast.Attribute) and callee.attr == word
            if (is_name or is_member) and callee.end_lineno == line:
                yield node


def _is_alike(call: ast.Call, versions: Sequence[Sequence[Parameter]]) -> bool:
    names = [keyword.arg for keyword in call.keywords]
    if None in names or any(isinstance(argument, ast.Starred) for argument in call.args):
        return False
    keywords = [name for name in names if name is not None]
    bound = [_bound(parameters, len(call.args), keywords) for parameters in versions]
    return None not in bound and all(names == bound[0] for names in bound)


def _bound(
    parameters: Sequence[Parameter], count: int, keywords: Sequence[str]
) -> list[str] | None:
    """The parameters that get the ``count`` positional arguments; None if the call fails."""
    kinds = {parameter.kind for parameter in parameters}
    in_order = [item.name for item in parameters if item.kind in (POSITIONAL, EITHER)]
    by_name = {item.name for item in parameters if item.kind in (EITHER, KEYWORD)}
    names = in_order[:count]
    if count > len(in_order) and ARGS not in kinds:
        return None
    if not by_name.issuperset(keywords) and KWARGS not in kinds:
        return None
    if by_name & {*names} & {*keywords}:  # passed twice
        return None
    required = {item.name for item in parameters if item.is_required}
    return names if required <= {*names, *keywords} else None
