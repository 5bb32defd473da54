"""Who uses the names that a change removes or changes: at its base, by name and by import."""

from __future__ import annotations

from rlm_ci.git import patches
from rlm_ci.report.overview.changes import ADDED, REMOVED, Caller, NameChange
from rlm_ci.source.grammars import LANGUAGES
from rlm_ci.source.languages import language
from rlm_ci.source.test_files import is_trial
from rlm_ci.source.uses.references import IMPORT, MANIFESTS, ReferenceIndex
from rlm_ci.text.printable import count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from rlm_ci.overview.sides import ChangeSides
    from rlm_ci.source.uses.references import Reference

#: The most names whose callers are looked for, and files that are read for all of them.
MOST_NAMES = 60
MOST_FILES = 600
#: Callers of a name that are kept.
_SHOWN = 12
#: Characters of a name that is looked for.
_LONGEST = 100
#: Names that built-in types have too.
_BUILT_IN = frozenset(dir(dict)) | frozenset(dir(list)) | frozenset(dir(str)) | frozenset(dir(set))
_PACKAGES = frozenset(("__init__.py", "index.js", "index.ts", "mod.rs", "lib.rs"))


def with_callers(
    sides: ChangeSides, compared: Sequence[tuple[NameChange, str]]
) -> list[NameChange]:
    """Changes of names, each with its file at the base, with the callers of what was there."""
    changes = [change for change, _ in compared]
    numbers = [
        number
        for number, change in enumerate(changes)
        if change.change != ADDED
        and change.kind not in ("module", "import")
        and len(word_of(change.name)) <= _LONGEST
    ]
    numbers.sort(key=lambda number: (not changes[number].breaking, number))
    if numbers[MOST_NAMES:]:
        sides.limit(f"callers of {count(len(numbers) - MOST_NAMES, 'name')} were not looked for")
    numbers = numbers[:MOST_NAMES]
    if not numbers:
        return changes
    uses = NameUses(sides, [compared[number] for number in numbers])
    for number, users in zip(numbers, uses.users, strict=True):
        callers = _callers(users, uses.edited)
        changes[number] = changes[number].replace(
            callers=tuple(callers[:_SHOWN]),
            caller_count=len(callers),
            outside=sum(not caller.in_change for caller in callers),
            by_name=_is_common(uses.index, changes[number].name, compared[number][1]),
        )
    return changes


class NameUses:
    """Where the base of ``sides`` uses names that a change removes or changes.

    Each name comes with the file that defines it. ``edited`` are the lines of the base that the
    change of ``sides`` edits, in the files with uses.
    """

    def __init__(self, sides: ChangeSides, compared: Sequence[tuple[NameChange, str]]) -> None:
        words = {word_of(change.name) for change, _ in compared}
        self._compared = compared
        self.index = _index(sides, words, {definer for _, definer in compared})
        self.users = [_users(self.index, *row) for row in compared]
        self.edited = _edited(sides, {user.path for users in self.users for user in users})

    def edited_uses(self) -> Iterator[list[Reference]]:
        """For each name its uses in edited lines, where no other definition may be meant."""
        for number, users in enumerate(self.users):
            inside = [user for user in users if user.line in self.edited.get(user.path, ())]
            yield self._certain(*self._compared[number], inside) if inside else []

    def _certain(
        self, change: NameChange, definer: str, users: Sequence[Reference]
    ) -> list[Reference]:
        word = word_of(change.name)
        definitions = self.index.definitions(word)
        is_member = "." in change.name and word == change.name.rpartition(".")[2]
        namesakes = [
            definition
            for definition in definitions
            if definition.path == definer and definition.symbol.name != change.name
        ]
        if is_member and (word in _BUILT_IN or namesakes):
            return []
        paths = {definition.path for definition in definitions}
        if definer not in paths and change.kind != "import":
            return []  # the base has it no more, or not yet
        rivals = paths - {definer}
        references = self.index.references(word, definers=rivals) if rivals else ()
        doubtful = {reference.path for reference in references if reference.connected}
        return [user for user in users if user.path not in doubtful]


