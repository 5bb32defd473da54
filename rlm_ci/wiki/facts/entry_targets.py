"""Where a program begins: the definition behind each script, main, command and route."""

from __future__ import annotations

import json
import posixpath
import re

from rlm_ci.source import Symbol
from rlm_ci.source.imports.file_lookup import folder_of
from rlm_ci.source.uses.file_calls import COMMON
from rlm_ci.source.uses.references import CALL, Definition, uses
from rlm_ci.values import Row
from rlm_ci.wiki.pages.paths import is_aside, is_beside, is_test

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from rlm_ci.source import EntryPoint
    from rlm_ci.source.uses.call_targets import CallResolver
    from rlm_ci.wiki.facts.file_facts import FileFacts

    Read = Callable[[Sequence[str]], Mapping[str, bytes]]

#: The kind of a start that others call, and of the code of a file outside of its definitions.
FUNCTION, TOP = "function", "top"
_KINDS = ("script", "main", "command", "route")
_SCRIPT = re.compile(r"""['"]?([\w.-]+)['"]?\s*=\s*['"]?([\w.]+)(?::([\w.]+))?""")
#: Names that the standards for servers give to what they hand over.
_SERVED = re.compile(r"\bself,\s*(environ|scope)\b[^,]*,\s*(?:start_response|receive)\b")
#: Of the most used, those before the first of other folders, and such folders.
_EARLY = 3
#: Languages whose scripts run from their first line on.
_SCRIPTS = frozenset(("JavaScript", "Python", "Ruby", "TypeScript"))
#: Where a build writes, and what it writes from.
_BUILT = re.compile(r"^(?:\./)?(?:dist|lib|build|out)/")
_SUFFIXES = ("", ".js", ".ts", ".mjs", ".cjs", ".mts", ".tsx", "/index.js", "/index.ts")


class FlowStart(Row):
    """A definition from which a flow begins, and the lines that say so.

    ``uses`` is how often a FUNCTION is called, in so many files.
    """

    kind: str
    name: str
    path: str
    line_start: int
    line_end: int
    at: Definition
    uses: int = 0
    files: int = 0


def entry_starts(
    files: Mapping[str, FileFacts], program: Iterable[str], resolver: CallResolver, read: Read
) -> list[FlowStart]:
    """The entry points whose definitions are known, scripts first, in order of their files."""
    inside = sorted(program)
    manifests = [path for path, file in files.items() if _is_manifest(file)]
    texts = read(sorted(manifests))
    starts: list[FlowStart] = []
    for path in [*sorted(texts), *inside]:
        for entry in files[path].outline.entries:
            if entry.kind not in _KINDS:
                continue
            if path in texts:
                at = _scripted(path, entry, texts[path], inside, resolver, files)
            else:
                at = definition_around(files[path], entry)
            if at is not None:
                row = (entry.kind, entry.name, path, entry.line_start, entry.line_end, at)
                starts.append(FlowStart.of((*row, 0, 0)))
        starts += _served(files[path]) if path not in texts else ()
    return sorted(
        starts, key=lambda start: (_KINDS.index(start.kind), start.path, start.line_start)
    )


def used_starts(
    candidates: Iterable[Definition],
    paths: Sequence[str],
    contents: Mapping[str, bytes],
    files: Mapping[str, FileFacts],
) -> list[FlowStart]:
    """Those of ``candidates`` that ``paths`` call, the most used first, of each folder one early.

    Calls are counted by name, so a name that two of them have is left out, and one that values of
    the language have comes last.
    """
    by_name: dict[str, list[Definition]] = {}
    for at in candidates:
        by_name.setdefault(at.symbol.name.rpartition(".")[2], []).append(at)
    single = {name: inner[0] for name, inner in by_name.items() if len(inner) == 1}
    counts = dict.fromkeys(single, 0)
    for path in paths:
        for _, word, kind in uses(files[path].outline, contents[path]):
            if kind == CALL and word in single and single[word].path != path:
                counts[word] += 1
    called = sorted((name for name, number in counts.items() if number),
                    key=lambda name: (name in COMMON, -counts[name], name))  # fmt: skip
    first: dict[str, str] = {}
    for name in called:
        first.setdefault(folder_of(single[name].path), name)
    starts = []
    for name in dict.fromkeys((*called[:_EARLY], *list(first.values())[:_EARLY], *called)):
        at = single[name]
        symbol = at.symbol
        row = (FUNCTION, symbol.name, at.path, symbol.line_start, symbol.line_end, at)
        starts.append(FlowStart.of((*row, counts[name], len(paths))))
    return starts


