"""Public names of the two sides of a change, compared."""

from __future__ import annotations

from collections import Counter

from rlm_ci.overview.exports import Exports, is_private, module_file
from rlm_ci.overview.interfaces import FileNames, PublicName, difference, has_names, names_of
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
    """All changes of names, and how many there are of each kind."""

    def __init__(self, sides: ChangeSides) -> None:
        self._sides = sides
        self._exports = Exports(sides)
        self._new: dict[str, PythonInterface | None] = {}
        self._pairs = list(self._read())
        self.counts: Counter[str] = Counter()

    def changes(self) -> list[tuple[NameChange, str]]:
        """The changes, each with the file at the base; differences of annotations are counted."""
        found = [(one, pair.old.path) for pair in self._pairs for one in self._of(pair)]
        found = _with_moves(found)
        gone = {one.name for one, _ in found if one.change != ADDED and one.kind != _IMPORT}
        found = [(one, path) for one, path in found if one.kind != _IMPORT or one.name not in gone]
        self.counts.update(one.change for one, _ in found)
        self.counts[_BREAKING] = sum(one.breaking for one, _ in found)
        return found

    # ── which files ──

    def _read(self) -> Iterator[NamePair]:
        sides = self._sides
        files = [
            one for one in sides.files
            if has_names(one.path) or has_names(one.old_path or one.path)
        ]  # fmt: skip
        files.sort(key=lambda one: (-((one.added or 0) + (one.deleted or 0)), one.path))
        if files[MOST_FILES:]:
            sides.limit(f"names of {count(len(files) - MOST_FILES, 'file')} were not compared")
        files = sorted(files[:MOST_FILES], key=lambda one: one.path)
        pairs = list(_paired(files, sides))
        sides.load((old for old, _ in pairs if old), old=True)
        sides.load((new for _, new in pairs if new), old=False)
        for old, new in pairs:
            yield from self._pair(old, new)

    def _pair(self, old: str, new: str) -> Iterator[NamePair]:
        found = []
        for path, is_old in ((old, True), (new, False)):
            content = self._sides.read(path, old=is_old) if path else None
            tree = self._sides.old_tree if is_old else self._sides.new_tree
            if path in tree and content is None and tree[path].size:
                return  # too large, which is told
            found.append(names_of(path, content))
        found[1] = self._followed(*found)
        if all(one.is_read for one in found):
            yield NamePair(*found)
        else:
            path = next(one.path for one in found if not one.is_read)
            self._sides.limit(f"{path}: no reader of its syntax")

    def _followed(self, old: FileNames, new: FileNames) -> FileNames:
        """The new side with what it imports now instead of defining it."""
        if old.python is None or new.python is None:
            return new
        names = dict(new.names)
        for name in old.names:
            one = None if "." in name or name in names else new.python.bindings.get(name)
            target = module_file(self._sides.new_tree, new.path, one) if one else None
            found = self._interface(target) if target else None
            if one is not None and target is not None and found is not None:
                names.update(_brought(name, one.name, target, found))
        return new.replace(names=names)

    # ── one file ──

    def _of(self, pair: NamePair) -> Iterator[NameChange]:
        old, new = pair.old.names, pair.new.names
        gone = {name for name in old if name not in new and not self._is_there(pair, name)}
        fresh = {name for name in new if name not in old and new[name].path == pair.new.path}
        if pair.old.path and pair.new.path and pair.old.path != pair.new.path:
            yield from self._module(pair)
        for name in _outermost(gone):
            one = old[name]
            exported = self._exports.has(pair.old, name)
            breaking = exported and not self._is_reached(pair, name)
            yield NameChange(
                REMOVED, name, one.kind, pair.old.path, one.line_start,
                exported=exported, breaking=breaking,
            )  # fmt: skip
        for name in _outermost(fresh):
            one = new[name]
            yield NameChange(ADDED, name, one.kind, pair.new.path, one.line_start)
        for name in sorted(old.keys() & new.keys()):
            yield from self._changed(pair, name, old[name], new[name])
        yield from self._bindings(pair)

    def _changed(
        self, pair: NamePair, name: str, old: PublicName, new: PublicName
    ) -> Iterator[NameChange]:
        found = difference(old, new)
        if found is None or (new.kind == CLASS and self._keeps_bases(old, new)):
            return
        if found.retyped:
            self.counts[_RETYPED] += 1
            return
        exported = self._exports.has(pair.old, name)
        yield NameChange(
            CHANGED, name, new.kind, new.path, new.line_start, found.notes, exported,
            exported and found.breaks,
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
            known = other.python
            for name, one in sorted(this.python.bindings.items()):
                is_new = known is None or not (name in known.names or name in known.bindings)
                if one.is_public and one.name != "*" and is_new:
                    exported = change == REMOVED and not is_private(this.path) and (
                        self._exports.has(this, name)
                    )  # fmt: skip
                    yield NameChange(
                        change, name, _IMPORT, this.path, one.line, exported=exported,
                        breaking=exported,
                    )  # fmt: skip

    def _is_there(self, pair: NamePair, name: str) -> bool:
        """Whether a name without a definition is there: imported, or inherited."""
        owner, _, last = name.rpartition(".")
        if pair.new.python is None:
            return False
        if not owner:
            return name in pair.new.python.bindings
        held = pair.new.names.get(owner)
        path = pair.new.path if held is None else held.path
        return any(
            f"{above}.{last}" in found.names for found, above in self._above(path, owner)
        )  # fmt: skip

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
            here, name = waiting.pop()
            found = self._interface(here)
            held = found.names.get(name) if found is not None else None
            for base in held.bases if found is not None and held is not None else ():
                place = self._place_of(here, found, base) if found is not None else None
                other = self._interface(place[0]) if place else None
                if place and other is not None and place not in seen:
                    seen.add(place)
                    waiting.append(place)
                    yield other, place[1]

    def _place_of(self, path: str, found: PythonInterface, base: str) -> tuple[str, str] | None:
        """The file and the name of a class that a file of the new side defines or imports."""
        if base in found.names:
            return path, base
        one = found.bindings.get(base)
        target = module_file(self._sides.new_tree, path, one) if one else None
        return (target, one.name) if target and one else None

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
            found is not None and (name in found.bindings or name in found.names)
            for folder in ancestors(folder_of(path))
            if (init := joined(folder, _INIT)) in self._sides.new_tree
            for found in (self._interface(init),)
        )


