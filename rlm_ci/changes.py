"""The change that is judged: from an event, a Git hook, two refs, a commit, index or tree.

A :class:`ChangeSet` knows its commits and counts its lines by ``git diff --numstat``; the
patch itself is read only when somebody asks for hunks.
"""

from __future__ import annotations

import os
from itertools import chain

from rlm_ci import files
from rlm_ci.errors import ConfigError
from rlm_ci.objects import is_object_id
from rlm_ci.settings import environment
from rlm_ci.values import Row, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any, Self

    from rlm_ci.git import Pending, Repository
    from rlm_ci.patches import Hunk

#: Triggers whose content came from outside, so that the base's policy judges it.
OUTSIDE = ("pull_request", "push", "merge_group", "range")
#: git calls a file binary when one of its first 8,000 bytes is NUL, or when it is larger
#: than core.bigFileThreshold.
_BINARY_PROBE = 8000
_BIG_FILE = 512 << 20


class Count(Row):
    """What one file adds to a change: ``added`` and ``deleted`` lines, None for a binary file.

    ``path`` is the new one. ``unmeasured`` says why the lines could not be counted.
    """

    path: str
    added: int | None
    deleted: int | None
    unmeasured: str | None = None

    @property
    def lines(self) -> int:
        """Added and deleted lines together; 0 for a binary file."""
        return (self.added or 0) + (self.deleted or 0)


class FileChange(Count):
    """One file of a change, with both of its sides.

    ``status`` is git's letter (A, C, D, M, R, T); modes and object ids are those of the
    two sides, zeros where there is none; ``old_path`` differs from ``path`` for a rename.
    """

    old_path: str = ""
    status: str = ""
    old_mode: str = "000000"
    new_mode: str = "000000"
    old_oid: str = ""
    new_oid: str = ""


class Counting:
    """A count of lines that git is working on, as a context manager."""

    def __init__(self, pending: Pending) -> None:
        self._pending = pending

    def __enter__(self) -> Self:
        self._pending.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._pending.__exit__(*error)

    def finish(self) -> list[Count]:
        return list(_parse_counts(iter(_decode(self._pending.finish()).split("\0"))))


class PullRequest(Value):
    """What the event says of a pull request. All of it is the author's, so hostile."""

    number: int
    title: str = ""
    body: str = ""
    labels: tuple[str, ...] = ()
    from_fork: bool = False


