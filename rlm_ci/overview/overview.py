"""The overview of a change: folders, interfaces, packages, and who imports what it touches."""

from __future__ import annotations

from collections import Counter

from rlm_ci.console.failures import failure
from rlm_ci.overview.dependencies import dependencies
from rlm_ci.overview.interfaces import has_names
from rlm_ci.overview.names import NameComparison
from rlm_ci.overview.sides import ChangeSides
from rlm_ci.overview.workflows import migrations, permissions
from rlm_ci.redaction.redactor import Redactor
from rlm_ci.report.overview.changes import (
    ADDED,
    CHANGED,
    MOVED,
    REMOVED,
    Area,
    Dependent,
    NameChange,
    Overview,
)
from rlm_ci.source.grammars import LANGUAGES
from rlm_ci.source.import_graph import ImportGraph
from rlm_ci.source.imports.file_lookup import folder_of
from rlm_ci.source.languages import language
from rlm_ci.source.outline import outline
from rlm_ci.source.signatures import clipped
from rlm_ci.source.test_files import is_trial
from rlm_ci.source.uses.references import MANIFESTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from rlm_ci.change.change_set import ChangeSet, FileChange
    from rlm_ci.report.findings import Report


#: The most folders of a readable table.
_MOST = 24


def areas(files: Sequence[FileChange]) -> tuple[Area, ...]:
    """Folders as deep as there is room for, by the lines that change in them."""
    if not files:
        return ()
    deepest = max(file.path.count("/") for file in files)
    for depth in range(min(deepest, 12), 0, -1):
        groups = _grouped(files, depth)
        if len(groups) <= _MOST:
            break
    else:
        groups = _grouped(files, min(deepest, 1))
    return tuple(
        sorted(groups, key=lambda area: (-(area.added + area.deleted), -area.files, area.path))
    )


def _grouped(files: Sequence[FileChange], depth: int) -> list[Area]:
    sums: dict[str, list[int]] = {}
    for file in files:
        folder = "/".join(folder_of(file.path).split("/")[:depth]) if depth else ""
        counts = sums.setdefault(folder, [0, 0, 0])
        for index, number in enumerate((1, file.added or 0, file.deleted or 0)):
            counts[index] += number
    return [Area(folder, *counts) for folder, counts in sums.items()]


#: Files that are read to find imports, and bytes of one.
_MOST_FILES = 300
_MOST_BYTES = 256 << 10
#: The most boxes of each side of a diagram.
_TOUCHED, _LEANING = 8, 12
#: Files that stand for their folder.
_PACKAGES = frozenset(("__init__", "index", "mod", "lib"))


def dependents(sides: ChangeSides) -> tuple[Dependent, ...]:
    """Files, or folders if there are many, that import what is touched; the heaviest first."""
    old = {file.old_path or file.path for file in sides.files if file.status not in ("A", "C")}
    touched = sorted(path for path in old if has_names(path) and path in sides.old_tree)
    if not touched:
        return ()
    edges = _edges(sides, touched)
    counts = _dependents_grouped(edges, str)
    if len(touched) > _TOUCHED or len({source for source, _ in counts}) > _LEANING:
        counts = _dependents_grouped(edges, lambda path: folder_of(path) or ".") or counts
    return _heaviest(counts)


def _edges(sides: ChangeSides, touched: Sequence[str]) -> list[tuple[str, str]]:
    """The files that import a touched one, each with it; tests do not count."""
    paths = {
        path for path in sides.old_tree
        if language(path) in LANGUAGES or path.rpartition("/")[2] in MANIFESTS
    }  # fmt: skip
    hits = {path for path in sides.search(_words(touched)) if path in paths and not is_trial(path)}
    manifests = {path for path in paths if path.rpartition("/")[2] in MANIFESTS}
    chosen = sorted(hits | {*touched})
    if chosen[_MOST_FILES:]:
        sides.limit(f"imports were read in {_MOST_FILES} of {len(chosen):,} files")
    read = [*chosen[:_MOST_FILES], *sorted(manifests)[:50]]
    sides.load([path for path in read if sides.size(path, old=True) <= _MOST_BYTES], old=True)
    outlines = []
    for path in read:
        content = sides.read(path, old=True)
        if content is not None and len(content) <= _MOST_BYTES:
            outlines.append(outline(path, content))
    graph = ImportGraph.of(outlines, sorted(paths))
    return [(edge.target, path) for path in touched for edge in graph.importers(path)]


