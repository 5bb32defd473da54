"""Hunks of a change that vanished where its branch merged the base."""

from __future__ import annotations

import re
from collections import Counter
from functools import reduce
from operator import or_

from rlm_ci.change.change_set import ChangeSet, diff_of
from rlm_ci.text.globs import LOCK_FILES
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rlm_ci.git.patches import FileDiff, Hunk, PatchDiff
    from rlm_ci.git.repository import Repository
    from rlm_ci.together.conflicts import TrialMerges
    from rlm_ci.together.open_changes import OpenChange

#: Merges of one change that are looked at, the newest first, and bytes of a file.
MOST_MERGES, _LIMIT = 20, 1 << 20
#: Lines such as ``}`` and ``else:`` say nothing of where they come from.
_TELLING = re.compile(r"\w\W*\w\W*\w\W*\w\W*\w")


class LostHunk(Value):
    """Lines of ``path`` before ``merge`` that it lacks, or, if ``is_back``, has back.

    They stood from ``line_start`` to ``line_end`` of ``branch`` (of the base, if ``is_back``);
    ``line`` is where they would be after the merge, 0 where the file is gone. ``is_silent``: a
    merge by git alone had kept them.
    """

    merge: str
    branch: str
    path: str
    line_start: int
    line_end: int
    line: int
    is_back: bool
    is_silent: bool


class _Merge(Value):
    """A merge of the base: its commit, the branch before it, and the commit of the base."""

    commit: str
    branch: str
    trunk: str


def lost_hunks(change: OpenChange, merges: TrialMerges) -> list[LostHunk]:
    """The hunks that merges of the base lost, and that later commits did not bring back."""
    lost: list[LostHunk] = []
    for merge in _merges(change):
        lost += _of_merge(change, merge, merges)
    return lost


def _merges(change: OpenChange) -> Iterator[_Merge]:
    """The merges with one parent of the branch and one of the base, the newest first."""
    repository, base = change.change.repository, str(change.change.base)
    options = ("--merges", "--parents", f"--max-count={MOST_MERGES + 1}")
    rows = repository.run("rev-list", *options, change.head, "--not", base).decode().split("\n")
    if rows[MOST_MERGES + 1 :]:
        change.sides.limit(f"merges of {change.name} before its last {MOST_MERGES}")
    for row in rows[:MOST_MERGES]:
        commit, *parents = row.split() or [""]
        outside = [parent for parent in parents if parent not in change.commits]
        if len(parents) == 2 and len(outside) == 1:
            branch = next(parent for parent in parents if parent not in outside)
            yield _Merge(commit, branch, outside[0])


def _of_merge(change: OpenChange, merge: _Merge, merges: TrialMerges) -> Iterator[LostHunk]:
    repository = merges.repository
    fork = repository.merge_base(merge.branch, merge.trunk)
    if fork is None:
        return
    branch = _difference(repository, fork, merge.branch)
    merged = _difference(repository, merge.branch, merge.commit)
    added = {
        line.text.strip()
        for file in merged.files
        for hunk in file.hunks or ()
        for line in hunk.lines
        if line.kind == "+"
    }
    by_git = None
    for file in branch.files:
        after = merged.file(file.path, "old")
        back = merged.file(file.path) if file.status == "D" else after
        if after is None and back is None:
            continue  # the merge left it as the branch had it
        if file.path.rpartition("/")[2] in LOCK_FILES:
            continue  # a tool writes it anew
        by_git = by_git or repository.merge_trees(merge.branch, merge.trunk)
        names = tuple({file.path, file.old_path, after.path if after else file.path})
        is_silent = frozenset(names).isdisjoint(by_git[1])
        commits = merge.trunk, change.head, by_git[0] if is_silent else merge.branch, merge.commit
        texts = [_lines(repository, commit, names) for commit in commits]
        for hunk in file.hunks or ():
            lost = _lost(hunk, after, added, texts, is_silent=is_silent) or _back(hunk, back, texts)
            if lost is None:
                continue
            start, end, line, is_back = lost
            yield LostHunk(
                merge.commit, fork if is_back else merge.branch,
                file.old_path if is_back else file.path, start, end, line, is_back, is_silent,
            )  # fmt: skip


def _difference(repository: Repository, old: str, new: str) -> PatchDiff:
    side = ChangeSet(repository, "range", base=old, head=new, merge_base=old)
    return diff_of(side.files(), *side.hunks(0))


def _lines(repository: Repository, commit: str, names: Sequence[str]) -> Counter[str]:
    """The lines of a file at a commit, counted, by whichever of its names it has there."""
    contents = repository.read_small([f"{commit}:{name}" for name in names], _LIMIT)
    texts = [(content or b"").decode("utf-8", "surrogateescape") for content in contents]
    return reduce(or_, (Counter(line.strip() for line in text.split("\n")) for text in texts))


def _lost(
    hunk: Hunk, after: FileDiff | None, added: set[str], texts: Sequence[Counter[str]],
    *, is_silent: bool,
) -> tuple[int, int, int, bool] | None:  # fmt: skip
    """The lines that a hunk added and a merge removed, for nothing or for lines of the base.

    A merge in conflict must have removed all of them: to leave some of them out may be its answer.
    """
    if after is None or after.hunks is None:
        return None
    trunk, head, expected, at_merge = texts
    present = head | at_merge  # later commits may bring lines back, or take them away
    removed = _removed(after)
    numbers = [line.new for line in hunk.lines if line.kind == "+" and line.new]
    candidates, lost = 0, []
    for line in hunk.lines:
        text, number = line.text.strip(), line.new or 0
        if line.kind != "+" or not _TELLING.search(text) or not (is_silent or text not in trunk):
            continue
        candidates += 1
        if number in removed and text not in added and present[text] < expected[text]:
            position, replaced = removed[number]
            # What nobody had before was written anew.
            if not any(other.strip() and other.strip() not in trunk for other in replaced):
                lost.append((number, position))
    if not lost or not (is_silent or len(lost) == candidates):
        return None
    if len(lost) < candidates:
        numbers = [number for number, _ in lost]
    return numbers[0], numbers[-1], 0 if after.status == "D" else lost[0][1], False


def _removed(file: FileDiff) -> Mapping[int, tuple[int, list[str]]]:
    """The lines that are gone, each with where it would be now, and the lines in its stead."""
    removed: dict[int, tuple[int, list[str]]] = {}
    for hunk in file.hunks or ():
        texts = [line.text for line in hunk.lines if line.kind == "+"]
        position = max(1, hunk.new_start)
        removed |= {line.old: (position, texts) for line in hunk.lines if line.old}
    return removed


def _back(
    hunk: Hunk, after: FileDiff | None, texts: Sequence[Counter[str]]
) -> tuple[int, int, int, bool] | None:
    """The lines that a hunk only removed and a merge has back."""
    if after is None or any(line.kind == "+" for line in hunk.lines):
        return None
    head = texts[1]
    lines = [line for line in hunk.lines if line.kind == "-"]
    telling = {line.text.strip() for line in lines if _TELLING.search(line.text)}
    added = [line for other in after.hunks or () for line in other.lines if line.kind == "+"]
    back = [line for line in added if line.text.strip() in telling]
    if not telling or {line.text.strip() for line in back} != telling or not telling <= head.keys():
        return None
    return lines[0].old or 1, lines[-1].old or 1, back[0].new or 1, True