class ChangeSet(Value):
    """A change. ``base``, ``head`` and ``merge_base`` are commits (or the empty tree).

    ``trigger`` is one of OUTSIDE, ``commit``, ``index`` or ``worktree``. ``target`` is the
    branch that the change goes to, where that is known.
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

    @property
    def worktree(self) -> bool:
        """Whether it is (partly) uncommitted."""
        return self.trigger in ("index", "worktree")

    @property
    def policy_commit(self) -> str | None:
        """The commit whose configuration judges this change; None for the working tree's."""
        return self.base if self.trigger in OUTSIDE else None

    def count(self, *, renames: bool = True, attributes: str | None = None) -> Counting:
        """Begin to count the lines of committed trees, as ``git diff --numstat -z -M`` does.

        ``attributes`` is a folder with the ``.gitattributes`` files that decide what is
        binary.
        """
        find = "-M" if renames else "--no-renames"
        diff = self.repository.start_diff
        return Counting(diff(*self._trees(), "--numstat", find, attributes=attributes))

    def files(self, *, renames: bool = True) -> list[FileChange]:
        """The changed files with both sides, counted in the same way."""
        find = "-M" if renames else "--no-renames"
        options = ("--raw", "--numstat", "--no-abbrev", find)
        if not self.worktree:
            return _parse_files(self.repository.diff_trees(*self._trees(), *options))
        against = self.head or self.repository.empty_tree()
        where = ("--cached",) if self.trigger == "index" else ()
        found = _parse_files(self.repository.diff_worktree(*where, *options, against))
        if self.trigger == "worktree":
            untracked = self.repository.untracked()
            if untracked:
                new = [_untracked(self.repository.root, path) for path in untracked]
                found = _merge(found, new)
        return found

    def _trees(self) -> tuple[str, str]:
        if self.merge_base is None or self.head is None:
            raise ValueError(f"a change of the {self.trigger} has no two trees")
        return self.merge_base, self.head

    def names(self) -> list[str]:
        """The paths on both sides of the trees, or of what is staged; no file is looked into."""
        if "_names" not in self.__dict__:  # several readers ask, and git need not be asked twice
            options = ("--name-only", "--no-renames")
            if self.trigger == "index":
                against = self.head or self.repository.empty_tree()
                raw = self.repository.diff_worktree("--cached", *options, against)
            else:
                raw = self.repository.diff_trees(*self._trees(), *options)
            self.__dict__["_names"] = [name for name in _decode(raw).split("\0") if name]
        names: list[str] = self.__dict__["_names"]
        return names

    def sizes(self, paths: Sequence[str]) -> list[int]:
        """The bytes of each of these files as it is now; 0 for one that is gone."""
        if self.trigger == "worktree":
            return [_size(os.path.join(self.repository.root, path)) for path in paths]
        side = ":0" if self.trigger == "index" else self.head
        return [max(0, size) for size in self.repository.sizes([f"{side}:{one}" for one in paths])]

    def hunks(self) -> tuple[dict[str, tuple[Hunk, ...]], list[str]]:
        """The hunks of each text file by its new path, and the paths that cannot be parsed."""
        from rlm_ci.patches import parse

        options = ("--raw", "--no-abbrev", "-M", "--patch", "--unified=3")
        if not self.worktree:
            return parse(self.repository.diff_trees(*self._trees(), *options))
        where = ("--cached",) if self.trigger == "index" else ()
        against = self.head or self.repository.empty_tree()
        return parse(self.repository.diff_worktree(*where, *options, against))

    def read(self, path: str, limit: int, *, old: bool = False) -> bytes | None:
        """The content of a file of at most ``limit`` bytes on one side.

        None when it is not there, no file, or larger.
        """
        if self.trigger == "worktree" and not old:
            try:
                return files.read_inside(self.repository.root, path, limit)
            except files.UnreadableError:
                return None
        side = self.merge_base if old else ":0" if self.trigger == "index" else self.head
        if side is None:  # before the first commit there is no old side
            return None
        spec = f"{side}:{path}"
        if self.repository.sizes([spec])[0] > limit:
            return None
        return self.repository.read(spec)[0]


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
            for one in _parse_counts(chain((field,), fields)):
                counted[one.path] = raw[one.path].replace(added=one.added, deleted=one.deleted)
    return list(counted.values())


def _parse_counts(fields: Iterator[str]) -> Iterator[Count]:
    """The records of ``git diff --numstat -z``; a rename's names stand behind its counts."""
    for field in fields:
        if field:
            added, deleted, path = field.split("\t", 2)
            if not path:
                next(fields)
                path = next(fields)
            if added == "-":
                yield Count(path, None, None)
            else:
                yield Count.of((path, int(added), int(deleted), None))


