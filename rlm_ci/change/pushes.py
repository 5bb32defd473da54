"""What a push adds: beyond the default branch, and beyond the last push of the branch.

The default branches are remote-tracking refs of ``origin`` (or the only remote) and ``upstream``.
"""

from __future__ import annotations

from rlm_ci.change import change_set
from rlm_ci.text.printable import printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from rlm_ci.change.change_set import ChangeSet
    from rlm_ci.git.repository import Repository


#: Refs of a change that are named.
_NAMED = 3


class PushedRef(Value):
    """A pushed ref, as a hook gets it: the names and objects of both sides."""

    local_ref: str
    local: str
    remote_ref: str
    remote: str

    @property
    def name(self) -> str:
        """The branch that it goes to, or the ref's full name."""
        return self.remote_ref.removeprefix("refs/heads/")


def from_refs(
    repository: Repository, refs: Sequence[PushedRef], note: Callable[[str], None]
) -> list[ChangeSet]:
    """The changes of a push hook, each once, even if several refs bring it.

    ``note`` is called for a tag of a tree or file, which brings no commit.
    """
    kinds = _kinds(repository, refs)
    names: dict[tuple[Any, ...], list[str]] = {}
    judged: dict[tuple[Any, ...], ChangeSet] = {}
    for ref in refs:
        kind = kinds.get(ref.local, "commit")
        if kind in ("tree", "blob"):
            note(f"{printable(ref.local_ref)} names a {kind}, not a commit: it is not checked")
            continue
        known = kinds.get(ref.remote, "commit") == "commit"
        change = _of_ref(repository, ref, first=not (known and ref.remote.strip("0")))
        sides = (change.base, change.head, change.merge_base, change.also)
        judged.setdefault(sides, change)
        names.setdefault(sides, []).append(ref.name)
    return [change.replace(label=_listed(names[sides])) for sides, change in judged.items()]


def _of_ref(repository: Repository, ref: PushedRef, *, first: bool) -> ChangeSet:
    source = f"the push of {printable(ref.local_ref)}"
    fields = {"trigger": "push", "target": ref.name}
    if first:
        return from_first(repository, ref.local, None, source, **fields)
    return from_update(repository, ref.remote, ref.local, source, **fields)


def _kinds(repository: Repository, refs: Sequence[PushedRef]) -> dict[str, str]:
    """The kinds of the objects of refs that are no branches: commit, tree or blob."""
    others = [ref for ref in refs if not ref.remote_ref.startswith("refs/heads/")]
    oids = [oid for ref in others for oid in (ref.local, ref.remote) if oid.strip("0")]
    if not oids:
        return {}
    asked = "".join(f"{oid}^{{}}\n" for oid in oids).encode("utf-8", "surrogateescape")
    answer = repository.run("cat-file", "--batch-check=%(objecttype)", stdin=asked)
    lines = answer.decode("utf-8", "surrogateescape").split("\n")
    return {
        oid: line
        for oid, line in zip(oids, lines, strict=False)
        if line in ("commit", "tree", "blob")
    }


def _listed(names: Sequence[str]) -> str:
    rest = len(names) - _NAMED
    shown = ", ".join(names[:_NAMED])
    return f"{shown} and {rest} more" if rest > 0 else shown


def from_first(
    repository: Repository, head: str, remote: str | None, source: str, **fields: Any
) -> ChangeSet:
    """A first push: against the merge base with the default branch, else the empty tree."""
    head = change_set.require(repository, head, "head", source)
    target = fields.get("target")
    base, merge_base = None, None
    default = repository.default_branch(remote)
    if (target or "").startswith("refs/tags/") and not repository.run(
        "rev-list", "-n", "1", head, "--not", "--remotes"
    ):  # a branch of a remote has it already
        base = merge_base = head
    # Of the default branch itself all is new.
    elif default and (default[1] != head or target not in (None, default[0])):
        known = (default[1], *(commit for _, commit in _defaults(repository)))
        merge_base = _merge_base(repository, head, known)
        base = default[1] if merge_base else None
    merge_base = merge_base or repository.empty_tree()
    return change_set.ChangeSet(repository, base=base, head=head, merge_base=merge_base, **fields)


def from_update(
    repository: Repository, old: str, new: str, source: str, **fields: Any
) -> ChangeSet:
    """A push to a branch that was at ``old``.

    It is the change since ``old``, or since the default branch was merged into it, or it was
    rebased on that: what a reviewer will see.
    """
    change = change_set.from_range(repository, old, new, source, **fields)
    defaults = _defaults(repository)
    if not defaults or fields.get("target") in [name for name, _ in defaults]:
        return change
    taken = _merge_base(repository, change.head or new, [commit for _, commit in defaults])
    if taken is None or taken == change.merge_base:
        return change
    older = repository.merge_base(change.merge_base or old, taken)
    if older == taken:
        return change
    # A merge still has what was pushed before, which is judged already.
    also = () if older == change.merge_base else (change.merge_base or old,)
    return change.replace(base=taken, merge_base=taken, also=also)


def from_default_branch(repository: Repository) -> ChangeSet:
    """From the merge base with the default branch to HEAD; on that branch, HEAD's own commit.

    Of two remotes' default branches, the one with the newer merge base counts.
    """
    default = repository.default_branch()
    head_ref = repository.head_ref()
    source = "the default branch"
    if default is None or head_ref == f"refs/heads/{default[0]}":
        return change_set.from_commit(repository, "HEAD", source)
    head = change_set.require(repository, "HEAD", "head", "the current branch")
    tips = [default[1], *(commit for _, commit in _defaults(repository))]
    newest = _merge_base(repository, head, tips)
    if newest == head:
        return change_set.from_commit(repository, "HEAD", source)
    change = change_set.from_range(repository, default[1], head, source, target=default[0])
    before = change.merge_base or head
    if newest not in (None, before) and repository.merge_base(before, newest) == before:
        return change.replace(base=newest, merge_base=newest)
    return change


def _merge_base(repository: Repository, head: str, others: Iterable[str]) -> str | None:
    found = repository.run("merge-base", head, *others, ok=(0, 1)).split()
    return found[0].decode() if found else None


def _defaults(repository: Repository) -> list[tuple[str, str]]:
    """Name and commit of each remote's default branch, if the clone has it."""
    own = repository.remote()
    remotes = dict.fromkeys((own, "origin", "upstream"))
    guesses = ("HEAD", "main", "master")
    told = (repository.told_default,) if repository.told_default else ()
    refs = repository.refs(
        *(f"refs/remotes/{one}/{name}" for one in remotes for name in (*told, *guesses))
    )
    found = []
    for remote in remotes:
        prefix = f"refs/remotes/{remote}/"
        names = (*told, *guesses) if remote == own else guesses
        known = next((prefix + name for name in names if prefix + name in refs), None)
        if known:
            commit, target = refs[known]
            found.append(((target or known).removeprefix(prefix), commit))
    return found
