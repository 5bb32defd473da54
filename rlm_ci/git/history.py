"""What the history of a repository tells: what is changed often, and who knows it.

Of people, names alone; whatever in a name is an address is left out.
"""

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

#: So many seconds later, a changed line counts half: whoever knew it may have forgotten.
_HALF_LIFE = 365 * 24 * 3600
#: The last second of the year 9999, beyond which no date can be written.
_LAST_SECOND = 253402300799
_COUNT = re.compile(r"\n?(\d+|-)\t(\d+|-)\t", re.DOTALL)
_COMMIT = re.compile(r"\n?\x01[0-9a-f]{40,64}")
_OPTIONS = (
    "--stdin", "-r", "--numstat", "-z", "--format=%x01%H%x00%an%x00%ct", "--no-notes",
    "--no-color", "--no-ext-diff", "--no-textconv", "--find-renames", "-l200", "--no-relative",
    "--ignore-submodules=all", "--diff-algorithm=myers", f"-O{os.devnull}",
)  # fmt: skip


class HotFile(Row):
    """A file that is changed: in how many commits, the day of the last, lines in all of them."""

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
    """The last commits before one, without merges. ``of`` reads them."""

    def __init__(self, changes: Sequence[_Change], commits: int, note: str) -> None:
        #: How many commits were read.
        self.commits = commits
        #: What one should know of these figures, "" when the whole history was read.
        self.note = note
        self._newest = max((one.time for one in changes), default=0)
        #: A large import has hundreds of thousands: no more is made of them than is asked for.
        self._changes = sorted(changes, key=_path)

    @property
    def hot(self) -> tuple[HotFile, ...]:
        """The files that are still there, by commits times lines, the hottest first."""
        days: dict[int, str] = {}
        found = []
        for path, some in groupby(self._changes, key=_path):
            inner = list(some)
            last = max(0, *(one.time for one in inner))
            if last not in days:
                days[last] = _day(last)
            found.append(
                HotFile.of((path, len(inner), days[last], sum(one.lines for one in inner)))
            )
        return tuple(sorted(found, key=lambda one: (-one.commits * (one.lines + 1), one.path)))

    @classmethod
    def of(cls, repository: Repository, commit: str, limit: int) -> GitHistory:
        """The last ``limit`` commits before ``commit`` and that one itself.

        Nothing of a repository's configuration or attributes decides what is counted, but for
        files that its attributes call binary: of these there are commits, and no lines.
        """
        notes = []
        # Not by ``git log``, which a repository's configuration may tell to say other things. Of
        # a shallow clone, the first commits look as if they had made all that they found.
        options = _OPTIONS if repository.is_shallow() else ("--root", *_OPTIONS)
        try:
            asked = repository.run("rev-list", "--no-merges", f"--max-count={limit}", commit, "--")
            printed = repository.run("diff-tree", *options, stdin=asked)
        except (ConfigError, DamagedError, UnavailableError) as error:
            if repository.git_dir is None:
                raise
            return cls((), 0, f"the history could not be read: {error}")
        changes = _parsed(printed.decode("utf-8", "surrogateescape"))
        present = repository.tree(commit)
        if repository.is_shallow():
            notes.append("the clone is shallow: earlier commits were not read")
        commits = asked.count(b"\n")
        if commits >= limit:
            notes.append(f"only the last {limit:,} commits were read")
        return cls([one for one in changes if one.path in present], commits, "; ".join(notes))

    def owners(self, path: str) -> tuple[tuple[str, float], ...]:
        """Who changed a file, and their shares of its changed lines; recent ones count more."""
        return self.owners_of((path,))

    def owners_of(self, paths: Sequence[str]) -> tuple[tuple[str, float], ...]:
        """As ``owners``, of several files together."""
        return _ranked([self._shares(path) for path in paths])

    def _shares(self, path: str) -> dict[str, float]:
        first = bisect_left(self._changes, path, key=_path)
        shares: dict[str, float] = {}
        for one in takewhile(lambda one: one.path == path, islice(self._changes, first, None)):
            weight = (one.lines + 1) * 0.5 ** ((self._newest - one.time) / _HALF_LIFE)
            shares[one.author] = shares.get(one.author, 0.0) + weight
        return shares


def _path(one: _Change) -> str:
    return one.path


def _ranked(parts: Sequence[dict[str, float]]) -> tuple[tuple[str, float], ...]:
    total: dict[str, float] = {}
    for part in parts:
        for name, weight in part.items():
            total[name] = total.get(name, 0.0) + weight
    whole = sum(total[name] for name in sorted(total))
    if not whole:
        return ()
    shares = [(name, round(weight / whole, 3)) for name, weight in total.items()]
    return tuple(sorted(shares, key=lambda one: (-one[1], one[0])))


def _parsed(printed: str) -> list[_Change]:
    """What each commit changed, as ``git diff-tree`` prints it; files as they are called now."""
    changes = []
    #: The newest commit comes first: so a new name is known before the old one comes.
    named: dict[str, str] = {}
    author, time = "", 0
    tokens: Iterator[str] = iter(printed.split("\0"))
    for token in tokens:
        counted = _COUNT.match(token)
        if counted:
            added, removed = counted.groups()
            lines = sum(int(one) for one in (added, removed) if one != "-")
            path = token[counted.end() :]
            if not path:  # it has another name since then
                old, path = next(tokens, ""), next(tokens, "")
                named[old] = named.get(path, path)
            changes.append(_Change.of((author, time, named.get(path, path), lines)))
        elif _COMMIT.fullmatch(token):
            author = _name(next(tokens, ""))
            said = next(tokens, "").strip()
            time = min(int(said), _LAST_SECOND) if said.isdigit() and len(said) < 19 else 0
    return changes


def _name(author: str) -> str:
    """A name that may be shown; of one that is an address, what stands before its sign."""
    words = [word.partition("@")[0] for word in author.replace("<", " ").replace(">", " ").split()]
    return printable(" ".join(filter(None, words)))[:80] or "somebody"


def _day(time: int) -> str:
    return strftime("%Y-%m-%d", gmtime(time))
