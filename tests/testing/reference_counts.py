"""What a diff budget and a patch have to say, told a second time and in another way.

Nothing here is the product's: git's own numstat, decision by decision what is ignored, and
a patch that is right because applying it to the old text gives the new one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rlm_ci.git.patches import Hunk
    from testing.repositories.git_repo import GitRepo

#: Path to lines added and deleted; None for a binary file.
Numstat = dict[str, tuple[int | None, int | None]]


def merge_base(repo: GitRepo, base: str, head: str) -> str:
    return repo.text("merge-base", base, head).split()[0]


def numstat(repo: GitRepo, *revisions: str, options: Sequence[str] = ("-M",)) -> Numstat:
    """``git diff --numstat -z``, by new path."""
    output = repo.run("diff", "--numstat", "-z", *options, *revisions, "--")
    rows: Numstat = {}
    fields = iter(output.decode("utf-8", "surrogateescape").split("\0"))
    for row in fields:
        if row:
            added, deleted, path = row.split("\t", 2)
            if not path:
                next(fields)
                path = next(fields)
            binary = added == "-"
            rows[path] = (None, None) if binary else (int(added), int(deleted))
    return rows


_LOCKS = re.compile(
    r"(package-lock\.json|npm-shrinkwrap\.json|yarn\.lock|pnpm-lock\.yaml|bun\.lockb?|poetry\.lock"
    r"|uv\.lock|pdm\.lock|Pipfile\.lock|Cargo\.lock|go\.sum|composer\.lock|Gemfile\.lock"
    r"|flake\.lock|gradle\.lockfile)\Z"
)


def is_ignored(path: str) -> bool:
    """Whether the built-in list takes ``path`` out of the budget."""
    parts = PurePosixPath(path).parts
    return bool(
        _LOCKS.match(parts[-1])
        or {"node_modules", "dist"} & set(parts[:-1])
        or (len(parts) > 1 and parts[0] in (".runs", "archives", "out"))
    )


@dataclass(frozen=True)
class Budget:
    """The figures of a diff budget."""

    files: int
    added: int
    deleted: int
    ignored_files: int
    ignored_lines: int
    binary_files: int

    @property
    def lines(self) -> int:
        return self.added + self.deleted

    def metrics(self) -> dict[str, int]:
        return {**self.__dict__, "lines": self.lines}


def budget(rows: Numstat, ignored: Callable[[str], bool] = is_ignored) -> Budget:
    counted = [row for path, row in rows.items() if not ignored(path)]
    left_out = [row for path, row in rows.items() if ignored(path)]
    return Budget(
        files=len(counted),
        added=sum(added or 0 for added, _ in counted),
        deleted=sum(deleted or 0 for _, deleted in counted),
        ignored_files=len(left_out),
        ignored_lines=sum((added or 0) + (deleted or 0) for added, deleted in left_out),
        binary_files=sum(added is None for added, _ in counted),
    )


def split(content: bytes) -> list[str]:
    r"""The lines of a text, as numbers of lines mean them: parted by ``\\n`` and nothing else."""
    lines = content.decode("utf-8", "surrogateescape").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def apply(old: bytes, hunks: Sequence[Hunk]) -> list[str]:
    """The new lines that ``hunks`` make of ``old``; raises AssertionError where they do not fit."""
    before = split(old)
    after: list[str] = []
    at = 0  # lines of the old text that are used up
    for hunk in hunks:
        # A hunk without old lines stands behind the line that it names.
        start = hunk.old_start - 1 if hunk.old_count else hunk.old_start
        assert start >= at, "hunks are in order, and do not overlap"
        after += before[at:start]
        at = start
        new_start = hunk.new_start - 1 if hunk.new_count else hunk.new_start
        assert len(after) == new_start
        for line in hunk.lines:
            if line.kind == "+":
                assert (line.old, line.new) == (None, len(after) + 1)
                after.append(line.text)
                continue
            assert line.text == before[at]
            at += 1
            assert line.old == at
            if line.kind == " ":
                after.append(line.text)
                assert line.new == len(after)
            else:
                assert line.new is None
        assert at == start + hunk.old_count
        assert len(after) == new_start + hunk.new_count
    return after + before[at:]


def counts(hunks: Sequence[Hunk]) -> tuple[int, int]:
    """Lines added and deleted in ``hunks``."""
    kinds = [line.kind for hunk in hunks for line in hunk.lines]
    return kinds.count("+"), kinds.count("-")


def content(repo: GitRepo, mode: str, oid: str) -> bytes:
    """What a diff takes for the text of one side."""
    if mode == "000000":
        return b""
    if mode == "160000":
        return f"Subproject commit {oid}\n".encode()
    return repo.run("cat-file", "blob", oid)


def metrics_of(metrics: Mapping[str, object], expected: Budget) -> dict[str, object]:
    """Those of ``metrics`` that ``expected`` speaks of."""
    return {name: metrics[name] for name in expected.metrics()}
