"""The page of a module, as its template sees it: texts that are neutral already, and links."""

from __future__ import annotations

import re
from collections import Counter
from itertools import islice

from rlm_ci.source import UNPARSED
from rlm_ci.source.grammars import lacking
from rlm_ci.text.neutralise import clip, code, prose
from rlm_ci.text.printable import count
from rlm_ci.values import Value
from rlm_ci.wiki.facts.note import INVARIANTS, MESSAGE, RISKS
from rlm_ci.wiki.facts.readme import is_readme, listed, paragraph, plain, sentence
from rlm_ci.wiki.pages.layout import (
    CONTAINERS,
    api,
    base_of,
    given_names,
    neighbourhood,
    public,
    shown_name,
)
from rlm_ci.wiki.pages.name_list import linked, listing
from rlm_ci.wiki.pages.paths import folder_of, is_test, title_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, TypeVar

    from rlm_ci.git.history import GitHistory
    from rlm_ci.source import EntryPoint, Symbol
    from rlm_ci.source.import_graph import ImportGraph
    from rlm_ci.wiki.facts.call_flows import CallFlow
    from rlm_ci.wiki.facts.dependencies import OuterProject
    from rlm_ci.wiki.facts.file_facts import FileFacts
    from rlm_ci.wiki.facts.note import CodeNote
    from rlm_ci.wiki.pages.citations import CitationRegister, CitedPlace
    from rlm_ci.wiki.pages.layout import Module, ModuleDependencies, PageLayout
    from rlm_ci.wiki.update.state import ProseSentence

    #: Definitions by name.
    Names = Mapping[str, tuple[FileFacts, Symbol]]
    Group = TypeVar("Group")
    Item = TypeVar("Item")
    #: A note, and its file.
    PlacedNote = tuple[FileFacts, CodeNote]


#: Notes of one kind, names that a package exports, pages around one, and messages, that are shown.
_NOTES, _EXPORTS, _NEIGHBOURS, _MESSAGES = 12, 12, 8, 100
_WORD = re.compile(r"\w+")
#: What is to do about something does not say what it is.
_MARKED = re.compile(r"\s*(?:(?:TODO|FIXME|XXX|HACK)\b|[Ss]ee https?:).*", re.DOTALL)
#: Kinds of what is not known by its size.
_VALUES = ("constant", "variable")
#: Doors in a row that pass a name on.
_PASSED_ON = 2
#: Files that represent their folder, and may export what others define.
_DOORS = (
    "__init__.py", "index.ts", "index.tsx", "index.js", "index.mjs", "index.cjs", "lib.rs",
    "mod.rs",
)  # fmt: skip
#: Characters of the name of a model, and of a commit.
_MODEL, _COMMIT = 80, 12
#: Lines from which on a file should have a test that imports it.
LARGE = 300


class PageSources(Value):
    """All that a page is written from; ``register`` is the page's own, ``names`` those of pages.

    ``outside`` is the repository around a folder, if only that folder is read.
    """

    files: Mapping[str, FileFacts]
    layout: PageLayout
    omitted: Sequence[tuple[str, str]]
    chronicle: GitHistory | None
    names: Mapping[str, str]
    around: ModuleDependencies
    untested: frozenset[str]
    prose: Mapping[str, tuple[ProseSentence, ...]]
    graph: ImportGraph
    register: CitationRegister
    outside: OuterProject | None = None
    flows: tuple[CallFlow, ...] = ()

    @property
    def program(self) -> list[FileFacts]:
        """The files of the program, module by module."""
        return [file for module in self.layout.modules for file in module.files]

    def noted(self, *kinds: str) -> list[PlacedNote]:
        """The notes of these kinds in the program, with their files."""
        return [
            (file, note) for file in self.program for note in file.notes
            if note.kind in kinds
        ]  # fmt: skip

    def grouped(
        self, key: Callable[[CodeNote], Group], *kinds: str
    ) -> dict[Group, list[PlacedNote]]:
        """The notes of these kinds by what ``key`` makes of each."""
        groups: dict[Group, list[PlacedNote]] = {}
        for placed_note in self.noted(*kinds):
            groups.setdefault(key(placed_note[1]), []).append(placed_note)
        return groups

    def introduction(self, folder: str) -> str:
        """How the README of a folder, else its manifest, describes it; "" where neither does."""
        rows = [
            (not is_readme(path), path, file.about)
            for path, file in self.files.items()
            if folder and file.about is not None and folder_of(path) == folder
        ]
        for _, path, about in sorted(rows)[:1]:
            link = self.register.link(path, about.line_start, about.line_end, cell=True)
            return f"{sentence(about.text, cell=True)} {link}"
        return ""

    def position(self, facts: FileFacts, note: CodeNote, *, cell: bool = False) -> dict[str, str]:
        """The definition around a note, "" for none, and a link to its lines."""
        lines = note.line_start, note.line_end
        return {
            "within": code(note.within, cell=cell) if note.within else "",
            "link": self.register.link(facts.path, *lines, cell=cell),
        }


