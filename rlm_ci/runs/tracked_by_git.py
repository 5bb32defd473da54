"""Which runs are not ours: git tracks their files, so they came with the repository."""

from __future__ import annotations

import os

from rlm_ci.git.hardening import without_hook
from rlm_ci.git.repository import Repository, discover
from rlm_ci.system import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    #: Names of folders, and at the end perhaps that of a file, each inside of the one before.
    Parts = tuple[str, ...]

#: Task, ``cli``, run.
_DEPTH = 3
#: Paths as they are, but in any case of letters: some file systems do not tell them apart.
_PLAIN = {
    "GIT_LITERAL_PATHSPECS": "0",
    "GIT_NOGLOB_PATHSPECS": "1",
    "GIT_ICASE_PATHSPECS": "1",
}


def tracked(folder: str, environ: Mapping[str, str]) -> frozenset[Parts]:
    """The beginnings of the paths that git tracks at and below ``folder``, in lower case.

    They are as long as the way to a run is, or shorter; none where no repository holds the
    folder. Raises StorageError where a link leads to it, and what asking git raises.
    """
    root, git_dir = discover(folder)
    if git_dir is None:
        return frozenset()
    files.require_inside(root, folder)
    inside = os.path.relpath(os.path.abspath(folder), root)
    repository = Repository(root, git_dir, without_hook(environ))
    listed = repository.run("ls-files", "-z", "--", f"./{inside}", env=_PLAIN)
    above = 0 if inside == os.curdir else inside.count(os.sep) + 1
    names = os.fsdecode(listed).lower().split("\0")
    return frozenset(tuple(name.split("/"))[above : above + _DEPTH] for name in names if name)


def is_tracked(task_id: str, run_id: str, known: frozenset[Parts]) -> bool:
    """Whether a file of the run is ``known`` to be tracked, or what stands in a folder's place.

    A submodule, or a link, is one path to git, and holds whatever it likes.
    """
    way = (task_id.lower(), "cli", run_id.lower())
    return any(way[:length] in known for length in range(_DEPTH + 1))
