"""Write the bytes of a source into one file: copied, shared, or joined from many.

Memory does not grow with the source. A source that changes meanwhile is refused.
"""

from __future__ import annotations

import errno
import io
import os
from collections import Counter

from rlm_ci.context.builder.digests import BLOB_LIMIT, blob_hash
from rlm_ci.context.builder.file_table import Pieces
from rlm_ci.context.builder.sources import open_listed, unreadable
from rlm_ci.errors import ConfigError, UnavailableError
from rlm_ci.system import files, installation
from rlm_ci.text.encodings import AUTO, BYTES
from rlm_ci.text.printable import printable
from rlm_ci.text.unpacking import NO_ZSTD, ZSTD, DecodedText, UnpackLimit, UnreadableTextError
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import BinaryIO, Self

    from rlm_ci.context.builder.sources import CommitFiles, SourceListing

_BLOCK = 1 << 20
#: Bytes of one call that copies inside of the kernel.
_SHARE = 1 << 30
#: The file system cannot share: copy instead.
_UNSHARED = frozenset((
    errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM, errno.EMLINK,
    errno.EACCES, errno.ETXTBSY, errno.EBADF,
))  # fmt: skip


class Gathered(Value):
    """The size of a source, its files, the numbers of omitted ones and of those in an encoding.

    Only files that were decoded have blobs: those of their bytes before.
    """

    size: int
    files: Pieces
    omitted: Mapping[str, int] = {}
    decoded: Mapping[str, int] = {}


class Target:
    """The file that a source is written into, of ``limit`` bytes. Raises StorageError."""

    def __init__(self, path: str, limit: int) -> None:
        self.path = path
        self.limit = limit
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

    def rewind(self, size: int) -> None:
        """Remove what is behind ``size``."""
        try:
            os.ftruncate(self._descriptor, size)
            os.lseek(self._descriptor, size, os.SEEK_SET)
        except OSError as error:
            raise files.storage_error(error, self.path) from None
        self.size = size

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
        if size > self.limit:
            raise ConfigError(
                f"the source has more than {self.limit:,} bytes, which are too many chunks",
                where="RLM_CHUNK_TARGET_BYTES",
                hint="choose larger chunks",
            )


def from_stream(stream: BinaryIO, path: str, limit: int, encoding: str = AUTO) -> Gathered:
    """All that comes from a stream. Raises ConfigError, StorageError."""
    with Target(path, limit) as target:
        read_as = _decode(stream, target, encoding, "standard input")
    return Gathered(target.size, Pieces(), {}, {read_as: 1} if read_as else {})


class NoTextError(ConfigError):
    """A source that was named is no text."""


def _decode(stream: BinaryIO, target: Target, encoding: str, name: str) -> str:
    """Add the text of a stream; returns how it was read. Raises ConfigError."""
    try:
        text = DecodedText(stream, UnpackLimit(), encoding, lenient=True)
        for block in text.blocks():
            target.add(block)
    except OSError as error:
        raise unreadable(error, name) from None
    except UnreadableTextError as error:
        is_missing = error.reason == NO_ZSTD
        hint = installation.command(ZSTD) if is_missing else error.hint
        kind = UnavailableError if is_missing else NoTextError
        raise kind(f"the source cannot be read as text: {error}",
                   where=printable(name), hint=hint) from None  # fmt: skip
    return text.read_as


def from_file(
    source: str, name: str, path: str, limit: int, *, link: bool, encoding: str = AUTO,
    blob_digits: int = 40,
) -> Gathered:  # fmt: skip
    """One file; a link is followed. Raises ConfigError, UnavailableError, StorageError."""
    real = os.path.realpath(source)
    try:
        descriptor = files.open_regular(real, os.O_RDONLY)
    except OSError as error:
        raise unreadable(error, source) from None
    pieces, read_as, blob = Pieces(), "", None
    try:
        if encoding == BYTES or _is_plain(descriptor, encoding, source):
            size = share_or_copy(descriptor, real, path, limit, link=link)
        else:
            before = looks(descriptor)
            with open(descriptor, "rb", buffering=0, closefd=False) as stream:
                stream.seek(0)
                with Target(path, limit) as target:
                    read_as = _decode(stream, target, encoding, source)
            size, blob = target.size, _blob(descriptor, blob_digits)
            if looks(descriptor) != before:
                raise changed(real)
    finally:
        os.close(descriptor)
    pieces.add(name, 0, size, blob, read_as)
    return Gathered(size, pieces, {}, {read_as: 1} if read_as else {})


def _is_plain(descriptor: int, encoding: str, source: str) -> bool:
    """Whether the bytes of a file are its text."""
    try:
        with open(descriptor, "rb", buffering=0, closefd=False) as stream:
            text = DecodedText(stream, UnpackLimit(), encoding, lenient=True)
            return all(not text.read_as for _ in text.blocks()) and not text.read_as
    except UnreadableTextError:
        return False
    except OSError as error:
        raise unreadable(error, source) from None
    finally:
        os.lseek(descriptor, 0, os.SEEK_SET)


