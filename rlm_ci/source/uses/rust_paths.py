"""Paths of Rust through the modules of a repository: what they lead to outside leads nowhere."""

from __future__ import annotations

from rlm_ci.source.imports.file_lookup import folder_of, joined, nearest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rlm_ci.source import Outline, Symbol
    from rlm_ci.source.uses.file_calls import TakenName

#: Modules in a row that are followed for one path.
_DEEPEST = 24
_ROOTS = frozenset(("lib.rs", "main.rs"))
#: Folders in which each file is a crate.
_CRATES_BY_FILE = frozenset(("bin", "examples", "tests", "benches"))


class RustPaths:
    """The modules of the files of Rust in ``outlines``; ``taken`` gives what a file imports."""

    def __init__(
        self,
        outlines: Mapping[str, Outline],
        symbols: Callable[[str], Mapping[str, list[Symbol]]],
        taken: Callable[[str], Mapping[str, TakenName]],
    ) -> None:
        self._symbols, self._taken = symbols, taken
        #: What is known, and, for a circle of imports, what is being looked up.
        self._found: dict[tuple[str, ...], tuple[str, str]] = {}
        files = sorted(path for path, outline in outlines.items() if outline.language == "Rust")
        roots = {folder_of(path) for path in files if path.rpartition("/")[2] in _ROOTS}
        #: Files by the root of their crate and the names of their module, and the other way round.
        self._files: dict[tuple[str, ...], str] = {}
        self._modules: dict[str, tuple[str, ...]] = {}
        for path in files:
            module = _module(path, roots)
            self._modules[path] = module
            self._files.setdefault(module, path)
        #: Folders of crates by the names that code uses.
        self._crates: dict[str, list[str]] = {}
        for path, outline in outlines.items():
            if path.rpartition("/")[2] == "Cargo.toml":
                for symbol in outline.symbols:
                    if symbol.kind == "module":
                        folder = joined(folder_of(path), "src")
                        name = symbol.name.replace("-", "_")
                        self._crates.setdefault(name, []).append(folder)

    def crate(self, path: str) -> str:
        """The root of the crate of a file."""
        return self._modules.get(path, ("",))[0]

    def lookup(self, path: str, names: Sequence[str], left: int = _DEEPEST) -> tuple[str, str]:
        """The file and the qualified name of what a path in a file means; "" for a module.

        The file is "" for what is outside.
        """
        key = (path, *names)
        if key not in self._found:
            self._found[key] = "", ""
            self._found[key] = self._looked_up(path, names, left)
        return self._found[key]

    def _looked_up(self, path: str, names: Sequence[str], left: int) -> tuple[str, str]:
        module = self._modules.get(path)
        if module is None or not left or not names:
            return "", ""
        first, *tail = names
        if first == "crate":
            return self._below(module[:1], tail, left)
        if first in ("self", "super"):
            while names and names[0] in ("self", "super"):
                module = module[:-1] if names[0] == "super" else module
                names = names[1:]
            return self._below(module, names, left) if module else ("", "")
        return self._within(module, path, names, left)

    def _below(self, module: tuple[str, ...], names: Sequence[str], left: int) -> tuple[str, str]:
        path = self._files.get(module, "")
        if not path or not names:
            return path, ""
        return self._within(module, path, names, left - 1, is_open=False)

    def _within(
        self,
        module: tuple[str, ...],
        path: str,
        names: Sequence[str],
        left: int,
        *,
        is_open: bool = True,
    ) -> tuple[str, str]:
        """What ``names`` mean in a module; ``is_open``: they may begin with the name of a crate."""
        first, *tail = names
        if left <= 0:
            return "", ""
        name = ".".join(names)
        symbols = self._symbols(path)
        if name in symbols or (first in symbols and symbols[first][0].kind != "module"):
            return path, name
        if (*module, first) in self._files:
            return self._below((*module, first), tail, left)
        taken = self._taken(path)
        alias = taken.get(first)
        if alias is not None and alias.path[:1] != [first]:  # ``use log::log`` is of a crate
            return self.lookup(path, [*alias.path, *tail], left - 1)
        for alias in taken.values():
            if alias.name == "*" and alias.path[:1] != [first]:
                target = self.lookup(path, [*alias.path[:-1], *names], left - 1)
                if target[0]:
                    return target
        if is_open and first in self._crates:
            folder = nearest([joined(crate, "x") for crate in self._crates[first]], path) or ""
            return self._below((folder_of(folder),), tail, left)
        return "", ""


def _module(path: str, roots: set[str]) -> tuple[str, ...]:
    """The root of the crate of a file, then the names of its module."""
    folder, _, name = path.rpartition("/")
    stem = name.removesuffix(".rs")
    if name in _ROOTS:
        return (folder,)
    names = [] if name == "mod.rs" else [stem]
    at = folder
    while at not in roots:
        last = at.rpartition("/")[2]
        if last in _CRATES_BY_FILE or not at:
            return (path,)
        names.insert(0, last)
        at = folder_of(at)
    return (at, *names)