def first_rows(
    name: str, every: Sequence[Item], limit: int, row: Callable[[Item], Any]
) -> dict[str, Any]:
    """The first rows of a list as a template has them; ``NAME_more`` says how many are left."""
    return {
        name: [row(item) for item in every[:limit]],
        f"{name}_more": max(0, len(every) - limit),
    }


def chapter(module: Module, world: PageSources) -> dict[str, Any]:
    files, key, weights = module.files, module.key, world.around.weights
    lines = sum(file.outline.lines for file in files)
    return {
        "title": prose(title_of(module.key)),
        "head": f"{count(len(files), 'file')}, {count(lines, 'line')} of {_languages(files)}",
        "doc": _documentation(module, world),
        "said": sentence_groups(world.prose.get(module.key, ()), world),
        "files": [] if module.is_file else [_file(file, module, world) for file in files],
        "diagram": neighbourhood(module, world.around),
        "uses": _others(world.around.out.get(key, {}), lambda other: weights[key, other], world),
        "used_by": _others(
            world.around.into.get(key, {}), lambda other: weights[other, key], world
        ),
        "is_part": world.outside is not None,
        "elsewhere": _elsewhere(module, world),
        "packages": ", ".join(
            world.register.linked_name(code(package.package), *package.first_import)
            for package in world.around.packages.get(module.key, ())
            if not package.is_standard
        ),
        "entries": [entry_row(start, world) for start in starts(files)],
        "exports": _exports(module, world),
        "api": [
            group
            for file in files
            if (group := listing(file, module, world.layout.exported_names, world.register))
            is not None
        ],
        **_messages(module, world),
        "invariants": notes(files, INVARIANTS, world),
        "risks": [*notes(files, RISKS, world), *_untested(files, world)],
    }


def _languages(files: Sequence[FileFacts]) -> str:
    counts: Counter[str] = Counter()
    for file in files:
        counts[file.outline.language] += file.outline.lines
    return prose(listed(sorted(counts, key=lambda name: (-counts[name], name)), 3))


def unparsed(program: Sequence[FileFacts]) -> list[str]:
    """Languages of the program that nothing here can read, and files that did not parse."""
    counts: dict[str, int] = {}
    for facts in program:
        if facts.outline.state == "unparsed" and facts.outline.lines:
            counts[facts.outline.language] = counts.get(facts.outline.language, 0) + 1
    missing = lacking(counts)
    return [
        f"{prose(name)} ({count(counts[name], 'file')}"
        f"{'; its grammar was not installed' if name in missing else ''})"
        for name in sorted(counts)
    ]


def sentence_groups(
    claims: Sequence[ProseSentence], world: PageSources, held: str = "the linked lines support them"
) -> list[dict[str, Any]]:
    """The sentences of a model by who said them, each with its lines.

    ``held`` is what the model said of them when it was asked again.
    """
    groups: dict[str, list[dict[str, str]]] = {}
    for claim in sorted(claims, key=lambda claim: not claim.is_supported):
        links = [
            world.register.link(quoted.path, quoted.line_start, quoted.line_end)
            for quoted in dict.fromkeys(claim.quotes)
        ]
        row = {"text": prose(claim.text), "link": " ".join(links)}
        groups.setdefault(_origin(claim, held), []).append(row)
    return [{"origin": origin, "sentences": rows} for origin, rows in groups.items()]


def _origin(prose_sentence: ProseSentence, held: str) -> str:
    model = (
        f"the model {code(clip(prose_sentence.model, _MODEL))}"
        if prose_sentence.model
        else "a model"
    )
    commit = f" at commit {code(prose_sentence.commit[:_COMMIT])}" if prose_sentence.commit else ""
    unasked = "The linked lines were found; nobody has asked whether they support them"
    verdict = f"Asked again, it said that {held}" if prose_sentence.is_supported else unasked
    return f"Sentences by {model}{commit}. {verdict}:"


