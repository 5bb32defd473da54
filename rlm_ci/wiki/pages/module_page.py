"""The page of a module, as its template sees it: texts that are neutral already, and links."""

from __future__ import annotations

from rlm_ci.source import UNPARSED
from rlm_ci.text.markdown import code, prose
from rlm_ci.text.printable import count, printable
from rlm_ci.values import Value
from rlm_ci.wiki.facts import note as kinds
from rlm_ci.wiki.facts.readme import plain
from rlm_ci.wiki.pages.dependencies_map import neighbourhood
from rlm_ci.wiki.pages.layout import CONTAINERS, api, base_of, given_names, public, told
from rlm_ci.wiki.pages.name_list import linked, listing
from rlm_ci.wiki.pages.paths import folder_of, is_test
from rlm_ci.wiki.pages.wording import listed, paragraph, sentence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from rlm_ci.git.history import GitHistory
    from rlm_ci.source import Symbol
    from rlm_ci.source.import_graph import ImportEdge, ImportGraph
    from rlm_ci.wiki.facts.file_facts import FileFacts
    from rlm_ci.wiki.pages.citations import CitationRegister, CitedPlace
    from rlm_ci.wiki.pages.dependencies_map import ModuleDependencies
    from rlm_ci.wiki.pages.layout import Module, PageLayout
    from rlm_ci.wiki.update.state import ProseSentence

#: Notes that are told of one kind, and names that a package itself gives.
_NOTES, _EXPORTS = 12, 80
#: What can be imported, and is no package: orders to the compiler, what type checkers alone have.
NO_PACKAGES = frozenset(("__future__", "_typeshed"))
#: Doors in a row that pass a name on.
_PASSED_ON = 2
#: Files that stand for their folder, and may give what others define.
_DOORS = (
    "__init__.py", "index.ts", "index.tsx", "index.js", "index.mjs", "index.cjs", "lib.rs",
    "mod.rs",
)  # fmt: skip
#: Lines from which on a file should have a test that imports it.
LARGE = 300


class PageSources(Value):
    """All that pages are written from; each needs to know something of the others.

    ``beyond`` are the repository's files outside of the one folder that is looked at, None where
    all of it is; ``needed`` what the manifests out there declare.
    """

    files: Mapping[str, FileFacts]
    layout: PageLayout
    omitted: Sequence[tuple[str, str]]
    chronicle: GitHistory | None
    titles: Mapping[str, str]
    names: Mapping[str, str]
    around: ModuleDependencies
    untested: frozenset[str]
    prose: Mapping[str, tuple[ProseSentence, ...]]
    graph: ImportGraph
    beyond: frozenset[str] | None = None
    needed: frozenset[str] = frozenset()

    def inner(self, path: str) -> Sequence[ImportEdge]:
        """The files of the repository that one imports."""
        found: Sequence[ImportEdge] = self.graph.internal.get(path, ())
        return found


def chapter(module: Module, world: PageSources, register: CitationRegister) -> dict[str, Any]:
    """All that stands on the page."""
    files = module.files
    lines = sum(one.outline.lines for one in files)
    return {
        "title": prose(module.title),
        "head": f"{count(len(files), 'file')}, {count(lines, 'line')} of {_languages(files)}",
        "doc": _documentation(module, register),
        "said": said(world.prose.get(module.key, ()), register),
        "files": [] if module.is_file else [_file(one, module, world, register) for one in files],
        "diagram": neighbourhood(module, world.around, world.titles),
        "uses": _others(world.around.out.get(module.key, {}), world, register),
        "used_by": _others(world.around.into.get(module.key, {}), world, register),
        "is_part": world.beyond is not None,
        "elsewhere": _elsewhere(module, world, register),
        "packages": _packages(module, world, register),
        "library": _library(module, world, register),
        "entries": entries(files, register),
        "exports": _exports(module, world, register),
        "api": [
            group
            for one in files
            if (group := listing(one, module, world.layout.given, register)) is not None
        ],
        "invariants": notes(files, kinds.INVARIANTS, register),
        "risks": [*notes(files, kinds.RISKS, register), *_untested(files, world, register)],
    }


