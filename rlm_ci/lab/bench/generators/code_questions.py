"""Questions to the source of an installed package; the answers come from its syntax trees."""

from __future__ import annotations

import ast
import os
import sysconfig
from hashlib import sha256
from importlib.util import find_spec

from rlm_ci.errors import ConfigError
from rlm_ci.lab.bench.generators.seeded import Chance, ContextFile, GeneratedCase
from rlm_ci.system import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    Trees = Mapping[str, ast.Module]

VERSION = 1
#: ``package``: one that is installed, or ``stdlib`` for all of the standard library.
OPTIONS = {"kind": "functions", "package": "json"}
_STDLIB = "stdlib"
_SKIPPED = {"__pycache__", "site-packages", "test", "tests", "idlelib", "lib2to3"}
_FILE_BYTES = 4 << 20
_NAMES = "Answer with the names alone, one a line."
_NUMBER = "Answer with the number alone."


def depends_on(options: Mapping[str, Any]) -> dict[str, Any]:
    """The sources: another version of the package makes another suite."""
    digest = sha256()
    room = options["tokens"] * 4
    for path, data in _sources(options["package"]):
        room -= len(data)
        if room < 0:
            break
        digest.update(path.encode() + b"\0" + data + b"\0")
    return {"sources": digest.hexdigest()}


def make(folder: str, seed: int, tokens: int, *, kind: str, package: str) -> GeneratedCase:
    if kind not in KINDS:
        raise ConfigError(
            f"kind must be one of {', '.join(KINDS)}", where="context", hint="fix that value"
        )
    trees: dict[str, ast.Module] = {}
    with ContextFile(folder, tokens) as file:
        for path, data in _sources(package):
            text = data.decode("utf-8", "replace")
            try:
                tree = ast.parse(text)
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                continue  # a file for another version of Python
            if not file.add(f"# ---- file: {path} ----\n{text}\n"):
                break
            trees[path] = tree
    candidates = sorted(KINDS[kind](trees), key=lambda pair: pair[0])
    if not candidates:
        raise ConfigError(
            f"{package} has nothing in {tokens:,} tokens to ask about ({kind})",
            where="context",
            hint="raise tokens, or name another package or kind",
        )
    question, right = Chance("code-questions", seed).pick(candidates)
    scorer = {list: "f1", int: "numeric", str: "exact"}[type(right)]
    return GeneratedCase(question, right, scorer)


def _sources(package: str) -> Iterator[tuple[str, bytes]]:
    """Path and content of the package's modules, in order. Raises ConfigError."""
    top, name = _folder(package)
    for folder, inner, names in os.walk(top):
        inner[:] = sorted(name for name in inner if name not in _SKIPPED)
        for file in sorted(file for file in names if file.endswith(".py")):
            path = os.path.join(folder, file)
            shown = "/".join((name, *os.path.relpath(path, top).split(os.sep)))
            data = files.read_or_none(path, _FILE_BYTES)
            if data is not None:
                yield shown.lstrip("/"), data


def _folder(package: str) -> tuple[str, str]:
    if package == _STDLIB:
        return sysconfig.get_path("stdlib"), ""
    # Only a name without dots: the parents of others would be imported.
    try:
        spec = find_spec(package) if package.isidentifier() else None
    except ValueError:  # such as __main__
        spec = None
    places = list(spec.submodule_search_locations or ()) if spec else []
    if not places:
        raise ConfigError(
            f"there is no installed package {package[:80]!r}",
            where="context",
            hint="name one with a folder of modules, such as json, or stdlib",
        )
    return places[0], package


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def _functions(trees: Trees) -> Iterator[tuple[str, int]]:
    for path, tree in trees.items():
        number = sum(isinstance(node, _FUNCTIONS) for node in ast.walk(tree))
        if number > 1:
            question = "How many functions and methods (def and async def, inner ones too) does the"
            yield f"{question} file {path} define? {_NUMBER}", number


def _classes(trees: Trees) -> Iterator[tuple[str, str]]:
    homes: dict[str, list[str]] = {}
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, []).append(path)
    for name, paths in homes.items():
        if len(paths) == 1:
            yield f"Which file defines the class {name}? Answer with its path alone.", paths[0]


def _subclasses(trees: Trees) -> Iterator[tuple[str, int]]:
    bases: dict[str, int] = {}
    for node in (node for tree in trees.values() for node in ast.walk(tree)):
        for base in node.bases if isinstance(node, ast.ClassDef) else ():
            name = base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "")
            bases[name] = bases.get(name, 0) + 1
    for name, number in bases.items():
        if name:
            question = (
                f"How many class statements name {name} (also as an attribute, such as x.{name})"
            )
            yield f"{question} directly among their bases? {_NUMBER}", number


def _parameters(trees: Trees) -> Iterator[tuple[str, list[str]]]:
    for path, tree in trees.items():
        defined = [node for node in tree.body if isinstance(node, _FUNCTIONS)]
        for node in defined:
            listed = node.args
            names = [
                argument.arg for argument in (*listed.posonlyargs, *listed.args, *listed.kwonlyargs)
            ]
            is_plain = listed.vararg is None and listed.kwarg is None
            once = sum(function.name == node.name for function in defined) == 1
            if len(names) > 1 and is_plain and once:
                yield f"Which parameters has the function {node.name} in {path}? {_NAMES}", names


def _raisers(trees: Trees) -> Iterator[tuple[str, list[str]]]:
    for path, tree in trees.items():
        raisers: dict[str, set[str]] = {}
        for function in (node for node in ast.walk(tree) if isinstance(node, _FUNCTIONS)):
            for node in ast.walk(function):
                raised = node.exc if isinstance(node, ast.Raise) else None
                raised = raised.func if isinstance(raised, ast.Call) else raised
                if isinstance(raised, ast.Name):
                    raisers.setdefault(raised.id, set()).add(function.name)
        for name, functions in raisers.items():
            question = f"Which functions and methods of {path} contain a statement raise {name}?"
            yield f"{question} {_NAMES}", sorted(functions)


def _importers(trees: Trees) -> Iterator[tuple[str, list[str]]]:
    importers: dict[str, set[str]] = {}
    for path, tree in trees.items():
        for node in ast.walk(tree):
            for alias in node.names if isinstance(node, ast.Import) else ():
                importers.setdefault(alias.name, set()).add(path)
    for name, paths in importers.items():
        question = f"Which files contain a statement import {name} (not from {name} import ...)?"
        yield f"{question} Answer with the paths alone, one a line.", sorted(paths)


KINDS: Mapping[str, Callable[[Trees], Iterator[tuple[str, Any]]]] = {
    "functions": _functions,
    "classes": _classes,
    "subclasses": _subclasses,
    "parameters": _parameters,
    "raisers": _raisers,
    "importers": _importers,
}
