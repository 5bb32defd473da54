"""Code outside of the tests that ends or reaches into whoever runs them. Read, never run."""

from __future__ import annotations

import ast
import re
from collections import Counter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_RUNNERS = ("pytest", "_pytest", "pluggy", "unittest", "nose", "hypothesis")
_LINES = {
    "js": re.compile(r"\bprocess\.(?:exit|reallyExit|abort)\s{0,4}\(\s{0,4}0?\s{0,4}\)"),
    "go": re.compile(r"\bos\.Exit\(\s{0,4}0\s{0,4}\)"),
    "rs": re.compile(r"\bprocess::exit\(\s{0,4}0\s{0,4}\)"),
}
_ENDINGS = {"jsx": "js", "ts": "js", "tsx": "js", "mjs": "js", "cjs": "js", "go": "go", "rs": "rs"}


def added(path: str, old: str, new: str) -> list[tuple[int, str]]:
    """The lines of ``new``, with what they do, that end a test run or hook into its runner.

    Only what ``old``, the content before ("" for a new file), did not do as often.
    """
    ending = path.rpartition(".")[2].lower()
    if ending == "py":
        before, after = list(_python(old)), list(_python(new))
    else:
        pattern = _LINES.get(_ENDINGS.get(ending, ending))
        if pattern is None:
            return []
        before, after = (
            [
                (n, line.strip())
                for n, line in enumerate(text.split("\n"), 1)
                if pattern.search(line)
            ]
            for text in (old, new)
        )
    surplus = Counter(what for _, what in after)
    surplus.subtract(what for _, what in before)
    found = []
    for line, what in reversed(after):
        if surplus[what] > 0:
            surplus[what] -= 1
            found.append((line, what))
    return found[::-1]


def _python(text: str) -> Iterator[tuple[int, str]]:
    try:
        module = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    yield from _anywhere(module)
    yield from _at_import(module.body)


def _anywhere(module: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] in _RUNNERS:
                    yield node.lineno, f"import {alias.name}"
        elif isinstance(node, ast.ImportFrom):
            if not node.level and (node.module or "").partition(".")[0] in _RUNNERS:
                yield node.lineno, f"import {node.module}"
            if any(alias.name == "_exit" for alias in node.names):
                yield node.lineno, "_exit"
        elif isinstance(node, ast.Attribute) and node.attr in ("_exit", "abort", "_Exit"):
            yield node.lineno, ast.unparse(node)[:80]
        elif isinstance(node, ast.Constant) and node.value == "_exit":
            yield node.lineno, "'_exit'"


def _at_import(body: list[ast.stmt]) -> Iterator[tuple[int, str]]:
    """Exits that happen as soon as the module is imported."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.If) and "__main__" in ast.unparse(node.test):
            continue
        inner: list[ast.stmt] = []
        for name in ("body", "orelse", "finalbody"):
            inner += getattr(node, name, [])
        for handler in getattr(node, "handlers", []):
            inner += handler.body
        if inner:
            yield from _at_import(inner)
            continue
        for one in ast.walk(node):
            if isinstance(one, ast.Call | ast.Raise):
                called = one.func if isinstance(one, ast.Call) else one.exc
                what = "" if called is None else ast.unparse(called).partition("(")[0]
                if what in ("sys.exit", "exit", "quit", "SystemExit", "os.kill", "os.killpg"):
                    yield node.lineno, f"{what} while it is imported"
                    break
