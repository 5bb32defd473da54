"""The files of a role's context, and how large they are."""

from __future__ import annotations

from collections import Counter

from rlm_ci.fix.rlms.trigger import ContextFigures
from rlm_ci.git.objects import batches
from rlm_ci.recursion.corpus.eligibility import guess, is_binary
from rlm_ci.source.languages import is_code

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from rlm_ci.fix.role_prompts import RoleBrief
    from rlm_ci.git.objects import TreeEntry

#: Settings of a context.
RELEVANT, CHANGED, ALL = "relevant", "changed", "all"
#: Bytes of files in memory at a time.
_ROOM = 16 << 20
#: What stands around a path in prose.
_AROUND = "()[]{}<>'\"`*,;:!?"


def context_files(
    entries: Mapping[str, TreeEntry], changed: Collection[str], brief: RoleBrief, context: str
) -> list[str]:
    """The paths of the files of a context, by the setting ``context``.

    ``all``, those changed and those that the goal names (``changed``), or what a role is about to
    read (``relevant``): these, and those that the last failures name; while there are none, the
    repository's own sources.
    """
    paths = sorted(path for path, entry in entries.items() if entry.is_file)
    if context == ALL:
        return paths
    feedback = brief.feedback if context == RELEVANT else ""
    some = {*changed, *paths_named(f"{brief.goal}\n{feedback}", paths)}
    matches = [path for path in paths if path in some]
    if matches or context != RELEVANT:
        return matches
    sources = [path for path in paths if guess(path, dense=False) is None]
    return [path for path in sources if is_code(path)] or sources


def paths_named(text: str, paths: Collection[str]) -> set[str]:
    """The paths that a text names: in full, or by a name with a dot that only one file has."""
    words, tails = set(), set()
    for word in text.split():
        bare = word.strip(_AROUND).rstrip("." + _AROUND).removeprefix("./")
        path = bare.partition(":")[0]  # a line or a test may follow
        words |= {bare, path}
        if path.startswith("/"):  # of the copy in which the validator ran
            tails |= {path[at + 1 :] for at, char in enumerate(path) if char == "/"}
    names = Counter(path.rpartition("/")[2] for path in paths)
    return {
        path
        for path in paths
        if path in words
        or path in tails
        or ("." in (name := path.rpartition("/")[2]) and name in words and names[name] == 1)
    }


def measure(
    paths: Iterable[str],
    entries: Mapping[str, TreeEntry],
    sizes: Callable[[list[str]], Iterable[int]],
    read: Callable[[list[str]], Iterable[bytes | None]],
    measured: dict[str, tuple[int, int, int]] | None = None,
) -> ContextFigures:
    """The figures of all text among ``paths``; nothing is cut.

    ``read`` gives blobs by their id; ``measured`` keeps the figures of those that were measured.
    """
    measured = {} if measured is None else measured
    oids = [entries[path].oid for path in paths]
    new = sorted({oid for oid in oids if oid not in measured})
    for batch in batches(zip(new, sizes(new) if new else (), strict=True), _ROOM):
        for oid, data in zip(batch, read(batch), strict=True):
            measured[oid] = _figures(data)
    columns = zip(*(measured[oid] for oid in oids), strict=True) if oids else ((0,), (0,), (0,))
    return ContextFigures(*map(sum, columns))


def _figures(data: bytes | None) -> tuple[int, int, int]:
    """Lines, bytes, and one file; nothing for what is no text."""
    if data is None or is_binary(data):
        return 0, 0, 0
    return data.count(b"\n") + (not data.endswith(b"\n") and bool(data)), len(data), 1
