"""Which files make a page: a folder with code, or one file of a folder that has too much.

And how these pages lean on each other and on packages: the graph of files, seen from the pages.
"""

from __future__ import annotations

import re
from collections import Counter

from rlm_ci.source.imports.file_lookup import ancestors, joined
from rlm_ci.source.languages import DATA, is_code
from rlm_ci.text.mermaid import DiagramBox, flowchart
from rlm_ci.values import Row, Value
from rlm_ci.wiki.facts.note import TESTS, UNCOUNTED
from rlm_ci.wiki.pages.citations import CitedPlace
from rlm_ci.wiki.pages.paths import (
    folder_of,
    helps_tests,
    is_aside,
    is_beside,
    is_test,
    is_told,
    page_names,
    title_of,
)
from rlm_ci.wiki.surface.settings import FOLDERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rlm_ci.source import Import, Symbol
    from rlm_ci.source.import_graph import ImportGraph
    from rlm_ci.wiki.facts.file_facts import FileFacts

    Given = Mapping[str, frozenset[str]]


#: Public names that a folder's page lists; where there are more, files with so many have their own.
_MANY, _OWN = 200, 15
#: What only annotations speak of.
_VARIABLE = re.compile(r"=\s*(?:\w+\.)?(?:TypeVar|ParamSpec|TypeVarTuple)\(")
#: Set by the language's own custom, for checkers of types.
_CUSTOM = "TYPE_CHECKING"
#: How a runner of tests knows one.
_TRIAL = re.compile(r"test(?:_|[A-Z]|$)|Test")
#: A sign for a stub, which is no valid name.
_STUB = ".pyi"
#: Languages whose files say in which space their names are, and those that part names by colons.
_SPACED = frozenset(("C#", "C++", "Java", "PHP"))
_COLONS = frozenset(("C++", "Ruby", "Rust"))
CONTAINERS = frozenset(("class", "interface", "struct", "trait", "enum", "type", "module"))


class Module(Value):
    """One page: ``key`` is the path of its folder or file, ``name`` the page's own."""

    key: str
    name: str
    files: tuple[FileFacts, ...]
    is_file: bool = False

    @property
    def folder(self) -> str:
        return folder_of(self.key) if self.is_file else self.key

    @property
    def is_shared(self) -> bool:
        """Whether it is a file of a package whose files need not import each other."""
        return self.is_file and self.files[0].outline.language == "Go"


class PageLayout(Value):
    """All files: those of the program by module, tests and files beside it by folder.

    ``generated`` are files of the program that another program wrote: they are in no module.
    """

    modules: tuple[Module, ...]
    owner: Mapping[str, Module]
    tests: Mapping[str, tuple[FileFacts, ...]]
    beside: Mapping[str, tuple[FileFacts, ...]]
    exported_names: Given
    generated: tuple[str, ...] = ()


def is_source(path: str) -> bool:
    """Whether a file is, by its name, a part of the program."""
    return not (is_test(path) or is_beside(path) or is_aside(path)) and is_code(path)


def is_inner(path: str) -> bool:
    """Whether a file says by its name that it is not for others."""
    parts = path.split("/")
    return any(part.startswith("_") and not part.startswith("__") for part in parts)


def public(facts: FileFacts) -> list[tuple[int, Symbol]]:
    """The public symbols of a file, with their numbers; each once, none of a generated file."""
    if facts.is_generated:
        return []
    spaces = _spaces(facts)
    seen: set[str] = set()
    symbols = []
    hidden: set[str] = set()
    for number, symbol in enumerate(facts.outline.symbols):
        outer = symbol.name.rpartition(".")[0]
        inner = symbol.name.rpartition(".")[2]
        special = inner.startswith("__") and inner.endswith("__")
        special = special or symbol.name == _CUSTOM
        if not symbol.is_public or special or outer in hidden or _VARIABLE.search(symbol.signature):
            hidden.add(symbol.name)
            continue
        if symbol.name not in seen:
            seen.add(symbol.name)
            if symbol.name not in spaces:
                symbols.append((number, symbol))
    return symbols


