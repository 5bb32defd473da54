"""Write the bytes of a source into one file: copied, shared, or joined from many.

Memory does not grow with the source. A source that changes meanwhile is refused.
"""

from __future__ import annotations

import errno
import os
from collections import Counter

from rlm_ci.context.builder.file_table import Pieces
from rlm_ci.context.builder.sources import open_listed, unreadable
from rlm_ci.errors import ConfigError
from rlm_ci.system import files
from rlm_ci.text.printable import printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import BinaryIO, Self

    from rlm_ci.context.builder.commit_files import CommitFiles
    from rlm_ci.context.builder.sources import SourceListing

_BLOCK = 1 << 20
#: Bytes of one call that copies inside of the kernel.
_SHARE = 1 << 30
#: A text has no zero byte among its first ones, as for git.
_SNIFFED = 8000
#: The file system cannot share: copy instead.
_UNSHARED = frozenset((
    errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM, errno.EMLINK,
    errno.EACCES, errno.ETXTBSY, errno.EBADF,
))  # fmt: skip


class Gathered(Value):
    """The size of a source, its files (without blobs), and the numbers of omitted files."""

    size: int
    files: Pieces
    omitted: Mapping[str, int] = {}


class Target:
    """The file that a source is written into, of ``most`` bytes. Raises StorageError."""

    def __init__(self, path: str, most: int) -> None:
        self.path = path
        self.most = most
        self.size = 0
        self._descriptor = -1

    def __enter__(self) -> Self:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            self._descriptor = os.open(self.path, flags, 0o600)
        except OSError as error:
            raise files.storage_error(error, self.path) from None
        return self

    def __exit__(self, kind: object, *_error: object) -> None:
        try:
            if kind is None:
                os.fsync(self._descriptor)
        except OSError as error:
            raise files.storage_error(error, self.path) from None
        finally:
            os.close(self._descriptor)

    def add(self, data: bytes) -> None:
        self.require_room(self.size + len(data))
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._descriptor, view) :]
        except OSError as error:
            raise files.storage_error(error, self.path) from None
        self.size += len(data)

    def copy(self, descriptor: int, size: int) -> None:
        """Add an open file of ``size`` bytes, copied by the kernel if possible."""
        self.require_room(size)
        try:
            while moved := os.copy_file_range(descriptor, self._descriptor, _SHARE):
                self.size += moved
                self.require_room(self.size)
        except (AttributeError, OSError) as error:
            if isinstance(error, OSError) and error.errno not in _UNSHARED:
                raise files.storage_error(error, self.path) from None
            while block := os.read(descriptor, _BLOCK):
                self.add(block)

    def require_room(self, size: int) -> None:
        """Raise ConfigError when a source of ``size`` bytes would have too many chunks."""
        if size > self.most:
            raise ConfigError(
                f"the source has more than {self.most:,} bytes, which are too many chunks",
                where="RLM_CHUNK_TARGET_BYTES",
                hint="choose larger chunks",
            )


def from_stream(stream: BinaryIO, path: str, most: int) -> Gathered:
    """All that comes from a stream. Raises ConfigError, StorageError."""
    with Target(path, most) as target:
        while block := _next(stream):
            target.add(block)
    return Gathered(target.size, Pieces())


def _next(stream: BinaryIO) -> bytes:
    try:
        return stream.read(_BLOCK)
    except OSError as error:
        raise unreadable(error, "standard input") from None


def from_file(source: str, name: str, path: str, most: int, *, link: bool) -> Gathered:
    """One file, text or not; a link is followed. Raises ConfigError, StorageError."""
    real = os.path.realpath(source)
    try:
        descriptor = files.open_regular(real, os.O_RDONLY)
    except OSError as error:
        raise unreadable(error, source) from None
    try:
        size = share_or_copy(descriptor, real, path, most, link=link)
    finally:
        os.close(descriptor)
    pieces = Pieces()
    pieces.add(name, 0, size)
    return Gathered(size, pieces)


