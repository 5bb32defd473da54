"""Resolves the imports of Rust."""

from __future__ import annotations

from rlm_ci.source.imports import NOWHERE, ResolvedImport
from rlm_ci.source.imports.file_lookup import above, ancestors, folder_of, joined, nearest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rlm_ci.source import Import, Outline
    from rlm_ci.source.imports.file_lookup import FileLookup

#: Folders of a crate in which each file is a crate, or a module of one.
_CRATES_BY_FILE = frozenset({"tests", "examples", "benches", "bin"})
#: Files that are followed when each exports a name of the next.
_DEEPEST = 20
_ITEMS = frozenset({"enum", "macro", "module", "struct", "trait", "type"})


class RustResolver:
    """Modules are files below the root of their crate."""

    def __init__(
        self,
        places: FileLookup,
        crates: Mapping[str, Sequence[str]],
        needed: Mapping[str, Sequence[str]],
        outlines: Mapping[str, Outline],
    ) -> None:
        """``crates`` are folders by name; ``needed`` the required crates by folder."""
        self._places = places
        self._crates = {_spoken(name): folders for name, folders in crates.items()}
        self._needed = {folder: frozenset(map(_spoken, names)) for folder, names in needed.items()}
        self._outlines = outlines
        #: The names that are being resolved, to stop at circles.
        self._asked: set[tuple[str, str]] = set()
        self._given: dict[str, dict[str, Import]] = {}
        self._scopes: dict[str, dict[str, set[str]]] = {}

    def resolve(self, path: str, imported: Import) -> ResolvedImport:
        names = [name.removeprefix("r#") for name in imported.module.strip(":").split("::")]
        first = names[0]
        if first in ("std", "core", "alloc", "proc_macro", "test"):
            return ResolvedImport(package=first, is_standard=True)
        if first == "crate":
            return self._walk(self._root(path), [*names[1:], *imported.names])
        if first in ("self", "super"):
            return self._relative(path, [*names, *imported.names])
        if imported.module.endswith("::"):  # the first word of any path in the code
            needs = first not in self._crates and self._needs(path, first)
            return ResolvedImport(package=first) if needs else NOWHERE
        folders = self._crates.get(first)
        if folders:
            folder = nearest([joined(one_of, "x") for one_of in folders], path)
            return self._walk(joined(folder_of(folder or ""), "src"), [*names[1:], *imported.names])
        if self._needs(path, first):
            return ResolvedImport(package=first)
        # Our own modules need no prefix: those beside the file or, until 2018, in the root.
        root = self._root(path)
        for base in (*_bases(path), *([] if root is None else [root])):
            resolved_import = self._walk(base, [*names, *imported.names], strict=True)
            if resolved_import.targets:
                return resolved_import
        is_own = first[:1].isupper() or any(
            self._is_in_scope(file, first) for file in (path, self._root_file(root))
        )
        return NOWHERE if is_own else ResolvedImport(package=first)

    def _relative(self, path: str, names: Sequence[str]) -> ResolvedImport:
        bases = list(_bases(path))
        if len(bases) > 1 and names[0] == "self":  # a module beside its crate
            beside = self._walk(bases[1], names[1:], strict=True)
            if beside.targets:
                return beside
        base: str | None = bases[0]
        while names and names[0] in ("self", "super"):
            base = base and folder_of(base) if names[0] == "super" else base
            names = names[1:]
        return self._walk(base, names)

    def _needs(self, path: str, name: str) -> bool:
        """Whether the ``Cargo.toml`` above a file requires the crate ``name``."""
        return name in (above(self._needed, path) or ())

    def _root(self, path: str) -> str | None:
        for folder in ancestors(folder_of(path)):
            if self._root_file(folder):
                return folder
        return None

    def _root_file(self, folder: str | None) -> str:
        names = () if folder is None else (joined(folder, "lib.rs"), joined(folder, "main.rs"))
        return self._places.first(names) or ""

    def _is_in_scope(self, path: str, name: str) -> bool:
        """Whether a file defines ``name``, or imports it."""
        if path not in self._scopes:
            self._scopes[path] = _scope(self._outlines.get(path))
        return bool(self._scopes[path].get(name, set()) - {name})

    def _walk(
        self, base: str | None, names: Sequence[str], *, strict: bool = False
    ) -> ResolvedImport:
        """The deepest module of ``names`` below ``base``; its root, unless ``strict``."""
        if base is None:
            return NOWHERE
        file = None
        folder = base
        left = list(names)
        while left:
            step = self._places.first(
                (joined(folder, f"{left[0]}.rs"), joined(folder, f"{left[0]}/mod.rs"))
            )
            if step is None:
                break
            file, folder = step, joined(folder, left.pop(0))
        if file is None and not strict:
            roots = [joined(base, name) for name in ("mod.rs", "lib.rs", "main.rs")]
            file = self._places.first((*roots, f"{base}.rs"))
        if not file:
            return NOWHERE
        passed = self._passed_on(file, left[0]) if left else ()
        return ResolvedImport(tuple(dict.fromkeys((file, *passed))))

    def _passed_on(self, path: str, name: str) -> tuple[str, ...]:
        """The files from which a file exports ``name`` again: ``pub use self::raw::Raw``."""
        if path not in self._given:
            self._given[path] = _reexports(self._outlines.get(path))
        imported = self._given[path].get(name)
        if imported is None or (path, name) in self._asked or len(self._asked) == _DEEPEST:
            return ()
        self._asked.add((path, name))
        try:
            return self.resolve(path, imported).targets
        finally:
            self._asked.remove((path, name))


def _spoken(name: str) -> str:
    """The name of a crate in code."""
    return name.replace("-", "_")


def _bases(path: str) -> Iterator[str]:
    """The folders that may contain the modules of a file."""
    folder, _, name = path.rpartition("/")
    if name in ("mod.rs", "lib.rs", "main.rs", "build.rs"):
        yield folder
        return
    yield path.removesuffix(".rs")
    if folder.rpartition("/")[2] in _CRATES_BY_FILE:
        yield folder


def _reexports(outline: Outline | None) -> dict[str, Import]:
    """The imports of a file, by the names that other files may take from it."""
    by_name: dict[str, Import] = {}
    for imported in () if outline is None else outline.imports:
        for name in imported.called or imported.names:
            by_name.setdefault(name, imported)
    return by_name


def _scope(outline: Outline | None) -> dict[str, set[str]]:
    """The names in a file, each with the first words of the paths that it comes from."""
    scopes: dict[str, set[str]] = {}
    if outline is None:
        return scopes
    for symbol in outline.symbols:
        if symbol.kind in _ITEMS:
            scopes.setdefault(symbol.name.rpartition(".")[2], set()).add("self")
    for imported in outline.imports:
        first, separator, _ = imported.module.partition("::")
        last = imported.module.rpartition("::")[2] if separator else ""
        for name in imported.names or (last,):
            scopes.setdefault(name, set()).add(first)
    return scopes
