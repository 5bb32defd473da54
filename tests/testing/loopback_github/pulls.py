"""What GitHub derives from git: the files, patches and commits of a pull request.

All comes from a real repository: three-dot diffs with rename detection, read with raw records so
that no name is ever parsed out of a patch.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from testing.repositories.git_repo import GitError, GitRepo

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

Side = Literal["LEFT", "RIGHT"]

MAX_FILES = 3_000
MAX_COMMITS = 250
#: Beyond either, GitHub leaves the patch of a file out.
MAX_PATCH_LINES = 20_000
MAX_PATCH_BYTES = 500_000

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_STATUS = {
    "A": "added", "D": "removed", "M": "modified", "R": "renamed", "C": "copied", "T": "changed"
}  # fmt: skip
_DIFF = (
    "diff", "--no-ext-diff", "--no-textconv", "--no-color", "-M", "--full-index",
    "--src-prefix=a/", "--dst-prefix=b/",
)  # fmt: skip


@dataclass(frozen=True)
class Anchor:
    """Where a line of a diff lies: the hunk's number, and the row below the first ``@@``."""

    hunk: int
    position: int


@dataclass
class ChangedFile:
    """One file of a diff. ``patch`` is None for binary files, huge ones and pure renames."""

    path: str
    previous: str | None
    status: str
    sha: str
    additions: int
    deletions: int
    patch: str | None
    anchors: Mapping[tuple[Side, int], Anchor] = field(default_factory=dict)

    def hunk_until(self, anchor: Anchor) -> str:
        """The hunk's header and its lines down to the anchor: a comment's ``diff_hunk``."""
        rows = (self.patch or "").split("\n")
        start = [row for row, line in enumerate(rows) if line.startswith("@@")][anchor.hunk]
        return "\n".join(rows[start : anchor.position + 1])


@dataclass(frozen=True)
class Commit:
    sha: str
    tree: str
    parents: Sequence[str]
    author: tuple[str, str, str]
    committer: tuple[str, str, str]
    message: str


class Source:
    """The git side of a repository. Raises GitError for revisions that are not there."""

    def __init__(self, path: os.PathLike[str] | str) -> None:
        self.repo = path if isinstance(path, GitRepo) else GitRepo(path)
        # Objects never change, so what is computed from ids holds for ever.
        self.diff = functools.cache(self._diff)
        self.merge_base = functools.cache(self._merge_base)
        self.commits_between = functools.cache(self._commits_between)
        self.commit = functools.cache(self._commit)
        self.shifts = functools.cache(self._shifts)

    def resolve(self, revision: str) -> str:
        """The commit id of a branch, tag or id. Raises GitError when there is none."""
        for name in (f"refs/heads/{revision}", f"refs/tags/{revision}", revision):
            try:
                return self.repo.sha(name + "^{commit}")
            except GitError:
                continue
        raise GitError(f"no commit for {revision!r}")

    def _merge_base(self, one: str, other: str) -> str:
        return self.repo.text("merge-base", one, other)

    def _commits_between(self, base: str, head: str) -> list[str]:
        """The ids of ``base..head``, oldest first."""
        return self.repo.text("rev-list", "--reverse", "--topo-order", f"{base}..{head}").split()

    def _commit(self, sha: str) -> Commit:
        form = "%H%x00%T%x00%P%x00%an%x00%ae%x00%aI%x00%cn%x00%ce%x00%cI%x00%B"
        raw = self.repo.run("log", "-1", f"--format={form}", sha).decode("utf-8", "replace")
        own, tree, parents, an, ae, ad, cn, ce, cd, message = raw.split("\0")
        return Commit(own, tree, parents.split(), (an, ae, ad), (cn, ce, cd), message.rstrip("\n"))

    def raw_diff(self, base: str, head: str) -> str:
        """The three-dot diff, as the ``diff`` media type has it."""
        fork = self.merge_base(base, head)
        return self.repo.run(*_DIFF, "-p", fork, head, "--").decode("utf-8", "replace")

    def _diff(self, base: str, head: str) -> list[ChangedFile]:
        """The files that differ between the merge base of two commits and ``head``."""
        fork = self.merge_base(base, head)
        raw = self.repo.run(*_DIFF, "--raw", "-z", "--no-abbrev", fork, head, "--")
        numbers = self.repo.run(*_DIFF, "--numstat", "-z", fork, head, "--")
        records = _raw_records(raw.decode("utf-8", "replace"))
        counts = _counts(numbers.decode("utf-8", "replace"))
        patches = _patches(self.raw_diff(base, head), [record[0] for record in records])
        files = []
        for (letter, sha, previous, path), patch in zip(records, patches, strict=True):
            added, deleted = counts[path]
            status = _STATUS[letter]
            shown = patch if _presentable(patch) else None
            anchors = anchors_of(shown or "")
            files.append(ChangedFile(path, previous, status, sha, added, deleted, shown, anchors))
        return files

    def _shifts(self, old: str, new: str, path: str) -> list[tuple[int, int, int]]:
        """The changed stretches of a file between two commits: old start, old and new length."""
        raw = self.repo.run(
            *_DIFF, "--no-renames", "-U0", old, new, "--", path,
            env={"GIT_LITERAL_PATHSPECS": "1"},
        ).decode("utf-8", "replace")  # fmt: skip
        matches = filter(None, map(_HUNK.match, raw.split("\n")))
        return [(int(m[1]), int(m[2] or "1"), int(m[4] or "1")) for m in matches]

    def moved_line(self, old: str, new: str, path: str, line: int) -> int | None:
        """Where ``line`` of ``path`` at commit ``old`` stands at ``new``; None if it is gone."""
        offset = 0
        for start, before, after in self.shifts(old, new, path):
            if start + (before == 0) > line:
                break
            if start <= line < start + before:
                return None
            offset += after - before
        return line + offset

    def blob(self, sha: str, path: str) -> tuple[str, bytes] | None:
        """The id and the content of a file at a commit; None if there is no such file."""
        row = self.repo.run("ls-tree", "-z", sha, "--", path).decode("utf-8", "surrogateescape")
        if not row or row.split()[1] != "blob":
            return None
        oid = row.split()[2]
        return oid, self.repo.run("cat-file", "blob", oid)

    def folder(self, sha: str, path: str) -> list[tuple[str, str, str, int]] | None:
        """Kind, id, path and size of what lies in a folder; None if there is no such folder."""
        inside = f"{path.rstrip('/')}/" if path.strip("/") else ""
        args = ("ls-tree", "-z", "-l", sha, *(["--", inside] if inside else []))
        rows = self.repo.run(*args).decode("utf-8", "surrogateescape")
        found = []
        for row in filter(None, rows.split("\0")):
            meta, name = row.split("\t", 1)
            _mode, kind, oid, size = meta.split()
            found.append((kind, oid, name, 0 if size == "-" else int(size)))
        return found or None


