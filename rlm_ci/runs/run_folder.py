"""The folder of a run, as it must be before anybody writes there: it may come from anywhere."""

from __future__ import annotations

import os
from contextlib import suppress

from rlm_ci.errors import DamagedError
from rlm_ci.runs import is_task_id
from rlm_ci.system import files

#: Folders in a run that are not its own files: trees of somebody's repository.
_TREES = ("git", "work", "verdict")


def require_plain(path: str) -> None:
    """Raise DamagedError where anything in a run's folder is neither a file nor a folder.

    We write there and read from there, and no link may lead us elsewhere. Left out are the
    copies of somebody's tree, which hold what they like and are never looked through.
    """
    waiting = [path]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as found:
                entries = list(found)
        except OSError as error:
            raise files.storage_error(error, path) from None
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in _TREES:
                    waiting.append(entry.path)
            elif not entry.is_file(follow_symlinks=False):
                what = "is a link" if entry.is_symlink() else "is neither a file nor a folder"
                raise DamagedError(
                    f"something in the folder of the run {what}",
                    where=entry.path,
                    hint="rlm-ci makes none there: remove the run, or start a new one",
                )


def sweep(path: str) -> None:
    """Remove what a kill left of files that were being written, in the run's own folders."""
    for folder, inner, names in os.walk(path):
        inner[:] = [name for name in inner if name not in _TREES]
        for name in names:
            if name.startswith(".") and name.endswith(".tmp"):
                with suppress(OSError):
                    os.unlink(os.path.join(folder, name))


def sibling(path: str, run_id: str) -> str | None:
    """The folder of the run ``run_id`` beside the one at ``path``, if there is one, and no link."""
    found = os.path.join(os.path.dirname(path), run_id)
    is_there = is_task_id(run_id) and os.path.isdir(found) and not os.path.islink(found)
    return found if is_there else None
