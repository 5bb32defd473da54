"""The private copy of the work tree in which the fix loop works, and the way back from it.

The user's ``.git`` is never written, the work tree only by ``apply_to``. The objects of a tree are
on the disk before its id is returned, so a journalled id can be restored after a kill.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from contextlib import suppress
from copy import copy as duplicate
from functools import lru_cache

from rlm_ci.errors import DamagedError, StorageError
from rlm_ci.system import files
from rlm_ci.text.printable import count, printable
from rlm_ci.workspace import snapshot
from rlm_ci.workspace.apply import ApplyOutcome, changes, land
from rlm_ci.workspace.checkout import Checkout
from rlm_ci.workspace.mounts import CompilerCaches, guests, make_shown_git, on_top
from rlm_ci.workspace.snapshot import (
    RESULT,
    PrivateGit,
    Snapshot,
    SnapshotLimits,
    encode,
    is_sha256,
    object_folders,
)
from rlm_ci.workspace.tree import ShownTree
from rlm_ci.workspace.tree_diff import differing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from rlm_ci.git.objects import TreeEntry
    from rlm_ci.git.repository import Repository
    from rlm_ci.workspace.checkout import RemovedFile

_RECORD = "snapshot.json"
_WORK, _VERDICT, _CACHES = _PASSING = ("work", "verdict", "caches")
_RECORD_LIMIT = 64 << 20
#: A whole patch that every git applies, byte for byte: no renames, no attributes, full ids.
_PATCH = (
    "-p", "--binary", "--full-index", "--no-renames", "--no-color", "--no-ext-diff",
    "--no-textconv", "--src-prefix=a/", "--dst-prefix=b/", "--diff-algorithm=myers", "-U3",
    "--no-indent-heuristic", f"-O{os.devnull}",
)  # fmt: skip
#: A heading that git writes and cannot read back, unless it is quoted: a folder's name ends
#: with a blank. Within a patch, no other line begins like this.
_SPACED = re.compile(rb"^diff --git a/(.{0,4096} /.{0,4096}) b/\1$", re.MULTILINE)
_STATUS = ("--raw", "--numstat", "--no-renames")
#: Bytes of ignored files beside a result.
_IMAGED = 1 << 30
#: Files that a status names.
_MOST_LINES = 100
#: How git's letters read in a status.
_LETTERS = {"A": "added", "D": "deleted", "M": "changed", "T": "changed in kind"}


class Workspace:
    """The copy at ``path``, made from ``snapshot``."""

    def __init__(
        self,
        run_folder: str,
        repository: Repository,
        environ: Mapping[str, str],
        *,
        bounds: SnapshotLimits | None = None,
        isolated: bool = True,
        skipped: Iterable[str] = (),
    ) -> None:
        """A fresh copy of the work tree below ``run_folder``, the run's folder.

        A resumed run starts from the snapshot that ``run_folder`` holds, without the folders
        ``skipped``. Not ``isolated``, dependencies are links, which an agent can write through.

        Raises ConfigError for a file that cannot be read and for a tree beyond ``bounds``,
        StorageError when the copy cannot be written, DamagedError for a broken record.
        """
        self._place = os.path.abspath(run_folder)
        self._repository = repository
        self._bounds = bounds or SnapshotLimits()
        self._isolated = isolated
        self._skipped = (*skipped, self._place)
        self._git = PrivateGit(os.path.join(self._place, "git"), environ)
        self._entries = lru_cache(3)(self._git.objects.tree)
        self._sizes: dict[str, int] = {}
        self.snapshot = self._recorded() or self._take()
        #: What tools keep from one command to the next.
        self.caches = CompilerCaches(os.path.join(self._place, _CACHES))
        #: The tree that the copy holds; None once a command or an agent may have changed it.
        self.settled: str | None = None
        self._copy = Checkout(self._git, os.path.join(self._place, _WORK), "work", self._bounds)
        self._shown_git = os.path.join(self._git.folder, "shown")
        self._fill(self._copy, self.snapshot.tree)
        if repository.git_dir:
            make_shown_git(self._shown_git, self._git, repository, self.snapshot, self.path)

    @property
    def path(self) -> str:
        """Where the copy lies on this machine."""
        return self._copy.path

    def removed_at(self, tree: str) -> tuple[RemovedFile, ...]:
        """What had to be taken out of the copy for it to hold ``tree``."""
        return self._copy.removed_at(tree)

    def recall(self, tree: str, removed: Iterable[Iterable[str]]) -> None:
        """Note what an earlier process, or the original of a replay, had taken out for ``tree``."""
        self._copy.recall(tree, removed)

    def shown(self, copy: Checkout | None = None) -> ShownTree:
        """What the sandbox must show: a copy, and what lies on top of it."""
        mounts = on_top(self._shown_git, self._repository, self.snapshot)
        if not self._isolated:
            # What lies on top of the copy is linked to there, and is where it is.
            mounts = tuple(mount for mount in mounts if mount.source != mount.target)
        folder = (copy or self._copy).path
        return ShownTree(folder, self._repository.root, on_top=mounts, writable=True)

    def discard(self) -> StorageError | None:
        """Remove the copies and caches; an error is returned, since the result is safe."""
        doubt = None
        for name in _PASSING:
            try:
                files.clear(os.path.join(self._place, name))
            except OSError as error:
                doubt = StorageError(
                    f"a copy of the work tree cannot be removed: {error.strerror}",
                    where=os.path.join(self._place, name),
                    hint="remove it yourself",
                )
        return doubt

    # ── trees ──

    def trees(self) -> Repository:
        """What reads all trees of the copy, at the place of the user's repository."""
        return self._git.at(self._repository.root)

    def tree(self) -> str:
        """The id of the tree that the copy holds now. Raises LimitError beyond the bounds."""
        return self._copy.tree()

    def settled_tree(self) -> str:
        """As ``tree``, but looks only if a command or an agent may have changed the copy."""
        if self.settled is None:
            self.settled = self.tree()
        return self.settled

    def reopen(self, copy: Checkout | None = None) -> None:
        """Make sure that the folder of a copy exists and that we may enter it."""
        (copy or self._copy).reopen()

    def restore(self, tree: str) -> None:
        """Make the copy hold ``tree`` again; what is ignored stays."""
        self._copy.restore(tree)

    def entries(self, tree: str) -> Mapping[str, TreeEntry]:
        """All files of a tree by path; those of the last trees are kept."""
        return self._entries(tree)

    def contents(self, oids: Iterable[str]) -> list[bytes | None]:
        """The blobs of these ids; None for one that is not there."""
        requested = list(oids)
        return self._git.objects.read(*requested) if requested else []

    def sizes(self, oids: Iterable[str]) -> Mapping[str, int]:
        """The bytes of these blobs, -1 for one that is not there; asked for once each."""
        unknown = [oid for oid in oids if oid not in self._sizes]
        if unknown:
            sizes = self._git.objects.sizes(unknown)
            self._sizes.update(zip(unknown, sizes, strict=True))
        return self._sizes

    def status(self, base: str, tree: str) -> str:
        """What changed from ``base`` to ``tree``, a line each, for prompts."""
        return _shown(self._git.objects.diff_trees(base, tree, *_STATUS))

    def account(self, tree: str, without: Iterable[str] = ()) -> tuple[str, bytes]:
        """Status and patch from the snapshot to ``tree``; the patch lacks the files ``without``."""
        base, objects = self.snapshot.tree, self._git.objects
        if tree == base:
            return "", b""
        with objects.start_diff(base, tree, *_STATUS) as rows:  # beside the other one
            patch = self.diff(base, tree, without)
            return _shown(rows.finish()), patch

    def diff(self, base: str, tree: str, without: Iterable[str] = ()) -> bytes:
        """The whole patch from one tree to the other, binary files included."""
        args = ["diff-tree", "-r", *_PATCH, base, tree, "--"]
        env = None
        if left_out := [f":(top,exclude,literal){path}" for path in without]:
            args += (":(top)", *left_out)
            env = {"GIT_LITERAL_PATHSPECS": "0"}  # which forbids such patterns
        patch = self._git.objects.run(*args, env=env)
        return _SPACED.sub(rb'diff --git "a/\1" "b/\1"', patch) if b" /" in patch else patch

    def keep(self, tree: str) -> None:
        """Note that ``tree`` is the result. Raises StorageError."""
        files.write(self._git.path(RESULT), f"{tree}\n".encode(), 0o600)

    # ── the last verdict, and the way back ──

    def fresh(self, tree: str) -> Checkout:
        """A second folder with ``tree``, without ignored files; its caches are fresh as well."""
        self.caches.renew()
        copy = Checkout(self._git, os.path.join(self._place, _VERDICT), "verdict", self._bounds)
        self._fill(copy, tree)
        return copy

    def image(self, tree: str) -> tuple[Checkout, list[str]]:
        """As ``fresh``, beside what git ignores in the user's work tree.

        With the paths that do not fit, or cannot be read.
        """
        copy, left_out, left = self.fresh(tree), [], _IMAGED
        for path in self.snapshot.ignored:
            source, target = (os.path.join(top, path) for top in (self._repository.root, copy.path))
            try:
                with files.folder_of(copy.path, path, make=True):
                    if (size := _size(source)) > left:
                        left_out.append(path)
                        continue
                    left -= size
                    if os.path.isdir(source) and not os.path.islink(source):
                        shutil.copytree(source, target, symlinks=True)
                    elif not os.path.lexists(target):
                        shutil.copy2(source, target, follow_symlinks=False)
            except (OSError, shutil.Error):
                left_out += [path] if os.path.lexists(source) else []
        return copy, left_out

    def restored(self, tree: str, base: str, is_protected: Callable[[str], bool]) -> str:
        """The id of ``tree`` with the paths that are protected as ``base`` has them."""
        changed = differing(self.entries(base), self.entries(tree))
        old = {path: before for path, (before, _) in changed.items() if is_protected(path)}
        rows = {path: (entry.mode, entry.oid) if entry else None for path, entry in old.items()}
        return self._with(tree, rows)

    def edited(self, tree: str, contents: Mapping[str, bytes]) -> str:
        """The id of ``tree`` with other contents in these files of it."""
        if not contents:
            return tree
        with tempfile.TemporaryDirectory(prefix="edited-", dir=self._place) as folder:
            for number, content in enumerate(contents.values()):
                files.write(os.path.join(folder, str(number)), content, 0o600)
            args = ("hash-object", "-w", "--no-filters", "--stdin-paths")
            names = "".join(f"{number}\n" for number in range(len(contents))).encode()
            oids = self._git.write(folder, "no-index", *args, stdin=names).decode().split()
        entries = self.entries(tree)
        pairs = zip(contents, oids, strict=True)
        return self._with(tree, {path: (entries[path].mode, oid) for path, oid in pairs})

    def _with(self, tree: str, rows: Mapping[str, tuple[str, str] | None]) -> str:
        """The id of ``tree`` with mode and object of these paths; None for one to leave out."""
        if not rows:
            return tree
        index = "fresh.index"
        snapshot.remove_index(self._git.path(index))
        self._git.read(self._git.folder, index, "read-tree", tree)
        nothing = ("0", "0" * len(tree))
        # First what goes: a file may become a folder, or a folder a file.
        ordered = sorted(rows.items(), key=lambda row: row[1] is not None)
        listed = "".join(f"{' '.join(row or nothing)}\t{path}\0" for path, row in ordered)
        args = ("update-index", "-z", "--index-info")
        self._git.write(self._git.folder, index, *args, stdin=encode(listed))
        return self._git.write_tree(self._git.folder, index)

    def apply_to(self, repository: Repository, tree: str) -> ApplyOutcome:
        """Bring ``tree`` into the user's work tree, whole, or say why not. Raises StorageError."""
        before = self.entries(self.snapshot.tree)
        path_changes = changes(before, self.entries(tree))

        def look() -> Mapping[str, TreeEntry]:
            try:
                listing = snapshot.look(self._git, repository, self._bounds, self._skipped)
                return self.entries(snapshot.store(self._git, repository.root, listing))
            except OSError as error:
                raise files.storage_error(error, repository.root) from None

        root = os.path.realpath(repository.root)
        return land(root, path_changes, self._git.objects, before, look)

    def branch(self, folder: str) -> Workspace:
        """A second copy of what the copy holds now, in ``folder``, to try something in."""
        other = duplicate(self)
        name = os.path.basename(folder)
        copied = Checkout(self._git, os.path.join(folder, _WORK), name, self._bounds)
        other._copy = copied  # noqa: SLF001 - it is one of us
        other.settled = None
        self._fill(copied, self.settled_tree())
        return other

    # ── beginnings ──

    def _recorded(self) -> Snapshot | None:
        """The snapshot of an earlier start, if there was one, and its objects."""
        path = os.path.join(self._place, _RECORD)
        try:
            snapshot = Snapshot.from_dict(json.loads(files.read(path, _RECORD_LIMIT)))
        except (files.UnreadableError, ValueError, KeyError, TypeError) as error:
            reason = f"{type(error).__name__}: {error}"
            if isinstance(error, files.UnreadableError):
                if error.missing:
                    return None
                reason = str(error)
            raise DamagedError(
                f"the record of the snapshot cannot be used: {printable(reason)[:200]}",
                where=path,
                hint="start a new run",
            ) from None
        self._git.make(object_folders(self._repository), sha256=is_sha256(snapshot.commit))
        return snapshot

    def forget(self) -> None:
        """Let a resumed run take a new snapshot: nothing was done with this one."""
        with suppress(OSError):
            os.unlink(os.path.join(self._place, _RECORD))

    def _take(self) -> Snapshot:
        taken = snapshot.take(self._git, self._repository, self._bounds, self._skipped)
        record = json.dumps(taken.to_dict(), indent=1).encode()
        files.write(os.path.join(self._place, _RECORD), record, 0o600)
        return taken

    def _fill(self, copy: Checkout, tree: str) -> None:
        beside = guests(self._repository.root, self.snapshot, isolated=self._isolated)
        if self._repository.git_dir:
            beside[".git"] = None if self._isolated else f"gitdir: {self._shown_git}\n"
        copy.fill(tree, beside)