def is_door(path: str) -> bool:
    """Whether a file represents its folder."""
    return path.rpartition("/")[2] in _DOORS


def documenting(files: Sequence[FileFacts], folder: str) -> FileFacts | None:
    """The file whose documentation is the module's: its door, or the only one."""
    inside = {
        file.path.rpartition("/")[2]: file
        for file in files
        if folder_of(file.path) == folder and file.outline.doc
    }
    for door in (*_DOORS, "doc.go", "main.go", "package-info.java"):
        if door in inside:
            return inside[door]
    is_single = sum(file.outline.lines > 0 for file in files) == 1
    if is_single or all(facts.outline.language == "Go" for facts in inside.values()):
        return next(iter(inside.values()), None)
    return None


def _documentation(module: Module, world: PageSources) -> dict[str, str] | None:
    facts = documenting(module.files, module.folder)
    if facts is None:
        return None
    return {"text": paragraph(facts.outline.doc), "link": _doc_link(facts, world)}


def _doc_link(facts: FileFacts, world: PageSources, *, cell: bool = False) -> str:
    outline = facts.outline
    return world.register.link(facts.path, outline.doc_start, outline.doc_end, cell=cell)


def summary(facts: FileFacts, world: PageSources) -> str:
    """The first sentence of a file's documentation and its place, for a cell of a table."""
    return f"{sentence(facts.outline.doc, cell=True)} {_doc_link(facts, world, cell=True)}"


def _file(facts: FileFacts, module: Module, world: PageSources) -> dict[str, str]:
    names = api(facts, module.folder, world.layout.exported_names)
    shown = facts.path.removeprefix(f"{module.folder}/") if module.folder else facts.path
    unlisted = "stub" if facts.path.endswith(".pyi") else "inner"
    name, outline = code(shown, cell=True), facts.outline
    described = sentence(outline.doc, cell=True) if outline.doc else main_definition([facts], world)
    if outline.doc:
        name = world.register.linked_name(name, facts.path, outline.doc_start, outline.doc_end)
    return {
        "name": name,
        "lines": f"{facts.outline.lines:,}",
        "names": str(len(names)) if names is not None else unlisted,
        "doc": described or _without_names(facts),
    }


def main_definition(files: Sequence[FileFacts], world: PageSources) -> str:
    """What others extend, else the largest definition, instead of a missing documentation.

    "" where the files define nothing that is public.
    """
    every = [(file, symbol) for file in files for symbol in _tops(file)]
    tops = [row for row in every if row[1].kind not in _VALUES] or every
    if not tops:
        return ""
    holders = (symbol for _, symbol in tops if symbol.kind in CONTAINERS)
    heads = (symbol.signature.partition(symbol.name)[2] for symbol in holders)
    derived = Counter(word for head in heads for word in set(_WORD.findall(head)))
    members = {file.path: _members(file) for file in files}

    def rank(top: tuple[FileFacts, Symbol]) -> tuple[int, int]:
        facts, symbol = top
        below = members[facts.path].get(symbol.name, ())
        return -_extended(symbol, derived), -_size(symbol, below)

    facts, symbol = min(tops, key=rank)
    name = code(shown_name(facts, symbol.name), cell=True)
    link = world.register.linked_name(name, facts.path, *facts.head_of(symbol))
    doc = sentence(_MARKED.sub("", symbol.doc or ""), cell=True)
    if doc:
        return f"{link}: {doc}"
    is_base = _extended(symbol, derived) > 0
    return f"what others extend: {link}" if is_base else f"largest definition: {link}"


def _extended(symbol: Symbol, derived: Mapping[str, int]) -> int:
    """How many definitions name a class in their heads, if that is more than one."""
    number = derived[symbol.name.rpartition(".")[2]] if symbol.kind in CONTAINERS else 0
    return number if number > 1 else 0


def _members(facts: FileFacts) -> dict[str, list[Symbol]]:
    """All below each name of a file."""
    members: dict[str, list[Symbol]] = {}
    for symbol in facts.outline.symbols:
        owner = symbol.name.rpartition(".")[0]
        while owner:
            members.setdefault(owner, []).append(symbol)
            owner = owner.rpartition(".")[0]
    return members


