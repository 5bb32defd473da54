"""Does the receipt of a task speak for a change, and who vouches for it?

It is the author's evidence, since all who can write to the branch can write it. It is verified
where GitHub has signed that a workflow of this repository, which the change leaves as it was, made
it on a commit of the change.
"""

from __future__ import annotations

import base64

from rlm_ci.git.objects import parse_tree
from rlm_ci.receipts import statement
from rlm_ci.receipts.receipt import (
    FOLDER,
    LIMIT,
    InvalidReceiptError,
    Receipt,
    UnverifiedError,
    bare_trees,
    object_id,
    own_commits,
    parse,
    path_of,
)
from rlm_ci.runs import SUCCEEDED
from rlm_ci.runs.manifest import moment
from rlm_ci.text.printable import count, first_of, printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from rlm_ci.change.change_set import ChangeSet
    from rlm_ci.git.objects import TreeEntry
    from rlm_ci.receipts.receipt import WorkflowRun
    from rlm_ci.receipts.statement import SignedStatement

#: Seconds from the end of the last run to the token: those of a day, and what clocks may differ.
_SOON = 24 * 3600
_SKEW = 300
_CLAIMED = ("repository", "run_id", "run_attempt", "workflow_ref", "sha", "ref")


class ReceiptPolicy(Value):
    """What a receipt must prove.

    ``server_url`` is where signatures are checked, if they are; ``workflows`` are those whose
    signature counts, if not all.
    """

    succeeded: bool
    server_url: str | None
    why_unchecked: str
    must_be_verified: bool
    workflows: tuple[str, ...] = ()


class JudgedReceipt(Value):
    """``label`` is what it is worth; or else ``problem`` why it does not count, and ``hint``.

    ``file`` is where it is, or what is in its place, if that is a file.
    """

    path: str
    file: str = ""
    label: str = ""
    problem: str = ""
    hint: str = ""


def judge(
    changes: ChangeSet, task_id: str, owner: Callable[[str], str | None], policy: ReceiptPolicy
) -> JudgedReceipt | None:
    """What the receipt of a task at the head of a change says; None without one.

    ``owner`` knows the registered task that a run belongs to.
    """
    path = path_of(task_id)
    entries = _entries(changes, path)
    if not entries:
        return None
    blob = "".join(name for name, entry in entries.items() if entry.kind == "blob")
    judged = JudgedReceipt(path, blob)
    try:
        receipt = parse(_read(changes, entries, path))
        signed = _statement(changes, task_id, receipt)
        _require_runs(receipt, task_id, owner, policy)
        where, commits = _require_tree(changes, receipt)
    except InvalidReceiptError as error:
        hint = f"make the receipt anew, and commit it: rlm-ci receipt --task {task_id}"
        return judged.replace(problem=str(error), hint=hint)
    ended = sum(run.status == SUCCEEDED for run in receipt.runs)
    what = f"{count(len(receipt.runs), 'run')}, {ended:,} succeeded{_recorded(receipt)}, on {where}"
    try:
        label = _verified(changes, receipt, signed, commits, policy)
    except UnverifiedError as error:
        if policy.must_be_verified:
            hint = f"let a CI job make the receipt, and commit it: rlm-ci receipt --task {task_id}"
            return judged.replace(problem=f"it is not verified: {error}", hint=hint)
        return judged.replace(label=f"{what}; author's evidence, not proof: {error}")
    return judged.replace(label=f"{what}; verified: {label}")


def _recorded(receipt: Receipt) -> str:
    """Which of the runs agents' programs recorded, and rlm-ci did not run."""
    programs = [run.recorded_by for run in receipt.runs if run.recorded_by]
    if not programs:
        return ""
    return f", {len(programs):,} recorded by {first_of(list(dict.fromkeys(programs)), 'program')}"


def _entries(changes: ChangeSet, path: str) -> dict[str, TreeEntry]:
    """What has the receipt's name at the head, or is in the place of its folder."""
    return _listed(changes, FOLDER, path)


def _listed(changes: ChangeSet, *paths: str) -> dict[str, TreeEntry]:
    options = ("-z", "-l", "--full-tree", changes.head or "")
    listed = parse_tree(changes.repository.run("ls-tree", *options, "--", *paths))
    return {path: listed[path] for path in paths if path in listed}


def _statement(changes: ChangeSet, task_id: str, receipt: Receipt) -> SignedStatement | None:
    """The in-toto statement beside a receipt, which must say the same. Raises InvalidReceiptError.

    None without one. Its signature is not looked at.
    """
    path = statement.path_of(task_id)
    entries = _listed(changes, path)
    if not entries:
        return None
    signed = statement.parse(_read(changes, entries, path, statement.MOST_BYTES))
    if signed.receipt != receipt:
        raise InvalidReceiptError(f"{path} says something else")
    return signed


def _read(
    changes: ChangeSet, entries: Mapping[str, TreeEntry], path: str, limit: int = LIMIT
) -> bytes:
    """The file itself. Raises InvalidReceiptError."""
    entry = entries.get(path)
    if entry is None:
        raise InvalidReceiptError(f"{FOLDER} is not a folder")
    if not entry.is_file:
        raise InvalidReceiptError("it is not a regular file")
    if entry.size > limit:
        raise InvalidReceiptError(f"it has {entry.size:,} bytes, more than {limit:,}")
    data = changes.repository.read(entry.oid)[0]
    if data is None:
        raise InvalidReceiptError("it is not in this clone")
    return data


