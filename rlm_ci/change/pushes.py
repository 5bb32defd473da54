"""What a push adds: beyond the last push of the branch, and beyond what other branches have.

So is a pull request judged, whose event names an old base.

The default branches are remote-tracking refs of ``origin`` (or the only remote) and ``upstream``.
"""

from __future__ import annotations

from rlm_ci.change import change_set
from rlm_ci.errors import ConfigError
from rlm_ci.text.printable import printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence
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
        is_commit = kinds.get(ref.remote, "commit") == "commit"
        # No tags: one on the head itself would hide what the branch is built on.
        branches = (other.local_ref for other in refs if other is not ref)
        beside = [name for name in branches if name.startswith("refs/heads/")]
        change = _of_ref(repository, ref, beside, first=not (is_commit and ref.remote.strip("0")))
        sides = (change.base, change.head, change.merge_base, change.also)
        judged.setdefault(sides, change)
        names.setdefault(sides, []).append(ref.name)
    return [
        change.replace(label=", ".join(filter(None, (_listed(names[sides]), change.label))))
        for sides, change in judged.items()
    ]


def _of_ref(
    repository: Repository, ref: PushedRef, beside: Sequence[str], *, first: bool
) -> ChangeSet:
    source = f"the push of {printable(ref.local_ref)}"
    fields: dict[str, Any] = {"trigger": "push", "target": ref.name, "beside": beside}
    if first:
        return from_first(repository, ref.local, None, source, **fields)
    return from_update(repository, ref.remote, ref.local, source, **fields)


def _kinds(repository: Repository, refs: Sequence[PushedRef]) -> dict[str, str]:
    """The kinds of the objects of refs that are no branches: commit, tree or blob."""
    others = [ref for ref in refs if not ref.remote_ref.startswith("refs/heads/")]
    oids = [oid for ref in others for oid in (ref.local, ref.remote) if oid.strip("0")]
    if not oids:
        return {}
    queries = "".join(f"{oid}^{{}}\n" for oid in oids).encode("utf-8", "surrogateescape")
    answer = repository.run("cat-file", "--batch-check=%(objecttype)", stdin=queries)
    lines = answer.decode("utf-8", "surrogateescape").split("\n")
    return {
        oid: line
        for oid, line in zip(oids, lines, strict=False)
        if line in ("commit", "tree", "blob")
    }


def _listed(names: Sequence[str]) -> str:
    others = len(names) - _NAMED
    shown = ", ".join(names[:_NAMED])
    return f"{shown} and {others} more" if others > 0 else shown


def from_first(
    repository: Repository,
    head: str,
    remote: str | None,
    source: str,
    *,
    beside: Sequence[str] = (),
    **fields: Any,
) -> ChangeSet:
    """A first push: since what the remote has of it; all of it where it has nothing.

    ``beside`` are local refs of the same push, judged by themselves. Raises ConfigError where the
    clone does not have enough to know.
    """
    head = change_set.require(repository, head, "head", source)
    target = fields.get("target")
    base, bases = None, list[str]()
    default, job_default = repository.default_branch(remote), repository.told_default
    name, tip = default or (job_default, head)
    is_default = target == name
    if (target or "").startswith("refs/tags/") and not repository.run(
        "rev-list", "-n", "1", head, "--not", "--remotes"
    ):  # a branch of a remote has it already
        base, bases = head, [head]
    # Of the default branch itself all is new.
    elif tip != head or not (is_default or (default and target is None)):
        # Another branch may be its author's, or older than where this one starts.
        if job_default and (default is None or name != job_default):
            raise _unknown_start(repository, f"{repository.remote()}/{job_default}", source)
        defaults = [tip] if default else []
        defaults += [commit for _, commit in _defaults(repository)]
        to = None if is_default else target
        shared, bases = _since_pushed(repository, head, defaults, beside, to)
        base = tip if shared else bases[0] if bases else None
        if repository.is_shallow() and not (shared if job_default else bases):
            raise _unknown_start(repository, "", source)
        if not bases:
            fields["label"] = "all of it, as it shares no commit with a known branch of a remote"
    merge_base, *also = bases or [repository.empty_tree()]
    return change_set.ChangeSet(
        repository, base=base, head=head, merge_base=merge_base, also=tuple(also), **fields
    )


def _unknown_start(repository: Repository, default: str, source: str) -> ConfigError:
    """The error of a branch whose start is not in the clone, as ``default`` may be missing too."""
    from rlm_ci.git.errors import fetch_hint

    return ConfigError(
        f"the default branch {printable(default)[:80]!r} is not in this clone"
        if default
        else "where this branch starts is not in this clone",
        where=source,
        hint=fetch_hint(default, repository.remote(), shallow=repository.is_shallow()),
    )


def _since_pushed(
    repository: Repository,
    head: str,
    defaults: Sequence[str],
    beside: Sequence[str],
    target: str | None,
) -> tuple[str | None, list[str]]:
    """The merge base with the default branches, and the nearest ones with any pushed branch.

    A branch that has all of ``head`` is no base: else each of two that are pushed together would
    hide the other. In a job other branches may have been pushed since, so only one counts that
    ``head`` is built on, by first parents: its own push was judged. Nor is the branch ``target`` a
    base, or any but the default ones without a target.
    """
    shared = _merge_base(repository, head, defaults) if defaults else None
    if target is None:
        return shared, [shared] if shared else []
    refs = repository.refs("refs/remotes")
    refs |= repository.refs(f"--merged={head}", *beside) if beside else {}
    tips = {
        commit
        for name, (commit, _) in refs.items()
        if name.removeprefix("refs/remotes/").partition("/")[2] != target
    }
    tips -= {head, *defaults}
    starts = _starts(repository, head, tips, defaults) if tips else []
    if head in starts or not starts:
        first = shared or next(iter(starts), None)
        return shared, [first] if first else []
    starts += [shared] if shared else []
    merge_bases = repository.run("merge-base", "--all", head, *starts).split()
    # The default branch first: its merge base is what a reviewer compares with.
    return shared, sorted((oid.decode() for oid in merge_bases), key=lambda oid: oid != shared)


