"""The import graph: which files import each other, and which packages from outside."""

from __future__ import annotations

from functools import partial

from rlm_ci.source.imports import compiled, ruby_php
from rlm_ci.source.imports.compiled import GoResolver, JavaResolver
from rlm_ci.source.imports.file_lookup import FileLookup, folder_of, nearest
from rlm_ci.source.imports.javascript import JavaScriptResolver
from rlm_ci.source.imports.python import PythonResolver
from rlm_ci.source.imports.rust import RustResolver
from rlm_ci.source.test_files import subject_of
from rlm_ci.values import Row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from rlm_ci.source import Import, Outline
    from rlm_ci.source.imports import ResolvedImport

    Resolve = Callable[[str, Import], ResolvedImport]

#: The most files that ``touching`` returns.
TOUCHING_LIMIT = 200
#: The most aliases of files that are read of a folder.
_ALIASES = 500
#: Characters of a name that is looked up.
_LONGEST = 400


class ImportEdge(Row):
    """An import of the file ``target``, or by it, and the first line of the import."""

    target: str
    line: int


class PackageUse(Row):
    """A package from outside; ``is_standard``: it comes with the language."""

    package: str
    line: int
    is_standard: bool = False


class ImportGraph:
    """The imports of a repository. Equal outlines and paths give an equal graph."""

    def __init__(
        self,
        internal: Mapping[str, tuple[ImportEdge, ...]],
        external: Mapping[str, tuple[PackageUse, ...]],
        stands_for: Mapping[str, str],
    ) -> None:
        self.internal = internal
        self.external = external
        self._stands_for = stands_for
        self._importers: dict[str, list[ImportEdge]] = {}
        for path in sorted(internal):
            for edge in internal[path]:
                self._importers.setdefault(edge.target, []).append(ImportEdge.of((path, edge.line)))

    @classmethod
    def of(
        cls, outlines: Sequence[Outline], paths: Sequence[str], declared: Iterable[str] = ()
    ) -> ImportGraph:
        """The graph of the files in ``outlines``; ``paths`` are all files of the repository.

        ``declared`` are the packages that its manifests require.
        """
        places = FileLookup([*paths, *(outline.path for outline in outlines)])
        resolvers, go = _resolvers(outlines, places, declared)
        internal: dict[str, tuple[ImportEdge, ...]] = {}
        external: dict[str, tuple[PackageUse, ...]] = {}
        for outline in outlines:
            resolve = resolvers.get(outline.language)
            if resolve is None or not outline.imports:
                continue
            targets: dict[str, int] = {}
            packages: dict[tuple[str, bool], int] = {}
            for imported in sorted(outline.imports, key=lambda imported: imported.line):
                if len(imported.module) > _LONGEST:
                    continue
                resolved_import = resolve(outline.path, imported)
                for target in resolved_import.targets:
                    targets.setdefault(target, imported.line)
                if resolved_import.package:
                    packages.setdefault(
                        (resolved_import.package, resolved_import.is_standard), imported.line
                    )
            targets.pop(outline.path, None)
            if targets:
                internal[outline.path] = tuple(map(ImportEdge.of, sorted(targets.items())))
            if packages:
                external[outline.path] = tuple(
                    PackageUse.of((name, line, standard))
                    for (name, standard), line in sorted(packages.items())
                )
        return cls(internal, external, _packages_of_go(outlines, go))

    def importers(self, path: str) -> tuple[ImportEdge, ...]:
        """The files that import ``path``, each with its line, in order of their names.

        If packages are folders in its language: the files that import its package.
        """
        return tuple(self._importers.get(self._stands_for.get(path, path), ()))

    def touching(
        self,
        paths: Sequence[str],
        outlines: Sequence[Outline],
        limit: int = TOUCHING_LIMIT,
    ) -> list[str]:
        """The files that a change of ``paths`` touches, the nearest first.

        First the files that import a changed file, then its tests, the files that it imports, and
        the importers of index files that export it; none of ``paths`` themselves.
        """
        changed = set(paths)
        touched = dict.fromkeys(self._touched(paths, [outline.path for outline in outlines]))
        return [path for path in touched if path not in changed][:limit]

    def _touched(self, paths: Sequence[str], every: Sequence[str]) -> Iterator[str]:
        """The touched files, the nearest first; a path may come more than once."""
        passed_on: list[tuple[str, str]] = []
        for path in paths:
            for edge in self._edges_at(self.importers(path), path):
                yield edge.target
                if edge.target.rpartition("/")[2].startswith(("__init__.", "index.", "mod.rs")):
                    passed_on.append((edge.target, path))
        yield from _tests(paths, every)
        for path in paths:
            for edge in self._edges_at(self.internal.get(path, ()), path):
                yield edge.target
        for door, path in passed_on:
            for edge in self._edges_at(self.importers(door), path):
                yield edge.target

    @staticmethod
    def _edges_at(edges: Iterable[ImportEdge], path: str) -> list[ImportEdge]:
        folder = folder_of(path)
        return sorted(edges, key=lambda edge: (folder_of(edge.target) != folder, edge.target))


