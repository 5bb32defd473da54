"""The entry points of Python files: main guards, commands, routes, tasks and tests."""

from __future__ import annotations

import ast

from rlm_ci.source import EntryPoint
from rlm_ci.source.python.names import text_of
from rlm_ci.source.python.statements import is_guard
from rlm_ci.source.signatures import clipped
from rlm_ci.source.test_files import is_trial

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterable

_VERBS = {"get", "post", "put", "delete", "patch", "head", "options", "websocket"}
_ROUTES = {"route", "api_route", *_VERBS}
_COMMANDS = {"command", "group"}
_TASKS = {"task", "shared_task", "periodic_task"}


def entries(
    path: str, module: ast.Module, lines: int, statements: Iterable[ast.stmt]
) -> list[EntryPoint]:
    """The entry points of a file, in the order of the text."""
    points: list[EntryPoint] = []
    folder, _, name = path.rpartition("/")
    for node in statements:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.decorator_list:
            tasks = _TASKS if name != "noxfile.py" else {"session"}
            points += filter(None, (_decorated(node, mark, tasks) for mark in node.decorator_list))
        elif isinstance(node, ast.Expr) and name == "setup.py":
            points += _installed(node.value)
    guards = [node for node in module.body if isinstance(node, ast.If) and is_guard(node.test)]
    points += [
        EntryPoint("main", clipped(path, 300), node.lineno, node.end_lineno or node.lineno)
        for node in guards[:1]
    ]
    if name == "__main__.py" and module.body:
        package = folder.removeprefix("src/").removeprefix("lib/").replace("/", ".") or "."
        points = [point for point in points if point.kind != "main"]
        points.append(EntryPoint("main", clipped(f"python -m {package}", 300), 1, lines))
    tests = [node for node in module.body if _is_test(node)] if is_trial(path) else []
    if tests:
        last = tests[-1]
        points.append(
            EntryPoint("test", clipped(path, 300), tests[0].lineno, last.end_lineno or last.lineno)
        )
    return sorted(points, key=lambda point: (point.line_start, point.kind, point.name))


def _is_test(node: ast.stmt) -> bool:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return node.name.startswith("test")
    return isinstance(node, ast.ClassDef) and (
        node.name.startswith("Test") or node.name.endswith(("Test", "Tests", "TestCase"))
    )


def _decorated(
    node: ast.FunctionDef | ast.AsyncFunctionDef, mark: ast.expr, tasks: Container[str]
) -> EntryPoint | None:
    """The entry point that a decorator makes of a function; ``tasks`` are those of a task."""
    call = mark if isinstance(mark, ast.Call) else None
    target = call.func if call else mark
    if isinstance(target, ast.Attribute):
        word, bound = target.attr, True
    elif isinstance(target, ast.Name):
        word, bound = target.id, False
    else:
        return None
    text = text_of(call.args[0]) if call and call.args else ""
    if bound and word in _ROUTES and text.startswith("/"):
        kind, name = "route", f"{_methods(word, call)} {text}"
    elif word in _COMMANDS and bound:
        kind, name = "command", text or _call_name(call) or node.name.replace("_", "-")
    elif word in tasks:
        kind, name = "task", text or _call_name(call) or node.name
    else:
        return None
    return EntryPoint(kind, clipped(name, 300), mark.lineno, node.end_lineno or node.lineno)


def _call_name(call: ast.Call | None) -> str:
    values = [keyword.value for keyword in call.keywords if keyword.arg == "name"] if call else []
    return text_of(values[0]) if values else ""


def _methods(word: str, call: ast.Call | None) -> str:
    if word in _VERBS:
        return word.upper()
    for keyword in call.keywords if call else ():
        if keyword.arg == "methods" and isinstance(keyword.value, ast.List | ast.Tuple | ast.Set):
            return ",".join(filter(None, map(text_of, keyword.value.elts))) or "ANY"
    return "GET" if word == "route" else "ANY"


def _installed(call: ast.expr) -> list[EntryPoint]:
    if not isinstance(call, ast.Call):
        return []
    points = []
    for keyword in call.keywords:
        if keyword.arg != "entry_points" or not isinstance(keyword.value, ast.Dict):
            continue
        for group, scripts in zip(keyword.value.keys, keyword.value.values, strict=True):
            is_script = text_of(group) in ("console_scripts", "gui_scripts")
            for script in scripts.elts if is_script and isinstance(scripts, ast.List) else ():
                name, _, runs = map(str.strip, text_of(script).partition("="))
                if name:
                    lines = script.lineno, script.end_lineno or script.lineno
                    points.append(EntryPoint("script", clipped(name, 300), *lines, runs))
    return points
