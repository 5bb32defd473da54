"""The change that is judged: from an event, a Git hook, two refs, a commit, index or work tree.

A :class:`ChangeSet` counts its lines by ``git diff --numstat``; only ``hunks`` reads the patch.
"""

from __future__ import annotations

import os
from functools import cached_property
from itertools import chain

from rlm_ci.change.numstat import LineCount, LineCounting, beyond, parse
from rlm_ci.errors import ConfigError
from rlm_ci.git import tracked
from rlm_ci.git.objects import blobs_of, parse_closed, parse_rows
from rlm_ci.system import files
from rlm_ci.text.object_id import is_object_id
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from rlm_ci.change.agent_authors import CommitAuthors
    from rlm_ci.change.commit_messages import CommitMessage
    from rlm_ci.git.patches import Hunk, PatchDiff
    from rlm_ci.git.repository import Repository

#: Triggers of changes from outside, which the base's policy judges.
OUTSIDE = ("pull_request", "push", "merge_group", "range")
#: What is said of a change without a file, of commits or not.
NOTHING = {
    "index": "nothing is staged", "worktree": "nothing is changed",
    "range": "the head has nothing that the base lacks",
}  # fmt: skip
#: From this size on, git takes a file for a binary one (core.bigFileThreshold).
_BIG_FILE = 512 << 20


class FileChange(LineCount):
    """One file of a change, with both of its sides.

    ``status`` is git's letter (A, C, D, M, R, T); modes and object ids are those of the
    two sides, zeros for a missing one; ``old_path`` differs from ``path`` for a rename.
    """

    old_path: str = ""
    status: str = ""
    old_mode: str = "000000"
    new_mode: str = "000000"
    old_oid: str = ""
    new_oid: str = ""


class PullRequest(Value):
    """What an event says of a pull request: hostile texts of its author.

    ``overrides`` are checks that a person overrides, with the reason, as GitHub confirms.
    """

    number: int
    title: str = ""
    body: str = ""
    labels: tuple[str, ...] = ()
    from_fork: bool = False
    author: str = ""
    by_bot: bool = False
    overrides: tuple[tuple[str, str], ...] = ()


class UntrackedFiles(Value):
    """Untracked files; folders that cannot be opened; those that tools fill, with their files."""

    paths: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()
    left_out: Mapping[str, int] = {}


