"""Change sets of a repository, and what git itself counts of them."""

from __future__ import annotations

import os

from rlm_ci.change import change_set
from rlm_ci.change.change_set import ChangeSet
from rlm_ci.git.repository import Repository, discover
from testing import reference_counts
from testing.repositories.git_repo import EMPTY_TREE, GitRepo, History


def repository(repo: GitRepo) -> Repository:
    return Repository(*discover(os.fspath(repo)), os.environ)


def change_of(history: History) -> ChangeSet:
    """The range, or for a root commit that commit."""
    opened = repository(history.repo)
    if history.base == EMPTY_TREE:
        return change_set.from_commit(opened, history.head)
    return change_set.from_range(opened, history.base, history.head, "test")


def counted(change: ChangeSet, *, renames: bool = True) -> reference_counts.Numstat:
    files = {one.path: (one.added, one.deleted) for one in change.files(renames=renames)}
    if not change.worktree:
        with change.count(renames=renames) as counting:
            assert {one.path: (one.added, one.deleted) for one in counting.finish()} == files
        with change.count(renames=renames) as counting:  # and by two gits, a part each
            counting.share(change.kinds, minimum=2)
            assert {one.path: (one.added, one.deleted) for one in counting.finish()} == files
    return files


def assert_hunks_are_the_difference(change: ChangeSet, repo: GitRepo) -> None:
    """Applied to the old text of each file, the hunks give the new one; none is missing."""
    hunks, failed = change.hunks()
    assert failed == []
    files = {one.path: one for one in change.files()}
    assert hunks.keys() <= files.keys()
    for path, one in files.items():
        parts = hunks.get(path, ())
        if one.added is None:
            # A link that became a binary file is still told as the deletion of the link.
            assert parts == () or one.status == "T", path
            continue
        assert reference_counts.counts(parts) == (one.added, one.deleted), path
        old = reference_counts.content(repo, one.old_mode, one.old_oid)
        new = reference_counts.content(repo, one.new_mode, one.new_oid)
        if one.status == "T":  # told as a deletion and a creation
            half = [hunk for hunk in parts if hunk.new_count == 0]
            assert reference_counts.apply(old, half) == []
            assert reference_counts.apply(b"", parts[len(half) :]) == reference_counts.split(new)
        else:
            assert reference_counts.apply(old, parts) == reference_counts.split(new), path
