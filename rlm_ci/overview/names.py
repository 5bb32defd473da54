"""Public names of the two sides of a change, compared."""

from __future__ import annotations

from collections import Counter

from rlm_ci.overview.interfaces import (
    Exports,
    FileNames,
    PublicName,
    difference,
    has_names,
    is_private,
    module_file,
    names_of,
)
from rlm_ci.report.overview.changes import ADDED, CHANGED, MOVED, REMOVED, NameChange
from rlm_ci.source.imports.file_lookup import ancestors, folder_of, joined
from rlm_ci.source.python.interface import CLASS, interface
from rlm_ci.text.printable import count, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rlm_ci.change.change_set import FileChange
    from rlm_ci.overview.sides import ChangeSides
    from rlm_ci.source.python.interface import PythonInterface

#: The most files whose names are compared, those with most changed lines first.
MOST_FILES = 400
#: The most classes that one is found to derive from.
_MOST_BASES = 200
_IMPORT = "import"
_RETYPED, _BREAKING = "retyped", "breaking"
_INIT = "__init__.py"


class NamePair:
    """One file on both sides; a Python module that became a package is still the same module."""

    def __init__(self, old: FileNames, new: FileNames) -> None:
        self.old, self.new = old, new


class NameComparison:
    """All changes of names, and how many there are of each kind.

    ``exports`` says which of them users can reach.
    """

    def __init__(self, sides: ChangeSides, exports: Exports | None = None) -> None:
        self._sides = sides
        self._exports = exports or Exports(sides)
        self._new: dict[str, PythonInterface | None] = {}
        self._pairs = list(self._read())
        self.counts: Counter[str] = Counter()

    def changes(self) -> list[tuple[NameChange, str]]:
        """The changes, each with the file at the base; differences of annotations are counted."""
        rows = [(change, pair.old.path) for pair in self._pairs for change in self._of(pair)]
        rows = _with_moves(rows)
        gone = {
            change.name for change, _ in rows if change.change != ADDED and change.kind != _IMPORT
        }
        rows = [
            (change, path)
            for change, path in rows
            if change.kind != _IMPORT or change.name not in gone
        ]
        self.counts.update(change.change for change, _ in rows)
        self.counts[_BREAKING] = sum(change.breaking for change, _ in rows)
        return rows

    # ── which files ──

    def _read(self) -> Iterator[NamePair]:
        sides = self._sides
        files = [
            file for file in sides.files
            if has_names(file.path) or has_names(file.old_path or file.path)
        ]  # fmt: skip
        files.sort(key=lambda change: (-((change.added or 0) + (change.deleted or 0)), change.path))
        if files[MOST_FILES:]:
            sides.limit(f"names of {count(len(files) - MOST_FILES, 'file')} were not compared")
        files = sorted(files[:MOST_FILES], key=lambda file_change: file_change.path)
        pairs = list(_paired(files, sides))
        sides.load((old for old, _ in pairs if old), old=True)
        sides.load((new for _, new in pairs if new), old=False)
        for old, new in pairs:
            yield from self._pair(old, new)

    def _pair(self, old: str, new: str) -> Iterator[NamePair]:
        names = []
        for path, is_old in ((old, True), (new, False)):
            content = self._sides.read(path, old=is_old) if path else None
            tree = self._sides.old_tree if is_old else self._sides.new_tree
            if path in tree and content is None and tree[path].size:
                return  # too large, which is told
            names.append(names_of(path, content, every=self._exports.every))
        names[1] = self._followed(*names)
        if all(file_names.is_read for file_names in names):
            yield NamePair(*names)
        else:
            path = next(file_names.path for file_names in names if not file_names.is_read)
            self._sides.limit(f"{path}: no reader of its syntax")

    def _followed(self, old: FileNames, new: FileNames) -> FileNames:
        """The new side with what it imports now instead of defining it."""
        if old.python is None or new.python is None:
            return new
        names = dict(new.names)
        for name in old.names:
            binding = None if "." in name or name in names else new.python.bindings.get(name)
            target = module_file(self._sides.new_tree, new.path, binding) if binding else None
            python_interface = self._interface(target) if target else None
            if binding is not None and target is not None and python_interface is not None:
                names.update(_brought(name, binding.name, target, python_interface))
        return new.replace(names=names)

    # ── one file ──

    def _of(self, pair: NamePair) -> Iterator[NameChange]:
        old, new = pair.old.names, pair.new.names
        gone = {name for name in old if name not in new and not self._is_there(pair, name)}
        fresh = {name for name in new if name not in old and new[name].path == pair.new.path}
        if pair.old.path and pair.new.path and pair.old.path != pair.new.path:
            yield from self._module(pair)
        for name in _outermost(gone):
            public_name = old[name]
            exported = self._exports.has(pair.old, name)
            breaking = exported and not self._is_reached(pair, name)
            yield NameChange(
                REMOVED, name, public_name.kind, pair.old.path, public_name.line_start,
                exported=exported, breaking=breaking,
            )  # fmt: skip
        for name in _outermost(fresh):
            public_name = new[name]
            yield NameChange(ADDED, name, public_name.kind, pair.new.path, public_name.line_start)
        for name in sorted(old.keys() & new.keys()):
            yield from self._changed(pair, name, old[name], new[name])
        yield from self._bindings(pair)

    def _changed(
        self, pair: NamePair, name: str, old: PublicName, new: PublicName
    ) -> Iterator[NameChange]:
        name_difference = difference(old, new)
        if name_difference is None or (new.kind == CLASS and self._keeps_bases(old, new)):
            return
        if name_difference.retyped:
            self.counts[_RETYPED] += 1
            return
        exported = self._exports.has(pair.old, name)
        yield NameChange(
            CHANGED, name, new.kind, new.path, new.line_start, name_difference.notes, exported,
            exported and name_difference.breaks,
        )  # fmt: skip

    def _module(self, pair: NamePair) -> Iterator[NameChange]:
        """A Python module that has another name."""
        if pair.old.python is None or pair.new.python is None or not pair.old.names:
            return
        old, new = _dotted(pair.old.path), _dotted(pair.new.path)
        if old != new:
            exported = not is_private(pair.old.path) and self._exports.has(
                pair.old, next(iter(pair.old.names))
            )
            note = f"is now `{printable(new)}`"
            yield NameChange(
                MOVED, old, "module", pair.new.path, 1, (note,), exported, exported
            )  # fmt: skip

    def _bindings(self, pair: NamePair) -> Iterator[NameChange]:
        """Names that a package no longer takes from its modules, or takes now."""
        sides = [(pair.old, pair.new), (pair.new, pair.old)]
        for change, (this, other) in zip((REMOVED, ADDED), sides, strict=True):
            if not this.path.endswith(_INIT) or this.python is None:
                continue
            python_interface = other.python
            for name, binding in sorted(this.python.bindings.items()):
                is_new = python_interface is None or not (
                    name in python_interface.names or name in python_interface.bindings
                )
                if binding.is_public and binding.name != "*" and is_new:
                    exported = change == REMOVED and not is_private(this.path) and (
                        self._exports.has(this, name)
                    )  # fmt: skip
                    yield NameChange(
                        change, name, _IMPORT, this.path, binding.line, exported=exported,
                        breaking=exported,
                    )  # fmt: skip

    def _is_there(self, pair: NamePair, name: str) -> bool:
        """Whether a name without a definition is there: imported, or inherited."""
        owner, _, last = name.rpartition(".")
        if pair.new.python is None:
            return False
        if not owner:
            return name in pair.new.python.bindings
        public_name = pair.new.names.get(owner)
        path = pair.new.path if public_name is None else public_name.path
        return any(
            f"{above}.{last}" in interface.names for interface, above in self._above(path, owner)
        )

    def _keeps_bases(self, old: PublicName, new: PublicName) -> bool:
        """Whether a class still derives from its bases, though not directly."""
        before = set(old.python.bases) if old.python else set()
        now = {name for _, name in self._above(new.path, new.name)}
        now |= set(new.python.bases) if new.python else set()
        return new.python is not None and before <= now

    def _above(self, path: str, owner: str) -> Iterator[tuple[PythonInterface, str]]:
        """The classes of the new side that a class derives from, as far as they can be found."""
        waiting, seen = [(path, owner)], {(path, owner)}
        while waiting and len(seen) < _MOST_BASES:
            file, name = waiting.pop()
            python_interface = self._interface(file)
            python_name = python_interface.names.get(name) if python_interface is not None else None
            for base in (
                python_name.bases
                if python_interface is not None and python_name is not None
                else ()
            ):
                location = (
                    self._place_of(file, python_interface, base)
                    if python_interface is not None
                    else None
                )
                other = self._interface(location[0]) if location else None
                if location and other is not None and location not in seen:
                    seen.add(location)
                    waiting.append(location)
                    yield other, location[1]

    def _place_of(
        self, path: str, python_interface: PythonInterface, base: str
    ) -> tuple[str, str] | None:
        """The file and the name of a class that a file of the new side defines or imports."""
        if base in python_interface.names:
            return path, base
        binding = python_interface.bindings.get(base)
        target = module_file(self._sides.new_tree, path, binding) if binding else None
        return (target, binding.name) if target and binding else None

    def _interface(self, path: str) -> PythonInterface | None:
        """A Python file of the new side."""
        if path not in self._new:
            content = self._sides.fetch(path, old=False)
            self._new[path] = None if content is None else interface(path, content)
        return self._new[path]

    def _is_reached(self, pair: NamePair, name: str) -> bool:
        """Whether a package still offers a name that its private module has lost."""
        path = pair.old.path
        if pair.old.python is None or not is_private(path) or "." in name:
            return False
        return any(
            python_interface is not None
            and (name in python_interface.bindings or name in python_interface.names)
            for folder in ancestors(folder_of(path))
            if (init := joined(folder, _INIT)) in self._sides.new_tree
            for python_interface in (self._interface(init),)
        )


