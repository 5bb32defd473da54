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
    repository = change.change.repository
    fork = repository.merge_base(merge.branch, merge.trunk)
    if fork is None:
        return
    branch = _difference(change, fork, merge.branch)
    merged = _difference(change, merge.branch, merge.commit)
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
        texts = _texts(change, (merge.trunk, change.head, merge.branch), file, after)
        for hunk in file.hunks or ():
            lost = _lost(hunk, after, added, texts) or _back(hunk, back, texts)
            if lost is None:
                continue
            if by_git is None:
                by_git = frozenset(merges.conflicted_paths(merge.branch, merge.trunk))
            is_silent = by_git.isdisjoint((file.path, file.old_path))
            start, end, line, is_back = lost
            yield LostHunk(
                merge.commit, fork if is_back else merge.branch,
                file.old_path if is_back else file.path, start, end, line, is_back, is_silent,
            )  # fmt: skip


def _difference(change: OpenChange, old: str, new: str) -> PatchDiff:
    side = ChangeSet(change.change.repository, "range", base=old, head=new, merge_base=old)
    return diff_of(side.files(), *side.hunks(0))


def _texts(
    change: OpenChange, commits: Sequence[str], file: FileDiff, after: FileDiff | None
) -> list[Counter[str]]:
    """The lines of a file at commits, counted, by whichever of its names it has there."""
    names = dict.fromkeys((after.path if after else file.path, file.path, file.old_path))
    specs = [f"{commit}:{name}" for commit in commits for name in names]
    contents = change.change.repository.read_small(specs, _LIMIT)
    texts = [(content or b"").decode("utf-8", "surrogateescape") for content in contents]
    lines = [Counter(line.strip() for line in text.split("\n")) for text in texts]
    count = len(names)
    return [reduce(or_, lines[start : start + count]) for start in range(0, len(lines), count)]


def _lost(
    hunk: Hunk, after: FileDiff | None, added: set[str], texts: Sequence[Counter[str]]
) -> tuple[int, int, int, bool] | None:
    """The lines that a hunk added and a merge removed, for nothing or for lines of the base."""
    if after is None or after.hunks is None:
        return None
    trunk, head, branch = texts
    lines = [line for line in hunk.lines if line.kind == "+" and _TELLING.search(line.text)]
    lines = [line for line in lines if line.text.strip() not in trunk]
    removed = _removed(after)
    for line in lines:
        text = line.text.strip()
        if line.new not in removed or text in added or head[text] >= branch[text]:
            return None
    if not lines:
        return None  # the base has the same
    numbers = [line.new for line in hunk.lines if line.kind == "+" and line.new]
    position, replaced = removed[lines[0].new or 0]
    if any(text.strip() and text.strip() not in trunk for text in replaced):
        return None  # somebody wrote it anew
    return numbers[0], numbers[-1], 0 if after.status == "D" else position, False


def _removed(file: FileDiff) -> Mapping[int, tuple[int, list[str]]]:
    """The lines that are gone, each with where it would be now, and the lines in its stead."""
    removed: dict[int, tuple[int, list[str]]] = {}
    for hunk in file.hunks or ():
        numbers: list[int] = []
        texts: list[str] = []
        position = hunk.new_start
        for line in hunk.lines:
            if line.kind == " ":
                numbers, texts, position = [], [], (line.new or 0) + 1
            elif line.kind == "-" and line.old:
                numbers.append(line.old)
                removed[line.old] = (max(1, position), texts)
            else:
                texts.append(line.text)
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