class ChangeSet(Value):
    """A change. ``base``, ``head`` and ``merge_base`` are commits (or the empty tree).

    ``trigger`` is one of OUTSIDE, ``commit``, ``index`` or ``worktree``. ``target`` is the
    branch that the change goes to, if known. ``also`` are further parents of a merge: only files
    that differ from every side are changed.
    """

    repository: Repository
    trigger: str
    base: str | None = None
    head: str | None = None
    merge_base: str | None = None
    name: str | None = None
    target: str | None = None
    pull_request: PullRequest | None = None
    label: str = ""
    also: tuple[str, ...] = ()

    @property
    def worktree(self) -> bool:
        """Whether it is (partly) uncommitted."""
        return self.trigger in ("index", "worktree")

    @property
    def policy_commit(self) -> str | None:
        """The commit whose configuration judges this change; None for the working tree's."""
        return self.base if self.trigger in OUTSIDE else None

    def count(self, *, renames: bool = True, attributes: str | None = None) -> LineCounting:
        """Begin to count the lines of committed trees, as ``git diff --numstat -z -M`` does.

        ``attributes`` is a folder with the ``.gitattributes`` files that decide what is
        binary.
        """
        options = ("--numstat", "-M" if renames else "--no-renames")
        start, trees = self.repository.start_diff, self._trees()
        return LineCounting(
            lambda within: start(*trees, *options, attributes=attributes, within=within),
            lambda: (self._diff(other, options, attributes) for other in self.also),
            renames=renames,
        )

    def _diff(self, old: str, options: tuple[str, ...], attributes: str | None = None) -> bytes:
        """``git diff`` of the new side against ``old``."""
        if not self.worktree:
            trees = old, self._trees()[1]
            with self.repository.start_diff(*trees, *options, attributes=attributes) as pending:
                return pending.finish()
        where = ("--cached",) if self.trigger == "index" else ()
        return self.repository.diff_worktree(*where, *options, old)

    def _old_side(self) -> str:
        return self._trees()[0] if not self.worktree else self.head or self.repository.empty_tree()

    def files(self, *, renames: bool = True) -> list[FileChange]:
        """The changed files with both sides, counted in the same way."""
        options = ("--raw", "--numstat", "--no-abbrev", "-M" if renames else "--no-renames")
        changes = _parse_files(self._diff(self._old_side(), options))
        for side in self.also:
            other = _parse_files(self._diff(side, options))
            moved = [
                {change.path for change in some if change.status == "R"}
                for some in (changes, other)
            ]
            changes = beyond(changes, other, moved[0] ^ moved[1])
        if self.trigger == "index":
            why = "it is in conflict: resolve it, then git add"
            changes = [
                change.replace(unmeasured=why) if change.status == "U" else change
                for change in changes
            ]
        if self.trigger == "worktree":
            root = self.repository.root
            changes = [
                _looked_at(root, change) if change.status == "D" else change for change in changes
            ]
            new = self._new(self.untracked.paths) if self.untracked.paths else []
            new += map(_closed, self.untracked.closed)
            changes = _merge(changes, new) if new else changes
        return changes

    @cached_property
    def untracked(self) -> UntrackedFiles:
        """What is in the work tree, and neither tracked nor ignored."""
        from rlm_ci.change import tool_folders

        if self.repository.git_dir is None:
            return UntrackedFiles()
        with self.repository.start_untracked() as pending:
            listed = _decode(pending.finish()).split("\0")[:-1]
        paths, left_out = tool_folders.part(listed)
        return UntrackedFiles(tuple(paths), tuple(parse_closed(pending.warned)), left_out)

    @cached_property
    def authors(self) -> CommitAuthors:
        """Who wrote its commits; none of a change that is not committed."""
        from rlm_ci.change import agent_authors

        if self.worktree or self.head is None:
            return agent_authors.CommitAuthors()
        return agent_authors.of_messages(self.repository, self.messages)

    @cached_property
    def messages(self) -> tuple[CommitMessage, ...]:
        """Its commits with their messages, newest first; none of one that is not committed."""
        from rlm_ci.change import commit_messages

        if self.worktree or self.head is None:
            return ()
        bases = {commit for commit in (self.base, self.merge_base, *self.also) if commit}
        return commit_messages.of_range(self.repository, self.head, bases)

    def _new(self, paths: Sequence[str]) -> list[FileChange]:
        """The untracked files of a work tree, each as it would be once added."""
        by_path = {path: _uncounted(self.repository.root, path) for path in paths}
        left = [path for path, change in by_path.items() if change is None]
        by_path |= {
            file.path: file for file in _parse_files(_diff_untracked(self.repository, left))
        }
        return [change for change in by_path.values() if change is not None]

    def _trees(self) -> tuple[str, str]:
        if self.merge_base is None or self.head is None:
            raise ValueError(f"a change of the {self.trigger} has no two trees")
        return self.merge_base, self.head

    def names(self) -> list[str]:
        """The changed paths, without untracked ones."""
        return list(self.kinds)

    def all_names(self) -> list[str]:
        """The same, with the untracked ones of a work tree: a file may have moved there."""
        names = self.names()
        if self.trigger == "worktree":
            tracked = set(names)
            names += [path for path in self.untracked.paths if path not in tracked]
        return names

    @cached_property
    def kinds(self) -> dict[str, str]:
        """The same, each with git's letter: A, D, M or T."""
        return {path: row[-1] for path, row in self._rows.items()}

    def blobs(self, path: str) -> tuple[str, str]:
        """The object ids of a changed file on both sides; "" where it is no regular file.

        Of a work tree the new side is "", since git has not read it.
        """
        return blobs_of(self._rows[path]) if path in self._rows else ("", "")

    @cached_property
    def _rows(self) -> dict[str, str]:
        """The changed paths, each with what ``git diff --raw`` says of it."""
        options = ("--raw", "--no-abbrev", "--no-renames")
        rows = parse_rows(self._diff(self._old_side(), options))
        for side in self.also:
            other = parse_rows(self._diff(side, options))
            rows = {path: row for path, row in rows.items() if path in other}
        return rows

    def sizes(self, paths: Sequence[str]) -> list[int]:
        """The bytes of each of these files as it is now; 0 for a deleted one."""
        if self.trigger == "worktree":
            return [_size(os.path.join(self.repository.root, path)) for path in paths]
        side = ":0" if self.trigger == "index" else self.head
        return [
            max(0, size) for size in self.repository.sizes([f"{side}:{path}" for path in paths])
        ]

    def hunks(self, context: int = 3) -> tuple[dict[str, tuple[Hunk, ...]], list[str]]:
        """The hunks of each text file by its new path, and the paths that cannot be parsed.

        ``context`` is the number of unchanged lines around each change.
        """
        from rlm_ci.git.patches import parse

        # A file that one side of a merge has deleted is no rename of the other's.
        find = "--no-renames" if self.also else "-M"
        options = ("--raw", "--no-abbrev", find, "--patch", f"--unified={context}")
        by_path, broken = parse(self._diff(self._old_side(), options))
        if self.also:
            inside = frozenset(self.names())
            by_path = {path: hunks for path, hunks in by_path.items() if path in inside}
            broken = [path for path in broken if path in inside]
        return by_path, broken

    def diff(self) -> PatchDiff:
        """The changed files with their hunks."""
        return diff_of(self.files(), *self.hunks())

    def read(self, path: str, limit: int, *, old: bool = False) -> bytes | None:
        """The content of a file of at most ``limit`` bytes on one side.

        None when it is not there, no file, or larger.
        """
        if self.trigger == "worktree" and not old:
            try:
                return tracked.read(self.repository, path, limit)
            except files.UnreadableError:
                return None
        side = self.merge_base if old else ":0" if self.trigger == "index" else self.head
        if side is None:  # before the first commit there is no old side
            return None
        return self.repository.read_small([f"{side}:{path}"], limit)[0]


