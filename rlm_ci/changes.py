"""The change that is judged: from an event, a Git hook, two refs, a commit, index or tree.

A :class:`ChangeSet` knows its commits and counts its lines by ``git diff --numstat``; the
patch itself is read only when somebody asks for hunks.
"""

from __future__ import annotations

import os

from rlm_ci import files
from rlm_ci.errors import ConfigError
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from rlm_ci.git import Repository

#: Triggers whose content came from outside, so that the base's policy judges it.
OUTSIDE = ("pull_request", "push", "merge_group", "range")
#: git calls a file binary when one of its first 8,000 bytes is NUL.
_BINARY_PROBE = 8000


class FileChange(Value):
    """One file of a change. ``added`` and ``deleted`` are lines, None for a binary file.

    ``status`` is git's letter (A, C, D, M, R, T); modes and object ids are those of the
    two sides, zeros where there is none; ``old_path`` differs from ``path`` for a rename.
    ``unmeasured`` says why the lines could not be counted.
    """

    path: str
    old_path: str
    status: str
    added: int | None
    deleted: int | None
    old_mode: str = "000000"
    new_mode: str = "000000"
    old_oid: str = ""
    new_oid: str = ""
    unmeasured: str | None = None

    @property
    def lines(self) -> int:
        """Added and deleted lines together; 0 for a binary file."""
        return (self.added or 0) + (self.deleted or 0)


class Line(Value):
    """A line of a hunk: ``kind`` is ``+``, ``-`` or blank; numbers are 1-based per side."""

    kind: str
    old: int | None
    new: int | None
    text: str


class Hunk(Value):
    """A hunk of a patch, with the ranges that it covers on both sides."""

    old_start: int
    old_count: int
    new_start: int
    new_count: int
    lines: tuple[Line, ...]


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

    def files(self, *, renames: bool = True, attributes: str | None = None) -> list[FileChange]:
        """The changed files, counted as ``git diff --numstat -z -M`` counts them.

        ``attributes`` is a folder with the ``.gitattributes`` files that decide what is
        binary, for a change that is read tree to tree.
        """
        find = "-M" if renames else "--no-renames"
        options = ("--raw", "--numstat", "--no-abbrev", find)
        if not self.worktree:
            diff = self.repository.diff_trees
            return _parse_files(diff(*self._trees(), *options, attributes=attributes))
        against = self.head or self.repository.empty_tree()
        where = ("--cached",) if self.trigger == "index" else ()
        found = _parse_files(self.repository.diff_worktree(*where, *options, against))
        if self.trigger == "worktree":
            untracked = self.repository.untracked()
            found += [_untracked(self.repository.root, path) for path in untracked]
        return found

    def _trees(self) -> tuple[str, str]:
        if self.merge_base is None or self.head is None:
            raise ValueError(f"a change of the {self.trigger} has no two trees")
        return self.merge_base, self.head

    def names(self) -> list[str]:
        """The paths on both sides of committed trees, found without looking into any file."""
        if "_names" not in self.__dict__:  # several readers ask, and git need not be asked twice
            diff = self.repository.diff_trees
            raw = diff(*self._trees(), "--name-only", "--no-renames")
            self.__dict__["_names"] = [_decode(name) for name in raw.split(b"\0") if name]
        names: list[str] = self.__dict__["_names"]
        return names

    def hunks(self) -> tuple[dict[str, tuple[Hunk, ...]], list[str]]:
        """The hunks of each text file by its new path, and the paths that cannot be parsed."""
        options = ("--raw", "--no-abbrev", "-M", "--patch", "--unified=3")
        if not self.worktree:
            return parse_patch(self.repository.diff_trees(*self._trees(), *options))
        where = ("--cached",) if self.trigger == "index" else ()
        against = self.head or self.repository.empty_tree()
        return parse_patch(self.repository.diff_worktree(*where, *options, against))

    def read(self, path: str, limit: int, *, old: bool = False) -> bytes | None:
        """The content of a file on one side; None when it is not there (or not a file)."""
        if old:
            commit = self.merge_base or self.head
            return self.repository.read(f"{commit}:{path}")[0] if commit else None
        if self.trigger == "index":
            return self.repository.read(f":{path}")[0]
        if self.trigger == "worktree":
            try:
                return files.read_inside(self.repository.root, path, limit)
            except files.UnreadableError:
                return None
        return self.repository.read(f"{self.head}:{path}")[0]


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _parse_raw(fields: Iterator[bytes], first: bytes) -> FileChange:
    old_mode, new_mode, old_oid, new_oid, status = first[1:].decode().split(" ")
    old_path = path = _decode(next(fields))
    if status[0] in "RC":
        path = _decode(next(fields))
    return FileChange(path, old_path, status[0], None, None, old_mode, new_mode, old_oid, new_oid)


def _parse_files(data: bytes) -> list[FileChange]:
    """The records of ``git diff --raw --numstat -z``: first all raw ones, then the counts."""
    fields = iter(data.split(b"\0"))
    raw: dict[str, FileChange] = {}
    counted: dict[str, FileChange] = {}
    for field in fields:
        if field.startswith(b":"):
            change = _parse_raw(fields, field)
            raw[change.path] = change
        elif field:
            added, deleted, path = field.split(b"\t", 2)
            if not path:
                next(fields)
                path = next(fields)
            name = _decode(path)
            counts = (None, None) if added == b"-" else (int(added), int(deleted))
            counted[name] = raw[name].replace(added=counts[0], deleted=counts[1])
    return list(counted.values())


