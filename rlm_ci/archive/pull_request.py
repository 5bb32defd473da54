"""The stubs of the work tree as one pull request, from a branch of ours.

Only stubs whose full texts are on the remote's archive branch are taken, with the registry and the
file of tasks; what else was changed in the work tree stays there. A stub that the branch has
already is kept: its date would be all that changes.
"""

from __future__ import annotations

from rlm_ci.archive.batches import excess
from rlm_ci.archive.documents import is_document
from rlm_ci.archive.policy import ArchivePolicy
from rlm_ci.archive.report import OVERRIDE
from rlm_ci.archive.task_snapshots import TASKS
from rlm_ci.archive.tasks import REGISTRY
from rlm_ci.archive.work_tree import DocumentTree
from rlm_ci.change import change_set
from rlm_ci.change.change_set import ChangeSet
from rlm_ci.checks._doc_archive.stub import StubFormat, parse
from rlm_ci.checks.diff_budget import LABEL
from rlm_ci.errors import ConfigError
from rlm_ci.git.hardening import without_hook
from rlm_ci.git.repository import Repository
from rlm_ci.github.proposal import Proposal
from rlm_ci.judge.judge import from_remote
from rlm_ci.system import files
from rlm_ci.text.printable import count, printable
from rlm_ci.workspace.snapshot import object_folders

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rlm_ci.git.clone import Clone
    from rlm_ci.git.remote_clone import RemoteUser
    from rlm_ci.github.session import Access

OURS = "rlm-ci/archive"
_TITLE = "Archive documents of finished work"
#: A line break within a paragraph would be shown as one.
_BODY = (
    "`rlm-ci archive` made this pull request. It replaces documents of finished work by stubs, and "
    f"takes completed snapshots out of `{TASKS}`. Their full texts were pushed to branches of this "
    "repository (of documents: `{branch}`), and found there again, before. The pull request is "
    "brought up to date while it is open.\n\n"
    "**No checks run?** What is pushed with `GITHUB_TOKEN` starts no workflow by itself. On "
    "github.com the checks of this pull request wait: somebody with write access selects *Approve "
    "workflows to run* in the merge box. Where there is no such button, close and reopen the pull "
    f"request, or start the workflow by hand (`workflow_dispatch`) on the branch `{OURS}`. They "
    "start by themselves if the workflow pushes with the token of a GitHub App, or with a personal "
    "access token.\n\n"
    "{override}\n"
)


def open_pull_request(
    repository: Repository, user: RemoteUser, access: Access, name: str, *, dry_run: bool
) -> Iterator[str]:
    """Push the branch, and open its pull request unless it is open; a line about each.

    ``name`` is owner/name on GitHub, "" to read it from the remote. Raises RlmCiError.
    """
    head = change_set.require(repository, "HEAD", "head", "HEAD")
    policy = ArchivePolicy.read(ChangeSet(repository, "worktree", head=head))
    stubs, others = _changed(repository, policy, head)
    if not stubs and not others:
        yield "nothing to propose: the work tree has no new stubs"
        return
    with user.clone(repository) as clone:
        for folder in object_folders(repository):
            clone.borrow(folder)
        base = _require_base(clone, head)
        _require_full_texts(repository, clone, policy, stubs, head)
        if dry_run:
            yield f"{count(len(stubs), 'stub')} would be pushed to {OURS}"
            return
        blobs = _blobs(clone, policy, head, stubs, others)
        message = f"{_TITLE}\n\n{count(len(stubs), 'stub')}"
        delivered = clone.propose(OURS, head, blobs, message)
        done = f"pushed {delivered.commit[:12]}" if delivered.commit else "nothing to push"
        yield f"{done}: {count(len(stubs), 'stub')} on {OURS}"
        if not delivered.differs:
            return
        clone_repository = Repository(clone.folder, clone.folder, without_hook(user.environ))
        commit = delivered.commit or clone.branch(OURS) or head
        labels = (LABEL,) if excess(clone_repository, repository.root, head, commit) else ()
    body = _BODY.format(branch=policy.branch, override=OVERRIDE.format(policy.branch))
    name = name or from_remote(repository, access.server_url) or ""
    proposal = Proposal(name, OURS, base, _TITLE, body, labels)
    yield proposal.open(access, is_new=delivered.commit is not None)


def _changed(
    repository: Repository, policy: ArchivePolicy, head: str
) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """The new stubs of the work tree, and the other files that the archiver edits."""
    listed = repository.diff_worktree("--name-only", "-z", head)
    form, tree = StubFormat(policy.branch, policy.target), DocumentTree(repository)
    stubs, others = {}, {}
    for path in listed.decode("utf-8", "surrogateescape").split("\0"):
        if path not in (REGISTRY, TASKS) and not is_document(path):
            continue
        try:
            data = tree.read(path)
        except files.UnreadableError:
            continue
        if path in (REGISTRY, TASKS):
            others[path] = data
        elif form.judge(path, data) == (True, None):
            stubs[path] = data
    return stubs, others


def _require_base(clone: Clone, head: str) -> str:
    """The branch that the pull request is to be merged into."""
    base = clone.head()
    if base is None or not clone.has(base, head):
        raise ConfigError(
            "HEAD is not a commit of the remote's default branch",
            where="rlm-ci archive --pr",
            hint="push it, or check the default branch out",
        )
    return base


def _require_full_texts(
    repository: Repository,
    clone: Clone,
    policy: ArchivePolicy,
    stubs: Mapping[str, bytes],
    head: str,
) -> None:
    """Raise ConfigError for a stub whose full text is not on the archive branch."""
    archived = clone.object_ids(policy.branch)
    entries = repository.tree(head)
    before = {path: entries[path].oid for path in stubs if path in entries}
    texts = dict(zip(before, repository.read(*before.values()) if before else (), strict=True))
    for path in stubs:
        text = texts.get(path)
        was_stub = text is not None and parse(text) is not None
        oid = archived.get(path) if was_stub else before.get(path)
        if oid is None or archived.get(path) != oid:
            raise ConfigError(
                f"the full text of this stub is not on the branch {policy.branch}",
                where=printable(path),
                hint="let rlm-ci archive write the stub, which brings the text there first",
            )


def _blobs(
    clone: Clone,
    policy: ArchivePolicy,
    head: str,
    stubs: Mapping[str, bytes],
    others: Mapping[str, bytes],
) -> dict[str, str]:
    """The objects to propose; those of the branch where only days would change."""
    entries = clone.entries(OURS)
    branch_oids = {path: entries[path][1] for path in stubs if path in entries}
    texts = zip(branch_oids.items(), clone.contents(list(branch_oids.values())), strict=True)
    form = StubFormat(policy.branch, policy.target)
    unchanged = {path: oid for (path, oid), text in texts if form.judge(path, text) == (True, None)}
    if unchanged.keys() == stubs.keys() and REGISTRY in entries and clone.has(OURS, head):
        unchanged[REGISTRY] = entries[REGISTRY][1]
    new = {path: data for path, data in {**stubs, **others}.items() if path not in unchanged}
    oids = clone.store(*new.values()) if new else []
    return {**unchanged, **dict(zip(new, oids, strict=True))}