def _require_runs(
    receipt: Receipt, task_id: str, owner: Callable[[str], str | None], policy: ReceiptPolicy
) -> None:
    if receipt.task_id != task_id:
        raise InvalidReceiptError("it is the receipt of another task")
    for run in receipt.runs:
        if run.task_id == task_id or owner(run.task_id) != task_id:
            raise InvalidReceiptError(f"{run.task_id[:80]} is no subagent run of {task_id}")
    if policy.succeeded and all(run.status != SUCCEEDED for run in receipt.runs):
        raise InvalidReceiptError("none of its runs succeeded")


def _require_tree(changes: ChangeSet, receipt: Receipt) -> tuple[str, Mapping[str, str]]:
    """Where the receipt's tree is found, and the trees of the change's own commits."""
    own_ids = own_commits(changes)
    bases = [oid for oid in (changes.head, changes.merge_base) if oid and oid not in own_ids]
    trees = bare_trees(changes.repository, [*own_ids, *bases])
    names = {changes.head: "the head", changes.merge_base: "the merge base"}
    for commit in sorted(trees, key=lambda oid: oid not in names):
        if trees[commit] == receipt.tree:
            where = names.get(commit, f"the commit {commit[:12]}")
            return where, {oid: trees[oid] for oid in own_ids if oid in trees}
    raise InvalidReceiptError(
        f"its tree {receipt.tree[:12]} is neither the head's nor the merge base's, nor that of a "
        "commit of this change; a rebase changes them all"
    )


def _verified(
    changes: ChangeSet,
    receipt: Receipt,
    signed: SignedStatement | None,
    commits: Mapping[str, str],
    policy: ReceiptPolicy,
) -> str:
    """Who vouches for a receipt. Raises UnverifiedError."""
    run, token = receipt.workflow, receipt.token
    if run is None or token is None:
        raise UnverifiedError("no CI job made it")
    if policy.server_url is None:
        raise UnverifiedError(policy.why_unchecked)
    if changes.pull_request is None or not changes.name:
        raise UnverifiedError("this is no pull request, which it could be verified for")
    if run.repository.lower() != changes.name.lower():
        raise UnverifiedError("a workflow of another repository made it")
    if commits.get(receipt.commit) != receipt.tree:
        raise UnverifiedError("the commit that it names is not in this pull request")
    merge = f"refs/pull/{changes.pull_request.number}/merge"
    if run.sha != receipt.commit and not (run.ref == merge and _merges(run, receipt.commit)):
        raise UnverifiedError("the workflow that made it ran on another commit")
    from rlm_ci.receipts import oidc  # HTTP and cryptography

    issuer = oidc.issuer_of(policy.server_url)
    claims = oidc.verified_claims(token, issuer, receipt.audience())
    for name in _CLAIMED:
        if str(claims.get(name)) != getattr(run, name):
            raise UnverifiedError(f"its token does not say the same about its {name}")
    path = _require_unchanged(changes, receipt.commit, claims)
    if policy.workflows and path not in policy.workflows:
        raise UnverifiedError(f"{_short(path)} is none of delegation_guard.workflows")
    _require_soon(receipt, claims)
    if signed:
        statement.require_signature(signed)
    return f"{_short(path)} made it in run {run.run_id}, on {receipt.commit[:12]}"


def _merges(run: WorkflowRun, commit: str) -> bool:
    """Whether GitHub's merge commit, which the workflow ran on, has ``commit`` as its head."""
    try:
        content = base64.b64decode(run.merge_commit or "", validate=True)
    except ValueError:
        return False
    head = content.partition(b"\n\n")[0].split(b"\n")
    parents = [line[7:] for line in head if line.startswith(b"parent ")]
    return object_id("commit", content, len(commit)) == run.sha and parents[1:] == [commit.encode()]


def _require_unchanged(changes: ChangeSet, commit: str, claims: Mapping[str, Any]) -> str:
    """The workflow's file, which must be that of the merge base, as all that judges a change."""
    prefix = f"{changes.name}/".lower()
    paths = []
    for name in ("workflow_ref", "job_workflow_ref"):
        workflow = str(claims.get(name, "")).partition("@")[0]
        if workflow.lower().startswith(prefix):
            paths.append(workflow[len(prefix) :])
    if not paths:
        raise UnverifiedError("its token names no workflow of this repository")
    for path in dict.fromkeys(paths):
        specs = [f"{side}:{path}" for side in (changes.merge_base, commit)]
        before, after = changes.repository.read_small(specs, LIMIT)
        if before is None or before != after:
            raise UnverifiedError(f"this pull request changes {_short(path)}")
    return paths[0]


def _short(path: str) -> str:
    return printable(path)[:80]


def _require_soon(receipt: Receipt, claims: Mapping[str, Any]) -> None:
    """The runs ended shortly before the job asked for the token, or there is no telling."""
    ends = [moment(run.completed_at) for run in receipt.runs if run.completed_at]
    issued = claims.get("iat")
    if not isinstance(issued, int | float) or not ends:
        raise UnverifiedError("it does not say when its runs ended")
    if not -_SKEW <= issued - max(ends) <= _SOON:
        raise UnverifiedError("its token was not issued within a day after its last run")
