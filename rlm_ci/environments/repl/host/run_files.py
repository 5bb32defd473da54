"""The files of an episode, below the folder of its run."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from hashlib import sha256

from rlm_ci.errors import DamagedError
from rlm_ci.system import files

_LIMIT = 1 << 30
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)


class RunFiles:
    """Files below ``folder``; ``original`` is that of the run whose replay this is."""

    def __init__(self, folder: str, original: str | None = None) -> None:
        self._folder = folder
        self._original = original
        self._folders: set[str] = set()

    def write(self, path: str, data: bytes) -> None:
        """Write a file that the run keeps. Raises StorageError.

        It is not synced: an answer is in the record, and a killed run writes its block's files
        again.
        """
        place = self._made(path)
        left = memoryview(data)
        try:
            descriptor = os.open(place, _WRITE, 0o600)
            try:
                while left:
                    left = left[os.write(descriptor, left) :]
            finally:
                os.close(descriptor)
        except OSError as error:
            raise files.storage_error(error, place) from None

    def restore(self, path: str, digest: str) -> None:
        """Copy a file of a block that a replay does not run. Raises DamagedError, StorageError."""
        if self._original is not None:
            self.write(path, _verified(self._original, path, digest))

    def save(self, path: str, data: bytes) -> None:
        """Write a file that only a resumed run needs. Raises StorageError."""
        files.write(self._made(path), data, 0o600)

    def saved(self, path: str, digest: str) -> bytes:
        """The content of such a file. Raises DamagedError."""
        return _verified(self._folder, path, digest)

    def remove(self, path: str) -> None:
        """Remove a file. Raises StorageError for one behind a link that leads out."""
        place = self._place(path)
        files.require_inside(self._folder, os.path.dirname(place))
        with suppress(FileNotFoundError):
            os.unlink(place)

    def tracked(self) -> TrackedFiles:
        """The same files; it keeps which are written."""
        return TrackedFiles(self)

    def _made(self, path: str) -> str:
        """The place of a file, whose folder is made; a run may come with links that lead out."""
        place = self._place(path)
        folder = os.path.dirname(place)
        if folder not in self._folders:
            parent = os.path.dirname(folder)
            if not (parent in self._folders and _is_new(folder)):
                files.require_inside(self._folder, folder)
                files.make_folder(folder, 0o700)
            self._folders |= {folder, parent}
        return place

    def _place(self, path: str) -> str:
        return os.path.join(self._folder, *path.split("/"))


class TrackedFiles(RunFiles):
    """``written`` are the files of a block by path, with their SHA-256."""

    def __init__(self, inner: RunFiles) -> None:
        super().__init__(inner._folder, inner._original)  # noqa: SLF001 - of its own kind
        self._inner = inner
        self._lock = threading.Lock()
        self.written: dict[str, str] = {}

    def write(self, path: str, data: bytes) -> None:
        self._inner.write(path, data)
        self._note(path, sha256(data).hexdigest())

    def restore(self, path: str, digest: str) -> None:
        self._inner.restore(path, digest)
        self._note(path, digest)

    def _note(self, path: str, digest: str) -> None:
        with self._lock:
            self.written[path] = digest


def _is_new(folder: str) -> bool:
    """Whether ``folder`` was made now, and so cannot be a link."""
    try:
        os.mkdir(folder, 0o700)
    except OSError:
        return False
    return True


def _verified(folder: str, path: str, digest: str) -> bytes:
    try:
        data = files.read_inside(folder, path, _LIMIT)
    except files.UnreadableError as error:
        raise _damaged(folder, path, str(error)) from None
    if sha256(data).hexdigest() != digest:
        raise _damaged(folder, path, "it is not what the run has written")
    return data


def _damaged(folder: str, path: str, what: str) -> DamagedError:
    hint = "restore it from a copy, or start a new run"
    return DamagedError(what, where=os.path.join(folder, path), hint=hint)