def _untracked(root: str, path: str) -> FileChange:
    """A file that git does not know yet, counted as it would be once added."""
    full = os.path.join(root, path)
    change = FileChange(path.rstrip("/"), path.rstrip("/"), "A", 1, 0, new_mode="100644")
    if path.endswith("/"):  # another repository: added, it would be one line, the submodule
        return change.replace(new_mode="160000")
    if os.path.islink(full):
        return change.replace(new_mode="120000")
    lines, last, probe = 0, b"\n", b""
    try:
        for block in files.blocks(full):
            probe += block[: max(0, _BINARY_PROBE - len(probe))]
            lines += block.count(b"\n")
            last = block[-1:]
    except files.UnreadableError as error:
        return change.replace(added=0, unmeasured=str(error))
    if b"\0" in probe:
        return change.replace(added=None, deleted=None)
    return change.replace(added=lines + (last != b"\n"))


def parse_patch(data: bytes) -> tuple[dict[str, tuple[Hunk, ...]], list[str]]:
    """The hunks in the output of ``git diff --raw -z --patch``, and the paths that failed.

    The names come from the raw records, whose order the patch keeps, never from the patch's
    headers: a path may look like anything. What ``unidiff`` cannot parse costs its own file
    alone.
    """
    head, separator, patch = data.partition(b"\0\0diff --git ")
    fields = iter(head.split(b"\0"))
    names: list[str] = []
    for field in fields:
        if field.startswith(b":"):
            change = _parse_raw(fields, field)
            # A type change is printed as a deletion and a creation.
            names += [change.path] * (2 if change.status == "T" else 1)
    hunks: dict[str, tuple[Hunk, ...]] = {}
    failed: list[str] = []
    sections = (b"\n" + patch).split(b"\ndiff --git ") if separator else []
    sections[0:1] = [sections[0][1:]] if sections else []
    for name, section in zip(names, sections, strict=True):
        start = section.find(b"\n@@ ")
        if start >= 0:
            try:
                hunks[name] = hunks.get(name, ()) + _parse_hunks(section[start + 1 :])
            except ValueError:
                failed.append(name)
    return hunks, failed


def _parse_hunks(body: bytes) -> tuple[Hunk, ...]:
    from unidiff.errors import UnidiffParseError
    from unidiff.patch import PatchSet

    text = _decode(body)
    # Split on \n alone: a lone CR, form feed or U+2028 is part of a line.
    lines = [f"{line}\n" for line in text.removesuffix("\n").split("\n")]
    try:
        parsed = PatchSet(["--- a\n", "+++ b\n", *lines])
    except UnidiffParseError as error:
        raise ValueError(str(error)) from error
    return tuple(
        Hunk(
            hunk.source_start,
            hunk.source_length,
            hunk.target_start,
            hunk.target_length,
            tuple(
                Line(
                    line.line_type,
                    line.source_line_no,
                    line.target_line_no,
                    line.value.removesuffix("\n"),
                )
                for line in hunk
                if line.line_type in "+- "
            ),
        )
        for hunk in parsed[0]
    )


# ── where a change comes from ──


def require(repository: Repository, ref: str, role: str, source: str) -> str:
    """The commit that ``ref`` names. Raises ConfigError with the command that fetches it."""
    commit = repository.resolve(ref)[0]
    if commit is None:
        from rlm_ci.findings import printable

        shown = printable(ref)[:80]
        raise ConfigError(
            f"the {role} {shown!r} is not in this clone",
            where=source,
            hint=_fetch_hint(repository, shown),
        )
    return commit


def _fetch_hint(repository: Repository, ref: str) -> str:
    remote = repository.remote()
    checkout = "; with actions/checkout: fetch-depth: 0"
    if repository.is_shallow():
        return f"the clone is shallow: git fetch --unshallow {remote}{checkout}"
    if len(ref) in (40, 64) and all(char in "0123456789abcdef" for char in ref):
        return f"git fetch {remote} {ref}{checkout}"
    return f"check the name, or fetch it: git fetch {remote}"


def from_range(
    repository: Repository, base: str, head: str, source: str, **fields: Any
) -> ChangeSet:
    """The change from the merge base of two refs to the second one."""
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
    fields.setdefault("trigger", "range")
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
    head = repository.resolve("HEAD")[0] if repository.git_dir else None
    return ChangeSet(repository, trigger, base=head, head=head, merge_base=head)


def from_push(
    repository: Repository, head: str, remote: str | None, source: str, **fields: Any
) -> ChangeSet:
    """A first push: against the merge base with the default branch, else the empty tree."""
    head_commit = require(repository, head, "head", source)
    default = repository.default_branch(remote)
    if default and default[1] != head_commit:
        merge_base = repository.merge_base(default[1], head_commit)
        if merge_base:
            return ChangeSet(
                repository, base=default[1], head=head_commit, merge_base=merge_base, **fields
            )
    empty = repository.empty_tree()
    return ChangeSet(repository, base=None, head=head_commit, merge_base=empty, **fields)


def from_default_branch(repository: Repository) -> ChangeSet:
    """From the merge base with the default branch to HEAD; on that branch, HEAD's own commit."""
    default = repository.default_branch()
    head_ref = repository.head_ref()
    if default is None or head_ref == f"refs/heads/{default[0]}":
        return from_commit(repository, "HEAD", "the default branch")
    head = require(repository, "HEAD", "head", "the current branch")
    if head == default[1]:
        return from_commit(repository, "HEAD", "the default branch")
    return from_range(repository, default[1], head, "the default branch", target=default[0])