def _size(path: str) -> int:
    """The bytes of a file, or of all files in a folder."""
    if os.path.islink(path) or not os.path.isdir(path):
        return 0 if not os.path.isfile(path) else os.path.getsize(path)
    paths = (os.path.join(top, name) for top, _, names in os.walk(path) for name in names)
    return sum(os.lstat(file).st_size for file in paths)


def _shown(rows: bytes) -> str:
    letters, counts = _parse_status(rows)
    lines = [
        f"{_LETTERS.get(letter, letter)}: {printable(path)} ({counts.get(path, 'binary')})"
        for path, letter in letters.items()
    ]
    if not lines:
        return "no changes\n"
    more = len(lines) - _MOST_LINES
    lines = lines[:_MOST_LINES] + ([f"and {count(more, 'more file')}"] if more > 0 else [])
    return "".join(f"{line}\n" for line in lines)


def _parse_status(rows: bytes) -> tuple[dict[str, str], dict[str, str]]:
    letters: dict[str, str] = {}
    counts: dict[str, str] = {}
    fields = iter(os.fsdecode(row) for row in rows.split(b"\0"))
    for field in fields:
        if field.startswith(":"):
            letters[next(fields)] = field.rpartition(" ")[2][:1]
        elif field:
            added, removed, path = field.split("\t", 2)
            if added != "-":
                counts[path] = f"+{added} -{removed}"
    return letters, counts