def _size(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0


def _untracked(root: str, path: str) -> FileChange:
    """A file that git does not know yet, counted as it would be once added."""
    full = os.path.join(root, path)
    name = path.rstrip("/")
    change = FileChange(name, 1, 0, old_path=name, status="A", new_mode="100644")
    if path.endswith("/"):  # another repository: added, it would be one line, the submodule
        return change.replace(new_mode="160000")
    if os.path.islink(full):
        return change.replace(new_mode="120000")
    size, lines, last, probe = 0, 0, b"\n", b""
    try:
        for block in files.blocks(full):
            probe += block[: max(0, _BINARY_PROBE - len(probe))]
            size += len(block)
            if b"\0" in probe or size > _BIG_FILE:
                return change.replace(added=None, deleted=None)
            lines += block.count(b"\n")
            last = block[-1:]
    except files.UnreadableError as error:
        return change.replace(added=0, unmeasured=str(error))
    return change.replace(added=lines + (last != b"\n"))


def _merge(tracked: list[FileChange], untracked: list[FileChange]) -> list[FileChange]:
    """All of them, a file that left the index and stayed in the work tree as one."""
    gone = {one.path: one for one in tracked if one.status == "D"}
    both = {one.path for one in untracked if one.path in gone}
    return [one for one in tracked if one.path not in both] + [
        one.replace(
            status="M",
            deleted=None if one.added is None else gone[one.path].deleted,
            old_mode=gone[one.path].old_mode,
            old_oid=gone[one.path].old_oid,
        )
        if one.path in both
        else one
        for one in untracked
    ]


# ── where a change comes from ──


def require(repository: Repository, ref: str, role: str, source: str) -> str:
    """The commit that ``ref`` names. Raises ConfigError with the command that fetches it."""
    commit = repository.resolve(ref)[0]
    if commit is None:
        from rlm_ci.texts import printable

        branch = repository.head_ref() if ref == "HEAD" else None
        if branch:
            name = printable(branch.removeprefix("refs/heads/"))[:80]
            raise ConfigError(
                f"the branch {name!r} has no commit yet",
                where=source,
                hint="commit first, or judge what is staged: rlm-ci check --staged",
            )
        shown = printable(ref)[:80]
        raise ConfigError(
            f"the {role} {shown!r} is not in this clone",
            where=source,
            hint=_fetch_hint(repository, shown),
        )
    return commit


def _fetch_hint(repository: Repository, ref: str) -> str:
    """The commands that bring ``ref``, or (if empty) the history that a shallow clone lacks."""
    remote = repository.remote()
    commands = []
    if repository.is_shallow():
        commands.append(f"git fetch --unshallow {remote}")
    if is_object_id(ref):
        commands.append(f"git fetch {remote} {ref}")
    branch = ref.removeprefix(f"{remote}/")
    # Only a name that no shell reads as anything else can stand in a command.
    plain = branch[:1] not in ("", "-") and all(one.isalnum() or one in "/._-" for one in branch)
    if plain and branch != ref:
        commands.append(f"git fetch {remote} +refs/heads/{branch}:refs/remotes/{ref}")
    elif plain and commands == [f"git fetch --unshallow {remote}"]:  # of one branch only
        commands.append(f"git fetch {remote} {ref}:{ref}")
    if not commands:
        return f"check the name, or fetch it: git fetch {remote}"
    why = "the clone is shallow: " if repository.is_shallow() else ""
    hint = f"{why}{' && '.join(commands)}"
    in_actions = environment().get("GITHUB_ACTIONS") == "true"
    return f"{hint}; with actions/checkout: fetch-depth: 0" if in_actions else hint


def from_range(
    repository: Repository, base: str, head: str, source: str, **fields: Any
) -> ChangeSet:
    """The change from the merge base of two refs to the second one."""
    fields.setdefault("trigger", "range")
    found = repository.range(base, head)
    if found:
        return ChangeSet(repository, base=found[0], head=found[1], merge_base=found[2], **fields)
    # One by one, to say which of them is not there.
    base_commit = require(repository, base, "base", source)
    head_commit = require(repository, head, "head", source)
    merge_base = repository.merge_base(base_commit, head_commit)
    if merge_base is None:
        hint = "name a base with a common history, or judge one commit with --commit"
        if repository.is_shallow():
            hint = _fetch_hint(repository, "")
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
        raise ConfigError(
            f"the parent of {commit[:12]} is not in this clone",
            where=source,
            hint=_fetch_hint(repository, ""),
        )
    parent = parents[0] if parents else repository.empty_tree()
    return ChangeSet(repository, "commit", base=parent, head=commit, merge_base=parent)


def from_local(repository: Repository, trigger: str) -> ChangeSet:
    """What is staged (``index``), or all that is not committed (``worktree``), against HEAD."""
    head = repository.head_commit() if repository.git_dir else None
    return ChangeSet(repository, trigger, base=head, head=head, merge_base=head)


def from_push(
    repository: Repository, head: str, remote: str | None, source: str, **fields: Any
) -> ChangeSet:
    """A first push: against the merge base with the default branch, else the empty tree."""
    head_commit = require(repository, head, "head", source)
    default = repository.default_branch(remote)
    # Of the default branch itself, which the clone may know by now, all is new.
    if default and (default[1] != head_commit or fields.get("target") not in (None, default[0])):
        merge_base = repository.merge_base(default[1], head_commit)
        if merge_base:
            return ChangeSet(
                repository, base=default[1], head=head_commit, merge_base=merge_base, **fields
            )
    empty = repository.empty_tree()
    return ChangeSet(repository, base=None, head=head_commit, merge_base=empty, **fields)


def from_default_branch(repository: Repository) -> ChangeSet:
    """From the merge base with the default branch to HEAD; on that branch, HEAD's own commit.

    So it is where that branch has gone on since HEAD, which is then detached, as a rule.
    """
    default = repository.default_branch()
    head_ref = repository.head_ref()
    if default is None or head_ref == f"refs/heads/{default[0]}":
        return from_commit(repository, "HEAD", "the default branch")
    head = require(repository, "HEAD", "head", "the current branch")
    if head == default[1]:
        return from_commit(repository, "HEAD", "the default branch")
    change = from_range(repository, default[1], head, "the default branch", target=default[0])
    if change.merge_base == head:
        return from_commit(repository, "HEAD", "the default branch")
    return change
