"""Where a file lists things of one kind that are added to: by names alone, hard to mistake.

A note of the kind ``REGISTRY`` has the name of the list, or the macro that registers, as ``text``,
or ``switch`` for one over texts, and what is in it as ``detail``, in order.
"""

from __future__ import annotations

import ast
import re

from rlm_ci.source.python.names import dotted, is_class
from rlm_ci.source.python.statements import every
from rlm_ci.wiki.facts.note import REGISTRY, CodeNote, ProgramText

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: Members from which on a list, or a choice by a text, is one that is added to; those kept.
_FEW, _PAIR, _MEMBERS = 3, 2, 200
#: Decorators that register what they decorate, by their last name.
_REGISTERS = re.compile(
    r"(?:\w+_)?(?:command|group|hook|hookimpl|plugin|register|register_\w+|route|rule|subcommand|task)"
)
_ADDS = re.compile(r"add(?:_\w+)?|register(?:_\w+)?|include_\w+")
#: A macro that registers what is its only argument: a path of Rust.
_MACRO = r"\b(?P<name>(?:\w+_)?register(?:_\w+)?)!\s*[({]\s*(?P<member>[A-Za-z_][\w:]*)\s*[)}]"
#: A type of Rust that has a trait.
_IMPL = (
    r"(?m)^[ \t]*(?:unsafe )?impl\b(?:<[^{}()]{0,200}?>)?\s+(?:\w+::)*(?P<trait>[A-Z]\w*)"
    r"(?:<[^{};()]{0,200}?>)?\s+for\s+(?P<type>[A-Z]\w*)\b"
)
#: What gives a name at the top of a script a value, with names alone in it.
_SCRIPT_LIST = (
    r"(?m)^(?:(?:export\s+)?const\s+(?P<name>[A-Za-z_$][\w$]*)(?:\s*:[^=\n]{1,120})?\s*=|"
    r"export\s+default)\s*(?:(?:new\s+(?:Map|Set)(?:<[^\n()]{0,80}>)?|Object\.freeze)\(\s*)?(?:"
    r"\{(?P<object>[^{}()]{1,8000})\}|\[(?P<array>(?:[^\[\]{}()]|\[[^\[\]{}()]*\]){1,8000})\])"
)
#: A map or a list of Go, of values or pointers of one type, with names alone in it.
_GO_LIST = (
    r"\b(?P<name>(?!var\b)[A-Za-z_]\w*)(?:[ \t]+(?:map\[[\w.]+\]|\[\])[\w.*]{1,80})?\s*:?=\s*"
    r"(?:map\[[\w.]+\]|\[\])(?P<type>\*?[\w.]+|func\([^\n{}]{0,200})\{(?P<array>[^{}]{1,8000})\}"
)
#: A case of Go that returns what a function makes, or a value of a type; lines between two of them.
_CASE = (
    r"\bcase (?:\"[^\"\n]+\"|[\w.]+)(?:,\s*(?:\"[^\"\n]+\"|[\w.]+))*:\s*"
    r"return (?:(?P<member>(?:\w+\.)?New\w+)\(|&?(?P<literal>(?:\w+\.)?[A-Za-z]\w*)\{)"
)
_APART = 4
#: An arm of Rust that chooses a variant, or makes a value, for a text.
_ARM = (
    r"(?<=\")\s*=>\s*(?:\{\s*)?"
    r"(?:(?:Ok|Some|Box::new|Arc::new)\()*(?P<member>(?:\w+::){0,3}[A-Z]\w*(?:::\w+)?)"
)
#: A call that adds a value of a class of its own to what there is, alone in its statement.
_CALL = (
    r"(?m)^[ \t]*(?:[\w$]+\.|\.)*(?P<name>add\w*|put|register\w*|use|with\w*)\(\s*"
    r"(?:[\"'][^\"'\n]{1,80}[\"'],\s*)?(?:&|new\s+|Box::new\()*"
    r"(?P<member>(?:\w+(?:::|\.))*[A-Z]\w*?)(?:\.new|::new|::default)?\s*(?:[({]|\)\s*;?$)"
)
#: A macro at the top of a file of Rust that gets rows in brackets, and the name of a row.
_TABLE = r"(?m)^(?P<name>\w+)!\s*[({](?P<rows>[^;]{1,8000})"
_ROW = re.compile(r"(?m)^(?:    |\t)\(\s*(\w+)\s*,")
#: The entry points of a package of Python that a manifest lists, and one of them.
_GROUP = re.compile(
    r"(?m)^\[project\.entry-points\.[\"']?(?P<name>[\w.-]+)[\"']?\][^\n]*\n(?P<rows>(?:[^\[\n].*\n?|\n)*)"
    r"|^(?P<of_ini>[\w.]+)\s*=[ \t]*\n(?P<lines>(?:[ \t]+[\w.-]+\s*=\s*[\w.]+:[\w.]+.*\n?)+)"
)
_POINT = re.compile(r"(?m)^[ \t]*[\"']?[\w.-]+[\"']?\s*=\s*[\"']?([\w.]+:[\w.]+)")
_ENTRY = re.compile(
    r"(?:(?:[\"']?[\w.-]+[\"']?|\[[\w$.]+\])\s*:\s*|\[\s*[\"'][^\"'\n]+[\"']\s*,\s*)?"
    r"&?([A-Za-z_$][\w$]*(?:\.\w+)?)\s*\]?"
)
#: An object of a class of its own, made at the beginning of a line.
_OBJECT = (
    r"(?m)^[ \t]*(?:\.\.\.\([^\n]*\[)?(?:new |Box::new\()(?P<member>(?:\w+(?:::|\.))*[A-Z]\w*?)"
    r"(?:::new|::default)?[({]"
)
#: Lines between two such objects, each with what it is made of.
_OBJECTS_APART = 8
#: The subcommands of clap: an enumeration, and its variants by their indentation.
_SUBCOMMANDS = re.compile(
    r"(?m)^#\[derive\([^)]*\bSubcommand\b[^)]*\)\](?:\s*#\[[^\]]*\])*\s*(?:pub(?:\([^)]*\))?\s+)?"
    r"enum\s+(?P<name>\w+)[^{]*\{(?P<body>.*?)^\}",
    re.DOTALL,
)
_VARIANT = re.compile(r"(?m)^    ([A-Z]\w*)\s*[,({]")
_REMARK = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_WORDS = frozenset(("false", "nil", "null", "true", "undefined"))
_WHOLE = re.compile(r"\bimport\s+\*\s+as\s+(\w+)")
_SCRIPTS = ("JavaScript", "TypeScript", "TSX")