def _brought(
    name: str, module: str, path: str, python_interface: PythonInterface
) -> Iterator[tuple[str, PublicName]]:
    """The definition of ``module`` in another file, and its public members, as ``name``."""
    for key, python_name in python_interface.names.items():
        if key == module or key.startswith(f"{module}."):
            full = f"{name}{key.removeprefix(module)}"
            members = full.split(".")[1:]
            if all(member[:1] != "_" or member[:2] == member[-2:] == "__" for member in members):
                lines = python_name.line_start, python_name.line_end
                yield full, PublicName(path, full, python_name.kind, *lines, python=python_name)


def _paired(files: list[FileChange], sides: ChangeSides) -> Iterator[tuple[str, str]]:
    """The old and the new path of each file, "" for a missing side; each path once."""
    taken = set()
    for file in files:
        old = "" if file.status in ("A", "C") else file.old_path or file.path
        if old and (same := _same_module(old, sides.new_tree)):
            taken.add(same)
            yield old, same
        elif old:
            new = file.path if file.status == "R" else ""
            taken.add(new)
            yield old, new
    for file in files:
        if file.path in sides.new_tree and file.path not in taken:
            yield "", file.path


def _same_module(path: str, tree: Mapping[str, object]) -> str:
    """The file of the same name, or of the same Python module, in another tree."""
    if path in tree or not path.endswith(".py"):
        return path if path in tree else ""
    bare = path.removesuffix(".py").removesuffix("/__init__")
    other = bare.removeprefix("src/") if bare.startswith("src/") else f"src/{bare}"
    names = (f"{stem}{end}" for stem in (bare, other) for end in (".py", f"/{_INIT}"))
    return next((name for name in names if name in tree), "")