def word_of(name: str) -> str:
    """The word by which a name is used: the class for its constructor."""
    owner, _, last = name.replace("::", ".").replace("#", ".").rpartition(".")
    is_made = last in ("__init__", "__new__", "constructor") and owner
    return owner.rpartition(".")[2] if is_made else last


def _index(sides: ChangeSides, words: set[str], definers: set[str]) -> ReferenceIndex:
    """The files of the base that have one of ``words``, and those that lead to ``definers``."""
    sources = {path for path in sides.old_tree if language(path) in LANGUAGES}
    names = {path for path in sides.old_tree if path.rpartition("/")[2] in MANIFESTS}
    hits = [path for path in sides.search(sorted(words)) if path in sources]
    hits.sort(key=lambda path: (path not in definers, is_trial(path), path))
    if hits[MOST_FILES:]:
        sides.limit(f"callers were looked for in {MOST_FILES} of {len(hits):,} files")
    packages = sorted(path for path in sources if path.rpartition("/")[2] in _PACKAGES)
    sides.load([*hits[:MOST_FILES], *packages[:MOST_FILES], *sorted(names)[:100]], old=True)
    return ReferenceIndex(sources | names, lambda path: sides.read(path, old=True), words)


def _users(index: ReferenceIndex, change: NameChange, definer: str) -> list[Reference]:
    """Where a name is used. An import alone is a use of a removed name: it fails from then on."""
    references = [
        reference
        for reference in index.references(word_of(change.name), definers=(definer,))
        if reference.connected and not _is_own(reference, change, definer)
    ]
    users = [reference for reference in references if reference.kind != IMPORT]
    if change.change == REMOVED:
        using = {user.path for user in users}
        users += [
            reference
            for reference in references
            if reference.kind == IMPORT and reference.path not in using
        ]
    return users


def _is_own(reference: Reference, change: NameChange, definer: str) -> bool:
    """Whether a use is in the definition itself."""
    inside = reference.within == change.name or reference.within.startswith(f"{change.name}.")
    return reference.path == definer and inside


def _callers(users: Iterable[Reference], edited: Mapping[str, frozenset[int]]) -> list[Caller]:
    """One caller for each definition with a use; edited if one of its uses is."""
    callers: dict[tuple[str, str], Caller] = {}
    for user in users:
        key = user.path, user.within
        in_change = user.line in edited.get(user.path, ())
        caller = callers.get(key)
        if caller is None:
            callers[key] = Caller(user.path, user.line, user.within, in_change)
        elif in_change and not caller.in_change:
            callers[key] = caller.replace(in_change=True)
    return sorted(
        callers.values(),
        key=lambda caller: (caller.in_change, is_trial(caller.path), caller.path, caller.line),
    )


def _edited(sides: ChangeSides, paths: set[str]) -> Mapping[str, frozenset[int]]:
    """The lines of the base, in those of ``paths`` that differ, which the change edits."""
    new = {
        file.old_path or file.path: file.path
        for file in sides.files
        if file.status not in ("A", "C")
    }
    within = [f":(literal){name}" for path in paths if path in new for name in {path, new[path]}]
    if not within:
        return {}
    options = ("--raw", "--no-abbrev", "-M", "--patch", "--unified=0")
    hunks, _ = patches.parse(sides.diff(options, within))
    return {
        path: frozenset(
            line
            for hunk in hunks.get(new[path], ())
            for line in range(hunk.old_start, hunk.old_start + hunk.old_count)
        )
        for path in paths
        if path in new
    }


def _is_common(index: ReferenceIndex, name: str, definer: str) -> bool:
    """Whether other definitions have the last part of a name, too."""
    word = word_of(name)
    names = {name, name.rpartition(".")[0]}
    return word in _BUILT_IN or any(
        definition.path != definer or definition.symbol.name not in names
        for definition in index.definitions(word)
    )
