"""Reads manifests: entry points, the project's name, and the packages that it requires.

They are read line by line, for the line numbers. The project is a symbol of kind module.
"""

from __future__ import annotations

import json
import re
from itertools import islice

from rlm_ci.source import PARSED, EntryPoint, Import, Outline, Symbol
from rlm_ci.source.signatures import clipped, line_count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

#: Bytes of a manifest that is read.
_MAX_BYTES = 1 << 20
#: The most names that are read of one table, and files that one alias may name.
_MOST = 500
_STANDS_FOR = 20
#: Characters of what a script runs.
_COMMAND = 1000
_TABLE = re.compile(r"\s*\[\[?([^\[\]]*)\]\]?\s*(?:#.*)?$")
_NEEDED = re.compile(
    r"""(?:target\s*\.\s*(?:'[^']*'|"[^"]*"|[\w.-]+)\s*\.\s*)?"""
    r"""((?:workspace\s*\.\s*|dev-|build-|dev_|build_)?dependencies)(?:\s*\.\s*("[^"]+"|'[^']+'|[\w-]+))?"""
)
_KEY = re.compile(r"""\s*(?:"([^"]+)"|'([^']+)'|([\w.-]+))\s*=\s*(.*)$""")
_SCRIPT = re.compile(r"\s*([\w.-]+)\s*=\s*([\w.]+(?::[\w.]+)?[^#]*)")
_TARGET = re.compile(r"([A-Za-z0-9][\w./-]*)(?: +[A-Za-z0-9][\w./-]*)*\s*:(?![=:])")
_SCRIPT_TABLES = {
    "project.scripts": "script", "project.gui-scripts": "script", "tool.poetry.scripts": "script",
    "project.entry-points.console_scripts": "script",
}  # fmt: skip


class _Manifest:
    def __init__(self) -> None:
        self.symbols: list[Symbol] = []
        self.entries: list[EntryPoint] = []
        #: The ``main`` of a ``package.json``, which represents it; of others, what is needed.
        self.imports: list[Import] = []

    def enter(self, kind: str, name: str, line: int, runs: object = "") -> None:
        text = runs[:_COMMAND] if isinstance(runs, str) else ""
        self.entries.append(EntryPoint.of((kind, clipped(name, 300), line, line, text)))

    def need(self, name: str, line: int, files: tuple[str, ...] = ()) -> None:
        self.imports.append(Import.of((clipped(name, 300), files, line, 0, ())))

    def call(self, name: str, line: int) -> None:
        """Add the project's name, as a symbol that is not public."""
        shown = clipped(name, 300)
        self.symbols.append(Symbol.of(("module", shown, line, line, False, "", "", 0, 0)))


def outline(path: str, language: str, content: bytes) -> Outline | None:
    """The outline of a manifest; None for any other file."""
    read = _reader(path, language)
    if read is None or len(content) > _MAX_BYTES or b"\0" in content:
        return None
    lines = content.decode("utf-8", "replace").replace("\r\n", "\n").split("\n")
    manifest = _Manifest()
    read(manifest, lines)
    return Outline(
        path,
        language,
        PARSED,
        line_count(content),
        symbols=tuple(manifest.symbols),
        imports=tuple(manifest.imports),
        entries=tuple(manifest.entries),
    )


def _reader(path: str, language: str) -> Callable[[_Manifest, list[str]], None] | None:
    folder, _, name = path.rpartition("/")
    if language == "YAML" and f"/{folder}".endswith("/.github/workflows"):
        return _workflow
    readers: dict[str, Callable[[_Manifest, list[str]], None]] = {
        "action.yml": _action,
        "action.yaml": _action,
        "package.json": _package,
        "pyproject.toml": _tables,
        "Cargo.toml": _cargo,
        "setup.cfg": _installed,
        "go.mod": _go,
        "Procfile": _processes,
    }
    if name in readers:
        return readers[name]
    if re.fullmatch(r"(?:ts|js)config(?:\.[\w.-]+)?\.json", name):
        return _typescript
    return {"Dockerfile": _docker, "Makefile": _make}.get(language)


def _tables(manifest: _Manifest, lines: list[str]) -> None:
    """Read ``[project.scripts]``, ``[[bin]]`` and the key ``name`` beside them."""
    table = ""
    for number, line in enumerate(lines, start=1):
        begun = _TABLE.match(line)
        if begun:
            table = begun[1].replace('"', "").replace(" ", "")
            continue
        pair = _KEY.match(line)
        if not pair:
            continue
        key = pair[1] or pair[2] or pair[3]
        value = pair[4].partition("#")[0].strip().strip("\"'")
        if table in _SCRIPT_TABLES:
            manifest.enter("script", key, number, value)
        elif key == "name" and table == "bin":
            manifest.enter("script", value, number)
        elif key == "name" and table in ("project", "package", "tool.poetry"):
            manifest.call(value, number)


