"""Archive documents: plan, push full texts, find them on the remote, and only then write stubs.

Killed between any two steps, a document is in the work tree or on the remote's branch, and the next
run takes up what is left.
"""

from __future__ import annotations

from rlm_ci.archive.batches import Batches, on_branches
from rlm_ci.archive.payloads import Payloads
from rlm_ci.archive.plan import ArchivePlanner
from rlm_ci.archive.policy import ArchivePolicy
from rlm_ci.archive.tasks import REGISTRY, Registry
from rlm_ci.archive.work_tree import DocumentTree
from rlm_ci.change import change_set
from rlm_ci.change.change_set import ChangeSet
from rlm_ci.checks._doc_archive.archive import (
    ask_archive,
    bad_policy,
    fetch_archive,
    find_archive,
)
from rlm_ci.console.messages import say
from rlm_ci.errors import ConfigError, RlmCiError
from rlm_ci.git import tracked
from rlm_ci.system import files
from rlm_ci.text import dates
from rlm_ci.values import Value
from rlm_ci.workspace.snapshot import object_folders

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rlm_ci.archive.batches import Batch
    from rlm_ci.archive.plan import ArchivePlan
    from rlm_ci.git.remote_clone import RemoteUser
    from rlm_ci.git.repository import Repository

#: Bytes of the registry.
_LIMIT = 64 << 20


class ArchiveOptions(Value):
    """``base``: what must have no open items either, "" for the default branch."""

    user: RemoteUser
    base: str = ""
    split: bool = False
    dry_run: bool = False


class ArchiveOutcome(Value):
    """What was planned, and what became of it: the commit of the archive branch, the branches.

    ``marked`` is the number of rows of the registry that were marked in the work tree; ``over``
    says by how much the stubs there exceed the diff budget.
    """

    plan: ArchivePlan
    pushed: str | None = None
    batches: tuple[Batch, ...] = ()
    marked: int = 0
    over: str = ""


def plan(repository: Repository, options: ArchiveOptions) -> ArchivePlan:
    """What would be archived now, as far as this clone knows the archive. Raises ConfigError."""
    head = change_set.require(repository, "HEAD", "head", "HEAD")
    change = ChangeSet(repository, "worktree", head=head)
    policy = ArchivePolicy.read(change)
    _require_apart(repository, policy.branch)
    registry = Registry(_registry(repository, head, split=options.split))
    tree = None if options.split else DocumentTree(repository)
    planner = ArchivePlanner(
        repository, policy, head, _base(repository, options), registry, day=dates.today(), tree=tree
    )
    archive_plan = planner.plan()
    if options.split:  # a branch marks the rows of its own documents alone
        archive_plan = archive_plan.without(
            on_branches(repository, archive_plan.documents)
        ).replace(unmarked=())
    return _as_known(repository, archive_plan) if options.dry_run else archive_plan


def _require_apart(repository: Repository, branch: str) -> None:
    """Raise ConfigError for an archive on a branch that gets the stubs, too."""
    default = repository.default_branch()
    if branch == (default and default[0]) or repository.head_ref() == f"refs/heads/{branch}":
        raise bad_policy(f"archive_branch is {branch}, which gets the stubs", "name another one")


def _as_known(repository: Repository, archive_plan: ArchivePlan) -> ArchivePlan:
    """The plan without what the archive, as this clone knows it, cannot take."""
    branch = archive_plan.policy.branch
    with ask_archive(repository, branch) as asking:
        tip = find_archive(repository, branch, asking.finish())
    if tip is None:
        return archive_plan
    payloads = Payloads(repository, archive_plan)
    entries = repository.tree(tip).items()
    archived = {path: entry.oid if entry.is_file else "" for path, entry in entries}
    payloads.missing_in(archived)
    return payloads.narrowed(archived)


def archive(repository: Repository, options: ArchiveOptions) -> ArchiveOutcome:
    """Carry the plan out. Raises RlmCiError; what is done by then stays done."""
    archive_plan = plan(repository, options)
    if options.dry_run or not (archive_plan.documents or archive_plan.unmarked):
        return ArchiveOutcome(archive_plan)
    with options.user.clone(repository) as clone:
        for folder in object_folders(repository):
            clone.borrow(folder)
        payloads = Payloads(repository, archive_plan)
        pushed = payloads.push(clone).commit
        archive_plan = payloads.found_again(clone)
        _fetch(repository, archive_plan)
        work = Batches(repository, clone, archive_plan, options.user.environ)
        if options.split:
            return ArchiveOutcome(archive_plan, pushed, tuple(work.make()))
        over = work.over_budget()
    return ArchiveOutcome(archive_plan, pushed, marked=_write(repository, archive_plan), over=over)


def _write(repository: Repository, archive_plan: ArchivePlan) -> int:
    """Put the stubs into the work tree, then mark their rows; how many rows were marked."""
    tree = DocumentTree(repository)
    for document in archive_plan.documents:
        tree.replace(document.path, document.oid, document.stub)
    before = _registry(repository, archive_plan.head, split=False)
    registry = Registry(before)
    paths = [
        *(planned_document.path for planned_document in archive_plan.documents),
        *archive_plan.unmarked,
    ]
    data = registry.marked(paths, archive_plan.day, archive_plan.policy.archived_cadence_days)
    if data is None or before is None:
        return 0
    tree.replace(REGISTRY, repository.blob_id(before), data)
    return len(registry.unmarked(paths))


def _fetch(repository: Repository, archive_plan: ArchivePlan) -> None:
    """Let the clone know the archive branch, which the doc-archive check reads."""
    try:
        fetch_archive(repository, archive_plan.policy.branch)
    except RlmCiError as error:
        say(f"note: {error}; the full texts are on the remote, and this clone does not know it")


def _registry(repository: Repository, head: str, *, split: bool) -> bytes | None:
    if split:
        return repository.read(f"{head}:{REGISTRY}")[0]
    try:
        return tracked.read(repository, REGISTRY, _LIMIT)
    except files.UnreadableError as error:
        if error.missing:
            return None
        what = f"the registry of documents cannot be read: {error}"
        raise ConfigError(what, where=REGISTRY, hint="fix it") from None


def _base(repository: Repository, options: ArchiveOptions) -> str:
    if options.base:
        return change_set.require(repository, options.base, "base", "--base")
    default_branch = repository.default_branch()
    if default_branch is None:
        raise ConfigError(
            "the default branch is not in this clone, and its documents must be done, too",
            where=repository.root,
            hint="fetch it, or name another one: --base REF",
        )
    return default_branch[1]
