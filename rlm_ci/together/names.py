"""Names of two changes: what one takes away or changes and the other uses, what both add."""

from __future__ import annotations

import re
from itertools import takewhile

from rlm_ci.overview.callers import NameUses, word_of
from rlm_ci.overview.interfaces import names_of
from rlm_ci.report.overview.changes import CHANGED, MOVED, REMOVED
from rlm_ci.source.grammars import LANGUAGES
from rlm_ci.source.import_graph import ImportGraph
from rlm_ci.source.imports.file_lookup import folder_of
from rlm_ci.source.languages import language
from rlm_ci.source.outline import outline
from rlm_ci.source.python.call_arguments import pass_alike
from rlm_ci.source.uses.references import BY_FOLDER, CALL, IMPORT, MANIFESTS
from rlm_ci.source.uses.written_types import split
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rlm_ci.report.overview.changes import NameChange
    from rlm_ci.source.uses.references import Reference
    from rlm_ci.together.open_changes import OpenChange

#: Names of one change that are looked for in another.
MOST_NAMES = 60
_FILE = "file"
#: Parameters that a call may leave out without a default: any number of them, optional ones.
_OPTIONAL = re.compile(r"\w+\s+\.\.\.|\.\.\.\w|[\w$]+\?\s*:")
#: Languages in which no parameter has a default.
_NO_DEFAULTS = frozenset(("Go", "Java", "Rust"))
#: Languages whose imports lead to files.
_BY_FILE = frozenset(LANGUAGES) - BY_FOLDER
#: Kinds of names that may have parents, and the words before these.
_TYPES = frozenset(("class", "interface"))
_INHERITS = frozenset(("extends", "implements"))


class BrokenUse(Value):
    """A use, in a line that a change adds, of what another change takes away.

    ``taken`` is a name, or a file for one that is imported; it stands at ``taken_line`` of
    ``taken_path``, at the base if ``is_old``. ``count`` is that of all such uses.
    """

    kind: str
    taken: str
    taken_path: str
    taken_line: int
    is_old: bool
    notes: tuple[str, ...]
    path: str
    line: int
    count: int = 1


class AddedTwice(Value):
    """A public name that two changes add to one file or package, and the line of each."""

    name: str
    path: str
    line: int
    other_path: str
    other_line: int


def broken_uses(change: OpenChange, user: OpenChange) -> list[BrokenUse]:
    """What ``change`` takes away or changes, and new lines of ``user`` use."""
    rows = [
        (name_change, path)
        for name_change, path in change.names
        if name_change.breaking
        and name_change.kind != "module"
        and word_of(name_change.name) in user.added_words
        and not _stays(name_change, path)
    ]
    breaks = list(_broken_names(rows[:MOST_NAMES], change, user)) if rows else []
    if rows[MOST_NAMES:]:
        user.sides.limit(
            f"{len(rows) - MOST_NAMES:,} names that {change.name} changes were not looked for"
        )
    seen = {(item.path, item.line) for item in breaks}
    imports = (item for item in _broken_imports(change, user) if (item.path, item.line) not in seen)
    return [*breaks, *imports]


def _stays(change: NameChange, definer: str) -> bool:
    """Whether a name that moved is still where its users look: in the same package."""
    kind = language(definer)
    same = folder_of(change.path) == folder_of(definer)
    return change.change == MOVED and (kind == "C#" or (kind in BY_FOLDER and same))


def _broken_names(
    rows: Sequence[tuple[NameChange, str]], change: OpenChange, user: OpenChange
) -> Iterator[BrokenUse]:
    # An import alone of what has moved fails, too.
    queries = [
        (row.replace(change=REMOVED) if row.change == MOVED else row, path) for row, path in rows
    ]
    uses = NameUses(user.backwards, queries)
    for (row, definer), all_uses in zip(rows, uses.edited_uses(), strict=True):
        references: Sequence[Reference]
        references = [use for use in all_uses if not _is_of_another(use, row, definer, change)]
        if row.change == CHANGED and references:
            references = _misfits(references, row, definer, change, user)
        if references:
            first = min(references, key=lambda reference: (reference.path, reference.line))
            yield BrokenUse(
                row.change, row.name, row.path, row.line, row.change == REMOVED, row.notes,
                first.path, first.line, len(references),
            )  # fmt: skip


def _misfits(
    references: Sequence[Reference], row: NameChange, definer: str, change: OpenChange,
    user: OpenChange,
) -> Sequence[Reference]:  # fmt: skip
    """Those without calls that both versions of what they call take."""
    word, last = word_of(row.name), row.name.rpartition(".")[2]
    if word != last:  # a constructor: ``isinstance`` and annotations do not mind
        references = [use for use in references if use.kind == CALL]
    both = [
        names_of(path, change.sides.fetch(path, old=old), every=True).names.get(row.name)
        for path, old in ((definer, True), (row.path, False))
    ]
    signatures = [name.signature if name else "" for name in both]
    if row.kind in _TYPES and len(set(map(_without_parents, signatures))) == 1:
        heir = re.compile(rf"\b(?:extends|implements)\b.*\b{re.escape(word)}\b")
        return [use for use in references if heir.search(use.text)]
    if _has_more_optional(language(definer), *signatures):
        return [use for use in references if use.kind not in (CALL, IMPORT)]
    pythons = [name.python if name else None for name in both]
    versions = [python.parameters for python in pythons if python and python.parameters]
    if len(versions) < len(pythons):
        return references
    return [
        use
        for use in references
        if not pass_alike(user.sides.fetch(use.path, old=False) or b"", use.line, word, versions)
    ]