def _brought(
    name: str, there: str, path: str, found: PythonInterface
) -> Iterator[tuple[str, PublicName]]:
    """The definition of ``there`` in another file, and its public members, as ``name``."""
    for key, known in found.names.items():
        if key == there or key.startswith(f"{there}."):
            full = f"{name}{key.removeprefix(there)}"
            members = full.split(".")[1:]
            if all(one[:1] != "_" or one[:2] == one[-2:] == "__" for one in members):
                lines = known.line_start, known.line_end
                yield full, PublicName(path, full, known.kind, *lines, python=known)


def _paired(files: list[FileChange], sides: ChangeSides) -> Iterator[tuple[str, str]]:
    """The old and the new path of each file, "" for a missing side; each path once."""
    taken = set()
    for one in files:
        old = "" if one.status in ("A", "C") else one.old_path or one.path
        if old and (same := _same_module(old, sides.new_tree)):
            taken.add(same)
            yield old, same
        elif old:
            new = one.path if one.status == "R" else ""
            taken.add(new)
            yield old, new
    for one in files:
        if one.path in sides.new_tree and one.path not in taken:
            yield "", one.path


def _same_module(path: str, tree: Mapping[str, object]) -> str:
    """The file of the same name, or of the same Python module, in another tree."""
    if path in tree or not path.endswith(".py"):
        return path if path in tree else ""
    bare = path.removesuffix(".py").removesuffix("/__init__")
    other = bare.removeprefix("src/") if bare.startswith("src/") else f"src/{bare}"
    names = (f"{one}{end}" for one in (bare, other) for end in (".py", f"/{_INIT}"))
    return next((name for name in names if name in tree), "")


def _dotted(path: str) -> str:
    bare = path.removesuffix(".py").removesuffix("/__init__").removeprefix("src/")
    return bare.replace("/", ".")


def _outermost(names: set[str]) -> list[str]:
    """Those whose owner is not among them."""
    return sorted(name for name in names if name.rpartition(".")[0] not in names)


def _with_moves(found: list[tuple[NameChange, str]]) -> list[tuple[NameChange, str]]:
    """A definition that is removed here and added there, once, has moved."""
    sides: dict[str, dict[tuple[str, str], list[NameChange]]] = {REMOVED: {}, ADDED: {}}
    for one, _ in found:
        if one.change in sides and one.kind != _IMPORT:
            sides[one.change].setdefault((one.name, one.kind), []).append(one)
    moved: dict[int, NameChange | None] = {}
    for key, old in sides[REMOVED].items():
        new = sides[ADDED].get(key, [])
        if len(old) == len(new) == 1:
            note = f"from `{printable(old[0].path).replace('`', '')}`"
            place = {"path": new[0].path, "line": new[0].line}
            moved[id(old[0])] = old[0].replace(change=MOVED, notes=(note,), **place)
            moved[id(new[0])] = None
    kept = [(moved.get(id(one), one), path) for one, path in found]
    return [(one, path) for one, path in kept if one is not None]