def _cargo(manifest: _Manifest, lines: list[str]) -> None:
    _tables(manifest, lines)
    for name, number, table in crates(lines):
        if table.startswith("workspace"):
            continue  # its members may refer to this table
        manifest.need(name, number)


def crates(lines: Sequence[str]) -> Iterator[tuple[str, int, str]]:
    """The crates that a ``Cargo.toml`` requires: the name in code, the line, and the table.

    The table is ``dependencies`` for ``[target.'cfg(unix)'.dependencies]``, too, and for
    ``[dependencies.name]``, which cargo itself writes.
    """
    kind = ""
    seen = set()
    for number, line in enumerate(lines, start=1):
        begun = _TABLE.match(line)
        table = _NEEDED.fullmatch(begun[1].strip()) if begun else None
        pair = None if begun or not kind else _KEY.match(line)
        name = ""
        if begun:
            kind = table[1] if table and not table[2] else ""
            name = table[2].strip("\"'") if table and table[2] else ""
        elif pair:
            name = pair[1] or pair[2] or pair[3].partition(".")[0]
        group = table[1] if table else kind
        if name and (name, group) not in seen:
            seen.add((name, group))
            yield name, number, group


def _installed(manifest: _Manifest, lines: list[str]) -> None:
    inside = False
    for number, line in enumerate(lines, start=1):
        if re.match(r"\s*(console|gui)_scripts\s*=", line):
            inside = True
            continue
        script = _SCRIPT.match(line) if inside and line[:1].isspace() else None
        if script:
            manifest.enter("script", script[1], number, script[2].strip(" \"'"))
        elif line.strip() and not line.lstrip().startswith(("#", ";")):
            inside = False


def _package(manifest: _Manifest, lines: list[str]) -> None:
    try:
        record = json.loads("\n".join(lines))
    except (ValueError, RecursionError):
        return
    if not isinstance(record, dict):
        return
    name = record.get("name")
    name = name if isinstance(name, str) else ""
    if name:
        manifest.call(name, _line_of(lines, "name", 0))
    for key in ("main", "module"):
        main = record.get(key)
        if isinstance(main, str) and main:
            module = main if main.startswith(".") else f"./{main}"
            manifest.imports.append(Import.of((module, (), _line_of(lines, key, 0), 1, ())))
    _alias(manifest, lines, "imports", record.get("imports"), "")
    _exports(manifest, lines, name, record)
    bins = record.get("bin")
    if isinstance(bins, str) and name:
        manifest.enter("script", name.rpartition("/")[2], _line_of(lines, "bin", 0), bins)
    for group, kind in (("bin", "script"), ("scripts", "task")):
        inner = record.get(group)
        number = _line_of(lines, group, 0)
        for key, runs in islice(inner.items(), _MOST) if isinstance(inner, dict) else ():
            number = _line_of(lines, key, number - 1)
            manifest.enter(kind, key, number, runs)


def _exports(manifest: _Manifest, lines: list[str], name: str, record: Mapping[str, Any]) -> None:
    """Add the names by which others import the package: ``exports``, else the main file."""
    inner = record.get("exports")
    number = _line_of(lines, "exports", 0)
    if isinstance(inner, dict) and any(key.startswith(".") for key in inner):
        for key in list(inner)[:_MOST]:
            if key.startswith(".") and inner[key] is not None and key != "./package.json":
                number = _line_of(lines, key, number - 1)
                manifest.enter("package", f"{name}{key[1:]}", number)
    elif name and inner:
        manifest.enter("package", name, number)
    elif name:
        keys = ("main", "module", "browser", "types", "typings")
        begins = next((key for key in keys if isinstance(record.get(key), str)), None)
        if begins is not None:
            manifest.enter("package", name, _line_of(lines, begins, 0))


#: A text; one without an end reaches to the end of the file, so that each byte is read once.
_JSON_TEXT = r'("(?:\\.|[^"\\])*(?:"|\\?\Z))'
_REMARK = re.compile(rf"{_JSON_TEXT}|//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_COMMA = re.compile(rf"{_JSON_TEXT}|,(?=\s*[}}\]])")


