"""Textual conflicts: merges that are tried on trees, without a work tree, attributes or hooks."""

from __future__ import annotations

from rlm_ci.change.change_set import ChangeSet
from rlm_ci.git.remote_access import AUTHOR
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from rlm_ci.git.patches import Hunk
    from rlm_ci.git.repository import Repository
    from rlm_ci.together.open_changes import OpenChange


class ConflictSide(Value):
    """Where one side of a conflict is: a line of its head, or one at its base that is gone."""

    path: str
    line: int | None = None
    old: bool = False


class Conflict(Value):
    """A path that a merge leaves in conflict, with both sides; without lines for a whole file."""

    path: str
    sides: tuple[ConflictSide, ConflictSide]


class TrialMerges:
    """Merges of changes with ``base`` and each other; ``repository`` puts objects in ``folder``."""

    def __init__(self, repository: Repository, base: str, folder: str) -> None:
        self.repository = repository.with_objects(folder)
        self._base = base
        self._merged: dict[str, tuple[str, list[str]]] = {}

    def with_base(self, change: OpenChange) -> list[str]:
        """The paths of a change in conflict with the base."""
        return self._on_base(change)[1]

    def between(self, change: OpenChange, other: OpenChange) -> list[Conflict]:
        """What conflicts once one of two changes is merged, which both merge cleanly alone."""
        if self._is_apart(change, other):
            return []
        if change.commits & other.commits:  # they have a later merge base than ours
            _, paths = self.repository.merge_trees(change.head, other.head)
            heads = change.head, other.head
        else:
            heads = self._on_base(change)[0], self._on_base(other)[0]
            _, paths = self.repository.merge_trees(*heads)
        return [self._located(path, (change, other), heads) for path in paths]

    def base_conflict(self, change: OpenChange, path: str) -> Conflict:
        """Where a change conflicts with the base."""
        trunk = self._hunks(change.merge_base, self._base, path)
        return _between(path, change.hunks.get(path, ()), trunk)

    def _on_base(self, change: OpenChange) -> tuple[str, list[str]]:
        """A commit of the base with the change merged, and the paths in conflict."""
        if change.merge_base == self._base:
            return change.head, []
        if change.name not in self._merged:
            tree, paths = self.repository.merge_trees(self._base, change.head)
            who = f"{AUTHOR[0]} <{AUTHOR[1]}> 0 +0000"
            text = f"tree {tree}\nparent {self._base}\nauthor {who}\ncommitter {who}\n\nTrial\n"
            output = self.repository.run(
                "hash-object", "-w", "-t", "commit", "--stdin", stdin=text.encode()
            )
            self._merged[change.name] = output.decode().strip(), paths
        return self._merged[change.name]

    def _is_apart(self, change: OpenChange, other: OpenChange) -> bool:
        """Whether no path of two changes meets, so that no merge can leave a conflict."""
        if _with_folders(change.paths) & other.paths or change.paths & _with_folders(other.paths):
            return False
        moved = _left_folders(change) & _filled_folders(other)
        return not (moved or _left_folders(other) & _filled_folders(change))

    def _located(
        self, path: str, changes: tuple[OpenChange, OpenChange], heads: tuple[str, str]
    ) -> Conflict:
        """The lines of a conflict in both heads, which may lack lines that the base has by now."""
        hunks = [self._hunks(self._base, head, path) for head in heads]
        conflict = _between(path, *hunks)
        sides = (
            _in_head(side, merged, change.hunks.get(side.path, ()))
            for side, merged, change in zip(conflict.sides, hunks, changes, strict=True)
        )
        first, second = sides
        return Conflict(path, (first, second))

    def _hunks(self, old: str, new: str, path: str) -> Sequence[Hunk]:
        change = ChangeSet(self.repository, "range", base=old, head=new, merge_base=old)
        return change.hunks(0)[0].get(path, ())


def _between(path: str, hunks: Sequence[Hunk], others: Sequence[Hunk]) -> Conflict:
    """Where two differences of one base first touch."""
    for hunk in hunks:
        for other in others:
            if _touch(hunk, other):
                return Conflict(path, (_side(path, hunk), _side(path, other)))
    first, second = (
        _side(path, some[0]) if len(some) == 1 else ConflictSide(path) for some in (hunks, others)
    )
    return Conflict(path, (first, second))


def _touch(hunk: Hunk, other: Hunk) -> bool:
    """Whether a merge cannot tell two hunks apart: they share lines, or lie side by side."""
    (start, end), (other_start, other_end) = map(_old_lines, (hunk, other))
    return start <= other_end + 1 and other_start <= end + 1


def _old_lines(hunk: Hunk) -> tuple[int, int]:
    """The first and last line at the base; the gap behind a line for a hunk that only adds."""
    start, end = hunk.span("old")
    return (start + 1, start) if end < start else (start, end)


def _side(path: str, hunk: Hunk) -> ConflictSide:
    if hunk.new_count:
        return ConflictSide(path, hunk.new_start)
    return ConflictSide(path, hunk.old_start, old=True)


def _in_head(side: ConflictSide, merged: Sequence[Hunk], hunks: Sequence[Hunk]) -> ConflictSide:
    """A side of a conflict with its line in the head itself: that of the same text, the nearest."""
    line = side.line
    if line is None or merged == hunks:
        return side
    kind, number = ("-", "old") if side.old else ("+", "new")
    texts = {
        text.text
        for hunk in merged
        for text in hunk.lines
        if text.kind == kind and getattr(text, number) == line
    }
    numbers = [
        getattr(text, number)
        for hunk in hunks
        for text in hunk.lines
        if text.kind == kind and text.text in texts
    ]
    return side.replace(line=min(numbers, key=lambda other: abs(other - line), default=None))


def _with_folders(paths: Collection[str]) -> frozenset[str]:
    """Paths with the folders above them: a file may be in the way of a folder."""
    parts = (path.split("/") for path in paths)
    return frozenset("/".join(names[:end]) for names in parts for end in range(1, len(names) + 1))


def _left_folders(change: OpenChange) -> frozenset[str]:
    """The folders that files are moved from."""
    moved = (file.old_path for file in change.sides.files if file.status == "R")
    return frozenset(folder for path in moved for folder in _with_folders([path]) - {path})


def _filled_folders(change: OpenChange) -> frozenset[str]:
    """The folders that get new files."""
    new = (file.path for file in change.sides.files if file.status in ("A", "C", "R"))
    return frozenset(folder for path in new for folder in _with_folders([path]) - {path})