def _spaces(facts: FileFacts) -> set[str]:
    """Packages and namespaces; of Ruby the modules that hold nothing but what holds more."""
    outline = facts.outline
    spaces = {symbol.name for symbol in outline.symbols if symbol.kind == "module"}
    if outline.language in _SPACED or not spaces:
        return spaces
    if outline.language != "Ruby":
        return set()
    holding = {symbol.name.rpartition(".")[0] for symbol in outline.symbols}
    full = {
        symbol.name.rpartition(".")[0]
        for symbol in outline.symbols
        if symbol.kind not in CONTAINERS
    }
    return (spaces & holding) - full


def shown_name(facts: FileFacts, name: str) -> str:
    return name.replace(".", "::") if facts.outline.language in _COLONS else name


def api(facts: FileFacts, folder: str, options: Given) -> list[tuple[int, Symbol]] | None:
    """What the page of ``folder`` lists of a file; None for stubs, ``__main__.py`` and inner files.

    Of an inner file, the names that its package exports are listed.
    """
    shown = facts.path.removeprefix(f"{folder}/") if folder else facts.path
    if _STUB in options.get(facts.path, ()) or facts.path.rpartition("/")[2] == "__main__.py":
        return None
    if not is_inner(shown):
        return public(facts)
    names = options.get(facts.path, frozenset())
    exported = [
        (number, symbol)
        for number, symbol in public(facts)
        if "*" in names or symbol.name.partition(".")[0] in names
    ]
    return exported or None


def given_of(files: Iterable[FileFacts]) -> Given:
    """The names that Python packages export of their inner files, by file; ``*`` for all.

    A stub beside its module has ``_STUB``.
    """
    by_path = {file.path: file for file in files}
    exports: dict[str, set[str]] = {}
    for path, facts in by_path.items():
        if path.endswith(".pyi") and path.removesuffix("i") in by_path:
            exports[path] = {_STUB}
        if not path.endswith("__init__.py"):
            continue
        folder = folder_of(path)
        for line in facts.outline.imports:
            base = base_of(folder, line)
            if base is None:
                continue
            for target in (f"{base}.py", f"{base}/__init__.py"):
                if target in by_path and is_inner(target.removeprefix(f"{folder}/")):
                    exports.setdefault(target, set()).update(given_names(facts, line).values())
    return {path: frozenset(names) for path, names in exports.items()}


def given_names(door: FileFacts, line: Import) -> dict[str, str]:
    """What an ``__init__.py`` exports of an import: the original names by their new ones."""
    listed = door.outline.exported
    return {
        name: original
        for name, original in zip(line.called or line.names, line.names, strict=False)
        if name == "*" or (name in listed if listed else not name.startswith("_"))
    }


def base_of(folder: str, line: Import) -> str | None:
    """The path, without suffix, that an ``__init__.py`` in ``folder`` imports from, if known."""
    parts = folder.split("/")
    inner = line.module.split(".") if line.module else []
    if line.level:
        above = parts[: len(parts) - line.level + 1]
        return "/".join([*above, *inner]) if above and line.level <= len(parts) else None
    if inner and inner[0] in parts:
        at = len(parts) - 1 - parts[::-1].index(inner[0])
        return "/".join([*parts[:at], *inner])
    return None


def api_size(facts: FileFacts, folder: str, options: Given) -> int:
    return len(api(facts, folder, options) or ())


