"""Files of a tree that may be hostile.

Reading is bounded, follows no link and takes regular files only, so that no link, pipe or device
of a pull request can lead elsewhere or hang us. Writing is whole or not at all.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager, suppress
from functools import cache

from rlm_ci.errors import ClosedPipe, StorageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import IO

# O_BINARY: without it, Windows opens a file as text.
_ALWAYS = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
_FOLDER = os.O_RDONLY | _ALWAYS | _NO_FOLLOW | getattr(os, "O_DIRECTORY", 0)
_CHUNK = 1 << 20
#: How the names of scratch folders end whose makers hold their locks.
_HELD = "-held"


class UnreadableError(Exception):
    """Why a file was not read, in words for a finding; ``missing`` when it is not there."""

    def __init__(self, reason: str, *, missing: bool = False) -> None:
        super().__init__(reason)
        self.missing = missing


def read(path: str, limit: int) -> bytes:
    """The content of a regular file of at most ``limit`` bytes; raises UnreadableError."""
    return _read(path, limit, None)


def read_or_none(path: str, limit: int) -> bytes | None:
    """As ``read``; None for what cannot be read."""
    with suppress(UnreadableError):
        return read(path, limit)
    return None


def read_inside(root: str, path: str, limit: int) -> bytes:
    """As ``read``, for ``path`` below ``root``, no part of which may be a link."""
    parts = path.split("/")
    if os.path.isabs(path) or any(part in ("", ".", "..") for part in parts):
        raise UnreadableError("the path leaves the repository")
    if os.open not in os.supports_dir_fd:
        folder = root
        for part in parts[:-1]:
            folder = os.path.join(folder, part)
            if os.path.islink(folder):
                raise UnreadableError("a folder of its path is a link")
        return _read(os.path.join(folder, parts[-1]), limit, None)
    try:
        top = os.path.join(root, os.curdir)  # where a link leads, if the root is one
        with folder_of(top, path) as (inner, name):
            return _read(name, limit, inner)
    except OSError as error:
        raise _unreadable(error) from None


@contextmanager
def folder_of(root: str, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
    """The open folder that holds ``path`` below ``root``, behind no link, and its name in there.

    ``root`` must be none either. With ``make``, missing folders are made. Raises OSError.
    """
    *parts, name = path.split("/")
    folder = os.open(root, _FOLDER)
    try:
        for part in parts:
            if make:
                with suppress(FileExistsError):
                    os.mkdir(part, dir_fd=folder)
            inner = os.open(part, _FOLDER, dir_fd=folder)
            os.close(folder)
            folder = inner
        yield folder, name
    finally:
        os.close(folder)


def _read(path: str, limit: int, folder: int | None) -> bytes:
    try:
        descriptor = open_regular(path, os.O_RDONLY, folder=folder)
        try:
            size = os.fstat(descriptor).st_size
            if size > limit:
                raise UnreadableError(f"it has {size:,} bytes, more than {limit:,}")
            data = os.read(descriptor, min(limit, size) + 1)
            if len(data) != size:  # it grows, or has no size, like those of /proc
                while len(data) <= limit and (more := os.read(descriptor, _CHUNK)):
                    data += more
        finally:
            os.close(descriptor)
    except OSError as error:
        raise _unreadable(error) from None
    if len(data) > limit:
        raise UnreadableError(f"it has more than {limit:,} bytes")
    return data


def _unreadable(error: OSError) -> UnreadableError:
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return UnreadableError("it does not exist", missing=True)
    if error.errno in (errno.ELOOP, errno.EMLINK):
        return UnreadableError("it is a link, not a regular file")
    return UnreadableError(error.strerror or "it cannot be read")


def below(root: str, path: str) -> str | None:
    """``path`` relative to ``root``, with ``/``, "" for ``root`` itself; None outside of it."""
    relative = os.path.relpath(path, root).replace(os.sep, "/")
    if relative == ".." or relative.startswith("../"):
        return None
    return "" if relative == "." else relative


def shown_path(path: str) -> str:
    """How a message names ``path``: relative to the current folder, unless it is outside."""
    with suppress(OSError, ValueError):  # the current folder was removed; another drive
        inner = below(os.getcwd(), path)
        return path if inner is None else inner or os.curdir
    return path


def require_inside(root: str, path: str) -> None:
    """Raise StorageError when ``path`` lies below ``root`` by its name, and leads out by a link."""
    absolute = os.path.abspath(path)
    within = os.path.join(os.path.abspath(root), "")
    if absolute.startswith(within):
        real = os.path.join(os.path.realpath(root), absolute[len(within) :])
        if os.path.realpath(real) != real:
            raise StorageError(
                "a link in the repository leads elsewhere",
                where=path,
                hint="remove the link, or name a folder outside of the repository",
            )


def write(path: str, data: bytes | Iterable[bytes], mode: int = 0o644) -> None:
    """Replace ``path`` by ``data``, or all its pieces, in one step, durably. Raises StorageError.

    Writes to a pipe, a device or the name of an open file instead of replacing it.
    """
    if is_channel(path):
        _write_to(path, "wb", data if isinstance(data, bytes) else b"".join(data))
        return
    try:
        with replacing(path, mode) as stream:
            stream.writelines((data,) if isinstance(data, bytes) else data)
    except OSError as error:
        raise storage_error(error, path) from None


@contextmanager
def replacing(path: str, mode: int = 0o644) -> Iterator[IO[bytes]]:
    """A new file that replaces ``path`` in one step, durably, in the end. Raises OSError."""
    folder = os.path.dirname(path) or "."
    temporary = os.path.join(folder, f".{os.path.basename(path)}.{os.urandom(6).hex()}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_FOLLOW, mode)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    sync_folder(folder)


def sync_folder(folder: str) -> None:
    """Make the names in ``folder`` durable. Raises OSError."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def open_regular(path: str, flags: int, folder: int | None = None) -> int:
    """A descriptor of a regular file, not inherited, not by way of a link. Raises OSError."""
    if not _NO_FOLLOW and os.path.islink(path):
        raise OSError(errno.ELOOP, "it is a link, not a regular file")
    descriptor = os.open(path, flags | _NO_FOLLOW | _ALWAYS, 0o600, dir_fd=folder)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a regular file")
    return descriptor