def _size(symbol: Symbol, members: Sequence[Symbol]) -> int:
    """The lines of a definition and of its members, which may stand elsewhere in the file."""
    first, last = symbol.line_start, symbol.line_end
    elsewhere = (other for other in members if not first <= other.line_start <= last)
    return last - first + sum(other.line_end - other.line_start for other in elsewhere)


def _tops(facts: FileFacts) -> list[Symbol]:
    symbols = [symbol for _, symbol in public(facts)]
    names = {symbol.name for symbol in symbols}
    return [symbol for symbol in symbols if symbol.name.rpartition(".")[0] not in names]


def _without_names(facts: FileFacts) -> str:
    if not facts.outline.lines:
        return "empty"
    if facts.outline.exported or (is_door(facts.path) and facts.outline.imports):
        return "passes on names of other files"
    return "not parsed" if facts.outline.state == UNPARSED else "no public names"


def _others(
    found: Mapping[str, CitedPlace], weight: Callable[[str], int], world: PageSources
) -> str:
    """Other pages with the first import, those first of which the most is imported."""
    keys = sorted(found, key=lambda key: (-weight(key), key))
    shown = [
        f"[{prose(title_of(key))}]({world.names[key]}.md) "
        f"({world.register.linked_name('import', *found[key])})"
        for key in keys[:_NEIGHBOURS]
    ]
    return listed(shown, _NEIGHBOURS, len(keys))


def _elsewhere(module: Module, world: PageSources) -> str:
    if world.outside is None:
        return ""
    targets: dict[str, tuple[str, int]] = {}
    for file in module.files:
        for edge in world.graph.internal.get(file.path, ()):
            if not edge.target.startswith(f"{world.outside.under}/"):
                targets.setdefault(edge.target, (file.path, edge.line))
    shown = [
        f"{code(target)} {world.register.link(path, line, line)}"
        for target, (path, line) in sorted(targets.items())[:_NOTES]
    ]
    return listed(shown, _NOTES, len(targets))


def starts(files: Sequence[FileFacts]) -> list[tuple[FileFacts, EntryPoint]]:
    """Where something begins to run, tests apart."""
    return [
        (file, entry) for file in files for entry in file.outline.entries if entry.kind != "test"
    ]


def entry_row(start: tuple[FileFacts, EntryPoint], world: PageSources) -> dict[str, str]:
    facts, entry = start
    last = min(entry.line_end, entry.line_start + 11)
    return {
        "kind": prose(entry.kind),
        "name": code(entry.name),
        "link": world.register.link(facts.path, entry.line_start, last),
    }


# ── names ──


def _exports(module: Module, world: PageSources) -> str:
    names = exports(module, world)
    return linked([(name, *names[name]) for name in sorted(names)], _EXPORTS, world.register)


def exports(module: Module, world: PageSources) -> Names:
    """Names that a package's door takes from files within, and so gives out."""
    first = f"{module.key}/" if module.key else ""
    doors = {f"{first}{name}" for name in _DOORS}
    facts = next((file for file in module.files if file.path in doors), None)
    return {} if facts is None else _door_names(facts, world, _PASSED_ON)


def _door_names(door: FileFacts, world: PageSources, further: int) -> Names:
    """What a door gives of other files, and of what other doors give, by name."""
    targets: dict[int, list[str]] = {}
    for edge in world.graph.internal.get(door.path, ()):
        targets.setdefault(edge.line, []).append(edge.target)
    exported: dict[str, tuple[FileFacts, Symbol]] = {}
    for statement in door.outline.imports:
        # The graph keeps the first line only that leads to a file: others may, too.
        base = base_of(folder_of(door.path), statement)
        paths = [f"{base}.py", f"{base}/__init__.py"] if base is not None else []
        names = given_names(door, statement)
        if door.outline.language != "Python":
            names = names if door.outline.exported else {}
            paths = [] if statement.line in targets else _called_so(statement.module, door, world)
        for path in dict.fromkeys([*targets.get(statement.line, ()), *paths]):
            other = world.files.get(path)
            if other is None or path == door.path or is_test(path):
                continue
            _take(exported, names, _own_names(other, is_all="*" in names), door)
            is_door = path.rpartition("/")[2] in _DOORS
            if further and is_door and names.keys() - exported.keys():
                _take(exported, names, _door_names(other, world, further - 1), door)
    return exported