def _words(touched: Sequence[str]) -> list[str]:
    """The words by which files are imported: their stems, or the names of their folders."""
    words = set()
    for path in touched:
        stem = path.rpartition("/")[2].partition(".")[0]
        folder = folder_of(path).rpartition("/")[2]
        by_folder = stem in _PACKAGES or language(path) in ("Go", "Java", "C#")
        words |= {stem, folder} if by_folder else {stem}
    return sorted(word for word in words if word not in ("", "__init__") and len(word) <= 100)


def _dependents_grouped(
    edges: Collection[tuple[str, str]], name: Callable[[str], str]
) -> Counter[tuple[str, str]]:
    pairs = ((name(source), name(target)) for source, target in edges)
    return Counter(pair for pair in pairs if pair[0] != pair[1])


def _heaviest(counts: Counter[tuple[str, str]]) -> tuple[Dependent, ...]:
    """The pairs of the sources and targets with most imports."""
    totals: tuple[Counter[str], Counter[str]] = Counter(), Counter()
    for pair, number in counts.items():
        for side, name in zip(totals, pair, strict=True):
            side[name] += number
    shown = [
        {name for name, _ in sorted(side.items(), key=lambda item: (-item[1], item[0]))[:limit]}
        for side, limit in zip(totals, (_LEANING, _TOUCHED), strict=True)
    ]
    pairs = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return tuple(
        Dependent(source, target, number)
        for (source, target), number in pairs
        if source in shown[0] and target in shown[1]
    )


#: The most names that a report has.
MOST_NAMES = 300
#: Characters of a name.
_LONGEST = 300
_ORDER = (REMOVED, CHANGED, MOVED, ADDED)


def attached(report: Report, change: ChangeSet, environ: Mapping[str, str]) -> Report:
    """``report`` with the overview of ``change``, without a secret, if that has two trees.

    Never raises.
    """
    if change.merge_base is None or change.head is None or change.worktree:
        return report
    try:
        change_overview = overview(change)
    except Exception as error:  # noqa: BLE001 - no verdict rests on it
        change_overview = Overview(limits=(f"the overview could not be made: {failure(error)}",))
    clean = Redactor(environ).json(change_overview.to_dict())
    return report.replace(overview=Overview.from_dict(clean))


def overview(change: ChangeSet) -> Overview:
    """The overview of a change between two commits. Raises RlmCiError where git fails."""
    from rlm_ci.overview.callers import with_callers  # a library may be missing: said in the report

    sides = ChangeSides(change)
    comparison = NameComparison(sides)
    names = sorted(with_callers(sides, comparison.changes()), key=_order)
    if names[MOST_NAMES:]:
        sides.limit(f"{len(names) - MOST_NAMES:,} more names are only counted")
    counts = {name: number for name, number in comparison.counts.items() if number}
    return Overview(
        names=tuple(map(_short, names[:MOST_NAMES])),
        counts=counts,
        dependencies=dependencies(sides),
        permissions=permissions(sides),
        migrations=migrations(sides),
        areas=areas(sides.files),
        dependents=dependents(sides),
        limits=tuple(sides.limits),
    )


def _order(change: NameChange) -> tuple[bool, int, int, str, str]:
    """What breaks others first, then what has most callers outside of the change."""
    return (
        not change.breaking,
        _ORDER.index(change.change),
        -change.outside,
        change.path,
        change.name,
    )


def _short(change: NameChange) -> NameChange:
    return (
        change.replace(name=clipped(change.name, _LONGEST))
        if len(change.name) > _LONGEST
        else change
    )
