"""Untracked files as git would count them, once added: filters and encodings change the lines."""

from __future__ import annotations

import os

from rlm_ci.git import tracked
from rlm_ci.system import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlm_ci.git.repository import Repository


def diff(repository: Repository, paths: Sequence[str]) -> bytes:
    """``git diff --raw --numstat`` of files in a temporary index, against nothing."""
    if not paths:
        return b""
    from tempfile import TemporaryDirectory

    empty = repository.empty_tree()
    try:
        holder = TemporaryDirectory(prefix="rlm-ci-", ignore_cleanup_errors=True)
    except OSError as error:
        raise files.storage_error(error, "the folder of temporary files") from None
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
        options = ("--raw", "--numstat", "--no-abbrev", "--no-renames")
        return repository.diff_worktree(*options, empty, env=index)


def _attribute_places(repository: Repository, paths: Sequence[str]) -> list[str]:
    """Where attribute files for ``paths`` may be, and are not in the work tree."""
    folders = {""}
    for path in paths:
        while (path := path.rpartition("/")[0]) and path not in folders:
            folders.add(path)
    places = [f"{folder}/.gitattributes".lstrip("/") for folder in folders]
    return [path for path in places if not os.path.lexists(os.path.join(repository.root, path))]