def _blob(descriptor: int, digits: int) -> str | None:
    """The id of an open file as a blob of git; None if it is too large."""
    size = os.fstat(descriptor).st_size
    if size > BLOB_LIMIT:
        return None
    digest = blob_hash(digits, size)
    os.lseek(descriptor, 0, os.SEEK_SET)
    while block := os.read(descriptor, _BLOCK):
        digest.update(block)
    return str(digest.hexdigest())


def share_or_copy(descriptor: int, real: str, path: str, limit: int, *, link: bool) -> int:
    """Link or copy the open file at ``real`` to ``path``; returns its size.

    Raises ConfigError if it changes meanwhile, StorageError.
    """
    before = looks(descriptor)
    size = before[1]
    Target(path, limit).require_room(size)
    if not (link and _is_linked(real, path)):
        with Target(path, limit) as target:
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


def from_listing(listing: SourceListing, path: str, limit: int, encoding: str = AUTO) -> Gathered:
    """The texts of a listing, joined.

    A file without a final line break gets one, which belongs to no file. Raises ConfigError,
    StorageError.
    """
    with Target(path, limit) as target:
        joined = _Joined(target, encoding, listing.blob_digits)
        for name, real in listing.files():
            opened = open_listed(real)
            joined.add(name, opened if isinstance(opened, str) else joined.file(opened, real))
    joined.omitted.update(dict(listing.omitted))
    return joined.gathered()


def from_commit(source: CommitFiles, path: str, limit: int, encoding: str = AUTO) -> Gathered:
    """The texts of a commit, joined as those of a listing; no file of it is written.

    Raises ConfigError, StorageError, and what git raises.
    """
    with Target(path, limit) as target:
        joined = _Joined(target, encoding, source.blob_digits)
        for name, data in source.files():
            joined.add(name, data if isinstance(data, str) else joined.data(data))
    return joined.gathered()


class _Joined:
    """Adds texts to a target, each on a line of its own."""

    def __init__(self, target: Target, encoding: str, blob_digits: int) -> None:
        self._target = target
        self._encoding = encoding
        self._digits = blob_digits
        self._limit = UnpackLimit()
        self._pieces = Pieces()
        self._last = b"\n"
        self.omitted: Counter[str] = Counter()
        self._decoded: Counter[str] = Counter()

    def gathered(self) -> Gathered:
        omitted = {why: number for why, number in sorted(self.omitted.items()) if number}
        decoded = dict(sorted(self._decoded.items()))
        return Gathered(self._target.size, self._pieces, omitted, decoded)

    def add(self, name: str, text: tuple[int, str, str | None] | str) -> None:
        """Enter the text that was written last, or count why it is left out."""
        if isinstance(text, str):
            self.omitted[text] += 1
            return
        start, read_as, blob = text
        self._pieces.add(name, start, self._target.size, blob, read_as)
        if read_as:
            self._decoded[read_as] += 1

    def file(self, descriptor: int, real: str) -> tuple[int, str, str | None] | str:
        """Write an open file, and close it; returns its start, how it was read, and its blob.

        Without a text it returns why in a word.
        """
        try:
            before = looks(descriptor)
            with open(descriptor, "rb", buffering=0, closefd=False) as stream:
                text = self._write(stream)
            if isinstance(text, str):
                return text
            start, read_as = text
            size = self._target.size - start
            if looks(descriptor) != before or (not read_as and size != before[1]):
                raise changed(real)
            return start, read_as, _blob(descriptor, self._digits) if read_as else None
        except OSError as error:
            raise unreadable(error, real) from None
        finally:
            os.close(descriptor)

    def data(self, data: bytes) -> tuple[int, str, str | None] | str:
        """As ``file``, for all bytes of one."""
        text = self._write(io.BytesIO(data))
        if isinstance(text, str):
            return text
        start, read_as = text
        digest = blob_hash(self._digits, len(data))
        digest.update(data)
        return start, read_as, digest.hexdigest() if read_as else None

    def _write(self, stream: BinaryIO) -> tuple[int, str] | str:
        before, last, left = self._target.size, self._last, self._limit.left
        try:
            text = DecodedText(stream, self._limit, self._encoding)
            start = before
            for block in filter(None, text.blocks()):
                if start == self._target.size == before and self._last != b"\n":
                    self._target.add(b"\n")
                    start += 1
                self._target.add(block)
                self._last = block[-1:]
        except UnreadableTextError as error:
            self._target.rewind(before)
            self._limit.give_back(left)
            self._last = last
            return error.reason
        return start, text.read_as
