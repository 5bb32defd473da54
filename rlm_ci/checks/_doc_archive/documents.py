"""The texts of documents, from the disk or from git."""

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

#: A stub has about eight lines, but may be padded to hide it.
LIMIT = 1 << 20
#: Texts that may link to what is archived are kept, so many bytes in all.
_KEPT = 16 << 20
#: Smaller documents are read with fewer system calls.
_SMALL = 16 << 10
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
#: Whether a file can be read from an open folder, and at a place of its own.
_QUICK = os.open in os.supports_dir_fd and hasattr(os, "pread") and hasattr(os, "O_NOFOLLOW")
if _QUICK:
    _READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW


class LinkingTexts:
    """Documents that are no stubs and may link to a heading of another, or into the archive."""

    def __init__(self, branch: str) -> None:
        self.branch = branch
        self.within = f"/{branch}/".encode("utf-8", "surrogateescape")
        self.texts: dict[str, bytes] = {}
        self._left = _KEPT

    def add(self, path: str, data: bytes) -> None:
        is_linking = b".md#" in data or b".markdown#" in data or b".mdx#" in data
        if (is_linking or self.within in data) and len(data) <= self._left:
            self.texts[path] = data
            self._left -= len(data)


def in_worktree(repository: Repository, paths: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    """The files of the work tree, then those that a sparse checkout leaves out.

    Without deleted files, links, and files larger than a stub. Raises ConfigError for one that
    cannot be read.
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
                yield from _other_file(root, path, missing)
            else:
                yield path, data
    finally:
        if folder >= 0:
            os.close(folder)


def _small(path: str, folder: int) -> bytes | None:
    """The content of a small file; None for anything else.

    Pipes and sockets cannot seek, folders cannot be read, and devices are not as long as they say:
    so there is no stat, which saves a fifth of the time.
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


def _other_file(root: str, path: str, missing: list[str]) -> Iterator[tuple[str, bytes]]:
    """Any file; raises ConfigError for one that may be a stub and cannot be read."""
    full_path = os.path.join(root, path)
    try:
        yield path, files.read(full_path, LIMIT)
    except files.UnreadableError as error:
        if error.missing:
            missing.append(path)
            return
        try:
            status = os.lstat(full_path)
            is_small_file = stat.S_ISREG(status.st_mode) and status.st_size <= LIMIT
        except PermissionError:  # it may be there, in a closed folder
            is_small_file = True
        except OSError:
            return
        if is_small_file:
            what = f"a document cannot be read: {error}"
            raise ConfigError(what, where=full_path, hint="make it readable") from None


def in_git(repository: Repository, oids: Mapping[str, str]) -> Iterator[tuple[str, bytes]]:
    """The blobs ``oids``, by path; without those that are empty, or larger than a stub."""
    sizes = repository.sizes(list(oids.values()))
    require_contents(repository, sum(size < 0 for size in sizes))
    small = [path for path, size in zip(oids, sizes, strict=True) if 0 < size <= LIMIT]
    contents = repository.read(*(oids[path] for path in small))
    return ((path, data) for path, data in zip(small, contents, strict=True) if data)