def laid_out(files: Iterable[FileFacts], graph: ImportGraph) -> PageLayout:
    """The pages that these files make; the same files always make the same."""
    every = sorted(files, key=lambda file: file.path)
    code = [file for file in every if file.outline.language not in DATA]
    tests = [file for file in code if is_test(file.path) and not _is_shipped(file)]
    apart = _apart(code, tests, graph)
    tests += [file for file in code if file.path in apart and helps_tests(file.path)]
    chosen = _chosen(code, every, tests, graph)
    tests += [file for file in code if file.path in chosen]
    tests.sort(key=lambda file: file.path)
    aside = {test.path for test in tests}
    sources = [facts for facts in code if facts.path not in aside]
    scripts = {folder_of(facts.path) for facts in sources if _is_script(facts)}
    unbuilt = _unbuilt(sources, [facts.path for facts in every])
    beside = [
        facts
        for facts in sources
        if is_beside(facts.path)
        or folder_of(facts.path) in scripts
        or facts.path in apart | unbuilt
    ]
    if len(beside) == len(sources):  # a repository of examples is about them
        beside = []
    aside = {facts.path for facts in beside}
    written = [facts for facts in sources if facts.path not in aside]
    # Where all is generated, that is what the pages are about.
    program = [facts for facts in written if not facts.is_generated] or written
    generated = tuple(sorted({facts.path for facts in written} - {facts.path for facts in program}))
    exports = given_of(program)
    groups: dict[str, list[FileFacts]] = {}
    for facts in program:
        groups.setdefault(folder_of(facts.path), []).append(facts)
    groups = _folded(groups)
    separate: list[FileFacts] = []
    for key, inner in groups.items():
        sizes = {facts.path: api_size(facts, key, exports) for facts in inner}
        if sum(sizes.values()) > _MANY:
            # A package's door stays on the package's own page.
            large = {
                path
                for path, size in sizes.items()
                if size >= _OWN and not path.endswith("__init__.py")
            }
            separate += [facts for facts in inner if facts.path in large]
            groups[key] = [facts for facts in inner if facts.path not in large]
    single = {facts.path for facts in separate}
    names = page_names([*(key for key, inner in groups.items() if inner), *single])
    modules = [Module(key, names[key], tuple(inner)) for key, inner in groups.items() if inner]
    modules += [Module(facts.path, names[facts.path], (facts,), is_file=True) for facts in separate]
    modules.sort(key=lambda module: module.key)
    owner = {file.path: module for module in modules for file in module.files}
    return PageLayout(
        tuple(modules), owner, _by_folder(tests), _by_folder(beside), exports, generated
    )


def _apart(code: Iterable[FileFacts], tests: Iterable[FileFacts], graph: ImportGraph) -> set[str]:
    """Files in folders that by their names are no part of the program, if it imports none of them.

    What one of their folders at the top gives to the program makes all of it a part.
    """
    every = {facts.path for facts in code}
    others = {test.path for test in tests} | {path for path in every if is_beside(path)}
    aside = {path for path in every - others if is_aside(path)}
    used = {
        path.partition("/")[0]
        for path in aside
        if any(edge.target in every - others - aside for edge in graph.importers(path))
    }
    return {path for path in aside if path.partition("/")[0] not in used}


def _chosen(
    code: Sequence[FileFacts],
    files: Iterable[FileFacts],
    tests: Iterable[FileFacts],
    graph: ImportGraph,
) -> set[str]:
    """Files that the settings of runners take for tests, if the program imports none of them.

    A folder that a setting names counts if half of its files, at least, hold tests.
    """
    notes = {note for file in files for note in file.notes if note.kind == TESTS}
    if not notes:
        return set()
    test_paths = {test.path for test in tests}
    by_path = {facts.path: facts for facts in code if facts.path not in test_paths}
    chosen: set[str] = set()
    for note in sorted(notes, key=lambda note: note.text):
        pattern = re.compile(note.text)
        inside = {path for path in by_path if pattern.fullmatch(path)}
        trials = sum(_has_trial(by_path[path]) for path in inside)
        if note.detail != FOLDERS or 2 * trials >= len(inside):
            chosen |= inside
    outside = by_path.keys() - chosen
    is_used = any(
        edge.target in outside and not is_aside(edge.target) and not is_beside(edge.target)
        for path in chosen
        for edge in graph.importers(path)
    )
    return set() if is_used else chosen


def _has_trial(facts: FileFacts) -> bool:
    names = (symbol.name.rpartition(".")[2] for symbol in facts.outline.symbols)
    is_test_case = any(entry.kind == "test" for entry in facts.outline.entries)
    return is_test_case or any(map(_TRIAL.match, names))


#: The manifests without which the files of a language are built by nothing.
_BUILT_BY = {"Go": "go.mod", "Rust": "Cargo.toml"}


def _unbuilt(code: Sequence[FileFacts], paths: Iterable[str]) -> set[str]:
    """Files that no manifest builds, such as templates, in a program of another language."""
    lines = Counter[str]()
    for facts in code:
        lines[facts.outline.language] += facts.outline.lines
    built = {path for path in paths if path.rpartition("/")[2] in _BUILT_BY.values()}
    main_language = max(lines, key=lambda name: (lines[name], name), default="")
    return {
        file.path
        for file in code
        if file.outline.language != main_language
        and (manifest := _BUILT_BY.get(file.outline.language))
        and built.isdisjoint(joined(above, manifest) for above in ancestors(folder_of(file.path)))
    }