def _languages(files: Sequence[FileFacts]) -> str:
    counts: dict[str, int] = {}
    for one in files:
        name = one.outline.language
        counts[name] = counts.get(name, 0) + one.outline.lines
    names = sorted(counts, key=lambda name: (-counts[name], name))
    return prose(listed(names, 3))


def said(claims: Sequence[ProseSentence], register: CitationRegister) -> list[dict[str, str]]:
    """What a model has said, each sentence with the place that it holds by."""
    return [
        {"text": prose(one.text), "link": register.link(one.path, one.line_start, one.line_end)}
        for one in claims
    ]


def documenting(files: Sequence[FileFacts], folder: str) -> FileFacts | None:
    """The file whose documentation is the module's: its door, or the only one."""
    doors = (
        "__init__.py",
        "mod.rs",
        "lib.rs",
        "index.ts",
        "index.js",
        "doc.go",
        "main.go",
        "package-info.java",
    )
    inside = [one for one in files if folder_of(one.path) == folder and one.outline.doc]
    for door in doors:
        for one in inside:
            if one.path.rpartition("/")[2] == door:
                return one
    if sum(one.outline.lines > 0 for one in files) == 1:
        return inside[0] if inside else None
    if inside and all(one.outline.language == "Go" for one in inside):
        return inside[0]
    return None


def _documentation(module: Module, register: CitationRegister) -> dict[str, str] | None:
    one = documenting(module.files, module.folder)
    if one is None:
        return None
    outline = one.outline
    return {
        "text": paragraph(outline.doc),
        "link": register.link(one.path, outline.doc_start, outline.doc_end),
    }


def _file(
    one: FileFacts, module: Module, world: PageSources, register: CitationRegister
) -> dict[str, str]:
    outline = one.outline
    names = api(one, module.folder, world.layout.given)
    shown = one.path.removeprefix(f"{module.folder}/") if module.folder else one.path
    doc = ""
    if outline.doc:
        link = register.link(one.path, outline.doc_start, outline.doc_end, cell=True)
        doc = f"{sentence(outline.doc, cell=True)} {link}"
    else:
        doc = main_names([one]) or _otherwise(one, world)
    return {
        "name": code(printable(shown), cell=True),
        "lines": f"{outline.lines:,}",
        "names": str(len(names)) if names is not None else _unlisted(one),
        "doc": doc,
    }


def _unlisted(one: FileFacts) -> str:
    return "stub" if one.path.endswith(".pyi") else "inner"


def main_names(files: Sequence[FileFacts]) -> str:
    """What files define, where they do not say themselves what they are."""
    every = [pair for one in files for pair in _tops(one)]
    tops = [one for one in every if one[0].kind not in ("constant", "variable")] or every
    tops.sort(key=lambda one: one[0].kind not in CONTAINERS)
    names = dict.fromkeys(name for _, name in tops)
    return listed([code(printable(name), cell=True) for name in names], 4)


def _tops(one: FileFacts) -> list[tuple[Symbol, str]]:
    """What stands in no other public symbol of the file, and its whole name."""
    symbols = [symbol for _, symbol in public(one)]
    names = {symbol.name for symbol in symbols}
    return [
        (symbol, told(one, symbol.name))
        for symbol in symbols
        if symbol.name.rpartition(".")[0] not in names
    ]


def _otherwise(one: FileFacts, world: PageSources) -> str:
    """What a file is that neither says it nor has public names: what it passes on, or else does."""
    outline = one.outline
    tops = [symbol for symbol in outline.symbols if "." not in symbol.name]
    shared = [symbol for symbol in tops if symbol.is_public or symbol.name.startswith("__")]
    is_door = one.path.rpartition("/")[2] == "__init__.py"
    passed = outline.exported or (sorted(_given(one, world, _PASSED_ON)) if is_door else ())
    own = {symbol.name for symbol in shared}
    for words, names in (
        ("passes on", [name for name in passed if name not in own and name != "*"]),
        ("names:", [symbol.name for symbol in shared]),
        ("inner names:", [symbol.name for symbol in tops]),
        ("imports", [f"{'.' * found.level}{found.module}" for found in outline.imports]),
    ):
        if names:
            shown = [code(printable(name), cell=True) for name in dict.fromkeys(names)]
            return f"{words} {listed(shown, 4)}"
    if not outline.lines:
        return "empty"
    return "not parsed" if outline.state == UNPARSED else "no names"