def _dotted(path: str) -> str:
    bare = path.removesuffix(".py").removesuffix("/__init__").removeprefix("src/")
    return bare.replace("/", ".")


def _outermost(names: set[str]) -> list[str]:
    """Those whose owner is not among them."""
    return sorted(name for name in names if name.rpartition(".")[0] not in names)


def _with_moves(name_changes: list[tuple[NameChange, str]]) -> list[tuple[NameChange, str]]:
    """A definition that is removed here and added there, once, has moved."""
    sides: dict[str, dict[tuple[str, str], list[NameChange]]] = {REMOVED: {}, ADDED: {}}
    for change, _ in name_changes:
        if change.change in sides and change.kind != _IMPORT:
            sides[change.change].setdefault((change.name, change.kind), []).append(change)
    moved: dict[int, NameChange | None] = {}
    for key, old in sides[REMOVED].items():
        new = sides[ADDED].get(key, [])
        if len(old) == len(new) == 1:
            note = f"from `{printable(old[0].path).replace('`', '')}`"
            position = {"path": new[0].path, "line": new[0].line}
            moved[id(old[0])] = old[0].replace(change=MOVED, notes=(note,), **position)
            moved[id(new[0])] = None
    changes = [
        (moved.get(id(name_change), name_change), path) for name_change, path in name_changes
    ]
    return [(name_change, path) for name_change, path in changes if name_change is not None]
