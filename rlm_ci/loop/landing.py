"""The result comes home: into the user's work tree, all of it or nothing.

Everything is written beside first and then moved into place, the originals kept until the end.
An error moves them back. A kill in between leaves each file old or new, and whoever lands the
same result again completes it. No link is ever written through.
"""

from __future__ import annotations

import json
import os
import stat
from contextlib import contextmanager, suppress

from rlm_ci import files
from rlm_ci.errors import StorageError
from rlm_ci.loop.checkout import clear
from rlm_ci.loop.snapshot import LINK, SCRIPT, Places, parents
from rlm_ci.texts import count, printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rlm_ci.git import Repository
    from rlm_ci.objects import Entry

#: Beside the files, so that moving is one step; the rules of a snapshot leave it out.
STAGING = ".rlm-ci-landing.tmp"
_PLAN = "plan.json"
_PLAN_LIMIT = 1 << 16
_BATCH = 64


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


class Landing:
    """Moves ``wanted`` into the tree at ``root``. ``plan`` names this very landing."""

    def __init__(self, root: str, plan: str, wanted: list[Change]) -> None:
        self._root = os.path.realpath(root)
        self._plan = plan
        self._wanted = wanted
        self._staging = os.path.join(self._root, STAGING)
        self._done: list[tuple[Change, str]] = []
        self._made: list[str] = []

    def obstacle(self, before: Mapping[str, Entry], now: Mapping[str, Entry]) -> str:
        """Why nothing may be touched, or "": the work tree is no longer what it was."""
        if self._is_of_another() and os.listdir(self._place("old", "")):
            return f"an earlier result was landed half; its originals lie in {STAGING}/old"
        ours = {change.path: change for change in self._wanted}
        odd = []
        for path in sorted(before.keys() | now.keys()):
            if now.get(path) != before.get(path):
                change = ours.get(path)
                if change is None or not self._is_half_done(change, now.get(path)):
                    odd.append(path)
        if odd:
            files_changed = count(len(odd), "file")
            return f"the work tree has changed meanwhile: {files_changed}, {printable(odd[0])}"
        places = Places(self._root)
        for change in self._wanted:
            if change.old is not None or change.path in now:
                continue
            status = places.look(change.path)
            if status is not None and not stat.S_ISDIR(status.st_mode):
                return f"a file that git ignores stands in the way: {printable(change.path)}"
        return ""

    def land(self, repository: Repository) -> Landed:
        """Do it; an error undoes what was done and is told as the reason."""
        try:
            self._stage(repository)
            self._move()
        except OSError as error:
            undone = self._undo()
            kept = "" if undone else f"; originals lie in {STAGING}/old"
            return Landed(f"{error.strerror}: {printable(str(error.filename))}{kept}")
        except BaseException:
            self._undo()
            raise
        self.tidy()
        return Landed(changed=tuple(change.path for change in self._wanted))

    def tidy(self) -> None:
        """Forget the originals of this landing, and what a kill has left of it."""
        if not self._is_of_another():
            with suppress(OSError):
                clear(self._staging)

    # ── before ──

    def _is_of_another(self) -> bool:
        return self._left_behind() not in (None, self._plan)

    def _left_behind(self) -> str | None:
        """The plan of a landing that was cut off; None without one."""
        try:
            record = json.loads(files.read(os.path.join(self._staging, _PLAN), _PLAN_LIMIT))
            return str(record["plan"])
        except (files.UnreadableError, ValueError, KeyError, TypeError):
            return None

    def _is_half_done(self, change: Change, now: Entry | None) -> bool:
        if self._left_behind() != self._plan:
            return False
        if now is None:
            return change.new is None or os.path.lexists(self._place("old", change.number))
        return change.new is not None and (now.mode, now.oid) == (change.new.mode, change.new.oid)

    def _place(self, kind: str, number: int | str) -> str:
        return os.path.join(self._staging, kind, str(number))

    # ── the moves ──

    def _stage(self, repository: Repository) -> None:
        """Write every new content beside the tree, durably."""
        if self._left_behind() != self._plan:
            clear(self._staging)
            for kind in ("new", "old"):
                os.makedirs(os.path.join(self._staging, kind), 0o700)
            plan = json.dumps({"plan": self._plan}).encode()
            files.write(os.path.join(self._staging, _PLAN), plan, 0o600)
        fresh = [change for change in self._wanted if change.new is not None]
        for start in range(0, len(fresh), _BATCH):
            batch = fresh[start : start + _BATCH]
            contents = repository.read(*(change.new.oid for change in batch if change.new))
            for change, content in zip(batch, contents, strict=True):
                if content is None:
                    raise StorageError("a content of the result is gone", where=change.path)
                self._write(change, content)

    def _write(self, change: Change, content: bytes) -> None:
        place = self._place("new", change.number)
        clear(place)
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
            stream.write(content)
            before = Places(self._root).look(change.path)
            if before is not None and stat.S_ISREG(before.st_mode):
                kept = stat.S_IMODE(before.st_mode) & 0o777
                readers = (kept & 0o444) >> 2
                os.fchmod(descriptor, kept | readers if is_script else kept & ~0o111)
            stream.flush()
            os.fsync(descriptor)

    def _move(self) -> None:
        for change in self._wanted:
            if change.new is None:
                self._retire(change)
        for change in self._wanted:
            if change.new is None:
                self._prune(change.path)
        for change in self._wanted:
            if change.new is not None:
                self._replace(change)

    def _retire(self, change: Change) -> None:
        """Take a file away that the result no longer has."""
        backup = self._place("old", change.number)
        with suppress(FileNotFoundError), self._folder(change.path) as (folder, name):
            os.rename(name, backup, src_dir_fd=folder)
        if os.path.lexists(backup):  # by now, or before we were cut off
            self._done.append((change, "retired"))

    def _replace(self, change: Change) -> None:
        """Put a file in its place, the one that stood there kept under another name."""
        self._make_folders(change.path)
        backup = self._place("old", change.number)
        with self._folder(change.path) as (folder, name):
            _remove_empty(name, folder)
            existed = _exists(name, folder)
            if existed and change.old is not None and not os.path.lexists(backup):
                os.link(name, backup, src_dir_fd=folder, follow_symlinks=False)
            os.replace(self._place("new", change.number), name, dst_dir_fd=folder)
            self._done.append((change, "replaced" if change.old is not None else "added"))

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

    @contextmanager
    def _folder(self, path: str) -> Iterator[tuple[int, str]]:
        """The open folder of ``path``, no link on the way followed, and its name in there."""
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        folders = path.split("/")
        descriptor = os.open(self._root, flags)
        try:
            for name in folders[:-1]:
                inner = os.open(name, flags, dir_fd=descriptor)
                os.close(descriptor)
                descriptor = inner
            yield descriptor, folders[-1]
        finally:
            os.close(descriptor)

    # ── after ──

    def _undo(self) -> bool:
        """Move everything back; whether all of it is where it was."""
        whole = True
        for change, what in reversed(self._done):
            try:
                if what == "added":
                    with self._folder(change.path) as (folder, name):
                        os.unlink(name, dir_fd=folder)
                    continue
                self._make_folders(change.path)
                with self._folder(change.path) as (folder, name):
                    os.replace(self._place("old", change.number), name, dst_dir_fd=folder)
            except OSError:
                whole = False
        for made in reversed(self._made):
            with suppress(OSError), self._folder(made) as (folder, name):
                os.rmdir(name, dir_fd=folder)
        if whole:
            self.tidy()
        return whole


def _remove_empty(name: str, parent: int) -> None:
    """Make room where a folder stands that holds nothing but folders; git knows none of them."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        folder = os.open(name, flags, dir_fd=parent)
    except OSError:  # there is none
        return
    try:
        for inner in os.listdir(folder):
            _remove_empty(inner, folder)
    finally:
        os.close(folder)
    with suppress(OSError):
        os.rmdir(name, dir_fd=parent)


def _exists(name: str, folder: int) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True
