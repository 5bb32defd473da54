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


def told(
    repository: Repository, before: Mapping[str, TreeEntry], after: Mapping[str, TreeEntry]
) -> str:
    """Which files that differ are converted, in a few words; "" where none is."""
    found = converted(repository, differing(before, after))
    return first_of(found, "file") if found else ""


def converted(repository: Repository, paths: Iterable[str]) -> tuple[str, ...]:
    """Those of ``paths`` that the repository, as it is set up here, converts on the way in."""
    if repository.git_dir is None:
        return ()
    said = repository.said_attributes(_ATTRIBUTES, paths)
    told = [(path, name, value) for path, name, value in said if value not in _NOT_SET]
    known = _filters(repository) if any(name == "filter" for _, name, _ in told) else frozenset()
    found = (path for path, name, value in told if name != "filter" or value in known)
    return tuple(dict.fromkeys(found))


def _filters(repository: Repository) -> frozenset[str]:
    """The filters that are more than a name: git passes the others over."""
    wanted = r"^filter\..*\.(clean|smudge|process)$"
    found = repository.run("config", "-z", "--name-only", "--get-regexp", wanted, ok=(0, 1))
    keys = found.decode("utf-8", "surrogateescape").split("\0")
    return frozenset(key.partition(".")[2].rpartition(".")[0] for key in keys)
