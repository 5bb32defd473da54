"""Files that git keeps in another form than they have in the work tree.

A result is compared and applied as it is in the work tree; ``git apply`` would read what git keeps.
"""

from __future__ import annotations

from rlm_ci.text.printable import first_of
from rlm_ci.workspace.tree_diff import differing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rlm_ci.git.objects import TreeEntry
    from rlm_ci.git.repository import Repository

#: Ends of lines are no matter: ``git apply`` takes them as they are.
_ATTRIBUTES = ("filter", "working-tree-encoding", "ident")
_NOT_SET = ("unspecified", "unset")


def filter_summary(
    repository: Repository, before: Mapping[str, TreeEntry], after: Mapping[str, TreeEntry]
) -> str:
    """Which files that differ are converted, in a few words; "" where none is."""
    paths = converted(repository, differing(before, after))
    return first_of(paths, "file") if paths else ""


def converted(repository: Repository, paths: Iterable[str]) -> tuple[str, ...]:
    """Those of ``paths`` that the repository, as it is set up here, converts on the way in."""
    if repository.git_dir is None:
        return ()
    rows = repository.said_attributes(_ATTRIBUTES, paths)
    values = [(path, name, value) for path, name, value in rows if value not in _NOT_SET]
    used = _filters(repository) if any(name == "filter" for _, name, _ in values) else frozenset()
    names = (path for path, name, value in values if name != "filter" or value in used)
    return tuple(dict.fromkeys(names))


def _filters(repository: Repository) -> frozenset[str]:
    """The filters that are more than a name: git passes the others over."""
    pattern = r"^filter\..*\.(clean|smudge|process)$"
    listing = repository.run("config", "-z", "--name-only", "--get-regexp", pattern, ok=(0, 1))
    keys = listing.decode("utf-8", "surrogateescape").split("\0")
    return frozenset(key.partition(".")[2].rpartition(".")[0] for key in keys)
