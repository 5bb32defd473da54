"""Files of a tree that somebody else may have made: opened without following links.

Reading is bounded and takes regular files only, so that no link, pipe or device in a pull
request's tree can lead elsewhere or hang us. Writing is whole or not at all.
"""

from __future__ import annotations

import os
import stat
from contextlib import contextmanager, suppress

from rlm_ci.errors import StorageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# O_BINARY: a file of Windows is opened as text, unless one asks.
_ALWAYS = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
_READ = os.O_RDONLY | _ALWAYS
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
_FOLDER = os.O_RDONLY | _ALWAYS | _NO_FOLLOW | getattr(os, "O_DIRECTORY", 0)
_CHUNK = 1 << 20


class UnreadableError(Exception):
    """Why a file was not read, in words for a finding; ``missing`` when it is not there."""

    def __init__(self, reason: str, *, missing: bool = False) -> None:
        super().__init__(reason)
        self.missing = missing


def read(path: str, limit: int) -> bytes:
    """The content of a regular file of at most ``limit`` bytes; raises UnreadableError."""
    return _read(path, limit, None)


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
    return _walk(root, parts, limit)


def _walk(root: str, parts: list[str], limit: int) -> bytes:
    try:
        folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise _unreadable(error) from None
    try:
        for part in parts[:-1]:
            try:
                inner = os.open(
                    part, os.O_RDONLY | os.O_DIRECTORY | _NO_FOLLOW | os.O_CLOEXEC, dir_fd=folder
                )
            except OSError as error:
                raise _unreadable(error) from None
            os.close(folder)
            folder = inner
        return _read(parts[-1], limit, folder)
    finally:
        os.close(folder)


def _read(path: str, limit: int, folder: int | None) -> bytes:
    try:
        if not _NO_FOLLOW and os.path.islink(path):
            raise UnreadableError("it is a link, not a regular file")
        descriptor = os.open(path, _READ | _NO_FOLLOW, dir_fd=folder)
    except OSError as error:
        raise _unreadable(error) from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise UnreadableError("it is not a regular file")
        if status.st_size > limit:
            raise UnreadableError(f"it has {status.st_size:,} bytes, more than {limit:,}")
        data = os.read(descriptor, min(limit, status.st_size) + 1)
        if len(data) != status.st_size:  # it grows, or never told its size, as those of /proc
            while len(data) <= limit and (more := os.read(descriptor, _CHUNK)):
                data += more
        if len(data) > limit:
            raise UnreadableError(f"it has more than {limit:,} bytes")
        return data
    except OSError as error:
        raise _unreadable(error) from None
    finally:
        os.close(descriptor)


def _unreadable(error: OSError) -> UnreadableError:
    import errno

    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return UnreadableError("it does not exist", missing=True)
    if error.errno in (errno.ELOOP, errno.EMLINK):
        return UnreadableError("it is a link, not a regular file")
    return UnreadableError(error.strerror or "it cannot be read")


def blocks(path: str) -> Iterable[bytes]:
    """The content of a regular file, in order, piece by piece; raises UnreadableError."""
    try:
        descriptor = os.open(path, _READ | _NO_FOLLOW)
    except OSError as error:
        raise _unreadable(error) from None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise UnreadableError("it is not a regular file")
        while block := os.read(descriptor, _CHUNK):
            yield block
    except OSError as error:
        raise _unreadable(error) from None
    finally:
        os.close(descriptor)


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

    A pipe, a device or the name of an open file is written to, and stays what it is.
    """
    if is_channel(path):
        _write_to(path, "wb", data if isinstance(data, bytes) else b"".join(data))
        return
    folder = os.path.dirname(path) or "."
    temporary = os.path.join(folder, f".{os.path.basename(path)}.{os.urandom(6).hex()}.tmp")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_FOLLOW, mode)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                stream.writelines((data,) if isinstance(data, bytes) else data)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(temporary, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise
        sync_folder(folder)
    except OSError as error:
        raise storage_error(error, path) from None


def sync_folder(folder: str) -> None:
    """Make the names in ``folder`` durable, as fsync of a file does its content. Raises OSError."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def open_regular(path: str, flags: int, mode: int = 0o600) -> int:
    """A descriptor of a regular file, not inherited, not by way of a link. Raises OSError."""
    import errno

    descriptor = os.open(path, flags | _NO_FOLLOW | _ALWAYS, mode)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a regular file")
    return descriptor


def append(path: str, data: bytes) -> None:
    """Add ``data`` to the end of a file that others write to as well. Raises StorageError."""
    _write_to(path, "ab", data)


def _write_to(path: str, mode: str, data: bytes) -> None:
    try:
        with open(path, mode) as stream:
            stream.write(data)
    except OSError as error:
        raise storage_error(error, path) from None


def is_channel(path: str) -> bool:
    """Whether ``path`` is no file to replace: a pipe, a device, the name of an open file."""
    if os.path.abspath(path).startswith(("/dev/std", "/dev/fd/", "/proc/")):
        return True  # it may lead to a regular file, and is none itself
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def make_folder(path: str, mode: int = 0o777) -> None:
    """The folder ``path``, made with its parents where it is not there. Raises StorageError."""
    try:
        os.makedirs(path, mode, exist_ok=True)
    except OSError as error:
        raise storage_error(error, path) from None


def clear(place: str) -> None:
    """Remove ``place`` and all below it, however deep and whatever its modes. Raises OSError.

    A link is removed, never followed. Folders are emptied one after the other at the top: neither
    the stack, nor the number of open files, nor the length of a path limits the depth.
    """
    try:
        if not stat.S_ISDIR(os.lstat(place).st_mode):
            os.unlink(place)
            return
    except FileNotFoundError:
        return
    os.chmod(place, stat.S_IRWXU)
    top = os.open(place, _FOLDER)
    try:
        mark, count = os.urandom(8).hex(), 0
        waiting = _emptied(top)
        while waiting:
            name = waiting.pop()
            inner = os.open(name, _FOLDER, dir_fd=top)
            try:
                for one in _emptied(inner):
                    count += 1
                    waiting.append(f"{mark}-{count}")
                    os.rename(one, waiting[-1], src_dir_fd=inner, dst_dir_fd=top)
            finally:
                os.close(inner)
            os.rmdir(name, dir_fd=top)
    finally:
        os.close(top)
    try:
        os.rmdir(place)
    except PermissionError:  # an agent has closed the folder that holds it
        os.chmod(os.path.dirname(place), stat.S_IRWXU)
        os.rmdir(place)


@contextmanager
def scratch(prefix: str) -> Iterator[str]:
    """A folder of its own for a job, which is removed however deep the job has made it.

    ``tempfile.TemporaryDirectory`` takes a frame of the stack for each level.
    """
    from tempfile import mkdtemp

    place = mkdtemp(prefix=prefix)
    try:
        yield place
    finally:
        with suppress(OSError):
            clear(place)


def _emptied(folder: int) -> list[str]:
    """Remove all but the folders in the open ``folder``; their names, each open to us now."""
    folders = []
    with os.scandir(folder) as found:
        entries = list(found)
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            os.chmod(entry.name, stat.S_IRWXU, dir_fd=folder)
            folders.append(entry.name)
        else:
            os.unlink(entry.name, dir_fd=folder)
    return folders


def storage_error(error: OSError, path: str) -> StorageError:
    """What an ``OSError`` means to whoever asked for ``path`` to be written."""
    return StorageError(
        f"cannot be written: {error.strerror}",
        where=path,
        hint="check that the folder exists, is writable and has room",
    )