def python_registries(module: ast.Module) -> list[CodeNote]:
    """The lists and tables of a file of Python whose members are modules, classes or functions."""
    taken: set[str] | None = None
    notes = [*_decorated(module), *_added(module)]
    for node, prefix in _assigned(module):
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        value = node.value
        parts: list[ast.expr] = []
        if isinstance(value, ast.Dict) and all(
            isinstance(key, ast.Constant | ast.Attribute | ast.Name) for key in value.keys
        ):
            parts = value.values
        elif isinstance(value, ast.List | ast.Tuple | ast.Set):
            parts = value.elts
        names = [_member(part) if not prefix else dotted(part) for part in parts]
        if not isinstance(target, ast.Name) or len(names) < _FEW or not all(names):
            continue
        if taken is None:  # few files have such a list
            taken = _bound(module)
        if all(name.partition(".")[0] in taken or is_class(name) for name in names):
            notes += _note(
                f"{prefix}{target.id}", names, node.lineno, node.end_lineno or node.lineno
            )
    return notes


def _assigned(module: ast.Module) -> Iterator[tuple[ast.Assign | ast.AnnAssign, str]]:
    """What gives names values at the top of a file or class, and what stands before the name."""
    for node in module.body:
        inner = node.body if isinstance(node, ast.ClassDef) else [node]
        prefix = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
        for statement in inner:
            if isinstance(statement, ast.Assign | ast.AnnAssign):
                yield statement, prefix


def _member(part: ast.expr) -> str:
    """The name of a member of a list; of an object that is made there, that of its class."""
    if not isinstance(part, ast.Call):
        return dotted(part)
    name = dotted(part.func)
    return name if is_class(name.rpartition(".")[2]) else ""


def _added(module: ast.Module) -> list[CodeNote]:
    """What calls of one name at the top of a file add: ``cli.add_command(build)``."""
    rows = []
    for node in module.body:
        call = node.value if isinstance(node, ast.Expr) else None
        if not isinstance(call, ast.Call) or len(call.args) not in (1, 2):
            continue
        name, member = dotted(call.func), _member(call.args[-1])
        if member and _ADDS.fullmatch(name.rpartition(".")[2]):
            rows.append((f"{name}(…)", member, node.lineno))
    return _by_name(rows)


def _bound(module: ast.Module) -> set[str]:
    """The names of functions at the top of a file, and those that its imports bind anywhere."""
    names = {
        name.asname or name.name.partition(".")[0]
        for node in every(module)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in node.names
    }
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return names | {node.name for node in module.body if isinstance(node, functions)}


def _decorated(module: ast.Module) -> list[CodeNote]:
    """What one decorator registers: a note for each, however few a file has of it."""
    groups: dict[str, list[tuple[str, int]]] = {}
    modules: set[str] = set()
    for node in module.body:
        if isinstance(node, ast.Import):
            modules |= {(name.asname or name.name).partition(".")[0] for name in node.names}
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        for decorator in node.decorator_list:  # that of a module is none of the program
            called = decorator.func if isinstance(decorator, ast.Call) else decorator
            name = dotted(called)
            is_foreign = name.partition(".")[0] in modules
            if name and not is_foreign and _REGISTERS.fullmatch(name.rpartition(".")[2]):
                groups.setdefault(f"@{name}", []).append((node.name, decorator.lineno))
    return [
        CodeNote(REGISTRY, rows[0][1], rows[0][1], "", name, ", ".join(row[0] for row in rows))
        for name, rows in groups.items()
    ]