def _tests(paths: Sequence[str], every: Sequence[str]) -> Iterator[str]:
    """The tests of some files, by their names."""
    subjects: dict[str, list[str]] = {}
    for path in every:
        subject = subject_of(path)
        if subject:
            subjects.setdefault(subject, []).append(path)
    for path in paths:
        name = path.rpartition("/")[2].partition(".")[0]
        candidates = subjects.get(name.lower().strip("_"), []) if name else []
        closest = nearest(candidates[:64], path)
        yield from [closest] if closest and len(candidates) > 3 else candidates


def _resolvers(
    outlines: Sequence[Outline], places: FileLookup, declared: Iterable[str]
) -> tuple[Mapping[str, Resolve], GoResolver]:
    by_group: dict[str, dict[str, list[str]]] = {}
    for outline in outlines:
        name = outline.path.rpartition("/")[2]
        group = outline.language if outline.language in ("C#", "Java") else name
        if group in ("C#", "Java", "package.json", "go.mod", "Cargo.toml"):
            for symbol in outline.symbols:
                if symbol.kind == "module":
                    where = outline.path if group == outline.language else folder_of(outline.path)
                    by_group.setdefault(group, {}).setdefault(symbol.name, []).append(where)
    mains, crates, modules = (
        _listed(outlines, manifest) for manifest in ("package.json", "Cargo.toml", "go.mod")
    )
    aliases: dict[str, list[Import]] = {}
    for outline in outlines:
        if outline.language == "JSON" and outline.imports:
            renamed = [imported for imported in outline.imports if not imported.level]
            known_here = aliases.setdefault(folder_of(outline.path), [])
            known_here.extend(renamed[: max(0, _ALIASES - len(known_here))])
    rust = {outline.path: outline for outline in outlines if outline.language == "Rust"}
    python = {outline.path: outline for outline in outlines if outline.language == "Python"}
    imports = {path: outline.imports for path, outline in python.items()}
    scripts = [
        path for path, outline in python.items() if any(e.kind == "main" for e in outline.entries)
    ]
    go = GoResolver(places, by_group.get("go.mod", {}), modules)
    script = JavaScriptResolver(places, by_group.get("package.json", {}), mains, aliases).resolve
    c = partial(compiled.c, places)
    resolvers: dict[str, Resolve] = {
        "C": c, "C++": c, "CUDA": c, "Objective-C": c,
        "C#": partial(compiled.csharp, by_group.get("C#", {})),
        "Go": go.resolve,
        "Java": JavaResolver(places, by_group.get("Java", {})).resolve,
        "JavaScript": script, "TypeScript": script, "TSX": script, "Vue": script,
        "PHP": partial(ruby_php.php, places),
        "Python": PythonResolver(places, imports, scripts, declared).resolve,
        "Ruby": partial(ruby_php.ruby, places),
        "Rust": RustResolver(places, by_group.get("Cargo.toml", {}), crates, rust).resolve,
    }  # fmt: skip
    return resolvers, go


def _listed(outlines: Sequence[Outline], manifest: str) -> dict[str, list[str]]:
    """The entry files or required packages of each folder with a manifest of that name."""
    level = int(manifest == "package.json")  # its aliases have another level
    return {
        folder_of(outline.path): [item.module for item in outline.imports if item.level == level]
        for outline in outlines
        if outline.imports and outline.path.rpartition("/")[2] == manifest
    }


def _packages_of_go(outlines: Sequence[Outline], go: GoResolver) -> dict[str, str]:
    """For each file of Go, the one that represents its package."""
    packages: dict[str, str | None] = {}
    stands_for = {}
    for outline in outlines:
        if outline.language == "Go":
            folder = folder_of(outline.path)
            if folder not in packages:
                packages[folder] = go.of_folder(folder)
            stands_for[outline.path] = packages[folder] or outline.path
    return stands_for
