"""Puts the result into the user's work tree, all of it or nothing.

Everything is written beside the tree first and then moved into place; the originals are kept until
the end. Nothing is written over, no link is written through. An error moves the originals back,
after a kill the next process does. If something is in the way, the result stays a patch.

The folder where a result is staged is at the top of the tree, so that moving a file is one step;
snapshots leave it out. One process at a time works there, in a folder of its own::

    <hex>/plan.json  all changes, written before the first move
    <hex>/new/N      what change N puts into the tree, where it stands under a second name
    <hex>/old/N      what change N has taken out of the tree; when all is done, "old" is renamed
    <hex>/back/N     what undoing change N has taken out of the tree

So the files alone say how far a process got, and the next one undoes what a killed one did.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from contextlib import contextmanager, suppress

from rlm_ci.errors import ConfigError, LockedError, StorageError
from rlm_ci.git.objects import TreeEntry
from rlm_ci.system import files
from rlm_ci.system.lock import exclusive
from rlm_ci.text.printable import count, printable
from rlm_ci.values import Value
from rlm_ci.workspace.snapshot import FILE, SCRIPT, PathInspector, is_inside, parents
from rlm_ci.workspace.tree_diff import LINK, differing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any, Self

    from rlm_ci.git.repository import Repository


_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_MOVES_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


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
        inner = os.open(name, _FILE_MOVES_FOLDER, dir_fd=folder)
    except OSError:  # there is none
        return
    try:
        for entry in os.listdir(inner):
            remove_empty(entry, inner)
    finally:
        os.close(inner)
    with suppress(OSError):
        os.rmdir(name, dir_fd=folder)


STAGING = ".rlm-ci-landing.tmp"
_PLAN = "plan.json"
_PLAN_LIMIT = 1 << 28
_FOLDER = re.compile(r"[0-9a-f]{16}")
#: Errors by what is in the tree; all others are of the disk, and may be gone another time.
_IN_THE_WAY = frozenset((
    errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENOTEMPTY, errno.ELOOP,
    errno.EXDEV, errno.EBUSY, errno.ENAMETOOLONG,
))  # fmt: skip


class ApplyRefusedError(Exception):
    """Why a result stays a patch."""


class PathChange(Value):
    """One path that differs: what it was and what it becomes; None where it is not."""

    number: int
    path: str
    old: TreeEntry | None
    new: TreeEntry | None


def changes(before: Mapping[str, TreeEntry], after: Mapping[str, TreeEntry]) -> list[PathChange]:
    """All differences of two trees, numbered by the order of their paths."""
    pairs = differing(before, after).items()
    return [PathChange(n, path, old, new) for n, (path, (old, new)) in enumerate(pairs)]


@contextmanager
def locked_tree(root: str) -> Iterator[Sequence[str]]:
    """Lock the tree at ``root``; the paths at which the work of a killed process was undone.

    Raises LockedError while another process holds it, ApplyRefusedError where that cannot be
    undone or something is in the way, StorageError for a disk that fails.
    """
    path = os.path.join(root, STAGING)
    if os.path.realpath(path) != path or (os.path.lexists(path) and not os.path.isdir(path)):
        raise ApplyRefusedError(f"something is in the way: {printable(path)}")
    with blaming(root), suppress(FileExistsError):
        os.mkdir(path, 0o700)
    try:
        with exclusive(path, "is putting a result into the work tree"):
            yield _undo_killed(root, path)
    finally:
        with suppress(OSError):
            os.rmdir(path)  # not where somebody waits for it, or something is left


def recover(root: str) -> Sequence[str]:
    """Undo what a killed process has left in the tree; its paths. Raises as ``held``."""
    if not os.path.lexists(os.path.join(root, STAGING)):
        return ()
    with locked_tree(root) as undone:
        return undone


def undo_killed(root: str) -> Sequence[str]:
    """As ``recover``, for the beginning of a run. Raises ConfigError, LockedError."""
    root = os.path.realpath(root)
    try:
        return recover(root)
    except ApplyRefusedError as error:
        raise ConfigError(
            str(error),
            where=root,
            hint=f"save what you need from there, and remove {STAGING}",
        ) from None


def _undo_killed(root: str, folder: str) -> Sequence[str]:
    undone: list[str] = []
    for name in sorted(filter(_FOLDER.fullmatch, os.listdir(folder))):
        staged = StagedResult.left(root, name)
        undone += staged.touched()
        if stuck := staged.undo():
            raise ApplyRefusedError(
                "an earlier result was applied in part, and cannot be undone: "
                f"{count(len(stuck), 'file')}, {printable(stuck[0])}{staged.originals}"
            )
    return undone


def blamed(error: OSError, root: str, left: str = "") -> str:
    """The reason for a refusal, where the tree is to blame. Raises StorageError else."""
    reason = error.strerror or type(error).__name__
    is_path = isinstance(error.filename, str | bytes) and error.filename
    path = printable(os.fsdecode(error.filename)) if is_path else ""
    if error.errno in _IN_THE_WAY:
        return f"{reason}: {path}{left}"
    raise StorageError(
        f"the result cannot be put into the work tree: {reason}{left}",
        where=path or root,
        hint="fix that, and resume the run",
    ) from None


@contextmanager
def blaming(root: str) -> Iterator[None]:
    """Raise ApplyRefusedError or StorageError in place of OSError."""
    try:
        yield
    except OSError as error:
        raise ApplyRefusedError(blamed(error, root)) from None


class StagedResult:
    """One result on the disk: what it wants to change, and how far that got."""

    def __init__(self, root: str, name: str, path_changes: Sequence[PathChange]) -> None:
        self.root = root
        self.path_changes = path_changes
        self._folder = os.path.join(root, STAGING, name)
        #: Where the originals are that could not be put back, for the end of a reason.
        self.originals = f"; originals lie in {STAGING}/{name}/old"

    @classmethod
    def begin(cls, root: str, path_changes: Sequence[PathChange]) -> Self:
        """A new one, its plan written down. Raises OSError, StorageError."""
        staged = cls(root, os.urandom(8).hex(), path_changes)
        os.mkdir(staged._folder, 0o700)
        try:
            plan = [[change.path, change.old, change.new] for change in path_changes]
            files.write(staged.path_of(_PLAN), json.dumps(plan).encode(), 0o600)
            for kind in ("new", "back", "old"):
                os.mkdir(staged.path_of(kind), 0o700)
        except BaseException:
            staged.clear()
            raise
        return staged

    @classmethod
    def left(cls, root: str, name: str) -> Self:
        """One that another process began; without a plan nothing was moved.

        A repository may bring a folder like it. Raises ApplyRefusedError for a link in it.
        """
        left = cls(root, name, ())
        for path in map(left.path_of, ("", "new", "back", "old")):
            if os.path.islink(path.rstrip("/")):
                raise ApplyRefusedError(f"something is in the way: {printable(path)}")
        try:
            plan = json.loads(files.read_inside(root, f"{STAGING}/{name}/{_PLAN}", _PLAN_LIMIT))
            rows = [(path, _entry(old), _entry(new)) for path, old, new in plan]
            if not all(is_inside(path) for path, _, _ in rows):
                raise ValueError(plan)
        except (files.UnreadableError, ValueError, TypeError, RecursionError):
            rows = []
        return cls(root, name, [PathChange(n, *row) for n, row in enumerate(rows)])

    def path_of(self, kind: str, *number: int) -> str:
        return os.path.join(self._folder, kind, *map(str, number))

    def taken(self, change: PathChange) -> bool:
        """Whether the original of ``change`` is here, and not in the tree."""
        return os.path.lexists(self.path_of("old", change.number))

    def touched(self) -> list[str]:
        """The paths at which the tree is not what it was, as long as it is not all done."""
        if not os.path.isdir(self.path_of("old")):
            return []
        return [
            change.path
            for change in self.path_changes
            if self.taken(change) or self._is_put(change)
        ]

    def finish(self) -> None:
        """All is done: the originals stop being ones, in one step, and everything is removed."""
        with suppress(OSError):
            os.rename(self.path_of("old"), self.path_of("spent"))
        self.clear()

    def clear(self) -> None:
        """Throw everything away."""
        with suppress(OSError):
            files.clear(self._folder)

    # ── the way back ──

    def undo(self) -> list[str]:
        """Move everything back, keep what was saved meanwhile; the paths where that fails."""
        if not os.path.isdir(self.path_of("old")):  # not begun, or all done
            self.clear()
            return []
        stuck = [
            path_change.path
            for path_change in self.path_changes
            if not _try(self._take_back, path_change)
        ]
        for change in self.path_changes:
            if change.old is None:
                prune(self.root, change.path)
        stuck += [
            path_change.path
            for path_change in self.path_changes
            if not _try(self._bring_back, path_change)
        ]
        stuck = stuck or os.listdir(self.path_of("old"))  # of a plan that is gone
        if not stuck:
            self.clear()
        return stuck

    def _is_put(self, change: PathChange) -> bool:
        try:
            with files.folder_of(self.root, change.path) as (folder, name):
                return is_one(self.path_of("new", change.number), name, folder)
        except OSError:
            return False

    def _take_back(self, change: PathChange) -> bool:
        """Take a file of ours away again, if it is still what we have put there."""
        if not self._is_put(change):
            return True
        back = self.path_of("back", change.number)
        with files.folder_of(self.root, change.path) as (folder, name):
            if not holds(name, change.new, folder):
                return True
            os.rename(name, back, src_dir_fd=folder)
            if holds(back, change.new):
                return True
            is_there = put_in(back, name, folder)
            if is_there:
                files.clear(back)
            return is_there

    def _bring_back(self, change: PathChange) -> bool:
        """Put an original back, unless somebody has saved something else there."""
        backup = self.path_of("old", change.number)
        if not os.path.lexists(backup):
            return True
        make_folders(self.root, change.path)
        with files.folder_of(self.root, change.path) as (folder, name):
            is_there = (
                put_in(backup, name, folder)
                or is_one(backup, name, folder)
                or holds(name, change.old, folder)
            )
        if is_there:
            files.clear(backup)
        return is_there


def make_folders(root: str, path: str) -> None:
    """All folders that are to hold ``path``. Raises OSError."""
    for folder in reversed(list(parents(path))):
        with files.folder_of(root, folder) as (parent, name), suppress(FileExistsError):
            os.mkdir(name, dir_fd=parent)


def prune(root: str, path: str) -> None:
    """Remove the folders that held ``path``, and hold nothing now."""
    for folder in parents(path):
        try:
            with files.folder_of(root, folder) as (parent, name):
                os.rmdir(name, dir_fd=parent)
        except OSError:
            return


def _try(step: Any, change: PathChange) -> bool:
    try:
        return bool(step(change))
    except OSError:
        return False


def _entry(record: Any) -> TreeEntry | None:
    if record is None:
        return None
    mode, kind, oid, *_ = record
    return TreeEntry(str(mode), str(kind), str(oid))


_BATCH = 64


class ApplyOutcome(Value):
    """Whether the result was applied: if there is no ``reason``; ``undone`` see ``recover``."""

    reason: str = ""
    undone: tuple[str, ...] = ()

    @property
    def done(self) -> bool:
        return not self.reason


def land(
    root: str,
    changes: Sequence[PathChange],
    objects: Repository,
    before: Mapping[str, TreeEntry],
    look: Callable[[], Mapping[str, TreeEntry]],
) -> ApplyOutcome:
    """Make the changes that are ``changes`` in the tree at ``root``, if that is as ``before``.

    ``look`` says what it holds now; little happens between the look and the moves. Raises
    StorageError for a disk that fails, and for a content that is gone.
    """
    undone: Sequence[str] = ()
    try:
        with locked_tree(root) as undone:
            with blaming(root):
                applied = _Apply(root, changes)
            try:
                with blaming(root):
                    applied.stage(objects)
                applied.require_unchanged(before, look())
            except BaseException:
                applied.staged.clear()
                raise
            applied.move()
    except ApplyRefusedError as error:
        return ApplyOutcome(str(error), undone=tuple(undone))
    except LockedError as error:
        return ApplyOutcome(error.what)
    return ApplyOutcome(undone=tuple(undone))


class _Apply:
    """One result, under the lock of the tree. Raises ApplyRefusedError, StorageError."""

    def __init__(self, root: str, changes: Sequence[PathChange]) -> None:
        for change in changes:
            if not is_inside(change.path):
                raise ApplyRefusedError(f"no file may be there: {printable(change.path)}")
        self._root = root
        self._wanted = changes
        self.staged = StagedResult.begin(root, changes)

    def require_unchanged(
        self, before: Mapping[str, TreeEntry], now: Mapping[str, TreeEntry]
    ) -> None:
        """Nothing may be touched where the work tree is no longer what it was."""
        new_by_path = {change.path: change.new for change in self._wanted}
        odd = [
            path
            for path, (_, new) in differing(before, now).items()
            if path not in new_by_path or new != new_by_path[path]
        ]
        if odd:
            raise ApplyRefusedError(_changed(*odd))
        places = PathInspector(self._root)
        for change in self._wanted:
            if change.old is not None or change.path in now:
                continue
            status = places.look(change.path)
            if status is not None and not stat.S_ISDIR(status.st_mode):
                where = printable(change.path)
                raise ApplyRefusedError(f"a file that git ignores is in the way: {where}")

    def move(self) -> None:
        """Move all into place; an error undoes what was done."""
        try:
            self._move()
            self._require_originals()
        except (OSError, ApplyRefusedError) as error:
            left = self.staged.originals if self.staged.undo() else ""
            if isinstance(error, OSError):
                raise ApplyRefusedError(blamed(error, self._root, left)) from None
            raise ApplyRefusedError(f"{error}{left}") from None
        except BaseException:
            self.staged.undo()
            raise
        self.staged.finish()

    def stage(self, objects: Repository) -> None:
        """Write every new content beside the tree, durably."""
        fresh = [change for change in self._wanted if change.new]
        for start in range(0, len(fresh), _BATCH):
            batch = fresh[start : start + _BATCH]
            contents = objects.read(*(change.new.oid for change in batch if change.new))
            for change, content in zip(batch, contents, strict=True):
                if content is None:
                    raise StorageError(
                        "part of the result is gone",
                        where=printable(change.path),
                        hint="start a new run",
                    )
                self._write(change, content)

    def _write(self, change: PathChange, content: bytes) -> None:
        path = self.staged.path_of("new", change.number)
        mode = change.new.mode if change.new else ""
        if mode == LINK:
            os.symlink(content, os.fsencode(path))
            return
        is_script = mode == SCRIPT
        descriptor = os.open(
            path,
            os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC,
            0o777 if is_script else 0o666,
        )
        with os.fdopen(descriptor, "wb") as stream:
            before = PathInspector(self._root).look(change.path)
            if before is not None and stat.S_ISREG(before.st_mode):
                bits = stat.S_IMODE(before.st_mode) & 0o777
                readers = (bits & 0o444) >> 2
                os.fchmod(descriptor, bits | readers if is_script else bits & ~0o111)
            stream.write(content)
            stream.flush()
            os.fsync(descriptor)

    def _move(self) -> None:
        for change in self._wanted:
            if change.old is not None:
                self._take(change)
                if change.new is not None:
                    self._put(change)
        for change in self._wanted:
            if change.new is None:
                prune(self._root, change.path)
        for change in self._wanted:
            if change.old is None:
                self._put(change)

    def _take(self, change: PathChange) -> None:
        """Take away what is at its path; it is compared when all is done."""
        try:
            with files.folder_of(self._root, change.path) as (folder, name):
                if not holds(name, change.new, folder):
                    os.rename(name, self.staged.path_of("old", change.number), src_dir_fd=folder)
        except (FileNotFoundError, NotADirectoryError):
            if change.new is not None:
                raise ApplyRefusedError(_changed(change.path)) from None

    def _put(self, change: PathChange) -> None:
        """Put a file in its place, where only empty folders or this very file may be."""
        make_folders(self._root, change.path)
        source = self.staged.path_of("new", change.number)
        with files.folder_of(self._root, change.path) as (folder, name):
            remove_empty(name, folder)
            if not (put_in(source, name, folder) or holds(name, change.new, folder)):
                raise ApplyRefusedError(f"something is in the way: {printable(change.path)}")

    def _require_originals(self) -> None:
        for change in self._wanted:
            original = self.staged.path_of("old", change.number)
            if self.staged.taken(change) and not holds(original, change.old):
                raise ApplyRefusedError(_changed(change.path))


def _changed(*paths: str) -> str:
    how_many = count(len(paths), "file")
    return f"the work tree has changed meanwhile: {how_many}, {printable(paths[0])}"