def diff_of(
    files: Iterable[FileChange], hunks: Mapping[str, tuple[Hunk, ...]], failed: Collection[str] = ()
) -> PatchDiff:
    """Files with their hunks by path; those of ``failed`` cannot be read."""
    from rlm_ci.git.patches import UNREADABLE, FileDiff, PatchDiff

    diffs = []
    for file in files:
        absent = UNREADABLE if file.path in failed else ""
        if file.added is None and file.path not in hunks:
            absent = absent or "the file is binary"
        parsed = None if absent else hunks.get(file.path, ())
        diffs.append(FileDiff(file.path, file.old_path or file.path, file.status, parsed, absent))
    return PatchDiff(tuple(diffs))


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _parse_raw(fields: Iterator[str], first: str) -> FileChange:
    old_mode, new_mode, old_oid, new_oid, status = first[1:].split(" ")
    old_path = path = next(fields)
    if status[0] in "RC":
        path = next(fields)
    sides = (old_path, status[0], old_mode, new_mode, old_oid, new_oid)
    return FileChange(path, None, None, None, *sides)


def _parse_files(data: bytes) -> list[FileChange]:
    """The records of ``git diff --raw --numstat -z``: first all raw ones, then the counts."""
    fields = iter(_decode(data).split("\0"))
    raw: dict[str, FileChange] = {}
    counted: dict[str, FileChange] = {}
    for field in fields:
        if field.startswith(":"):
            change = _parse_raw(fields, field)
            raw[change.path] = change
        else:
            for count in parse(chain((field,), fields)):
                counted[count.path] = raw[count.path].replace(
                    added=count.added, deleted=count.deleted
                )
    return list(counted.values())