def share_or_copy(descriptor: int, real: str, path: str, most: int, *, link: bool) -> int:
    """Link or copy the open file at ``real`` to ``path``; returns its size.

    Raises ConfigError if it changes meanwhile, StorageError.
    """
    before = looks(descriptor)
    size = before[1]
    Target(path, most).require_room(size)
    if not (link and _is_linked(real, path)):
        with Target(path, most) as target:
            target.copy(descriptor, size)
            size = target.size
    if looks(descriptor) != before or os.stat(path).st_size != size:
        raise changed(real)
    return size


def _is_linked(real: str, path: str) -> bool:
    """Whether ``path`` is a hard link to the file now."""
    try:
        os.link(real, path, follow_symlinks=False)
    except OSError as error:
        if error.errno in _UNSHARED:
            return False
        raise files.storage_error(error, path) from None
    return True


def looks(descriptor: int) -> tuple[int, int, int]:
    """Inode, size and time of the last change of an open file's bytes."""
    status = os.fstat(descriptor)
    return status.st_ino, status.st_size, status.st_mtime_ns


def changed(path: str) -> ConfigError:
    return ConfigError(
        "the source changed while it was read",
        where=printable(path),
        hint="start again when nothing writes to it, or name a copy of it",
    )


# ── many files ──


def from_listing(listing: SourceListing, path: str, most: int) -> Gathered:
    """The texts of a listing, joined.

    A file without a final line break gets one, which belongs to no file. Raises ConfigError,
    StorageError.
    """
    pieces = Pieces()
    omitted: Counter[str] = Counter()
    with Target(path, most) as target:
        joined = _Joined(target)
        for name, real in listing.files():
            opened = open_listed(real)
            reason = opened if isinstance(opened, str) else joined.add(opened, real)
            if reason:
                omitted[reason] += 1
            else:
                pieces.add(name, joined.start, target.size)
    if listing.own:
        omitted["own"] = listing.own
    return Gathered(target.size, pieces, dict(sorted(omitted.items())))


def from_commit(source: CommitFiles, path: str, most: int) -> Gathered:
    """The texts of a commit, joined as those of a listing; no file of it is written.

    Raises ConfigError, StorageError, and what git raises.
    """
    pieces = Pieces()
    omitted: Counter[str] = Counter()
    with Target(path, most) as target:
        joined = _Joined(target)
        for name, data in source.files():
            reason = data if isinstance(data, str) else joined.add_data(data)
            if reason:
                omitted[reason] += 1
            else:
                pieces.add(name, joined.start, target.size)
    return Gathered(target.size, pieces, dict(sorted(omitted.items())))


class _Joined:
    """Adds texts to a target, each on a line of its own; ``start`` is that of the last."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._last = b"\n"
        self.start = 0

    def add(self, descriptor: int, real: str) -> str:
        """Add an open file, and close it; returns why it is left out, or ""."""
        try:
            before = looks(descriptor)
            block = os.read(descriptor, min(_BLOCK, before[1] + 1))
            if not self._begin(block):
                return "binary"
            while block:
                self._extend(block)
                block = os.read(descriptor, _BLOCK)
            if looks(descriptor) != before or self._target.size - self.start != before[1]:
                raise changed(real)
        except OSError as error:
            raise unreadable(error, real) from None
        finally:
            os.close(descriptor)
        return ""

    def add_data(self, data: bytes) -> str:
        """Add a whole text; returns why it is left out, or ""."""
        if not self._begin(data):
            return "binary"
        self._extend(data)
        return ""

    def _begin(self, block: bytes) -> bool:
        """Begin a file whose first bytes are ``block``; False if it is no text."""
        if b"\0" in block[:_SNIFFED]:
            return False
        if block and self._last != b"\n":
            self._target.add(b"\n")
        self.start = self._target.size
        return True

    def _extend(self, block: bytes) -> None:
        self._target.add(block)
        self._last = block[-1:] or self._last
