"""Where a file lists things of one kind that are added to: by names alone, hard to mistake.

A note of the kind ``REGISTRY`` has the name of the list, or the macro that registers, as ``text``,
or ``switch`` for one over texts, and what is in it as ``detail``, in order.
"""

from __future__ import annotations

import ast
import re

from rlm_ci.source.code_places import CodePlaces
from rlm_ci.source.python.names import dotted, is_class
from rlm_ci.source.python.statements import every
from rlm_ci.wiki.facts.note import REGISTRY, CodeNote
from rlm_ci.wiki.facts.other_notes import lines_of_tests

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

#: Members from which on a list is one that is added to, and members that are kept.
_FEW, _MEMBERS = 3, 200
#: A macro that registers what is its only argument: a path of Rust.
_MACRO = r"\b(?P<name>(?:\w+_)?register(?:_\w+)?)!\s*[({]\s*(?P<member>[A-Za-z_][\w:]*)\s*[)}]"
#: What gives a name of its own a value in a language of scripts, with names alone in it.
_LIST = (
    r"\bconst\s+(?P<name>[A-Za-z_$][\w$]*)(?:\s*:[^=\n]{1,120})?\s*=\s*"
    r"(?:\{(?P<object>[^{}()]{1,8000})\}|\[(?P<array>[^\[\]{}()]{1,8000})\])"
)
#: A case of Go that returns what a function makes; lines between two of them.
_CASE = r"\bcase \"[^\"\n]+\"(?:,\s*\"[^\"\n]+\")*:\s*return (?P<member>(?:\w+\.)?New\w+)\("
_APART = 4
_ENTRY = re.compile(r"(?:[\"']?[\w.-]+[\"']?\s*:\s*)?([A-Za-z_$][\w$]*)")
_WORDS = frozenset(("false", "null", "true", "undefined"))


def python_registries(module: ast.Module) -> list[CodeNote]:
    """The lists and tables of a file of Python whose members are modules, classes or functions."""
    taken: set[str] | None = None
    notes = []
    for node in module.body:
        if not isinstance(node, ast.Assign | ast.AnnAssign):
            continue
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        value = node.value
        parts: list[ast.expr] = []
        if isinstance(value, ast.Dict) and all(isinstance(key, ast.Constant) for key in value.keys):
            parts = value.values
        elif isinstance(value, ast.List | ast.Tuple | ast.Set):
            parts = value.elts
        names = [dotted(part) for part in parts]
        if not isinstance(target, ast.Name) or len(names) < _FEW or not all(names):
            continue
        if taken is None:  # few files have such a list
            taken = _imported(module)
        if all(name.partition(".")[0] in taken or is_class(name) for name in names):
            notes += _note(target.id, names, node.lineno, node.end_lineno or node.lineno)
    return notes


def _imported(module: ast.Module) -> set[str]:
    """The names that the imports of a file bind, at any depth."""
    return {
        name.asname or name.name.partition(".")[0]
        for node in every(module)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in node.names
    }


def other_registries(language: str, source: bytes) -> list[CodeNote]:
    """The lists of a script, and what macros of Rust register."""
    if language == "Rust" and b"register" in source:
        return _registered(source)
    if language == "Go" and b"switch" in source:
        return _chosen(source)
    if language not in ("JavaScript", "TypeScript", "TSX"):
        return []
    notes = []
    for match, line in CodePlaces(language, source).matches(_LIST):
        parts = [part.strip() for part in (match["object"] or match["array"]).split(",")]
        entries = [_ENTRY.fullmatch(part) for part in parts if part]
        names = [entry[1] for entry in entries if entry and entry[1] not in _WORDS]
        if len(names) == len(entries):
            notes += _note(match["name"], names, line, line + match[0].count("\n"))
    return notes


def _registered(source: bytes) -> list[CodeNote]:
    aside = lines_of_tests(source.decode("utf-8", "surrogateescape"))
    groups: dict[str, list[tuple[str, int]]] = {}
    for match, line in CodePlaces("Rust", source).matches(_MACRO):
        if line not in aside:
            groups.setdefault(match["name"], []).append((match["member"], line))
    return [
        note
        for name, rows in groups.items()
        for note in _note(f"{name}!", [row[0] for row in rows], rows[0][1], rows[-1][1])
    ]


def _chosen(source: bytes) -> list[CodeNote]:
    """What the cases of one ``switch`` over texts make, each by a function of its own."""
    rows = [(match["member"], line) for match, line in CodePlaces("Go", source).matches(_CASE)]
    notes: list[CodeNote] = []
    group: list[tuple[str, int]] = []
    for member, line in [*rows, ("", 0)]:
        if group and (not member or line - group[-1][1] > _APART):
            names = [row[0] for row in group]
            notes += _note("switch", names, group[0][1], group[-1][1] + 1)
            group = []
        group.append((member, line))
    return notes


def _note(name: str, members: Iterable[str], first: int, last: int) -> list[CodeNote]:
    names = list(dict.fromkeys(members))
    if not _FEW <= len(names) <= _MEMBERS:
        return []
    return [CodeNote(REGISTRY, first, last, "", name, ", ".join(names))]
