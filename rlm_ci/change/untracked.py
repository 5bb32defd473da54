"""Count untracked files that git would convert: by a filter, another encoding or a diff attribute.

For these, the bytes on disk are not what a commit would hold.
"""

from __future__ import annotations

import os

from rlm_ci.change.numstat import counts
from rlm_ci.git import tracked
from rlm_ci.system.files import storage_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlm_ci.change.numstat import LineCount
    from rlm_ci.git.repository import Repository

#: Attributes that change the lines that git counts.
_ATTRIBUTES = ("filter", "working-tree-encoding", "diff")


def converted(repository: Repository, paths: Sequence[str]) -> dict[str, LineCount]:
    """Those of the untracked ``paths`` that git would convert, with their counts.

    Without links, other repositories and unreadable files.
    """
    asked = [path for path in paths if path[-1:] != "/"]
    if not asked:
        return {}
    told = repository.said_attributes(_ATTRIBUTES, asked)
    touched = dict.fromkeys(path for path, _, value in told if value != "unspecified")
    root = repository.root
    return _count(repository, [path for path in touched if _is_open(os.path.join(root, path))])


def _is_open(path: str) -> bool:
    return os.access(path, os.R_OK) and not os.path.islink(path)


def _count(repository: Repository, paths: Sequence[str]) -> dict[str, LineCount]:
    """What git counts of files in a temporary index, against nothing."""
    if not paths:
        return {}
    from tempfile import TemporaryDirectory

    empty = repository.empty_tree()
    try:
        holder = TemporaryDirectory(prefix="rlm-ci-", ignore_cleanup_errors=True)
    except OSError as error:
        raise storage_error(error, "the folder of temporary files") from None
    with holder as folder:
        index = {"GIT_INDEX_FILE": os.path.join(folder, "index")}
        # git reads the work tree and no object, so any id will do.
        rows = "".join(f"100644 {empty}\t{path}\0" for path in paths)
        # Attributes that a sparse checkout leaves out are read from the index.
        for path, entry in tracked.left_out(
            repository, _attribute_places(repository, paths)
        ).items():
            rows += f"{entry.mode} {entry.oid}\t{path}\0"
        stdin = rows.encode("utf-8", "surrogateescape")
        repository.run("update-index", "-z", "--index-info", stdin=stdin, env=index)
        counted = counts(repository.diff_worktree("--numstat", "--no-renames", empty, env=index))
    return {one.path: one for one in counted}


def _attribute_places(repository: Repository, paths: Sequence[str]) -> list[str]:
    """Where attribute files for ``paths`` may be, and are not in the work tree."""
    folders = {""}
    for path in paths:
        while (path := path.rpartition("/")[0]) and path not in folders:
            folders.add(path)
    places = [f"{folder}/.gitattributes".lstrip("/") for folder in folders]
    return [path for path in places if not os.path.lexists(os.path.join(repository.root, path))]