def _others(
    found: Mapping[str, CitedPlace], world: PageSources, register: CitationRegister
) -> list[dict[str, str]]:
    return [
        {
            "title": prose(world.titles[key]),
            "page": f"{world.names[key]}.md",
            "link": register.link(*found[key]),
        }
        for key in sorted(found)
    ]


def _elsewhere(module: Module, world: PageSources, register: CitationRegister) -> str:
    """The repository's own files outside of the folder that is looked at, which a module uses."""
    found: dict[str, tuple[str, int]] = {}
    for one in module.files if world.beyond else ():
        for edge in world.inner(one.path):
            if world.beyond is not None and edge.target in world.beyond:
                found.setdefault(edge.target, (one.path, edge.line))
    shown = [
        f"{code(printable(target))} {register.link(path, line, line)}"
        for target, (path, line) in sorted(found.items())[:_NOTES]
    ]
    more = f" and {len(found) - _NOTES:,} more" if len(found) > _NOTES else ""
    return ", ".join(shown) + more


def _packages(
    module: Module, world: PageSources, register: CitationRegister
) -> list[dict[str, str]]:
    return [
        {"name": code(printable(one.package)), "link": register.link(*one.place)}
        for one in world.around.packages.get(module.key, ())
        if not one.is_standard and one.package not in NO_PACKAGES
    ]


def _library(module: Module, world: PageSources, register: CitationRegister) -> str:
    """What comes with the languages: nothing to install, and nothing to keep current."""
    return ", ".join(
        f"{code(printable(one.package))} {register.link(*one.place)}"
        for one in world.around.packages.get(module.key, ())
        if one.is_standard and one.package not in NO_PACKAGES
    )


def entries(
    files: Sequence[FileFacts], register: CitationRegister, most: int | None = None
) -> list[dict[str, str]]:
    """Where something begins to run, the first ``most``; tests are told elsewhere."""
    found = [(one, entry) for one in files for entry in one.outline.entries if entry.kind != "test"]
    return [
        {
            "kind": prose(entry.kind),
            "name": code(printable(entry.name)),
            "link": register.link(
                one.path, entry.line_start, min(entry.line_end, entry.line_start + 11)
            ),
        }
        for one, entry in found[:most]
    ]


def entry_count(files: Sequence[FileFacts]) -> int:
    return sum(entry.kind != "test" for one in files for entry in one.outline.entries)


# ── names ──


def _exports(module: Module, world: PageSources, register: CitationRegister) -> str:
    found = exports(module, world)
    return linked([(name, *found[name]) for name in sorted(found)], _EXPORTS, register)


def exports(module: Module, world: PageSources) -> dict[str, tuple[FileFacts, int]]:
    """Names that a package's door takes from files within, and so gives out."""
    first = f"{module.key}/" if module.key else ""
    doors = {f"{first}{name}" for name in _DOORS}
    one = next((one for one in module.files if one.path in doors), None)
    return {} if one is None else _given(one, world, _PASSED_ON)


def _given(door: FileFacts, world: PageSources, further: int) -> dict[str, tuple[FileFacts, int]]:
    """What a door gives of other files, and of what other doors give, by name."""
    targets: dict[int, list[str]] = {}
    for edge in world.inner(door.path):
        targets.setdefault(edge.line, []).append(edge.target)
    found: dict[str, tuple[FileFacts, int]] = {}
    for wanted in door.outline.imports:
        # The graph keeps the first line only that leads to a file: others may, too.
        base = base_of(folder_of(door.path), wanted)
        paths = [f"{base}.py", f"{base}/__init__.py"] if base is not None else []
        names = given_names(door, wanted)
        if door.outline.language != "Python":
            names = names if door.outline.exported else {}
            paths = [] if wanted.line in targets else _called_so(wanted.module, door, world)
        for path in dict.fromkeys([*targets.get(wanted.line, ()), *paths]):
            other = world.files.get(path)
            if other is None or path == door.path or is_test(path):
                continue
            _take(found, names, _own(other, is_all="*" in names), door)
            is_door = path.rpartition("/")[2] in _DOORS
            if further and is_door and names.keys() - found.keys():
                _take(found, names, _given(other, world, further - 1), door)
    return found