def _called_so(module: str, door: FileFacts, world: PageSources) -> list[str]:
    """Of the files that a door imports, those that are called as the last word of ``module``."""
    last = module.replace("::", "/").rpartition("/")[2].partition(".")[0]
    paths = []
    for edge in world.graph.internal.get(door.path, ()):
        stem = edge.target.rpartition(".")[0].removesuffix("/mod").removesuffix("/index")
        if last and stem.rpartition("/")[2] == last:
            paths.append(edge.target)
    return paths


def _own_names(facts: FileFacts, *, is_all: bool) -> Names:
    """What a file defines, by name; what ``import *`` takes of it where that takes all."""
    defined: dict[str, tuple[FileFacts, Symbol]] = {}
    for symbol in facts.outline.symbols:
        if "." not in symbol.name and (symbol.is_public or not is_all):
            defined.setdefault(symbol.name, (facts, symbol))
        if symbol.signature.startswith("export default") and not is_all:
            defined.setdefault("default", (facts, symbol))
    return defined


def _take(
    definitions: dict[str, tuple[FileFacts, Symbol]],
    names: Mapping[str, str],
    there: Names,
    door: FileFacts,
) -> None:
    listed = door.outline.exported
    for name, original in names.items():
        if original in there:
            definitions.setdefault(name, there[original])
    if "*" in names:
        for name, definition in there.items():
            if not listed or "*" in listed or name in listed:
                definitions.setdefault(name, definition)


# ── invariants and risks ──


def notes(
    files: Sequence[FileFacts], headings: Mapping[str, str], world: PageSources
) -> list[dict[str, Any]]:
    """The notes of these kinds, in the order of the headings; the files come in turn."""
    groups = []
    for kind, heading in headings.items():
        pairs = [(file, note) for file in files for note in file.notes if note.kind == kind]
        if pairs:
            items = [_note(facts, note, world) for facts, note in pairs[:_NOTES]]
            groups.append({"heading": heading, "items": items, "more": len(pairs) - len(items)})
    return groups


def _messages(module: Module, world: PageSources) -> dict[str, Any]:
    """The messages of errors, word for word: who has seen one finds its place.

    Those of refusals that the page lists as invariants stand there.
    """
    shown = _refused(module.files)
    messages = [
        (facts, note)
        for facts in module.files
        for note in facts.notes
        if note.kind == MESSAGE and (facts.path, note.line_end) not in shown
    ]

    def row(placed_note: PlacedNote) -> dict[str, str]:
        facts, note = placed_note
        words = {"text": prose(note.detail), "error": code(note.text)}
        return words | world.position(facts, note)

    return first_rows("messages", messages, _MESSAGES, row)


def _refused(files: Sequence[FileFacts]) -> set[tuple[str, int]]:
    """Where the refusals end that the page lists as invariants."""
    noted = ((file, note) for file in files for note in file.notes if note.kind == "raises")
    return {(facts.path, note.line_end) for facts, note in islice(noted, _NOTES)}


def _note(facts: FileFacts, note: CodeNote, world: PageSources) -> dict[str, str]:
    within, link = world.position(facts, note).values()
    if note.kind == "raises":
        name, _, condition = note.text.partition(": ")
        text = f"{within} raises {code(name)} if {code(condition)}"
        text += f": “{prose(plain(note.detail))}”" if note.detail else ""
    elif note.kind == "choices":
        text = f"{code(note.text)}: {code(note.detail)}"
    elif note.kind == "marker":
        text = prose(note.text)
    elif note.kind == "environment" and note.detail:
        text = code(note.detail) + (f" in {within}" if within else "")
    else:
        text = code(note.text)
        text += f" in {within}" if within and note.kind in RISKS else ""
    return {"text": text, "link": link}


def _untested(files: Sequence[FileFacts], world: PageSources) -> list[dict[str, Any]]:
    items = [
        {
            "text": f"{code(file.path.rpartition('/')[2])} has {count(file.outline.lines, 'line')}",
            "link": world.register.link(file.path, 1, file.outline.lines),
        }
        for file in files
        if file.path in world.untested
    ]
    heading = "Large, and imported by no test"
    return [{"heading": heading, "items": items, "more": 0}] if items else []
