"""Lines of committed trees, counted by ``git diff --numstat``; of a large change by two gits."""

from __future__ import annotations

import os

from rlm_ci.values import Row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Self, TypeVar

    from rlm_ci.git.repository import RunningGit

    _Counted = TypeVar("_Counted", bound="LineCount")

#: Files from which on a second git is worth its start.
LARGE = 512
#: Folders that are named to git, which compares each file with each of them.
_NAMED = 64


class LineCount(Row):
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


class LineCounting:
    """A count of lines that git is working on, as a context manager.

    ``start`` begins to count what lies within some pathspecs, everything where there are none;
    ``others`` counts against the other sides of a merge.
    """

    def __init__(
        self,
        start: Callable[[Sequence[str]], RunningGit],
        others: Callable[[], Iterable[bytes]],
        *,
        renames: bool,
    ) -> None:
        self._start, self._others, self._renames = start, others, renames
        self._running: list[RunningGit] = []

    def __enter__(self) -> Self:
        self._begin(())
        return self

    def __exit__(self, *_error: object) -> None:
        while self._running:
            self._running.pop().__exit__(None, None, None)

    def share(self, changed: Mapping[str, str], minimum: int = LARGE) -> None:
        """Start again with two gits, a part each, if that is faster and gives the same.

        ``changed`` are all changed paths with git's letters.
        """
        if len(changed) >= minimum and _cores() > 1:
            within = part(changed, renames=self._renames)
            if within:
                self.__exit__()
                self._begin([f":(top,literal){folder}" for folder in within])
                self._begin([":(top)", *(f":(top,exclude,literal){folder}" for folder in within)])

    def finish(self) -> list[LineCount]:
        """What each file adds, in git's order within each part."""
        moved: set[str] = set()
        line_counts = [
            count for running in self._running for count in counts(running.finish(), moved)
        ]
        for other in self._others():
            moved_there: set[str] = set()
            line_counts = beyond(line_counts, counts(other, moved_there), moved ^ moved_there)
        return line_counts

    def _begin(self, within: Sequence[str]) -> None:
        pending = self._start(within)
        pending.__enter__()
        self._running.append(pending)


def part(changed: Mapping[str, str], *, renames: bool) -> list[str]:
    """Folders with about half of a change, each with a slash at its end; perhaps none.

    A new and a deleted file may be a rename, so folders with one of them stay out.
    """
    kinds = set(changed.values())
    may_move = renames and "A" in kinds and "D" in kinds
    sizes, bound = _folders(changed, "", may_move=may_move)
    # If one folder has nearly all, split that one.
    while sizes and 4 * max(sizes.values()) > 3 * len(changed):
        sizes, bound = _folders(changed, max(sizes, key=sizes.__getitem__), may_move=may_move)
    half = len(changed) // 2
    folders: list[str] = []
    total = 0
    for folder in sorted(sizes.keys() - bound, key=lambda folder: (-sizes[folder], folder)):
        if total + sizes[folder] <= half and len(folders) < _NAMED:
            folders.append(folder)
            total += sizes[folder]
    return folders if 4 * total >= len(changed) else []


def _folders(
    changed: Mapping[str, str], below: str, *, may_move: bool
) -> tuple[dict[str, int], set[str]]:
    """The number of files in each folder right ``below`` one, and the folders with moves."""
    sizes: dict[str, int] = {}
    bound: set[str] = set()
    skipped = len(below)
    for path, kind in changed.items():
        end = path.find("/", skipped) + 1
        if end and path.startswith(below):
            folder = path[:end]
            sizes[folder] = sizes.get(folder, 0) + 1
            if may_move and kind in "AD":
                bound.add(folder)
    return sizes, bound


def counts(data: bytes, moved: set[str] | None = None) -> list[LineCount]:
    """The records of ``git diff --numstat -z``; new names of renames are added to ``moved``."""
    fields = iter(data.decode("utf-8", "surrogateescape").split("\0"))
    return list(parse(fields, moved))


def parse(fields: Iterator[str], moved: set[str] | None = None) -> Iterator[LineCount]:
    """The same from their fields; a rename's names follow its counts."""
    for field in fields:
        if field:
            added, deleted, path = field.split("\t", 2)
            if not path:
                next(fields)
                path = next(fields)
                if moved is not None:
                    moved.add(path)
            if added == "-":
                yield LineCount(path, None, None)
            else:
                yield LineCount.of((path, int(added), int(deleted), None))


def beyond(counts: list[_Counted], other: list[_Counted], moved: set[str]) -> list[_Counted]:
    """What differs from both sides of a merge, with the smaller count of lines.

    With the larger one if it is a rename for one side alone: git may have paired a new file with
    one that the other side has deleted.
    """
    by_path = {file.path: file for file in other}
    both = ((file, by_path[file.path]) for file in counts if file.path in by_path)
    return [
        (max if pair[0].path in moved else min)(pair, key=lambda side: side.lines) for pair in both
    ]


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # macOS, Windows
        return os.cpu_count() or 1