def append(path: str, data: bytes) -> None:
    """Append ``data`` to a file that others write, too. Raises StorageError."""
    _write_to(path, "ab", data)


def _write_to(path: str, mode: str, data: bytes) -> None:
    try:
        with open(path, mode) as stream:
            stream.write(data)
    except OSError as error:
        raise storage_error(error, path) from None


def is_channel(path: str) -> bool:
    """Whether ``path`` is a pipe, a device or the name of an open file: never replaced."""
    if os.path.abspath(path).startswith(("/dev/std", "/dev/fd/", "/proc/")):
        return True  # it may lead to a regular file
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def names_in(folder: str) -> list[str]:
    """What the folder has, in order; nothing where it cannot be listed."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def make_folder(path: str, mode: int = 0o777) -> None:
    """Make the folder ``path`` and its parents where they are missing. Raises StorageError."""
    try:
        os.makedirs(path, mode, exist_ok=True)
    except OSError as error:
        raise storage_error(error, path) from None


def clear(path: str) -> None:
    """Remove ``path`` and all below it, however deep and whatever its modes. Raises OSError.

    A link is removed, never followed. Inner folders move to the top before they are emptied, so
    that neither the stack, nor open files, nor the length of a path limits the depth.
    """
    try:
        if not stat.S_ISDIR(os.lstat(path).st_mode):
            os.unlink(path)
            return
    except FileNotFoundError:
        return
    os.chmod(path, stat.S_IRWXU)
    top = os.open(path, _FOLDER)
    try:
        mark, count = os.urandom(8).hex(), 0
        waiting = _emptied(top)
        while waiting:
            name = waiting.pop()
            inner = os.open(name, _FOLDER, dir_fd=top)
            try:
                for inner_name in _emptied(inner):
                    count += 1
                    waiting.append(f"{mark}-{count}")
                    os.rename(inner_name, waiting[-1], src_dir_fd=inner, dst_dir_fd=top)
            finally:
                os.close(inner)
            os.rmdir(name, dir_fd=top)
    finally:
        os.close(top)
    try:
        os.rmdir(path)
    except PermissionError:  # an agent has closed the folder that holds it
        os.chmod(os.path.dirname(path), stat.S_IRWXU)
        os.rmdir(path)


@contextmanager
def scratch(prefix: str, parent: str | None = None) -> Iterator[str]:
    """A temporary folder, removed however deep: ``tempfile`` takes a stack frame for each level.

    It is in ``parent``, or where temporary folders are; ``prefix`` begins with ``rlm-ci-``, or with
    ``.rlm-ci-`` to be hidden. This process holds the lock of the folder, so another can tell one
    that a killed process left, and removes it when it makes its first.
    """
    from tempfile import gettempdir

    folder = gettempdir() if parent is None else parent
    _sweep(folder)
    created, descriptor = _held_folder(prefix, folder)
    try:
        yield created
    finally:
        with suppress(OSError):
            clear(created)
        if descriptor is not None:
            os.close(descriptor)


@contextmanager
def scratch_folders(*names: str) -> Iterator[tuple[str, ...]]:
    """Empty folders of these names side by side, by their real paths; removed as ``scratch`` is."""
    with scratch("rlm-ci-") as top:
        paths = tuple(os.path.join(os.path.realpath(top), name) for name in names)
        for path in paths:
            os.mkdir(path, 0o700)
        yield paths


def _held_folder(prefix: str, folder: str) -> tuple[str, int | None]:
    """A new temporary folder, and the descriptor that holds its lock, if there are locks here."""
    from tempfile import mkdtemp

    while os.name == "posix":
        created = mkdtemp(prefix=prefix, suffix=_HELD, dir=folder)
        with suppress(FileNotFoundError, BlockingIOError):  # another process takes it for a dead
            descriptor = os.open(created, _FOLDER)
            try:
                _lock(descriptor)
                if os.path.samestat(os.lstat(created), os.fstat(descriptor)):
                    return created, descriptor
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)
    return mkdtemp(prefix=prefix, dir=folder), None


@cache
def _sweep(folder: str) -> None:
    """Remove the scratch folders in ``folder`` whose lock no process holds; once."""
    with suppress(OSError), os.scandir(folder) as entries:
        names = [entry for entry in entries if entry.name.startswith(("rlm-ci-", ".rlm-ci-"))]
        for name in names:
            if name.name.endswith(_HELD) and name.is_dir(follow_symlinks=False):
                with suppress(OSError):  # it is held, or another's, or has just gone
                    descriptor = os.open(name.path, _FOLDER)
                    try:
                        if os.fstat(descriptor).st_uid == os.geteuid() and _lock(descriptor):
                            clear(name.path)
                    finally:
                        os.close(descriptor)


def _lock(folder: int) -> bool:
    """Lock an open folder; False where this system cannot. Raises BlockingIOError."""
    try:
        import fcntl
    except ImportError:
        return False
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:
        return False
    return True


def _emptied(folder: int) -> list[str]:
    """Remove the files in the open ``folder``; the names of its folders, now accessible."""
    folders = []
    with os.scandir(folder) as listing:
        entries = list(listing)
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            os.chmod(entry.name, stat.S_IRWXU, dir_fd=folder)
            folders.append(entry.name)
        else:
            os.unlink(entry.name, dir_fd=folder)
    return folders


def storage_error(error: OSError, path: str) -> StorageError:
    """The error of a failed write to ``path``."""
    kind = ClosedPipe if error.errno == errno.EPIPE else StorageError
    return kind(
        f"cannot be written: {error.strerror}",
        where=path,
        hint="check that the folder exists, is writable and has room",
    )