def anchors_of(patch: str) -> dict[tuple[Side, int], Anchor]:
    """Every line that a patch shows, by side and number; context lines are on both sides."""
    found: dict[tuple[Side, int], Anchor] = {}
    hunk, left, right = -1, 0, 0
    for position, line in enumerate(patch.split("\n")):
        if match := _HUNK.match(line):
            hunk, left, right = hunk + 1, int(match[1]), int(match[3])
            continue
        anchor = Anchor(hunk, position)
        if line[:1] in {"-", " "}:
            found["LEFT", left] = anchor
            left += 1
        if line[:1] in {"+", " "}:
            found["RIGHT", right] = anchor
            right += 1
    return found


def _presentable(patch: str | None) -> bool:
    return (
        patch is not None
        and patch.count("\n") < MAX_PATCH_LINES
        and len(patch.encode()) <= MAX_PATCH_BYTES
    )


def _raw_records(raw: str) -> list[tuple[str, str, str | None, str]]:
    """Status letter, blob id (the old one of a deleted file), previous path, path."""
    fields = iter(raw.split("\0"))
    records = []
    for head in fields:
        if not head:
            break
        _old_mode, _new_mode, old, new, status = head.split(" ")
        first = next(fields)
        moved = status[0] in "RC"
        path = next(fields) if moved else first
        records.append((status[0], old if status == "D" else new, first if moved else None, path))
    return records


def _counts(raw: str) -> dict[str, tuple[int, int]]:
    fields = iter(raw.split("\0"))
    counts = {}
    for row in fields:
        if not row:
            break
        added, deleted, path = row.split("\t", 2)
        if not path:  # a rename: two more fields
            next(fields)
            path = next(fields)
        counts[path] = (0, 0) if added == "-" else (int(added), int(deleted))
    return counts


def _patches(raw: str, letters: Sequence[str]) -> list[str | None]:
    """The hunks of each file's patch, in the order of the records; None where there are none."""
    sections = iter(re.split(r"(?m)^diff --git .*\n", raw)[1:])
    patches: list[str | None] = []
    for letter in letters:
        section = next(sections)
        if letter == "T":  # a file that became a link, or the reverse: two patches, none is shown
            next(sections)
            patches.append(None)
            continue
        start = re.search(r"(?m)^@@ ", section)
        patches.append(section[start.start() :].removesuffix("\n") if start else None)
    assert next(sections, None) is None, "git shows a patch for each of its raw records"
    return patches