def _starts(
    repository: Repository, head: str, tips: Collection[str], defaults: Sequence[str]
) -> list[str]:
    """The commits of ``tips`` and ``defaults`` on which the new commits of ``head`` begin.

    They are ``head`` itself where one of these has it.
    """
    is_job = bool(repository.told_default)
    how = "--first-parent" if is_job else "--boundary"
    excluded = defaults if is_job else (*tips, *defaults)
    listed = "".join(f"{line}\n" for line in (head, *(f"^{commit}" for commit in excluded)))
    rows = repository.run("rev-list", how, "--stdin", stdin=listed.encode()).decode().split()
    if is_job:
        below = next((row for row in rows if row in tips), None)
        # An empty commit on a branch with all of it must not leave nothing to judge.
        return [below] if below and repository.diff_trees(below, head, "--raw") else []
    return [row[1:] for row in rows if row.startswith("-")] if rows else [head]


def from_update(
    repository: Repository,
    old: str,
    new: str,
    source: str,
    *,
    is_forced: bool = True,
    beside: Sequence[str] = (),
    **fields: Any,
) -> ChangeSet:
    """A push to a branch that was at ``old``.

    It is the change since ``old``, or since the default branch was merged into it, or it was
    rebased: what a reviewer will see. A forced push may replace commits that are in no clone, or
    have nothing in common: then it is all beyond the default branch.
    """
    defaults = _defaults(repository)
    target, is_job = fields.get("target"), bool(repository.told_default)
    is_default = target in [name for name, _ in defaults]
    try:
        change = change_set.from_range(repository, old, new, source, **fields)
    except ConfigError:
        if not is_forced or (is_job and repository.is_shallow()):
            raise
        if is_job and is_default and repository.resolve(old)[0] is None:
            raise ConfigError(
                f"what the forced push replaced, {old[:12]}, is in no clone made since",
                where=source,
                hint=f"git fetch {repository.remote()} {old}",
            ) from None
        fields["label"] = "beyond the default branch, as a forced push replaced what was there"
        return from_first(repository, new, None, source, beside=beside, **fields)
    if not defaults or is_default:
        return change
    tips = [commit for _, commit in defaults]
    head, before = change.head or new, change.merge_base or old
    if before == change.base:
        policy = taken = _merge_base(repository, head, tips)
    else:  # rewritten, perhaps on another branch that is pushed
        policy, starts = _since_pushed(repository, head, tips, beside, target)
        taken = starts[0] if starts else None
    # A job may come after the default branch took all of it: that was pushed here all the same.
    if policy is None or taken in (None, before) or (is_job and taken == head):
        return change
    older = repository.merge_base(before, taken)
    if older == taken:
        return change
    # A merge still has what was pushed before, which is judged already.
    also = () if older == before else (before,)
    return change.replace(base=policy, merge_base=taken, also=also)


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
    return _since(change, newest)


def since_branch(change: ChangeSet, branch: str) -> ChangeSet:
    """``change`` since the merge base with a branch of the remote, if that is newer.

    An event may name an older commit of the branch than its head has merged.
    """
    repository = change.repository
    prefix = f"refs/remotes/{repository.remote()}"
    # All are listed: a hostile name cannot be an argument.
    tip, _ = repository.refs(prefix).get(f"{prefix}/{branch}", (None, ""))
    if change.head is None or tip in (None, change.base):
        return change
    newest = repository.merge_base(change.head, tip)
    return change if newest == change.head else _since(change, newest)


def _since(change: ChangeSet, commit: str | None) -> ChangeSet:
    """``change`` since ``commit``, if its merge base is an ancestor of that."""
    before = change.merge_base or ""
    if commit in (None, before) or change.repository.merge_base(before, commit) != before:
        return change
    return change.replace(base=commit, merge_base=commit)


def _merge_base(repository: Repository, head: str, others: Iterable[str]) -> str | None:
    oids = repository.run("merge-base", head, *others, ok=(0, 1)).split()
    return oids[0].decode() if oids else None


def _defaults(repository: Repository) -> list[tuple[str, str]]:
    """Name and commit of each remote's default branch, if the clone has it."""
    preferred = repository.remote()
    remotes = dict.fromkeys((preferred, "origin", "upstream"))
    guesses = ("HEAD", "main", "master")
    job_names = (repository.told_default,) if repository.told_default else ()
    refs = repository.refs(
        *(f"refs/remotes/{remote}/{name}" for remote in remotes for name in (*job_names, *guesses))
    )
    defaults = []
    for remote in remotes:
        prefix = f"refs/remotes/{remote}/"
        names = (*job_names, *guesses) if remote == preferred else guesses
        ref = next((prefix + name for name in names if prefix + name in refs), None)
        if ref:
            commit, target = refs[ref]
            defaults.append(((target or ref).removeprefix(prefix), commit))
    return defaults