def _called_so(module: str, door: FileFacts, world: PageSources) -> list[str]:
    """Of the files that a door imports, those that are called as the last word of ``module``."""
    last = module.replace("::", "/").rpartition("/")[2].partition(".")[0]
    found = []
    for edge in world.inner(door.path):
        stem = edge.target.rpartition(".")[0].removesuffix("/mod").removesuffix("/index")
        if last and stem.rpartition("/")[2] == last:
            found.append(edge.target)
    return found


def _own(one: FileFacts, *, is_all: bool) -> dict[str, tuple[FileFacts, int]]:
    """What a file defines, by name; what ``import *`` takes of it where that takes all."""
    found: dict[str, tuple[FileFacts, int]] = {}
    for number, symbol in enumerate(one.outline.symbols):
        if "." not in symbol.name and (symbol.is_public or not is_all):
            found.setdefault(symbol.name, (one, number))
    return found


def _take(
    found: dict[str, tuple[FileFacts, int]],
    names: Mapping[str, str],
    there: Mapping[str, tuple[FileFacts, int]],
    door: FileFacts,
) -> None:
    """Add what a door gives by ``names`` of what is ``there``."""
    listed = door.outline.exported
    for name, wanted in names.items():
        if wanted in there:
            found.setdefault(name, there[wanted])
    if "*" in names:
        for name, place in there.items():
            if not listed or "*" in listed or name in listed:
                found.setdefault(name, place)


# ── what it demands and dares ──


def notes(
    files: Sequence[FileFacts],
    headings: Mapping[str, str],
    register: CitationRegister,
    most: int = _NOTES,
) -> list[dict[str, Any]]:
    """The notes of these kinds, in the order of the headings; the files come in turn."""
    groups = []
    for kind, heading in headings.items():
        found = [(one, note) for one in files for note in one.notes if note.kind == kind]
        if found:
            items = [_note(one, note, register) for one, note in found[:most]]
            groups.append({"heading": heading, "items": items, "more": len(found) - len(items)})
    return groups


def _note(one: FileFacts, note: kinds.CodeNote, register: CitationRegister) -> dict[str, str]:
    link = register.link(one.path, note.line_start, note.line_end)
    within = code(printable(note.within)) if note.within else ""
    if note.kind == kinds.RAISES:
        name, _, condition = note.text.partition(": ")
        text = f"{within} raises {code(printable(name))} if {code(printable(condition))}"
        text += f": “{prose(plain(note.detail))}”" if note.detail else ""
    elif note.kind == kinds.CHOICES:
        text = f"{code(printable(note.text))}: {code(printable(note.detail))}"
    elif note.kind == kinds.MARKER:
        text = prose(note.text)
    elif note.kind == kinds.ENVIRONMENT and note.detail:
        text = code(printable(note.detail)) + (f" in {within}" if within else "")
    else:
        text = code(printable(note.text)) + (
            f" in {within}" if within and note.kind in kinds.RISKS else ""
        )
    return {"text": text, "link": link}


def _untested(
    files: Sequence[FileFacts], world: PageSources, register: CitationRegister
) -> list[dict[str, Any]]:
    items = [
        {
            "text": f"{code(printable(one.path.rpartition('/')[2]))} has "
            f"{count(one.outline.lines, 'line')}",
            "link": register.link(one.path, 1, one.outline.lines),
        }
        for one in files
        if one.path in world.untested
    ]
    heading = "Large, and imported by no test"
    return [{"heading": heading, "items": items, "more": 0}] if items else []
