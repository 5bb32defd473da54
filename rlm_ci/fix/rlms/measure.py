"""The files of a role's context, and how large they are."""

from __future__ import annotations

from collections import Counter

from rlm_ci.fix.rlms.trigger import ContextFigures
from rlm_ci.git.objects import batches

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from rlm_ci.git.objects import TreeEntry

#: Bytes of files in memory at a time.
_ROOM = 16 << 20
#: A NUL among so many first bytes makes a file binary, as for git.
_HEAD = 8000
#: What stands around a path in prose.
_AROUND = "()[]{}<>'\"`*,;:!?"


def context_files(
    entries: Mapping[str, TreeEntry], changed: Collection[str], goal: str, context: str
) -> list[str]:
    """The paths of the files of a context: ``all``, or those changed and those the goal names."""
    paths = [path for path, entry in entries.items() if entry.is_file]
    if context == "all":
        return sorted(paths)
    wanted = {*changed, *named(goal, paths)}
    return sorted(path for path in paths if path in wanted)


def named(goal: str, paths: Collection[str]) -> set[str]:
    """The paths that a goal names: in full, or by a name with a dot that only one file has."""
    words = set()
    for word in goal.split():
        bare = word.strip(_AROUND).rstrip("." + _AROUND).removeprefix("./")
        words |= {bare, bare.partition(":")[0]}  # a line or a test may follow
    names = Counter(path.rpartition("/")[2] for path in paths)
    return {
        path
        for path in paths
        if path in words
        or ("." in (name := path.rpartition("/")[2]) and name in words and names[name] == 1)
    }


def measure(
    paths: Iterable[str],
    entries: Mapping[str, TreeEntry],
    sizes: Callable[[list[str]], Iterable[int]],
    read: Callable[[list[str]], Iterable[bytes | None]],
    known: dict[str, tuple[int, int, int]] | None = None,
) -> ContextFigures:
    """The figures of all text among ``paths``; nothing is cut.

    ``read`` gives blobs by their id; ``known`` keeps the figures of those that were measured.
    """
    known = {} if known is None else known
    oids = [entries[path].oid for path in paths]
    new = sorted({oid for oid in oids if oid not in known})
    for batch in batches(zip(new, sizes(new) if new else (), strict=True), _ROOM):
        for oid, data in zip(batch, read(batch), strict=True):
            known[oid] = _figures(data)
    columns = zip(*(known[oid] for oid in oids), strict=True) if oids else ((0,), (0,), (0,))
    return ContextFigures(*map(sum, columns))


def _figures(data: bytes | None) -> tuple[int, int, int]:
    """Lines, bytes, and one file; nothing for what is no text."""
    if data is None or b"\0" in data[:_HEAD]:
        return 0, 0, 0
    return data.count(b"\n") + (not data.endswith(b"\n") and bool(data)), len(data), 1