def _is_shipped(facts: FileFacts) -> bool:
    """Whether a file of Python is called as a test is, and has none: a part of the program."""
    folder, _, name = facts.path.rpartition("/")
    if facts.outline.language != "Python" or name == "conftest.py" or is_test(f"{folder}/"):
        return False
    return bool(facts.outline.symbols) and not _has_trial(facts)


def _is_script(facts: FileFacts) -> bool:
    return (
        is_told(facts.path)
        and facts.outline.language == "Go"
        and any(entry.kind == "main" for entry in facts.outline.entries)
    )


def _folded(groups: dict[str, list[FileFacts]]) -> dict[str, list[FileFacts]]:
    """Move the files of folders with little content to the page above, deepest first."""
    for key in sorted(groups, key=lambda key: (-key.count("/"), key)):
        if not key or _speaks(groups[key]):
            continue
        above = folder_of(key)
        while above and above not in groups:
            above = folder_of(above)
        if above in groups:
            groups[above].extend(groups.pop(key))
    return {key: sorted(groups[key], key=lambda facts: facts.path) for key in sorted(groups)}


def _speaks(files: Iterable[FileFacts]) -> bool:
    """Whether there is something to say: names, notes, entries, or more than a stub of a doc."""
    weight = 0
    for file in files:
        outline = file.outline
        notes = sum(note.kind not in UNCOUNTED for note in file.notes)
        weight += len(public(file)) + notes + 2 * len(outline.entries)
        weight += 2 * bool(outline.doc) + outline.lines // 50
    return weight >= 4


def _by_folder(files: Iterable[FileFacts]) -> dict[str, tuple[FileFacts, ...]]:
    """By the topmost folder that holds nothing else of the kind: two levels say enough."""
    groups: dict[str, list[FileFacts]] = {}
    for file in files:
        parts = folder_of(file.path).split("/")
        groups.setdefault("/".join(parts[:2]), []).append(file)
    return {key: tuple(groups[key]) for key in sorted(groups)}


#: Boxes before and after a module in the diagram of its imports.
_NEAR = 6
#: Characters of a name in a box.
_LABEL = 40
#: What can be imported, and is no package.
_NO_PACKAGES = frozenset(("__future__", "_typeshed"))
#: Arrows that even a small map may have.
_FEW = 18
#: The key of all modules together in ``ModuleDependencies.packages``.
ALL = "\0"


class UsedPackage(Row):
    """A package from outside, or of the language: its first import, and the number of all."""

    package: str
    first_import: CitedPlace
    count: int
    is_standard: bool


class ModuleDependencies(Value):
    """For each module, those that it imports and that import it, with the first line that does.

    ``weights`` counts the imports between two; ``packages`` are by module, and under ``ALL``.
    """

    out: Mapping[str, Mapping[str, CitedPlace]]
    into: Mapping[str, Mapping[str, CitedPlace]]
    weights: Mapping[tuple[str, str], int]
    packages: Mapping[str, tuple[UsedPackage, ...]]


def surroundings(layout: PageLayout, graph: ImportGraph) -> ModuleDependencies:
    out: dict[str, dict[str, CitedPlace]] = {}
    into: dict[str, dict[str, CitedPlace]] = {}
    weights: dict[tuple[str, str], int] = {}
    keys = {module.key for module in layout.modules}
    for path in sorted(layout.owner):
        key = layout.owner[path].key
        for edge in graph.internal.get(path, ()):
            module = layout.owner.get(edge.target)
            if module is None or module.key == key:
                continue
            # An import of a Go package means all of its files.
            other = module.folder if module.is_shared and module.folder in keys else module.key
            if other == key:
                continue
            cited_place = CitedPlace(path, edge.line, edge.line)
            out.setdefault(key, {}).setdefault(other, cited_place)
            into.setdefault(other, {}).setdefault(key, cited_place)
            weights[key, other] = weights.get((key, other), 0) + 1
    return ModuleDependencies(out, into, weights, _packages(layout, graph))


