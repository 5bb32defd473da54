"""Move single files in a tree that others change: none is overwritten, no link is followed."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress

from rlm_ci.workspace.snapshot import FILE, SCRIPT
from rlm_ci.workspace.tree_diff import LINK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rlm_ci.git.objects import TreeEntry

_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def put_in(source: str, name: str, folder: int) -> bool:
    """Give ``source`` the ``name`` in ``folder`` as well, if that is free; whether it was."""
    try:
        if stat.S_ISDIR(os.lstat(source).st_mode):  # has one name only: that one is moved
            os.rename(source, name, dst_dir_fd=folder)
        else:
            os.link(source, name, dst_dir_fd=folder, follow_symlinks=False)
    except OSError as error:
        if error.errno in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
            return False
        raise
    return True


def is_one(source: str, name: str, folder: int) -> bool:
    """Whether ``name`` in ``folder`` is the very file that ``source`` is."""
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        return os.path.samestat(os.lstat(source), status)
    except FileNotFoundError:
        return False


def holds(name: str, entry: TreeEntry | None, folder: int | None = None) -> bool:
    """Whether the file ``name`` is what git calls ``entry``; nothing is None."""
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    if entry is None or entry.mode != _mode(status):
        return False
    from hashlib import file_digest, sha1, sha256

    make = sha1 if len(entry.oid) == 40 else sha256
    target = os.fsencode(os.readlink(name, dir_fd=folder)) if entry.mode == LINK else None
    size = status.st_size if target is None else len(target)
    digest = make(b"blob %d\0" % size + (target or b""), usedforsecurity=False)
    if target is None:
        with os.fdopen(os.open(name, _READ, dir_fd=folder), "rb") as stream:
            file_digest(stream, lambda: digest)
    return digest.hexdigest() == entry.oid


def _mode(status: os.stat_result) -> str:
    if stat.S_ISLNK(status.st_mode):
        return LINK
    if not stat.S_ISREG(status.st_mode):
        return ""
    return SCRIPT if status.st_mode & stat.S_IXUSR else FILE


def remove_empty(name: str, folder: int) -> None:
    """Remove a folder that has only folders in it; git tracks none of them."""
    try:
        inner = os.open(name, _FOLDER, dir_fd=folder)
    except OSError:  # there is none
        return
    try:
        for entry in os.listdir(inner):
            remove_empty(entry, inner)
    finally:
        os.close(inner)
    with suppress(OSError):
        os.rmdir(name, dir_fd=folder)