def _typescript(manifest: _Manifest, lines: list[str]) -> None:
    """Read the aliases of files in a ``tsconfig.json``, which may have comments."""
    text = _REMARK.sub(lambda match: match[1] or "", "\n".join(lines))
    try:
        record = json.loads(_COMMA.sub(lambda match: match[1] or "", text))
    except (ValueError, RecursionError):
        return
    options = record.get("compilerOptions") if isinstance(record, dict) else None
    if not isinstance(options, dict):
        return
    base = options.get("baseUrl")
    folder = f"{base.rstrip('/')}/" if isinstance(base, str) and base.strip("./") else ""
    _alias(manifest, lines, "paths", options.get("paths"), folder)
    if isinstance(base, str):
        _alias(manifest, lines, "baseUrl", {"*": "*"}, folder)


def _alias(manifest: _Manifest, lines: list[str], key: str, table: object, folder: str) -> None:
    """Add the aliases of a ``table``, with the files below ``folder`` that each may mean."""
    if not isinstance(table, dict):
        return
    line = _line_of(lines, key, 0)
    for name in list(table)[:_MOST]:
        targets = (text for text in _texts(table[name], 0) if text[:1] != "/" and len(text) <= 300)
        manifest.need(name, line, tuple(f"{folder}{text}" for text in islice(targets, _STANDS_FOR)))


def _texts(value: object, depth: int) -> Iterator[str]:
    """The texts in a JSON value: a text, a list, or an object of conditions."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list) and depth < 4:
        for inner in list(value.values() if isinstance(value, dict) else value)[:_MOST]:
            yield from _texts(inner, depth + 1)


def _line_of(lines: list[str], key: str, start: int) -> int:
    """The first line from index ``start`` on that begins the value of ``key``."""
    sign = re.compile(rf"{re.escape(json.dumps(key, ensure_ascii=False))}\s*:")
    for number in range(start, len(lines)):
        if sign.search(lines[number]):
            return number + 1
    return start + 1


def _go(manifest: _Manifest, lines: list[str]) -> None:
    for number, name in islice(_matches(r"module\s+\"?([^\s\"]+)", lines), 1):
        manifest.call(name, number)
    for name, number, _ in go_modules(lines):
        manifest.need(name, number)


def go_modules(lines: Sequence[str]) -> Iterator[tuple[str, int, bool]]:
    """The modules that a ``go.mod`` requires, with their lines, and whether only indirectly."""
    inside = False
    for number, line in enumerate(lines, start=1):
        bare = line.strip()
        if re.match(r"require\s*\($", bare):
            inside = True
        elif bare == ")":
            inside = False
        elif (required := re.match(r"(require\s+)?\"?([^\s\"]+)\"?\s+v\d", bare)) and (
            inside or required[1]
        ):
            yield required[2], number, "// indirect" in bare


def _docker(manifest: _Manifest, lines: list[str]) -> None:
    """The commands that a container starts with: the last of each instruction counts."""
    for word in ("ENTRYPOINT", "CMD"):
        for number, text in [*_matches(rf"(?i)\s*{word}\s+(.+)$", lines)][-1:]:
            manifest.enter("main", f"{word} {text.strip()}", number)


def _make(manifest: _Manifest, lines: list[str]) -> None:
    """The targets of a makefile for people: no patterns, and no files with a suffix."""
    seen = set()
    for number, line in _logical(lines):
        target = _TARGET.match(line)
        for name in target[0].rstrip(": \t").split() if target else ():
            if name not in seen and "." not in name.lstrip(".") and "/" not in name:
                seen.add(name)
                manifest.enter("task", name, number)


def _logical(lines: list[str]) -> Iterator[tuple[int, str]]:
    """The lines that neither continue another one nor belong to a recipe."""
    goes_on = False
    for number, line in enumerate(lines, start=1):
        if not goes_on and not line.startswith(("\t", "#", " ", ".")):
            yield number, line
        goes_on = line.endswith("\\")


def _action(manifest: _Manifest, lines: list[str]) -> None:
    """An action of GitHub: what workflows name by ``uses``."""
    if any(_matches(r"(runs):\s*(?:#.*)?$", lines)):
        for name, number in _called(lines):
            manifest.enter("action", name, number)


def _workflow(manifest: _Manifest, lines: list[str]) -> None:
    for name, number in _called(lines):
        manifest.enter("task", f"workflow: {name}", number)


def _called(lines: list[str]) -> Iterator[tuple[str, int]]:
    """The ``name`` at the top of a YAML file, and its line."""
    for number, text in islice(_matches(r"name:\s*(.+)$", lines), 1):
        yield text.partition(" #")[0].strip().strip("\"'"), number


def _processes(manifest: _Manifest, lines: list[str]) -> None:
    for number, name in _matches(r"([\w-]+):\s*\S", lines):
        manifest.enter("main", f"process: {name}", number)


def _matches(pattern: str, lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    """The numbers of lines that begin with ``pattern``, and the text of its first group."""
    for number, line in enumerate(lines, start=1):
        if match := re.match(pattern, line):
            yield number, match[1]
