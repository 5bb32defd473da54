"""The result comes home: into the user's work tree, all of it or nothing.

Everything is written beside first and then moved into place, the originals kept until the end.
What a move has taken out is looked at, and nothing is ever written over: an editor may save
meanwhile. An error moves the originals back. A kill in between leaves each file old or new, or
its original beside, and whoever lands the same result again completes it. No link is ever
written through.

What stands in the way is a reason to leave the result a patch; a disk that fails is an error, which
is gone another time.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from contextlib import suppress

from rlm_ci import files
from rlm_ci.errors import StorageError
from rlm_ci.loop import moves
from rlm_ci.loop.snapshot import LINK, SCRIPT, Places, parents
from rlm_ci.texts import count, printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager

    from rlm_ci.git import Repository
    from rlm_ci.objects import Entry

#: Beside the files, so that moving is one step; the rules of a snapshot leave it out.
STAGING = ".rlm-ci-landing.tmp"
_PLAN = "plan.json"
_PLAN_LIMIT = 1 << 16
_BATCH = 64
#: Errors that tell what stands in the tree, what is mounted there too: to try again would not help.
#: All others are of the disk, or of what it allows.
_IN_THE_WAY = frozenset((
    errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENOTEMPTY, errno.ELOOP,
    errno.EXDEV, errno.EBUSY, errno.ENAMETOOLONG,
))  # fmt: skip


class Landed(Value):
    """Whether the result is in the work tree: it is, unless there is a ``reason``."""

    reason: str = ""
    changed: tuple[str, ...] = ()

    @property
    def done(self) -> bool:
        return not self.reason


class Change(Value):
    """One path that differs: what it was and what it becomes; None where it is not."""

    number: int
    path: str
    old: Entry | None
    new: Entry | None


def changes(before: Mapping[str, Entry], after: Mapping[str, Entry]) -> list[Change]:
    """All differences of two trees, numbered by the order of their paths."""
    every = before.keys() | after.keys()
    paths = sorted(path for path in every if before.get(path) != after.get(path))
    return [Change(n, path, before.get(path), after.get(path)) for n, path in enumerate(paths)]


class _RefusedError(Exception):
    """Why it cannot be gone on: somebody else is at work in the tree."""


class Landing:
    """Moves ``wanted`` into the tree at ``root``. ``plan`` names this very landing.

    First ``stage``, then a look at the tree for ``obstacle``, then ``land`` or ``give_up``: the
    less there is to do between the look and the moves, the less can happen there.
    """

    def __init__(self, root: str, plan: str, wanted: list[Change]) -> None:
        self._root = os.path.realpath(root)
        self._plan = plan
        self._wanted = wanted
        self._staging = os.path.join(self._root, STAGING)
        self._done: list[tuple[Change, str]] = []
        self._made: list[str] = []

    def stage(self, repository: Repository) -> str:
        """Write every new content beside the tree, durably; why that cannot be, or "".

        Raises StorageError for a disk that fails, and for a content that is gone.
        """
        if self._left_behind() != self._plan and self._has_originals():
            return f"an earlier result was landed half; its originals lie in {STAGING}/old"
        try:
            self._stage(repository)
        except OSError as error:
            self.give_up()
            return self._blamed(error)
        except BaseException:
            self.give_up()
            raise
        return ""

    def obstacle(self, before: Mapping[str, Entry], now: Mapping[str, Entry]) -> str:
        """Why nothing may be touched, or "": the work tree is no longer what it was."""
        ours = {change.path: change for change in self._wanted}
        odd = []
        for path in sorted(before.keys() | now.keys()):
            if now.get(path) != before.get(path):
                change = ours.get(path)
                if change is None or not self._is_half_done(change, now.get(path)):
                    odd.append(path)
        if odd:
            return _changed(*odd)
        places = Places(self._root)
        for change in self._wanted:
            if change.old is not None or change.path in now:
                continue
            status = places.look(change.path)
            if status is not None and not stat.S_ISDIR(status.st_mode):
                return f"a file that git ignores stands in the way: {printable(change.path)}"
        return ""

    def land(self) -> Landed:
        """Do it; an error undoes what was done. Raises StorageError for a disk that fails."""
        try:
            self._move()
            self._require_originals()
        except (OSError, _RefusedError) as error:
            left = "" if self._undo() else f"; originals lie in {STAGING}/old"
            if isinstance(error, OSError):
                return Landed(self._blamed(error, left))
            return Landed(f"{error}{left}")
        except BaseException:
            self._undo()
            raise
        self._tidy()
        return Landed(changed=tuple(change.path for change in self._wanted))

    def give_up(self) -> None:
        """Forget what was staged; originals that a kill has left behind stay."""
        if not self._has_originals():
            self._tidy()

    def _tidy(self) -> None:
        """Throw everything away; first the originals stop being ones, in one step.

        A kill among the many steps that follow must not leave a landing that looks half done.
        """
        with suppress(OSError):
            os.rename(self._place("old"), self._place("spent"))
        with suppress(OSError):
            files.clear(self._staging)

    def _blamed(self, error: OSError, left: str = "") -> str:
        """The reason that an error is, where the tree is to blame; else StorageError is raised."""
        told = error.strerror or type(error).__name__
        place = printable(os.fsdecode(error.filename)) if _is_path(error.filename) else ""
        if error.errno in _IN_THE_WAY:
            return f"{told}: {place}{left}"
        raise StorageError(
            f"the result cannot be put into the work tree: {told}{left}",
            where=place or self._root,
            hint="mend that, and resume the run",
        ) from None

    # ── before ──

    def _left_behind(self) -> str | None:
        """The plan of a landing that was cut off; None without one."""
        try:
            data = files.read_inside(self._root, f"{STAGING}/{_PLAN}", _PLAN_LIMIT)
            return str(json.loads(data)["plan"])
        except (files.UnreadableError, ValueError, KeyError, TypeError, RecursionError):
            return None

    def _has_originals(self) -> bool:
        old = self._place("old")
        try:
            return os.path.realpath(old) == old and bool(os.listdir(old))
        except OSError:
            return False

    def _is_half_done(self, change: Change, now: Entry | None) -> bool:
        """Whether what stands there is what this landing has left, or would make of it."""
        if now is None:
            return change.new is None or os.path.lexists(self._place("old", change.number))
        return _is_same(now, change.new)

    def _place(self, kind: str, *number: int) -> str:
        return os.path.join(self._staging, kind, *map(str, number))

    def _stage(self, repository: Repository) -> None:
        if self._left_behind() != self._plan:
            files.clear(self._staging)
            os.mkdir(self._staging, 0o700)
            plan = json.dumps({"plan": self._plan}).encode()
            files.write(self._place(_PLAN), plan, 0o600)
        for kind in ("new", "old"):
            os.makedirs(self._place(kind), 0o700, exist_ok=True)
        fresh = [
            change
            for change in self._wanted
            if change.new and not moves.holds(self._place("new", change.number), change.new)
        ]
        for start in range(0, len(fresh), _BATCH):
            batch = fresh[start : start + _BATCH]
            contents = repository.read(*(change.new.oid for change in batch if change.new))
            for change, content in zip(batch, contents, strict=True):
                if content is None:
                    raise StorageError(
                        "a content of the result is gone",
                        where=printable(change.path),
                        hint="start a new run",
                    )
                self._write(change, content)

    def _write(self, change: Change, content: bytes) -> None:
        place = self._place("new", change.number)
        files.clear(place)
        mode = change.new.mode if change.new else ""
        if mode == LINK:
            os.symlink(content, os.fsencode(place))
            return
        is_script = mode == SCRIPT
        descriptor = os.open(
            place,
            os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC,
            0o777 if is_script else 0o666,
        )
        with os.fdopen(descriptor, "wb") as stream:
            before = Places(self._root).look(change.path)
            if before is not None and stat.S_ISREG(before.st_mode):
                kept = stat.S_IMODE(before.st_mode) & 0o777
                readers = (kept & 0o444) >> 2
                os.fchmod(descriptor, kept | readers if is_script else kept & ~0o111)
            stream.write(content)  # last: what is whole has its mode, too
            stream.flush()
            os.fsync(descriptor)

    # ── the moves ──

    def _move(self) -> None:
        for change in self._wanted:
            if change.old is not None:
                self._take(change)
                if change.new is not None:
                    self._put(change)
        for change in self._wanted:
            if change.new is None:
                self._prune(change.path)
        for change in self._wanted:
            if change.old is None:
                self._put(change)

    def _take(self, change: Change) -> None:
        """Take away what stands at its path; it is looked at when all is done."""
        backup = self._place("old", change.number)
        if os.path.lexists(backup):  # before we were cut off
            self._done.append((change, "taken"))
            return
        try:
            with self._folder(change.path) as (folder, name):
                if not moves.holds(name, change.new, folder):
                    self._done.append((change, "taken"))
                    os.rename(name, backup, src_dir_fd=folder)
        except (FileNotFoundError, NotADirectoryError):
            if change.new is not None:
                raise _RefusedError(_changed(change.path)) from None

    def _put(self, change: Change) -> None:
        """Put a file in its place, where nothing may stand but empty folders, or this very file."""
        self._make_folders(change.path)
        with self._folder(change.path) as (folder, name):
            moves.remove_empty(name, folder)
            source = self._place("new", change.number)
            self._done.append((change, "put"))  # now, or before we were cut off
            if not (moves.put_in(source, name, folder) or moves.holds(name, change.new, folder)):
                raise _RefusedError(f"something stands in the way: {printable(change.path)}")

    def _require_originals(self) -> None:
        """Raise _RefusedError where something else was taken away than the file that was known."""
        for change, what in self._done:
            if what == "taken" and not moves.holds(self._place("old", change.number), change.old):
                raise _RefusedError(_changed(change.path))

    def _make_folders(self, path: str) -> None:
        for folder in reversed(list(parents(path))):
            with self._folder(folder) as (parent, name), suppress(FileExistsError):
                os.mkdir(name, dir_fd=parent)
                self._made.append(folder)

    def _prune(self, path: str) -> None:
        for folder in parents(path):
            try:
                with self._folder(folder) as (parent, name):
                    os.rmdir(name, dir_fd=parent)
            except OSError:
                return

    def _folder(self, path: str) -> AbstractContextManager[tuple[int, str]]:
        return moves.folder_of(self._root, path)

    # ── after ──

    def _undo(self) -> bool:
        """Move everything back; whether all of it is where it was.

        What was saved over a file of ours meanwhile stays where it is.
        """
        whole = True
        for change, what in reversed(self._done):
            undo = self._take_back if what == "put" else self._bring_back
            try:
                whole = undo(change) and whole
            except OSError:
                whole = False
        for made in reversed(self._made):
            with suppress(OSError), self._folder(made) as (folder, name):
                os.rmdir(name, dir_fd=folder)
        if whole:
            self._tidy()
        return whole

    def _take_back(self, change: Change) -> bool:
        """Take a file of ours away again, if it is still what we have put there."""
        place = self._place("new", change.number)
        with self._folder(change.path) as (folder, name):
            if not moves.is_one(place, name, folder):
                return True
            os.unlink(place)  # of two names for one file, neither would give way
            os.rename(name, place, src_dir_fd=folder)
            return moves.holds(place, change.new) or moves.put_in(place, name, folder)

    def _bring_back(self, change: Change) -> bool:
        """Put an original back, unless somebody has saved something there."""
        backup = self._place("old", change.number)
        if not os.path.lexists(backup):
            return True
        self._make_folders(change.path)
        with self._folder(change.path) as (folder, name):
            if not moves.put_in(backup, name, folder):
                return False
        files.clear(backup)
        return True


def _is_path(name: object) -> bool:
    """Whether an error names a file, and not an open one by its number, or none."""
    return isinstance(name, str | bytes) and bool(name)


def _changed(*paths: str) -> str:
    how_many = count(len(paths), "file")
    return f"the work tree has changed meanwhile: {how_many}, {printable(paths[0])}"


def _is_same(one: Entry | None, other: Entry | None) -> bool:
    """Whether both are the same file, wherever they were found."""
    if one is None or other is None:
        return one is other
    return (one.mode, one.oid) == (other.mode, other.oid)
