"""What a change adds to, removes from and moves in the packages and actions that a project uses."""

from __future__ import annotations

import re

from rlm_ci.overview.workflows import entries
from rlm_ci.report.overview.changes import ADDED, CHANGED, MOVED, REMOVED, DependencyChange
from rlm_ci.source.packages import declared, locked
from rlm_ci.source.packages.declared import PYTHON, SCRIPT, Declared
from rlm_ci.source.signatures import clipped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from rlm_ci.overview.sides import ChangeSides


ACTIONS = "GitHub Actions"
_FILE = re.compile(r"(?:.*/)?(?:\.github/workflows/[^/]+|action)\.ya?ml")
_IMAGE = "docker://"
#: Actions of a file that are read.
_MOST = 200


def actions(sides: ChangeSides) -> Iterator[DependencyChange]:
    """What changed workflows and actions use in other versions, by file."""
    for file in sides.files:
        old_path = file.old_path or file.path
        if not _FILE.fullmatch(file.path) and not _FILE.fullmatch(old_path):
            continue
        old = sides.fetch(old_path, old=True)
        new = sides.fetch(file.path, old=False)
        lacks = (sides.size(old_path, old=True), old), (sides.size(file.path, old=False), new)
        if any(size and content is None for size, content in lacks):
            continue  # too large, which is told
        before, after = used(old or b""), used(new or b"")
        for name in sorted(before.keys() | after.keys()):
            old_version, new_version = before.get(name, ""), after.get(name, "")
            if old_version != new_version:
                yield DependencyChange(
                    CHANGED if old_version and new_version else ADDED if new_version else REMOVED,
                    clipped(name, 200), ACTIONS, file.path, clipped(old_version, 200),
                    clipped(new_version, 200), group="workflow",
                )  # fmt: skip


def used(content: bytes) -> Mapping[str, str]:
    """The versions of each action that a file uses; those of its own repository have none."""
    versions_by_name: dict[str, dict[str, None]] = {}
    for _, key, value, _ in entries(content):
        if key != "uses" or len(versions_by_name) >= _MOST:
            continue
        name, _, version = value.rpartition(":" if value.startswith(_IMAGE) else "@")
        if name and version and name != "docker":
            versions_by_name.setdefault(name, {})[version] = None
    return {name: ", ".join(sorted(versions)) for name, versions in versions_by_name.items()}


#: The most packages that a report has.
MOST = 300
#: Manifests of a tree that are read.
_MANIFESTS = 200
#: Files that run when the package beside them is installed.
_RUNS = frozenset(("setup.py", "build.rs", "extconf.rb", "binding.gyp"))
#: Manifests and lock files of other ecosystems, which are told as not read.
_UNREAD = re.compile(
    r"(?:.*/)?(?:pom\.xml|(?:build|settings)\.gradle(?:\.kts)?|gradle\.lockfile|libs\.versions\.toml|"
    r"build\.sbt|bun\.lockb|deno\.lock|[^/]+\.(?:cs|fs|vb)proj|Directory\.Packages\.props|packages\.(?:config|lock\.json)|"
    r"Package\.(?:swift|resolved)|Podfile(?:\.lock)?|mix\.(?:exs|lock)|pubspec\.(?:yaml|lock))"
)
_ORDER = (ADDED, REMOVED, MOVED, CHANGED)


def dependencies(sides: ChangeSides) -> tuple[DependencyChange, ...]:
    """The changes, those with new install scripts first, then direct ones."""
    manifests = _paths(sides, declared.ecosystem_of)
    locks = _paths(sides, locked.ecosystem_of)
    direct = _direct(sides) if manifests or locks else set()
    changes: dict[tuple[str, str, str], DependencyChange] = {}
    direct_keys: dict[tuple[str, str], tuple[str, str, str]] = {}
    for path in manifests:
        for change in _in_manifest(sides, path, direct):
            key = change.ecosystem, path, _key(change)
            changes[key] = change
            if change.direct:
                direct_keys.setdefault((change.ecosystem, _key(change)), key)
    for path in locks:
        for change in _in_lock(sides, path, direct):
            manifest_key = direct_keys.get((change.ecosystem, _key(change)))
            if manifest_key is None:
                changes[change.ecosystem, path, _key(change)] = change
            else:  # the manifest says what changes, the lock file which versions
                dependency_change = changes[manifest_key]
                before, after = (
                    change.before or dependency_change.before,
                    change.after or dependency_change.after,
                )
                changes[manifest_key] = dependency_change.replace(
                    before=before, after=after, script=change.script
                )
    changes |= {(action.ecosystem, action.path, action.name): action for action in actions(sides)}
    for path in _paths(sides, lambda path: "unread" if _UNREAD.fullmatch(path) else ""):
        sides.limit(f"{path}: nothing here reads its dependencies")
    for file in sides.files:
        if file.status == "A" and file.path.rpartition("/")[2] in _RUNS:
            changes["", "", file.path] = DependencyChange(
                ADDED, file.path, "", file.path, group=SCRIPT, script=True
            )
    ordered = sorted(changes.values(), key=_order)
    if ordered[MOST:]:
        sides.limit(f"{len(ordered) - MOST:,} more packages are not listed")
    return tuple(ordered[:MOST])


