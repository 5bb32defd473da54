"""The files of a repository as calls are followed through them: symbols, imports, packages."""

from __future__ import annotations

import re
from functools import cached_property

from rlm_ci.source.imports.file_lookup import folder_of
from rlm_ci.source.uses.references import BY_FOLDER
from rlm_ci.source.uses.rust_paths import RustPaths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rlm_ci.source import Import, Outline, Symbol
    from rlm_ci.source.import_graph import ImportGraph
    from rlm_ci.source.uses.file_calls import FileCalls, TakenName

CALLABLE = frozenset(("function", "method", "class", "struct", "enum", "macro"))
CLASSES = frozenset(("class", "struct", "enum", "interface", "trait", "type", "module"))
#: Languages that call each other.
_FAMILIES = {"TypeScript": "JavaScript", "TSX": "JavaScript", "C++": "C"}
#: Languages whose outline does not have all names that an import binds.
TAKES = frozenset(("Go", "JavaScript", "Rust", "TSX", "TypeScript"))
_DOORS = frozenset(("__init__", "index", "mod", "lib"))


class SourceFiles:
    """The files in ``outlines``, by path.

    ``calls`` gives what a file calls and says of types: asked of files that are led through.
    """

    def __init__(
        self,
        outlines: Mapping[str, Outline],
        graph: ImportGraph,
        calls: Callable[[str], FileCalls],
    ) -> None:
        self.outlines, self.calls = outlines, calls
        self._graph = graph
        self._own: dict[str, dict[str, list[Symbol]]] = {}
        self.folders: dict[tuple[str, str], list[str]] = {}
        self.rust = RustPaths(outlines, self.symbols, self.taken)
        for path in sorted(outlines):
            self.folders.setdefault((folder_of(path), self.family(path)), []).append(path)

    def symbols(self, path: str) -> dict[str, list[Symbol]]:
        """The functions and classes of a file by their qualified names."""
        if path not in self._own:
            by_name: dict[str, list[Symbol]] = {}
            for symbol in self.outlines[path].symbols if path in self.outlines else ():
                if symbol.kind in CALLABLE or symbol.kind in CLASSES:
                    by_name.setdefault(symbol.name, []).append(symbol)
            self._own[path] = by_name
        return self._own[path]

    def imports(self, path: str) -> tuple[Import, ...]:
        """The imports of a file, as its outline has them."""
        return self.outlines[path].imports if path in self.outlines else ()

    def taken(self, path: str) -> Mapping[str, TakenName]:
        """What the imports of a file bind, in languages where its outline does not say it."""
        return self.calls(path).taken if self.language(path) in TAKES else {}

    def files_of(self, path: str, module: str) -> list[str]:
        """The files of a module, as a file of JavaScript or Go imports it."""
        for line in self.imports(path):
            if line.module == module and (targets := self.targets_of(path, line)):
                return targets
        return []

    def targets_of(self, path: str, line: Import) -> list[str]:
        """The files of an import: the graph keeps the first line alone that leads to a file."""
        edges = self._graph.internal.get(path, ())
        exact = [edge.target for edge in edges if edge.line == line.line]
        last = re.split(r"[./:]+", line.module.rstrip("/"))[-1]
        names = {last, line.module.rstrip("/").rpartition("/")[2], *line.names}
        return exact or [edge.target for edge in edges if stem(edge.target) in names]

    def package(self, files: Sequence[str]) -> list[str]:
        """Files with those of their package, where that is a folder."""
        if self.language(files[0]) not in BY_FOLDER:
            return list(files)
        return list(
            dict.fromkeys((*files, *(path for file in files for path in self.siblings(file))))
        )

    def crate_files(self, path: str, owner: str) -> list[str]:
        """The file of a type of Rust, and its crate if it has no other type of that name."""
        crate = self.rust.crate(path)
        files = self.by_crate.get(crate, [])
        same = [file for file in files if owner in self.symbols(file)]
        return [path, *(file for file in files if file != path)] if same == [path] else [path]

    @cached_property
    def by_crate(self) -> dict[str, list[str]]:
        """The files of Rust by the root of their crate."""
        crates: dict[str, list[str]] = {}
        for path in sorted(self.outlines):
            if self.language(path) == "Rust":
                crates.setdefault(self.rust.crate(path), []).append(path)
        return crates

    @cached_property
    def methods_of_go(self) -> dict[tuple[str, str], dict[str, str]]:
        """The heads of the methods of each type of Go, by its folder and name."""
        methods: dict[tuple[str, str], dict[str, str]] = {}
        for path in sorted(self.outlines):
            for symbol in self.outlines[path].symbols if self.language(path) == "Go" else ():
                owner, _, name = symbol.name.rpartition(".")
                if owner:
                    of = methods.setdefault((folder_of(path), owner), {})
                    of[name] = symbol.signature
        return methods

    def siblings(self, path: str) -> list[str]:
        """The files of one family of languages in the folder of a file."""
        return self.folders.get((folder_of(path), self.family(path)), [])

    def language(self, path: str) -> str:
        """The language of a file, "" if it is none of these."""
        return self.outlines[path].language if path in self.outlines else ""

    def family(self, path: str) -> str:
        """The language, or the one whose files it can call."""
        language = self.language(path)
        return _FAMILIES.get(language, language)


def stem(path: str) -> str:
    folder, _, name = path.rpartition("/")
    stem = name.partition(".")[0]
    return folder.rpartition("/")[2] if stem in _DOORS else stem


def is_door(path: str) -> bool:
    return path.rpartition("/")[2].partition(".")[0] in _DOORS
