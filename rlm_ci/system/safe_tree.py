"""The files that a model may touch: one folder, walked by descriptors, no link followed.

A model is as hostile as what it has read. Every path is checked as text and opened folder by
folder, so that neither ``..`` nor a link that a test just made leads outside. Git's own folder
is closed.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import ExitStack, contextmanager, suppress

from rlm_ci.system import files
from rlm_ci.text.printable import count, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

#: Bytes of a file that is read or written.
FILE_LIMIT = 1 << 20
#: Files that one walk looks at.
WALK_LIMIT = 100_000
_PATH_LIMIT = 1000
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_FOLLOW | getattr(os, "O_CLOEXEC", 0)
#: What builds and tests leave behind: noise to a reader, and never part of a patch.
LITTER = frozenset((
    "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".tox", ".nox", ".venv", "venv",
    "node_modules", ".hypothesis",
))  # fmt: skip


class Refused(Exception):  # noqa: N818 - nothing failed: a call is declined, and the model told why
    """Why a call is declined, in words for the model."""


class Missing(Refused):
    """There is nothing of that name."""


class Outside(Refused):
    """The path leads outside of the tree, or into git's own folder."""


def checked(path: str) -> str:
    """``path`` as ``a/b/c``, if it can only lie inside; raises Refused."""
    text = path.strip().removeprefix("./")
    if not text or len(text) > _PATH_LIMIT:
        raise Refused(f"a path has 1 to {_PATH_LIMIT} characters")
    if printable(text) != text or "\\" in text:
        raise Refused(f"'{printable(text)}': a path has no control character and no backslash")
    parts = text.split("/")
    if text.startswith("/") or any(part in ("", ".", "..") for part in parts):
        raise Outside(f"{text!r} is not a path inside of the repository, such as 'src/name.py'")
    # Some file systems fold case, drop a final dot or blank, or have short names.
    if any(part.casefold().rstrip(". ") in (".git", "git~1") for part in parts):
        raise Outside(f"{text!r}: git's own folder is closed")
    return text


class SafeTree:
    """The files below ``root``."""

    def __init__(self, root: str) -> None:
        self.root = root

    def read(self, path: str) -> bytes:
        """A regular file of at most FILE_LIMIT bytes. Raises Refused."""
        inside = checked(path)
        try:
            return files.read_inside(self.root, inside, FILE_LIMIT)
        except files.UnreadableError as error:
            kind = Missing if error.missing else Refused
            raise kind(f"{inside} cannot be read: {error}") from None

    def write(self, path: str, data: bytes) -> bool:
        """Write ``data`` in one step, mode bits kept; whether the file is new.

        Not durable: after a crash the tree comes from its snapshot. Raises Refused, and
        StorageError when the disk fails.
        """
        inside = checked(path)
        if len(data) > FILE_LIMIT:
            raise Refused(f"{inside} would have {len(data):,} bytes, more than {FILE_LIMIT:,}")
        with self._folder(inside, make=True) as (folder, name):
            status = _status(folder, name, inside)
            mode = 0o644 if status is None else stat.S_IMODE(status.st_mode) & 0o777
            temporary = f".{name[:100]}.rlm-ci.tmp"
            try:
                with suppress(FileNotFoundError):  # left by a kill
                    os.unlink(temporary, dir_fd=folder)
                descriptor = os.open(temporary, _NEW, mode, dir_fd=folder)
                with os.fdopen(descriptor, "wb") as stream:
                    stream.write(data)
                    os.fchmod(stream.fileno(), mode)
                os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            except OSError as error:
                with suppress(OSError):
                    os.unlink(temporary, dir_fd=folder)
                raise _error(error, inside) from None
            return status is None

    def delete(self, path: str) -> None:
        """Remove a regular file. Raises Refused."""
        inside = checked(path)
        with self._folder(inside, make=False) as (folder, name):
            if _status(folder, name, inside) is None:
                raise Missing(f"{inside} does not exist")
            try:
                os.unlink(name, dir_fd=folder)
            except OSError as error:
                raise _error(error, inside) from None

    def paths(self, below: str = "") -> Iterator[tuple[str, int]]:
        """Path and size of each regular file below a folder. Raises Refused beyond WALK_LIMIT."""
        name = below.strip()
        inside = "" if name in ("", ".", "./") else checked(name.rstrip("/"))
        with self._folder(f"{inside}/x" if inside else "x", make=False) as (folder, _name):
            seen = 0
            for path, folders, names, handle in os.fwalk(".", dir_fd=folder, follow_symlinks=False):
                folders[:] = sorted(
                    folder
                    for folder in folders
                    if folder.casefold() != ".git" and folder not in LITTER
                )
                prefix = "/".join(part for part in (inside, path[2:]) if part)
                for name in sorted(names):
                    seen += 1
                    if seen > WALK_LIMIT:
                        raise Refused(f"more than {count(WALK_LIMIT, 'file')}: name a folder")
                    with suppress(OSError):
                        status = os.stat(name, dir_fd=handle, follow_symlinks=False)
                        if stat.S_ISREG(status.st_mode):
                            yield f"{prefix}/{name}" if prefix else name, status.st_size

    @contextmanager
    def _folder(self, path: str, *, make: bool) -> Iterator[tuple[int, str]]:
        """The open folder that holds ``path``, and the last part of its name."""
        with ExitStack() as stack:
            try:
                top = os.path.join(self.root, os.curdir)
                opened = stack.enter_context(files.folder_of(top, path, make=make))
            except OSError as error:
                raise _error(error, path.rpartition("/")[0]) from None
            yield opened


def _error(error: OSError, path: str) -> Exception:
    """The error at ``path``: Refused for the model's mistakes, StorageError for the disk's."""
    reasons = {
        errno.ELOOP: "a part of it is a link",
        errno.EMLINK: "a part of it is a link",
        errno.ENOTDIR: "a part of it is a link or a file, no folder",
        errno.ENAMETOOLONG: "the name is too long",
        errno.ENOENT: "the folder does not exist",
    }
    reason = reasons.get(error.errno or 0)
    return Refused(f"{path}: {reason}") if reason else files.storage_error(error, path)


def _status(folder: int, name: str, path: str) -> os.stat_result | None:
    """The status of a regular file; None when there is nothing. Raises Refused for others."""
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}") from None
    if not stat.S_ISREG(status.st_mode):
        raise Refused(f"{path} is a link, a folder or a device, no regular file")
    return status


def matches(pattern: str, path: str) -> bool:
    """Whether a glob fits: ``*`` and ``?`` within a name, ``**`` across folders.

    Without ``/`` it is about the last name alone. Linear work for each pair of parts.
    """
    if "/" not in pattern:
        return _name_matches(pattern, path.rpartition("/")[2])
    parts = [part for part in pattern.removeprefix("./").split("/") if part]
    #: Which beginnings of the pattern fit what has been read of the path.
    fits = [True, *(False for _ in parts)]
    for index, part in enumerate(parts):
        fits[index + 1] = fits[index] and part == "**"
    for name in path.split("/"):
        now = [False] * len(fits)
        for index, part in enumerate(parts):
            if part == "**":
                now[index + 1] = now[index] or fits[index + 1]
            else:
                now[index + 1] = fits[index] and _name_matches(part, name)
        fits = now
    return fits[-1]


def _name_matches(pattern: str, name: str) -> bool:
    from fnmatch import fnmatchcase  # its expressions take a hook 3 ms to load

    return fnmatchcase(name, pattern.replace("[", "[[]"))