def _served(facts: FileFacts) -> Iterator[FlowStart]:
    """The methods of a file by which a server of WSGI or ASGI calls an application."""
    for symbol in facts.outline.symbols:
        match = _SERVED.search(symbol.signature)
        if match and symbol.name.endswith(".__call__"):
            name = f"{'WSGI' if match[1] == 'environ' else 'ASGI'} {symbol.name}"
            lines = symbol.line_start, symbol.line_end
            at = Definition.of((facts.path, symbol))
            yield FlowStart.of(("route", name, facts.path, *lines, at, 0, 0))


def _is_manifest(facts: FileFacts) -> bool:
    if "/" in facts.path and (is_test(facts.path) or is_beside(facts.path) or is_aside(facts.path)):
        return False
    name = facts.path.rpartition("/")[2]
    scripts = any(entry.kind == "script" for entry in facts.outline.entries)
    return scripts and name in ("pyproject.toml", "setup.cfg", "setup.py", "package.json")


def _scripted(  # noqa: PLR0917 - all that says where a script leads
    path: str, entry: EntryPoint, content: bytes, program: Sequence[str], resolver: CallResolver,
    files: Mapping[str, FileFacts],
) -> Definition | None:  # fmt: skip
    """The definition that a manifest names at an entry's line; None if it is not known."""
    text = content.decode("utf-8", "replace")
    if path.endswith("package.json"):
        target = _of_package(path, entry, text, program, files)
        return None if target is None else top_of(files[target], 1, files[target].outline.lines)
    line = "\n".join(text.split("\n")[entry.line_start - 1 : entry.line_end])
    for match in _SCRIPT.finditer(line):
        if match[1] != entry.name:
            continue
        inner = match[2].replace(".", "/")
        ends = (f"{inner}.py", f"{inner}/__init__.py")
        fitting = [
            file for file in program if file in ends or file.endswith(tuple(f"/{w}" for w in ends))
        ]
        folder = folder_of(path)
        fitting.sort(key=lambda file: (not file.startswith(folder), file.count("/"), file))
        for file in fitting:
            if match[3] and (definition := resolver.definition_named(file, match[3])) is not None:
                return definition
    return None


def _of_package(
    path: str,
    entry: EntryPoint,
    text: str,
    program: Sequence[str],
    files: Mapping[str, FileFacts],
) -> str | None:
    """The source file that ``bin`` of a ``package.json`` names, or the one script of that name."""
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return None
    bin_field = record.get("bin") if isinstance(record, dict) else None
    target = bin_field.get(entry.name) if isinstance(bin_field, dict) else bin_field
    if not isinstance(target, str) or len(target) > 300:
        return None
    sources = set(program)
    stem = target.rpartition(".")[0] if target.endswith((".js", ".mjs", ".cjs")) else target
    names = [target, *(f"{base}{suffix}" for base in (target, stem) for suffix in _SUFFIXES)]
    names += [_BUILT.sub("src/", name) for name in names if _BUILT.match(name)]
    every = (posixpath.normpath(posixpath.join(folder_of(path), name)) for name in names)
    exact = next((source for source in every if source in sources), None)
    last = stem.rpartition("/")[2]
    alike = [
        source
        for source in program
        if source.rpartition("/")[2].partition(".")[0] == last
        and any(entry.kind == "script" for entry in files[source].outline.entries)
    ]
    return exact or (alike[0] if len(alike) == 1 else None)


def definition_around(facts: FileFacts, entry: EntryPoint) -> Definition | None:
    """The function that an entry point is, or the code at the top of its file."""
    for symbol in facts.outline.symbols:
        is_callable = symbol.kind in ("function", "method")
        if (
            is_callable
            and symbol.line_start <= entry.line_start
            and symbol.line_end == entry.line_end
        ):
            return Definition.of((facts.path, symbol))
    if entry.kind == "script" and facts.outline.language in _SCRIPTS:
        return top_of(facts, 1, facts.outline.lines)
    return top_of(facts, entry.line_start, entry.line_end) if entry.kind == "main" else None


def top_of(facts: FileFacts, line_start: int, line_end: int) -> Definition | None:
    """The code of some lines outside of definitions, as a definition; None of an empty file."""
    if line_end < line_start or not facts.outline.lines:
        return None
    row = (TOP, facts.path, line_start, line_end, False, "", "", 0, 0)
    return Definition.of((facts.path, Symbol.of(row)))


def public_functions(rows: Iterable[tuple[str, Symbol]]) -> Iterator[Definition]:
    """The functions, classes and methods among public names, whose calls can be told by name."""
    for path, symbol in rows:
        outer, _, last = symbol.name.rpartition(".")
        if symbol.kind in ("function", "class", "method") and not (outer and last in COMMON):
            yield Definition.of((path, symbol))
