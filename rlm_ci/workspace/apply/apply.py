"""Puts the result into the user's work tree, all of it or nothing.

Everything is written beside the tree first and then moved into place; the originals are kept until
the end. Nothing is written over, no link is written through. An error moves the originals back,
after a kill the next process does. If something is in the way, the result stays a patch.
"""

from __future__ import annotations

import os
import stat

from rlm_ci.errors import LockedError, StorageError
from rlm_ci.system import files
from rlm_ci.text.printable import count, printable
from rlm_ci.values import Value
from rlm_ci.workspace.apply import staging
from rlm_ci.workspace.apply.staging import (
    ApplyRefusedError,
    StagedResult,
    blamed,
    blaming,
    locked_tree,
    make_folders,
    prune,
)
from rlm_ci.workspace.snapshot import SCRIPT, PathInspector, is_inside
from rlm_ci.workspace.tree_diff import LINK, differing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rlm_ci.git.objects import TreeEntry
    from rlm_ci.git.repository import Repository
    from rlm_ci.workspace.apply.staging import PathChange

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
                if not staging.holds(name, change.new, folder):
                    os.rename(name, self.staged.path_of("old", change.number), src_dir_fd=folder)
        except (FileNotFoundError, NotADirectoryError):
            if change.new is not None:
                raise ApplyRefusedError(_changed(change.path)) from None

    def _put(self, change: PathChange) -> None:
        """Put a file in its place, where only empty folders or this very file may be."""
        make_folders(self._root, change.path)
        source = self.staged.path_of("new", change.number)
        with files.folder_of(self._root, change.path) as (folder, name):
            staging.remove_empty(name, folder)
            if not (
                staging.put_in(source, name, folder) or staging.holds(name, change.new, folder)
            ):
                raise ApplyRefusedError(f"something is in the way: {printable(change.path)}")

    def _require_originals(self) -> None:
        for change in self._wanted:
            original = self.staged.path_of("old", change.number)
            if self.staged.taken(change) and not staging.holds(original, change.old):
                raise ApplyRefusedError(_changed(change.path))


def _changed(*paths: str) -> str:
    how_many = count(len(paths), "file")
    return f"the work tree has changed meanwhile: {how_many}, {printable(paths[0])}"