def other_registries(language: str, source: bytes) -> list[CodeNote]:
    """The lists of a file in another language, and what it registers by macros or calls."""
    if language in ("TOML", "INI"):
        text = source.decode("utf-8", "surrogateescape")
        return _entry_points(text) if "entry" in text else []
    if language not in (*_SCRIPTS, "C#", "Go", "Java", "PHP", "Ruby", "Rust"):
        return []
    code = ProgramText(language, source)
    text = code.text
    notes: list[CodeNote] = []
    if language == "Rust":
        macros = code.program(_MACRO if "register" in text else "")
        notes += _by_name((f"{match['name']}!", match["member"], line) for match, line in macros)
        notes += _runs(code, _ARM, "match", few=_PAIR) if "match" in text else []
        notes += [
            CodeNote(REGISTRY, line, line, "", f"impl {match['trait']}", match["type"])
            for match, line in code.program(_IMPL)
        ]
        for subcommands in _SUBCOMMANDS.finditer(text):
            line = text.count("\n", 0, subcommands.start()) + 1
            names = [
                f"{subcommands['name']}::{name}" for name in _VARIANT.findall(subcommands["body"])
            ]
            last = line + subcommands[0].count("\n")
            notes += _note(f"{subcommands['name']}, the subcommands", names, line, last)
        for match, line in code.matches(_TABLE):
            rows = _ROW.findall(match["rows"])
            notes += _note(f"{match['name']}!", rows, line, line + match[0].count("\n"))
    elif language == "Go":
        notes += _listed(code, _GO_LIST)
        notes += _runs(code, _CASE, "switch", few=_PAIR) if "switch" in text else []
    elif language in _SCRIPTS:
        notes += _listed(code, _SCRIPT_LIST)
    if language in (*_SCRIPTS, "C#", "Java", "PHP", "Rust"):
        notes += _runs(code, _OBJECT, "new", _OBJECTS_APART)
    if re.search(r"\b(?:add|put|register|use|with)\w*\(", text):
        notes += _runs(code, _CALL, "")
    return notes


def _entry_points(text: str) -> list[CodeNote]:
    """The groups of entry points of a manifest, each with what its rows lead to."""
    notes = []
    for match in _GROUP.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        rows = (match["rows"] or match["lines"]).rstrip()
        last = line + match[0].rstrip().count("\n")
        notes += _note(match["name"] or match["of_ini"], _POINT.findall(rows), line, last)
    return notes


def _listed(code: ProgramText, pattern: str) -> list[CodeNote]:
    namespaces = set(_WHOLE.findall(code.text))
    notes = []
    for match, line in code.matches(pattern):
        groups = match.groupdict()
        body = _REMARK.sub("", groups.get("object") or groups["array"])
        parts = [part.strip() for part in re.split(r",(?![^\[\]]*\])", body)]
        entries = [_ENTRY.fullmatch(part) for part in parts if part]
        names = [entry[1] for entry in entries if entry and entry[1] not in _WORDS]
        if groups.get("object") and ":" not in body and not namespaces.issuperset(names):
            continue  # what a module gives, under the names that it has
        if len(names) == len(entries):
            kind = (groups.get("type") or "").lstrip("*")
            name = groups["name"] or "the default export"
            shown = f"{name}: {kind}" if kind and not kind.startswith("func") else name
            notes += _note(shown, names, line, line + match[0].count("\n"))
    return notes


def _by_name(rows: Iterable[tuple[str, str, int]]) -> list[CodeNote]:
    """A list for each first word of the rows, of their members, from the first line to the last."""
    groups: dict[str, list[tuple[str, int]]] = {}
    for name, member, line in rows:
        groups.setdefault(name, []).append((member, line))
    return [
        note
        for name, members in groups.items()
        for note in _note(name, [row[0] for row in members], members[0][1], members[-1][1])
    ]


def _runs(
    code: ProgramText, pattern: str, name: str, apart: int = _APART, few: int = _FEW
) -> list[CodeNote]:
    """Arms or calls near each other, as one list; ``name`` is "" for that of the call."""
    notes: list[CodeNote] = []
    group: list[tuple[str, str, int]] = []
    rows = []
    for match, line in code.program(pattern):
        groups = match.groupdict()
        member = groups["member"] or groups["literal"]
        rows.append((name or groups["name"], member.removesuffix("::new"), line))
    for row in [*rows, ("", "", 0)]:
        if group and (row[0] != group[-1][0] or row[2] - group[-1][2] > apart):
            last = group[-1][2] + (name == "switch")
            text = group[0][0] if name else f"{group[0][0]}(…)"
            notes += _note(text, [member for _, member, _ in group], group[0][2], last, few)
            group = []
        group.append(row)
    return notes


def _note(
    name: str, members: Iterable[str], first: int, last: int, few: int = _FEW
) -> list[CodeNote]:
    names = list(dict.fromkeys(members))
    if not few <= len(names) <= _MEMBERS:
        return []
    return [CodeNote(REGISTRY, first, last, "", name, ", ".join(names))]
