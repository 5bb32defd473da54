"""Files that git keeps in another form than they have in the work tree.

A result is compared, judged and landed byte for byte as it lies there. ``git apply`` would read
such a file as it is kept, and find nothing of what the patch says.
"""

from __future__ import annotations

from rlm_ci.text.printable import count, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rlm_ci.git.objects import TreeEntry
    from rlm_ci.git.repository import Repository

#: Ends of lines are no matter: ``git apply`` takes them as they are.
_ATTRIBUTES = ("filter", "working-tree-encoding", "ident")
_NOT_SET = ("unspecified", "unset")
_LONGEST_NAME = 200


def told(
    repository: Repository, before: Mapping[str, TreeEntry], after: Mapping[str, TreeEntry]
) -> str:
    """Which files that differ are converted, in a few words; "" where none is."""
    every = before.keys() | after.keys()
    found = converted(
        repository, sorted(path for path in every if before.get(path) != after.get(path))
    )
    if not found:
        return ""
    more = f" and {count(len(found) - 1, 'more file')}" if found[1:] else ""
    return f"{printable(found[0])[:_LONGEST_NAME]}{more}"


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
    option = (
        "config",
        "-z",
        "--name-only",
        "--get-regexp",
        r"^filter\..*\.(clean|smudge|process)$",
    )
    keys = repository.run(*option, ok=(0, 1)).decode("utf-8", "surrogateescape").split("\0")
    return frozenset(key.partition(".")[2].rpartition(".")[0] for key in keys)