def _size(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0


def _looked_at(root: str, change: FileChange) -> FileChange:
    """A file that git takes for deleted; it may be in a folder that cannot be opened."""
    try:
        os.lstat(os.path.join(root, change.path))
    except PermissionError as error:
        return change.replace(unmeasured=error.strerror)
    except OSError:
        pass
    return change


def _closed(folder: str) -> FileChange:
    why = "the folder cannot be opened"
    return FileChange(folder, 0, 0, why, old_path=folder, status="A", new_mode="040000")


def _uncounted(root: str, path: str) -> FileChange | None:
    """An untracked file that git cannot count, or would take forever for; None for any other."""
    name = path.rstrip("/")
    change = FileChange(name, 1, 0, old_path=name, status="A", new_mode="100644")
    full_path = os.path.join(root, path)
    if path != name:  # another repository: added, it would be one line, the submodule
        return change.replace(new_mode="160000")
    if os.path.islink(full_path):
        return None
    try:
        descriptor = files.open_regular(full_path, os.O_RDONLY)
        size = os.fstat(descriptor).st_size
        os.close(descriptor)
    except OSError as error:
        return change.replace(added=0, unmeasured=error.strerror)
    return change.replace(added=None, deleted=None) if size > _BIG_FILE else None


def _diff_untracked(repository: Repository, paths: Sequence[str]) -> bytes:
    """Count untracked files as git would once added: filters and encodings change the lines."""
    if not paths:
        return b""
    from tempfile import TemporaryDirectory

    empty = repository.empty_tree()
    try:
        holder = TemporaryDirectory(prefix="rlm-ci-", ignore_cleanup_errors=True)
    except OSError as error:
        raise files.storage_error(error, "the folder of temporary files") from None
    with holder as folder:
        index = {"GIT_INDEX_FILE": os.path.join(folder, "index")}
        # git reads the work tree and no object, so any id will do.
        rows = "".join(f"100644 {empty}\t{path}\0" for path in paths)
        # Attributes that a sparse checkout leaves out are read from the index.
        for path, entry in tracked.left_out(
            repository, _attribute_places(repository, paths)
        ).items():
            rows += f"{entry.mode} {entry.oid}\t{path}\0"
        stdin = rows.encode("utf-8", "surrogateescape")
        repository.run("update-index", "-z", "--index-info", stdin=stdin, env=index)
        options = ("--raw", "--numstat", "--no-abbrev", "--no-renames")
        return repository.diff_worktree(*options, empty, env=index)


def _attribute_places(repository: Repository, paths: Sequence[str]) -> list[str]:
    """Where attribute files for ``paths`` may be, and are not in the work tree."""
    folders = {""}
    for path in paths:
        while (path := path.rpartition("/")[0]) and path not in folders:
            folders.add(path)
    places = [f"{folder}/.gitattributes".lstrip("/") for folder in folders]
    return [path for path in places if not os.path.lexists(os.path.join(repository.root, path))]


def _merge(tracked: list[FileChange], untracked: list[FileChange]) -> list[FileChange]:
    """All of them; a file that left the index and stayed in the work tree is one."""
    gone = {change.path: change for change in tracked if change.status == "D"}
    both = {change.path for change in untracked if change.path in gone}
    return [change for change in tracked if change.path not in both] + [
        change.replace(
            status="M",
            deleted=None if change.added is None else gone[change.path].deleted,
            old_mode=gone[change.path].old_mode,
            old_oid=gone[change.path].old_oid,
        )
        if change.path in both
        else change
        for change in untracked
    ]


# ── where a change comes from ──


def require(repository: Repository, ref: str, role: str, source: str) -> str:
    """The commit that ``ref`` names. Raises ConfigError with the command that fetches it."""
    commit = repository.resolve(ref)[0]
    if commit is None:
        from rlm_ci.git.errors import fetch_hint
        from rlm_ci.text.printable import printable

        branch = repository.head_ref() if ref == "HEAD" else None
        if branch:
            name = printable(branch.removeprefix("refs/heads/"))[:80]
            raise ConfigError(
                f"the branch {name!r} has no commit yet",
                where=source,
                hint="commit first, or check what is staged: rlm-ci check --staged",
            )
        shown = printable(ref)[:80]
        raise ConfigError(
            f"the {role} {shown!r} is not in this clone",
            where=source,
            hint=fetch_hint(shown, repository.remote(), shallow=repository.is_shallow()),
        )
    return commit


def from_range(
    repository: Repository, base: str, head: str, source: str, **fields: Any
) -> ChangeSet:
    """The change from the merge base of two refs to the second one."""
    fields.setdefault("trigger", "range")
    ends = repository.range(base, head)
    if ends:
        return ChangeSet(repository, base=ends[0], head=ends[1], merge_base=ends[2], **fields)
    # One by one, to name the missing one.
    base_commit = require(repository, base, "base", source)
    head_commit = require(repository, head, "head", source)
    merge_base = repository.merge_base(base_commit, head_commit)
    if merge_base is None:
        from rlm_ci.git.errors import fetch_hint

        hint = "name a base with a common history"
        if source.startswith("--"):  # and no hook
            hint += ", or check one commit with --commit"
        if repository.is_shallow():
            hint = fetch_hint("", repository.remote(), shallow=True)
        raise ConfigError(
            "base and head have no common commit in this clone", where=source, hint=hint
        )
    return ChangeSet(
        repository, base=base_commit, head=head_commit, merge_base=merge_base, **fields
    )


def from_commit(repository: Repository, ref: str, source: str = "--commit") -> ChangeSet:
    """One commit against its first parent; the empty tree for a root commit."""
    commit = require(repository, ref, "commit", source)
    parents = repository.parents(commit)
    if not parents and repository.is_shallow():
        from rlm_ci.git.errors import fetch_hint

        raise ConfigError(
            f"the parent of {commit[:12]} is not in this clone",
            where=source,
            hint=fetch_hint("", repository.remote(), shallow=True),
        )
    parent = parents[0] if parents else repository.empty_tree()
    return ChangeSet(repository, "commit", base=parent, head=commit, merge_base=parent)


def from_local(repository: Repository, trigger: str) -> ChangeSet:
    """What is staged (``index``), or all that is not committed (``worktree``), against HEAD.

    During a merge, what is staged is what differs from both of its sides.
    """
    head = repository.head_commit() if repository.git_dir else None
    merged = _merging(repository) if head and trigger == "index" else ()
    return ChangeSet(repository, trigger, base=head, head=head, merge_base=head, also=merged)


def _merging(repository: Repository) -> tuple[str, ...]:
    """The commits of MERGE_HEAD."""
    try:
        noted = files.read(os.path.join(repository.git_dir or "", "MERGE_HEAD"), 1 << 16)
    except files.UnreadableError:
        return ()
    return tuple(line for line in _decode(noted).split("\n") if is_object_id(line))
