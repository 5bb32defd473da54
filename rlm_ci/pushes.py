"""What a branch brings that nobody has seen: beyond the default branch, beyond its last push.

A clone knows the default branches by its remote-tracking refs, of ``origin`` (or the only
remote) and, since a fork is rebased on what it was forked from, of ``upstream``. No other
ref takes anything away: where else a commit has been pushed says little of who has read it.
"""

from __future__ import annotations

from rlm_ci import changes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from rlm_ci.changes import ChangeSet
    from rlm_ci.git import Repository


def from_first(
    repository: Repository, head: str, remote: str | None, source: str, **fields: Any
) -> ChangeSet:
    """A first push: against the merge base with the default branch, else the empty tree."""
    head_commit = changes.require(repository, head, "head", source)
    if (fields.get("target") or "").startswith("refs/tags/") and not repository.run(
        "rev-list", "-n", "1", head_commit, "--not", "--remotes"
    ):  # it names what some branch of a remote has: nothing comes in
        return changes.ChangeSet(
            repository, base=head_commit, head=head_commit, merge_base=head_commit, **fields
        )
    default = repository.default_branch(remote)
    # Of the default branch itself, which the clone may know by now, all is new.
    if default and (default[1] != head_commit or fields.get("target") not in (None, default[0])):
        known = (default[1], *(commit for _, commit in _defaults(repository)))
        merge_base = _merge_base(repository, head_commit, known)
        if merge_base:
            return changes.ChangeSet(
                repository, base=default[1], head=head_commit, merge_base=merge_base, **fields
            )
    empty = repository.empty_tree()
    return changes.ChangeSet(repository, base=None, head=head_commit, merge_base=empty, **fields)


def from_update(
    repository: Repository, old: str, new: str, source: str, **fields: Any
) -> ChangeSet:
    """A push to a branch that was at ``old``.

    It is the change since ``old``. Where the default branch was merged into it since, or it
    was rebased on that, it is the change since then: as a reviewer will see it.
    """
    change = changes.from_range(repository, old, new, source, **fields)
    defaults = _defaults(repository)
    if not defaults or fields.get("target") in [name for name, _ in defaults]:
        return change
    taken = _merge_base(repository, change.head or new, [commit for _, commit in defaults])
    if taken is None or taken == change.merge_base:
        return change
    older = repository.merge_base(change.merge_base or old, taken)
    if older == taken:
        return change
    # A rebase leaves what was pushed before behind; a merge still has it, seen and judged.
    also = () if older == change.merge_base else (change.merge_base or old,)
    return change.replace(base=taken, merge_base=taken, also=also)


def from_default_branch(repository: Repository) -> ChangeSet:
    """From the merge base with the default branch to HEAD; on that branch, HEAD's own commit.

    So it is where that branch has gone on since HEAD, which is then detached, as a rule. Of
    two remotes' default branches it is the one with the newer merge base.
    """
    default = repository.default_branch()
    head_ref = repository.head_ref()
    source = "the default branch"
    if default is None or head_ref == f"refs/heads/{default[0]}":
        return changes.from_commit(repository, "HEAD", source)
    head = changes.require(repository, "HEAD", "head", "the current branch")
    tips = [default[1], *(commit for _, commit in _defaults(repository))]
    if head in tips:
        return changes.from_commit(repository, "HEAD", source)
    change = changes.from_range(repository, default[1], head, source, target=default[0])
    before = change.merge_base or head
    newer = _merge_base(repository, head, tips) or before
    if newer == head:
        return changes.from_commit(repository, "HEAD", source)
    if newer != before and repository.merge_base(before, newer) == before:
        return change.replace(base=newer, merge_base=newer)
    return change


def _merge_base(repository: Repository, head: str, others: Iterable[str]) -> str | None:
    """The merge base of ``head`` and all that ``others`` have together."""
    found = repository.run("merge-base", head, *others, ok=(0, 1)).split()
    return found[0].decode() if found else None


def _defaults(repository: Repository) -> list[tuple[str, str]]:
    """Name and commit of the default branch of each remote, as far as the clone knows them."""
    remotes = dict.fromkeys((repository.remote(), "origin", "upstream"))
    names = ("HEAD", "main", "master")
    refs = repository.refs(*(f"refs/remotes/{one}/{name}" for one in remotes for name in names))
    found = []
    for remote in remotes:
        prefix = f"refs/remotes/{remote}/"
        known = next((prefix + name for name in names if prefix + name in refs), None)
        if known:
            commit, target = refs[known]
            found.append(((target or known).removeprefix(prefix), commit))
    return found
