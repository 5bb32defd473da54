"""``rlm-ci receipt``: a task's subagent runs in a file to be committed, for the guard in CI."""

from __future__ import annotations

from base64 import b64encode
from shlex import quote

from rlm_ci import errors
from rlm_ci.change import change_set, trigger
from rlm_ci.checks import delegation_guard
from rlm_ci.config.core_options import COMMON, MACHINE
from rlm_ci.config.options import RECEIPT
from rlm_ci.config.settings import Settings
from rlm_ci.console.messages import say
from rlm_ci.errors import ConfigError
from rlm_ci.judge.judge import open_repository
from rlm_ci.judge.options import output_of
from rlm_ci.receipts import make, oidc, statement
from rlm_ci.receipts.receipt import FOLDER, Receipt, WorkflowRun
from rlm_ci.runs import SUCCEEDED, require_task_id
from rlm_ci.runs.store import RunStore
from rlm_ci.text import neutralise
from rlm_ci.text.printable import count, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rlm_ci.config.arguments import Arguments
    from rlm_ci.git.repository import Repository

SUMMARY = "write the receipt of a task's subagent runs, for CI"
USAGE = "[--task ID] [OPTION...]"
TAKES = ("no arguments", 0, 0)
EXAMPLES = ("rlm-ci receipt --task 0142-ship-to-europe",)
FORMS = ("text", "json")
EXITS = {
    errors.OK: "the receipt is written",
    errors.CONFIG: "no task, one that is not registered, or no subagent run that has ended",
    errors.REMOTE: "GitHub gave a CI job no token",
}
ROWS = (*COMMON, *(row for row in MACHINE if row.key.startswith("github.")), *RECEIPT)


def run(arguments: Arguments) -> int:
    settings = Settings(ROWS, arguments.flags)
    output = output_of(settings).require_text_or_json("receipt")
    repository = open_repository(settings)
    task_id = _task(settings)
    keys = _registered(repository, task_id)
    store = RunStore.at(repository.root, settings.runs_dir, settings.environ)
    collected = make.collect(store, task_id, delegation_guard.accepting(task_id, keys))
    for folder, why in collected.left_out:
        say(f"note: {printable(folder)} is left out: {why}")
    in_job = settings.github.actions
    commit = _commit_of_job(repository, settings) if in_job else _head(repository)
    receipt = make.receipt_of(repository, task_id, commit, collected.runs)
    signed = b""
    if in_job and settings.github.id_token_url:
        receipt, signed = _signed(
            receipt.replace(workflow=_workflow(repository, settings, commit)), settings
        )
    path, *others = make.write(repository, receipt, signed)
    who = "signed by GitHub" if receipt.token else "not signed"
    if settings.format == "json":
        facts: dict[str, Any] = {
            "receipt": path,
            "task_id": task_id,
            "commit": commit,
            "tree": receipt.tree,
        }
        runs = [receipt_run.to_dict() for receipt_run in receipt.runs]
        facts |= {"signed": bool(receipt.token), "statement": next(iter(others), None)}
        output.emit(neutralise.record(facts | {"runs": runs}))
    elif not settings.quiet:
        ended = sum(receipt_run.status == SUCCEEDED for receipt_run in receipt.runs)
        text = f"{count(len(receipt.runs), 'run')}, {ended:,} succeeded, on {commit[:12]}, {who}"
        lines = [f"{path}: {text}", *(f"{name}: the same for other programs" for name in others)]
        added = " ".join(map(quote, (path, *others)))
        lines.append(f"commit {'them' if others else 'it'} with the change: git add {added}")
        output.emit("".join(f"{line}\n" for line in lines))
    return errors.OK


def _task(settings: Settings) -> str:
    if not settings.task:
        raise ConfigError(
            "no task id is given", where="rlm-ci receipt", hint="--task ID, or MCP_RUNNER_TASK_ID"
        )
    return require_task_id(settings.task, settings.sources["task"])


def _registered(repository: Repository, task_id: str) -> frozenset[str]:
    """The registered tasks; raises ConfigError where ``task_id`` is none of them."""
    index, wrong = delegation_guard.read_index(repository)
    if wrong:
        raise ConfigError(
            f"the tasks cannot be read: {wrong}",
            where=delegation_guard.INDEX,
            hint='register the task: {"items": [{"id": "0142", "slug": "ship-to-europe"}]}',
        )
    owner = delegation_guard.owner_of(task_id, frozenset(index))
    if owner == task_id:
        return frozenset(index)
    if owner:
        what, hint = f"{task_id} is a subagent run of {owner}", f"name the task: --task {owner}"
    else:
        what, hint = f"{task_id} is not registered", "register it, or name a registered task"
    raise ConfigError(what, where=delegation_guard.INDEX, hint=hint)


def _head(repository: Repository) -> str:
    """HEAD; says where the work tree has more."""
    commit = change_set.require(repository, "HEAD", "commit", "HEAD")
    changed = change_set.from_local(repository, "worktree").names()
    if not all(path.startswith(f"{FOLDER}/") for path in changed):
        say(f"note: the receipt names the tree of {commit[:12]}, without what is not committed yet")
    return commit


# ── in a job of GitHub Actions ──


def _commit_of_job(repository: Repository, settings: Settings) -> str:
    """The commit that the workflow runs on; of a pull request its head, not GitHub's merge."""
    github = settings.github
    if github.event_name == "pull_request" and github.event_path:
        change = trigger.from_event(repository, github.event_path, github.event_name)
        if change and change.head:
            return change.head
    return change_set.require(repository, github.sha or "HEAD", "commit", "GITHUB_SHA")


def _workflow(repository: Repository, settings: Settings, commit: str) -> WorkflowRun:
    github = settings.github
    names = ("repository", "run_id", "run_attempt", "workflow_ref", "sha", "ref")
    fields = {name: getattr(github, name) for name in names}
    missing = [f"GITHUB_{name.upper()}" for name, value in fields.items() if not value]
    if missing:
        raise ConfigError(
            "GitHub does not say which workflow runs", where=", ".join(missing),
            hint="run this in a job of GitHub Actions",
        )  # fmt: skip
    if github.sha != commit:
        merge = change_set.require(repository, github.sha, "merge commit", "GITHUB_SHA")
        content = repository.run("cat-file", "commit", merge)
        fields["merge_commit"] = b64encode(content).decode()
    return WorkflowRun(**fields)


def _signed(receipt: Receipt, settings: Settings) -> tuple[Receipt, bytes]:
    """The receipt with GitHub's token, and its in-toto statement."""
    github = settings.github
    key = statement.new_key()
    receipt = receipt.replace(public_key=key.public)
    token = oidc.request(github.id_token_url, github.id_token_bearer or "", receipt.audience())
    receipt = receipt.replace(token=token)
    return receipt, statement.signed(receipt, key)