def _without_parents(signature: str) -> tuple[str, ...]:
    """The words of a signature up to the parents of the type."""
    return tuple(takewhile(lambda word: word not in _INHERITS, split(signature, " ")))


def _has_more_optional(kind: str, old: str, new: str) -> bool:
    """Whether a signature has optional parameters behind all others, and nothing else is new."""
    start = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False)))
    behind = old[start:]
    inserted = new[start : len(new) - len(behind)]
    parameters = [part for part in split(inserted.strip().removeprefix(",")) if part]
    is_behind = behind[:1] == ")" and new.endswith(behind)
    return (
        is_behind and bool(parameters) and all(_may_be_left_out(kind, part) for part in parameters)
    )


def _may_be_left_out(kind: str, parameter: str) -> bool:
    """Whether a call needs no value for a parameter, as it is written in the language ``kind``."""
    values = split(parameter, "=")[1:]  # of ``(a) => B``, which is no default, one begins with >
    has_default = kind not in _NO_DEFAULTS and any(not value.startswith(">") for value in values)
    return has_default or _OPTIONAL.match(parameter) is not None


def _is_of_another(use: Reference, row: NameChange, definer: str, change: OpenChange) -> bool:
    """Whether a line of Go names what its package has by its own name, but of something else."""
    folder = folder_of(definer)
    if language(definer) != "Go" or "." in row.name or folder_of(use.path) != folder:
        return False
    source = (change.sides.fetch(definer, old=True) or b"").decode("utf-8", "replace")
    clause = re.search(r"^package\s+(\w+)", source, re.MULTILINE)
    name = re.escape(row.name)
    package = rf"|\b{clause[1]}\.{name}\b" if clause else ""
    return re.search(rf"(?<![\w.]){name}\b{package}", use.text) is None


def _broken_imports(change: OpenChange, user: OpenChange) -> Iterator[BrokenUse]:
    """Files that a change removes or renames, and new lines import."""
    gone = {
        file.old_path or file.path
        for file in change.sides.files
        if file.status in ("D", "R") and language(file.old_path or file.path) in _BY_FILE
    }
    gone = {path for path in gone if _stem(path) in user.added_words}
    if not gone:
        return
    now = user.sides.new_tree.keys() - gone
    # Only what is new can take the place of a file: a package, or its index.
    new = change.sides.new_tree.keys() - change.sides.old_tree.keys()
    before, after = _graph(user, now | gone), _graph(user, now | new)
    for path, edges in before.internal.items():
        resolved = {edge.line for edge in after.internal.get(path, ()) if edge.target in new}
        for edge in edges:
            if edge.target in gone and edge.line not in resolved:
                yield BrokenUse(
                    _FILE, edge.target, edge.target, 1, is_old=True, notes=(), path=path,
                    line=edge.line,
                )  # fmt: skip


def _stem(path: str) -> str:
    name = path.rpartition("/")[2].partition(".")[0]
    return folder_of(path).rpartition("/")[2] if name in ("__init__", "index", "mod") else name


def _graph(user: OpenChange, paths: set[str]) -> ImportGraph:
    """Where the imports in new lines of a change lead, where these are all paths."""
    sides = user.sides
    manifests = [path for path in sides.new_tree if path.rpartition("/")[2] in MANIFESTS]
    sources = [path for path in user.hunks if language(path) in LANGUAGES]
    sides.load([*manifests, *sources], old=False)
    contents = ((path, sides.read(path, old=False)) for path in (*manifests, *sources))
    outlines = [outline(path, content) for path, content in contents if content is not None]
    # Of several imports of a file a graph keeps the first.
    lines = user.added_lines
    new = [
        file.replace(
            imports=tuple(row for row in file.imports if row.line in lines.get(file.path, ()))
        )
        for file in outlines
    ]
    return ImportGraph.of(new, sorted(paths))


# ── the same name twice ──


def added_twice(change: OpenChange, other: OpenChange) -> list[AddedTwice]:
    """The names that both add to one file, or to one package whose files share their names."""
    names, others = change.added_names, other.added_names
    pairs = [(names[key], others[key]) for key in sorted(names.keys() & others.keys())]
    return [
        AddedTwice(row.name, row.path, row.line, double.path, double.line)
        for row, double in pairs
        if not _is_same(change, row, other, double)
    ]


def _is_same(change: OpenChange, row: NameChange, other: OpenChange, double: NameChange) -> bool:
    """Whether both have the definition of one commit or one file, which a merge takes once."""
    blobs = [side.sides.new_tree[name.path].oid for side, name in ((change, row), (other, double))]
    if row.path == double.path and blobs[0] == blobs[1]:
        return True
    return bool(change.commits & other.commits) and change.text(row) == other.text(double)
