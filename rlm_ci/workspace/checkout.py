"""A folder checked out from a tree, in which an agent that is not trusted has worked.

Its content is data: no link is followed, nothing in it is executed, and nothing that an agent
writes (a ``.gitignore``, a repository) can hide a file from us. Its processes are dead by then.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress

from rlm_ci.errors import LimitError
from rlm_ci.system import files
from rlm_ci.text.printable import printable
from rlm_ci.values import Row
from rlm_ci.workspace.lookalike_names import place_of_git
from rlm_ci.workspace.snapshot import (
    RULES,
    PathInspector,
    SnapshotLimits,
    anchored,
    encode,
    folders,
    parents,
    remove_index,
)
from rlm_ci.workspace.tree_diff import SUBMODULE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from rlm_ci.workspace.snapshot import PrivateGit

_NO_FILE = "it is a pipe, a socket or a device"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
#: Repositories inside of one another.
_DEPTH = 64


class RemovedFile(Row):
    """What was found in the copy and taken out of it: a ``.git``, a pipe, a device."""

    path: str
    reason: str


class Checkout:
    """The copy at ``path``."""

    def __init__(self, private: PrivateGit, path: str, name: str, bounds: SnapshotLimits) -> None:
        self.path = os.path.abspath(path)
        self._removed: list[RemovedFile] = []
        self._git = private
        self._index = f"{name}.index"
        self._bounds = bounds
        self._known: tuple[str, ...] = ()
        self._submodules: tuple[str, ...] = ()
        self._guests: dict[str, str | None] = {}
        #: The tree that the index holds, once it is known.
        self._last = ""
        self._removed_at: dict[str, tuple[RemovedFile, ...]] = {}

    def fill(self, tree: str, guests: Mapping[str, str | None]) -> None:
        """Make the folder anew from ``tree``.

        ``guests`` are names that are no part of it: mount points (None), or links to a target.
        """
        files.clear(self.path)
        files.make_folder(self.path, 0o700)
        remove_index(self._git.path(self._index))
        self._git.read(self.path, self._index, "read-tree", tree)
        self._git.read(self.path, self._index, "checkout-index", "-a", "-f", "-u", "-q")
        entries = self._git.objects.tree(tree)
        self._submodules = tuple(path for path, entry in entries.items() if entry.mode == SUBMODULE)
        self._known = tuple(path for path, entry in entries.items() if entry.mode != SUBMODULE)
        self._guests = dict(guests)
        self._last = tree
        self._receive()

    def tree(self) -> str:
        """The id of the tree that the folder holds now. Raises LimitError beyond the bounds.

        Repositories, pipes and devices that were put there are removed first.
        """
        self._removed = []
        self.reopen()
        self._sweep()
        self._receive()
        every, suspects = self._listed()
        if suspects:
            present = self._present(every)
            gone = sorted(every.difference(present))
            added = sorted(suspects.intersection(present))
            for option, paths in (("--force-remove", gone), ("--add", added)):
                if paths:
                    names = encode("".join(f"{path}\0" for path in paths))
                    args = ("update-index", "--replace", option, "-z", "--stdin")
                    self._git.write(self.path, self._index, *args, stdin=names)
            self._last = self._git.write_tree(self.path, self._index)
        self.recall(self._last, self._removed)
        return self._last

    def reopen(self) -> None:
        """Make sure that the folder exists and that we may enter it."""
        mode = os.lstat(self.path).st_mode if os.path.lexists(self.path) else 0
        if not stat.S_ISDIR(mode):
            files.clear(self.path)
            files.make_folder(self.path, 0o700)
        elif mode & stat.S_IRWXU != stat.S_IRWXU:
            os.chmod(self.path, stat.S_IRWXU)

    def removed_at(self, tree: str) -> tuple[RemovedFile, ...]:
        """What had to be taken out of the folder for it to hold ``tree``."""
        return self._removed_at.get(tree, ())

    def recall(self, tree: str, removed: Iterable[Iterable[str]]) -> None:
        """Note what had been taken out for ``tree``: path and reason."""
        removed_files = (RemovedFile(path, reason) for path, reason in removed)
        self._removed_at[tree] = tuple(dict.fromkeys((*self.removed_at(tree), *removed_files)))

    def restore(self, tree: str) -> None:
        """Make the folder hold ``tree`` again; ignored files stay where they are."""
        now = self.tree()
        if now == tree:
            return
        before, after = self._git.objects.tree(now), self._git.objects.tree(tree)
        changed = [path for path, entry in after.items() if before.get(path) != entry]
        for path in before.keys() - after.keys():
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(self.path, path))
            for folder in parents(path):
                try:
                    os.rmdir(os.path.join(self.path, folder))
                except OSError:
                    break
        self._git.read(self.path, self._index, "read-tree", "-m", tree)
        if changed:
            args = ("checkout-index", "-f", "-u", "-q", "-z", "--stdin")
            names = encode("".join(f"{path}\0" for path in changed))
            self._git.read(self.path, self._index, *args, stdin=names)
        self._last = tree
        self._receive()

    # ── what an agent may have done ──

    def _sweep(self) -> None:
        """Take out pipes, sockets and devices: git waits for ever where it opens one.

        It opens files by name, so only such names and known paths are reported.
        """
        known_paths = frozenset(self._known)
        top = os.open(self.path, _FOLDER)
        try:
            waiting = [""]
            while waiting:
                folder = waiting.pop()
                for entry, descriptor in _entries(top, folder):
                    path = f"{folder}/{entry.name}" if folder else entry.name
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(path)
                    elif not (entry.is_file(follow_symlinks=False) or entry.is_symlink()):
                        os.unlink(entry.name, dir_fd=descriptor)
                        if path in known_paths or entry.name.startswith(".git"):
                            self._removed.append(RemovedFile(path, _NO_FILE))
        finally:
            os.close(top)

    def _listed(self) -> tuple[set[str], set[str]]:
        """All paths that may be part of the tree, and those that may have changed."""
        excludes = f"--exclude-from={self._git.path(RULES)}"
        links = [name for name, target in self._guests.items() if target]
        guests = [f"--exclude={anchored(name).removesuffix('/')}" for name in links]
        kinds = ("--cached", "--others", "--modified", "--deleted")
        for _ in range(_DEPTH):
            args = ("ls-files", "-z", "-t", *kinds, excludes, *guests)
            rows = os.fsdecode(self._git.write(self.path, self._index, *args)).split("\0")
            every = {row[2:] for row in rows if row}
            suspects = {row[2:] for row in rows if row and row[0] != "H"}
            places = PathInspector(self.path)
            # Ignored, but part of the snapshot.
            back = {path for path in self._known if path not in every and places.look(path)}
            every = (every | back).difference(self._submodules)
            if not self._take_out_repositories(every):
                return every, (suspects | back | _behind_links(every, places)) & every
        raise self._too_much("repositories inside of one another without end")

    def _present(self, every: Iterable[str]) -> set[str]:
        """The paths that are there, as a file or a link that git can keep."""
        places = PathInspector(self.path)
        present: set[str] = set()
        total = 0
        for path in sorted(every):
            status = places.look(path)
            if status is None or stat.S_ISDIR(status.st_mode):
                continue
            if not (stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)):
                self._remove(path, _NO_FILE)
                continue
            if stat.S_ISREG(status.st_mode) and not status.st_mode & stat.S_IRUSR:
                os.chmod(os.path.join(self.path, path), status.st_mode | stat.S_IRUSR)
            if status.st_size > self._bounds.largest:
                raise self._too_much(f"{printable(path)} has {status.st_size:,} bytes")
            total += status.st_size
            present.add(path)
        if total > self._bounds.total or len(present) > self._bounds.count:
            raise self._too_much(f"{len(present):,} files of {total:,} bytes together")
        return present

    def _take_out_repositories(self, names: Iterable[str]) -> bool:
        """Remove every ``.git`` beside or above a file; whether the list must be made again."""
        again = False
        if ".git" not in self._guests and os.path.lexists(os.path.join(self.path, ".git")):
            self._remove(".git", "a repository was made of the copy")
        for name in names:
            odd = place_of_git(name)
            if odd is not None:
                parts = name.split("/")
                self._remove("/".join(parts[: odd + 1]), "git keeps no file of this name")
                again = True
        places = PathInspector(self.path)
        for folder in sorted(folders(names)):
            status = places.look(folder)
            if status is None or not stat.S_ISDIR(status.st_mode):
                continue
            path = os.path.join(self.path, folder)
            if status.st_mode & stat.S_IRWXU != stat.S_IRWXU:  # closed, what it holds unseen
                os.chmod(path, 0o700)
                again = True
            if os.path.lexists(os.path.join(path, ".git")):
                self._remove(f"{folder}/.git", "a repository inside hides its content")
                again = True
        return again

    def _receive(self) -> None:
        """Put submodules and guests back to what they must be: empty folders, or our links."""
        targets = dict.fromkeys(self._submodules, None) | self._guests
        for path, target in targets.items():
            full = os.path.join(self.path, path)
            for folder in reversed(list(parents(path))):
                inner = os.path.join(self.path, folder)
                if not os.path.isdir(inner) or os.path.islink(inner):
                    if os.path.lexists(inner):
                        self._remove(folder, "it is where rlm-ci needs a folder")
                    os.mkdir(inner)
            if _is_right(full, target):
                continue
            if os.path.lexists(full):
                self._remove(path, "its content was not part of the repository")
            if target is None:
                os.mkdir(full)
            elif path == ".git":
                files.write(full, target.encode("utf-8", "surrogateescape"))
            else:
                os.symlink(target, full)

    def _remove(self, path: str, reason: str) -> None:
        self._removed.append(RemovedFile(path, reason))
        files.clear(os.path.join(self.path, path))

    def _too_much(self, what: str) -> LimitError:
        bounds = self._bounds
        return LimitError(
            f"the agent's copy is too large: {what}",
            budget="workspace",
            where=self.path,
            hint=f"at most {bounds.count:,} files, {bounds.largest:,} bytes each,"
            f" {bounds.total:,} bytes together; have what it makes ignored by .gitignore",
        )


def _entries(top: int, folder: str) -> Iterator[tuple[os.DirEntry[str], int]]:
    """The entries of a folder below ``top``, each with the open folder.

    It is open to us from then on. A path that is too long has no entries, as for git.
    """
    try:
        descriptor = os.open(folder or ".", _FOLDER, dir_fd=top)
    except PermissionError:
        os.chmod(folder, stat.S_IRWXU, dir_fd=top)
        descriptor = os.open(folder, _FOLDER, dir_fd=top)
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            return
        raise
    try:
        if os.fstat(descriptor).st_mode & stat.S_IRWXU != stat.S_IRWXU:
            os.fchmod(descriptor, stat.S_IRWXU)
        with os.scandir(descriptor) as scan:
            entries = list(scan)
        for entry in entries:
            yield entry, descriptor
    finally:
        os.close(descriptor)


def _behind_links(names: set[str], places: PathInspector) -> set[str]:
    """Those of ``names`` in what was a folder and is none now; git looks through it."""
    gone = set()
    for folder in folders(names):
        status = places.look(folder)
        if status is None or not stat.S_ISDIR(status.st_mode):
            gone.add(folder)
    return {name for name in names if not gone.isdisjoint(parents(name))} if gone else set()


def _is_right(path: str, target: str | None) -> bool:
    try:
        if target is None:
            return stat.S_ISDIR(os.lstat(path).st_mode) and not os.listdir(path)
        if os.path.basename(path) == ".git":
            return files.read(path, 1 << 16) == target.encode("utf-8", "surrogateescape")
        return os.readlink(path) == target
    except (OSError, files.UnreadableError):
        return False