def _order(change: DependencyChange) -> tuple[bool, bool, bool, int, str, str]:
    """New install scripts first, then what the program itself needs."""
    return (
        not change.script,
        not change.direct,
        bool(change.group),
        _ORDER.index(change.change),
        change.ecosystem,
        change.name,
    )


def _paths(sides: ChangeSides, kind: Callable[[str], str]) -> list[str]:
    """The paths of changed files of a kind, old names of renamed ones too."""
    both = {path for file in sides.files for path in (file.path, file.old_path or file.path)}
    return sorted(path for path in both if kind(path) and "node_modules/" not in path)


def _key(change: DependencyChange) -> str:
    """The name as its registry knows it."""
    return (
        re.sub(r"[-_.]+", "-", change.name).lower() if change.ecosystem == PYTHON else change.name
    )


# ── manifests ──


def _in_manifest(
    sides: ChangeSides, path: str, direct: set[tuple[str, str]]
) -> Iterator[DependencyChange]:
    read = [_declared(sides, path, old=old) for old in (True, False)]
    if read[0] is None or read[1] is None:
        return
    old, new = ({item.name: item for item in reversed(side)} for side in read if side is not None)
    kind = declared.ecosystem_of(path)
    is_pinned = declared.is_pinned(path, [*old.values(), *new.values()])
    for name in sorted(old.keys() | new.keys()):
        before, after = old.get(name), new.get(name)
        if before and after and (before.version, before.group) == (after.version, after.group):
            continue
        group = (after or before or Declared(name, "")).group
        change = ADDED if before is None else REMOVED if after is None else (
            CHANGED if before.group == after.group else MOVED
        )  # fmt: skip
        row = DependencyChange(
            change, clipped(name, 200), kind, path, clipped(before.version, 200) if before else "",
            clipped(after.version, 200) if after else "", group != "indirect", clipped(group, 80),
            group == SCRIPT and after is not None,
        )  # fmt: skip
        yield row.replace(direct=(kind, _key(row)) in direct) if is_pinned else row


def _declared(sides: ChangeSides, path: str, *, old: bool) -> list[Declared] | None:
    """What a manifest asks for on a side; None, which is told, where it cannot be read."""
    content = sides.fetch(path, old=old)
    if content is None:
        is_there = sides.size(path, old=old) > 0
        return None if is_there else []  # too large, which is told, or not there
    try:
        return declared.declared(path, content)
    except ValueError as error:
        sides.limit(f"{path}: {error}")
        return None


# ── lock files ──


def _direct(sides: ChangeSides) -> set[tuple[str, str]]:
    """The ecosystems and names of what manifests of both sides ask for themselves."""
    names = set()
    for old, tree in ((True, sides.old_tree), (False, sides.new_tree)):
        paths = [path for path in tree if declared.ecosystem_of(path)][:_MANIFESTS]
        sides.load(paths, old=old)
        for path in paths:
            kind = declared.ecosystem_of(path)
            read = _declared(sides, path, old=old) or []
            for item in [] if declared.is_pinned(path, read) else read:
                if item.group != "indirect":
                    names.add((kind, _key(DependencyChange(ADDED, item.name, kind, path))))
    return names


def _in_lock(
    sides: ChangeSides, path: str, direct: set[tuple[str, str]]
) -> Iterator[DependencyChange]:
    kind = locked.ecosystem_of(path)
    read = []
    for old in (True, False):
        content = sides.fetch(path, old=old, limit=locked.MAX_BYTES)
        if content is None and sides.size(path, old=old) > 0:
            return  # too large, which is told
        try:
            read.append(locked.locked(path, content) if content else {})
        except ValueError as error:
            sides.limit(f"{path}: {error}")
            return
    old_side, new_side = read
    for name in sorted(old_side.keys() | new_side.keys()):
        before, had = old_side.get(name, ((), False))
        after, has = new_side.get(name, ((), False))
        if (before, had) == (after, has):
            continue
        change = DependencyChange(
            CHANGED if before and after else ADDED if after else REMOVED,
            clipped(name, 200), kind, path, clipped(", ".join(before), 200),
            clipped(", ".join(after), 200), script=has and not had,
        )  # fmt: skip
        yield change.replace(direct=(kind, _key(change)) in direct)
