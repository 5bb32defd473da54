"""The history of a repository: files that change often, and people who know them, by name."""

from __future__ import annotations

import os
import re
from bisect import bisect_left
from itertools import groupby, islice, takewhile
from time import gmtime, strftime

from rlm_ci.errors import ConfigError, DamagedError, UnavailableError
from rlm_ci.text.printable import printable
from rlm_ci.values import Row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rlm_ci.git.repository import Repository

#: Seconds after which a changed line counts half.
_HALF_LIFE = 365 * 24 * 3600
#: The last second of the year 9999, the last that can be formatted.
_LAST_SECOND = 253402300799
_COUNT = re.compile(r"\n?(\d+|-)\t(\d+|-)\t", re.DOTALL)
_COMMIT = re.compile(r"\n?\x01[0-9a-f]{40,64}")
_OPTIONS = (
    "--stdin", "-r", "--numstat", "-z", "--format=%x01%H%x00%an%x00%ct", "--no-notes",
    "--no-color", "--no-ext-diff", "--no-textconv", "--find-renames", "-l200", "--no-relative",
    "--ignore-submodules=all", "--diff-algorithm=myers", f"-O{os.devnull}",
)  # fmt: skip


class HotFile(Row):
    """A changed file: the number of its commits, the day of the last, and all changed lines."""

    path: str
    commits: int
    last: str
    lines: int


class _Change(Row):
    author: str
    time: int
    path: str
    lines: int


class GitHistory:
    """The last commits before one, without merges; ``note`` says what is missing."""

    def __init__(self, changes: Sequence[_Change], commits: int, note: str) -> None:
        self.commits = commits
        self.note = note
        self._newest = max((change.time for change in changes), default=0)
        #: There may be hundreds of thousands: only what is asked for is computed.
        self._changes = sorted(changes, key=_path)

    @property
    def hot(self) -> tuple[HotFile, ...]:
        """The files that still exist, by commits times lines, the hottest first."""
        files = []
        for path, some in groupby(self._changes, key=_path):
            inner = list(some)
            last = strftime("%Y-%m-%d", gmtime(max(0, *(change.time for change in inner))))
            files.append(
                HotFile.of((path, len(inner), last, sum(change.lines for change in inner)))
            )
        return tuple(sorted(files, key=lambda file: (-file.commits * (file.lines + 1), file.path)))

    @classmethod
    def of(cls, repository: Repository, commit: str, limit: int) -> GitHistory:
        """The last ``limit`` commits up to ``commit``.

        A repository's configuration changes no figure; its attributes may call files binary, which
        have no lines.
        """
        notes = []
        # Not ``git log``, which the configuration can change. Without ``--root``, since the first
        # commits of a shallow clone look as if they had made all files.
        options = _OPTIONS if repository.is_shallow() else ("--root", *_OPTIONS)
        try:
            oids = repository.run("rev-list", "--no-merges", f"--max-count={limit}", commit, "--")
            printed = repository.run("diff-tree", *options, stdin=oids)
        except (ConfigError, DamagedError, UnavailableError) as error:
            if repository.git_dir is None:
                raise
            return cls((), 0, f"the history could not be read: {error}")
        changes = _parsed(printed.decode("utf-8", "surrogateescape"))
        present = repository.tree(commit)
        if repository.is_shallow():
            notes.append("the clone is shallow: earlier commits were not read")
        commits = oids.count(b"\n")
        if commits >= limit:
            notes.append(f"only the last {limit:,} commits were read")
        return cls(
            [change for change in changes if change.path in present], commits, "; ".join(notes)
        )

    def owners(self, path: str) -> tuple[tuple[str, float], ...]:
        """The authors of a file and their shares of its changed lines; recent ones count more."""
        first = bisect_left(self._changes, path, key=_path)
        weights: dict[str, float] = {}
        for change in takewhile(
            lambda change: change.path == path, islice(self._changes, first, None)
        ):
            weight = (change.lines + 1) * 0.5 ** ((self._newest - change.time) / _HALF_LIFE)
            weights[change.author] = weights.get(change.author, 0.0) + weight
        total = sum(weights[name] for name in sorted(weights))
        if not total:
            return ()
        shares = [(name, round(weight / total, 3)) for name, weight in weights.items()]
        return tuple(sorted(shares, key=lambda share: (-share[1], share[0])))


def of_lines(repository: Repository, commit: str, path: str, first: int, last: int) -> bytes:
    """The commits that changed lines of a file as it is at ``commit``, each with its difference.

    The newest come first, at most 10. Raises DamagedError where the file has no such lines.
    """
    return repository.run(
        "log", "--max-count=10", "--format=commit %h, %as, %an: %s", "--no-color", "--no-notes",
        "--no-ext-diff", "--no-textconv", "--no-show-signature", "--no-decorate", "--no-mailmap",
        f"-L{first},{last}:{path}", commit, "--",
    )  # fmt: skip


def _path(change: _Change) -> str:
    return change.path


def _parsed(printed: str) -> list[_Change]:
    """The changes that ``git diff-tree`` prints, by the present names of the files."""
    changes = []
    #: Old names to new ones; the newest commit comes first.
    new_names: dict[str, str] = {}
    author, time = "", 0
    tokens: Iterator[str] = iter(printed.split("\0"))
    for token in tokens:
        counted = _COUNT.match(token)
        if counted:
            added, removed = counted.groups()
            lines = sum(int(number) for number in (added, removed) if number != "-")
            path = token[counted.end() :]
            if not path:  # renamed
                old, path = next(tokens, ""), next(tokens, "")
                new_names[old] = new_names.get(path, path)
            changes.append(_Change.of((author, time, new_names.get(path, path), lines)))
        elif _COMMIT.fullmatch(token):
            author = _name(next(tokens, ""))
            stamp = next(tokens, "").strip()
            time = min(int(stamp), _LAST_SECOND) if stamp.isdigit() and len(stamp) < 19 else 0
    return changes


def _name(author: str) -> str:
    """A printable name without mail addresses."""
    words = [word.partition("@")[0] for word in author.replace("<", " ").replace(">", " ").split()]
    return printable(" ".join(filter(None, words)))[:80] or "somebody"