def _packages(layout: PageLayout, graph: ImportGraph) -> Mapping[str, tuple[UsedPackage, ...]]:
    by_key: dict[str, dict[tuple[str, bool], list[CitedPlace]]] = {}
    for path in sorted(layout.owner):
        for use in graph.external.get(path, ()):
            for key in (layout.owner[path].key, ALL) if use.package not in _NO_PACKAGES else ():
                places = by_key.setdefault(key, {}).setdefault((use.package, use.is_standard), [])
                places.append(CitedPlace(path, use.line, use.line))
    return {
        key: tuple(
            UsedPackage(name, places[0], len(places), is_standard)
            for (name, is_standard), places in sorted(inner.items())
        )
        for key, inner in by_key.items()
    }


def neighbourhood(module: Module, around: ModuleDependencies) -> str:
    """The module between those that lean on it and those that it leans on; "" where none do."""
    hub = module.key
    weights = around.weights
    before = sorted(around.into.get(hub, ()), key=lambda key: (-weights[key, hub], key))[:_NEAR]
    after = sorted(around.out.get(hub, ()), key=lambda key: (-weights[hub, key], key))[:_NEAR]
    if not before and not after:
        return ""
    keys = dict.fromkeys([*sorted(before), hub, *sorted(after)])
    boxes = [DiagramBox(key, title_of(key)) for key in keys]
    arrows = [(key, hub) for key in sorted(before)] + [(hub, key) for key in sorted(after)]
    return flowchart(boxes, arrows)


class DependencyDiagram(Value):
    """A diagram, "" where there is nothing to draw, and what it leaves out."""

    diagram: str = ""
    boxes_left: int = 0
    arrows_left: int = 0


def architecture(
    layout: PageLayout, around: ModuleDependencies, parts: Mapping[str, str], shown: Sequence[str]
) -> DependencyDiagram:
    """The map of ``shown`` parts and of what they import, the heaviest arrows first.

    ``parts`` has the part of each module.
    """
    # Within a package of Go nothing is imported: the package is what others lean on.
    packages = {
        module.key: module.folder
        for module in layout.modules
        if module.is_shared and module.folder in parts
    }
    standing = {key: parts[packages.get(key, key)] for key in parts}
    weights: dict[tuple[str, str], int] = {}
    for (source, target), weight in around.weights.items():
        pair = standing[source], standing[target]
        if pair[0] != pair[1]:
            weights[pair] = weights.get(pair, 0) + weight
    linked = {key for pair in weights for key in pair}
    keys = sorted(linked.intersection(shown))
    if not keys:
        return DependencyDiagram()
    boxes = [_box(key, _group(key, keys)) for key in keys]
    heavy = sorted(weights, key=lambda pair: (-weights[pair], pair))
    inside = [pair for pair in heavy if set(pair) <= set(keys)]
    arrows = drawn(inside, max(_FEW, 2 * len(keys)))
    left_out = len(set(standing.values())) - len(keys)
    return DependencyDiagram(flowchart(boxes, sorted(arrows)), left_out, len(inside) - len(arrows))


def drawn(pairs: Sequence[tuple[str, str]], limit: int) -> list[tuple[str, str]]:
    """The heaviest first, but before them the heaviest that begins, and that ends, at each box."""
    chosen: dict[tuple[str, str], None] = {}
    for side in (0, 1):
        seen: set[str] = set()
        for pair in pairs:
            if pair[side] not in seen:
                seen.add(pair[side])
                chosen[pair] = None
    ordered = list(chosen) if len(chosen) <= limit else [pair for pair in pairs if pair in chosen]
    return list(dict.fromkeys([*ordered, *pairs]))[:limit]


def _box(key: str, group: str) -> DiagramBox:
    """In a frame, what follows its name; outside of one all of it, or its end."""
    short = key.rpartition("/")[2] if group else key
    while len(short) > _LABEL and "/" in short:
        short = short.partition("/")[2]
    title = title_of(key)
    return DiagramBox(key, short if group else title if short == key else f"…/{short}", group)


def _group(key: str, shown: list[str]) -> str:
    for folder in (key, folder_of(key)):
        if folder and sum(folder_of(other) == folder for other in shown) > 1:
            return folder
    return ""
