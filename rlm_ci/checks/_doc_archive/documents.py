"""The texts of documents, from the disk or from git: what a stub may stand in."""

from __future__ import annotations

import os
import stat

from rlm_ci.checks._doc_archive.archive import require_contents
from rlm_ci.errors import ConfigError
from rlm_ci.git import tracked
from rlm_ci.system import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from rlm_ci.git.repository import Repository

#: A stub has about eight lines, but whoever hides one may fill it up.
LIMIT = 1 << 20
#: Most documents are small, and then read in as few steps as it takes.
_SMALL = 16 << 10
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
#: Whether a file can be read from an open folder, and at a place of its own.
_QUICK = os.open in os.supports_dir_fd and hasattr(os, "pread") and hasattr(os, "O_NOFOLLOW")
if _QUICK:
    _READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW


def in_worktree(repository: Repository, paths: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    """The files of the work tree, and at the end those that a sparse checkout leaves out of it.

    Without those that are deleted, links, or larger than a stub. Raises ConfigError for one that
    nobody may read.
    """
    missing: list[str] = []
    yield from _on_disk(repository.root, paths, missing)
    entries = tracked.left_out(repository, missing)
    oids = {path: entry.oid for path, entry in entries.items() if entry.is_file}
    if oids:
        yield from in_git(repository, oids)


def _on_disk(root: str, paths: Iterable[str], missing: list[str]) -> Iterator[tuple[str, bytes]]:
    try:
        folder = os.open(root, _FOLDER) if _QUICK else -1
    except OSError:  # it may be entered, and not listed
        folder = -1
    try:
        for path in paths:
            data = _small(path, folder) if folder >= 0 else None
            if data is None:
                yield from _whole(root, path, missing)
            else:
                yield path, data
    finally:
        if folder >= 0:
            os.close(folder)


def _small(path: str, folder: int) -> bytes | None:
    """The content of a small file; None for all that needs a closer look.

    A pipe or a socket has no end to go to, a folder nothing to read, and a device that can be
    read is not as long as it says. So none needs to be asked what it is: with thousands of
    files that takes a fifth of the time.
    """
    try:
        descriptor = os.open(path, _READ, dir_fd=folder)
    except OSError:
        return None
    try:
        size = os.lseek(descriptor, 0, os.SEEK_END)
        if size > _SMALL:
            return None
        data = os.pread(descriptor, size + 1, 0)
        return data if len(data) == size else None
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _whole(root: str, path: str, missing: list[str]) -> Iterator[tuple[str, bytes]]:
    """The same for any file, and with the reason why it cannot be read."""
    place = os.path.join(root, path)
    try:
        yield path, files.read(place, LIMIT)
    except files.UnreadableError as error:
        if error.missing:
            missing.append(path)
        else:
            _require_no_stub(place, error)


def _require_no_stub(path: str, error: files.UnreadableError) -> None:
    """Deleted, a link, or larger than any stub is fine; a file that nobody may read is not."""
    try:
        status = os.lstat(path)
        is_small_file = stat.S_ISREG(status.st_mode) and status.st_size <= LIMIT
    except PermissionError:  # it may be there, in a folder that is closed to us
        is_small_file = True
    except OSError:
        return
    if is_small_file:
        raise ConfigError(
            f"a document cannot be read: {error}", where=path, hint="make it readable"
        )


def in_git(repository: Repository, oids: Mapping[str, str]) -> Iterator[tuple[str, bytes]]:
    """The blobs ``oids``, by path; without those that are empty, or larger than a stub."""
    sizes = repository.sizes(list(oids.values()))
    require_contents(repository, sum(size < 0 for size in sizes))
    small = [path for path, size in zip(oids, sizes, strict=True) if 0 < size <= LIMIT]
    contents = repository.read(*(oids[path] for path in small))
    return ((path, data) for path, data in zip(small, contents, strict=True) if data)
