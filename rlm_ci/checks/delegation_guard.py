"""delegation-guard: did the subagent runs that a task requires happen?

A task in ``tasks/index.json`` needs a subagent run: ``<runs>/<task-id>-*/cli/*/manifest.json``. A
subagent run itself is exempt. This proves only that a run left its manifest in this checkout.
"""

from __future__ import annotations

from rlm_ci.config.settings import Setting
from rlm_ci.git import tracked
from rlm_ci.report.findings import Evidence, Finding, Location, Part, Severity
from rlm_ci.runs import SUCCEEDED, is_task_id, require_task_id
from rlm_ci.runs.store import ManifestCandidate, parse
from rlm_ci.system import files
from rlm_ci.text.printable import printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from rlm_ci.change.change_set import ChangeSet
    from rlm_ci.config.settings import Settings
    from rlm_ci.git.repository import Repository
    from rlm_ci.runs.store import Accept, RunStore

ID = "delegation-guard"
SUMMARY = "the subagent runs that the task requires have happened"
RULES = dict.fromkeys(
    (
        "missing-task-id",
        "unregistered-task",
        "no-subagent-manifest",
        "index-unreadable",
        "runs-unreadable",
        "receipt-invalid",
    ),
    Severity.HIGH,
)
OPTIONS = (
    Setting("delegation_guard.require", "what a manifest must prove: that the run exists, or "
            "that it succeeded", "exists", "choice", flag="--require", metavar="WHAT",
            choices=("exists", SUCCEEDED)),
    Setting("delegation_guard.receipts", "receipts that count in CI: none (off), any (accept), "
            "any, after a check with GitHub's keys (verify), or only those with a valid signature "
            "(verified)", "accept", "choice", flag="--receipts",
            metavar="WHICH", choices=("off", "accept", "verify", "verified")),
    Setting("delegation_guard.workflows", "workflow files whose receipts can be verified (default: "
            "any of the repository)", (), "list", metavar="PATH"),
    Setting("delegation_guard.override_reason", "why no subagent run was possible; suppresses "
            "the findings", env=("DELEGATION_GUARD_OVERRIDE_REASON",),
            own_env=False, file=False),
)  # fmt: skip
HOOKS = {ID: {"args": (), "stages": ("pre-commit", "pre-push")}}

INDEX = "tasks/index.json"
INDEX_LIMIT = 8 << 20
_SHOWN_CANDIDATES = 3
_SHOWN_LINE = 60


def applies(changes: ChangeSet, options: Settings) -> str | None:
    """Why the guard is off if it was not named, or None."""
    task_id, source = _task_id(changes, options)
    if task_id:
        return None
    none = f"no task id is given{source}"
    try:
        tracked.read(changes.repository, INDEX, INDEX_LIMIT)
    except files.UnreadableError as error:
        if error.missing:
            return f"{none} and there is no {INDEX}"
    if not _in_ci(options):
        return None
    if changes.trigger in ("push", "merge_group"):
        return f"{none}, and only a pull request could name one"
    specs = [f"{commit}:.delegation" for commit in (changes.base, changes.head) if commit]
    if specs and any(size >= 0 for size in changes.repository.sizes(specs)):
        return None
    return f"{none} and no receipts are in use (.delegation/)"


def run(changes: ChangeSet, options: Settings, runs: RunStore) -> Part:
    """One part; raises ConfigError for an invalid task id."""
    task_id, source = _task_id(changes, options)
    if task_id:
        require_task_id(task_id, source)
    index, index_error = read_index(changes.repository)
    verdict = _Verdict(task_id=task_id, runs=runs.shown, keys=tuple(index))
    if not task_id:
        message = f"no task id is given{source}"
        missing = "MCP_RUNNER_TASK_ID"
        if changes.pull_request and _in_ci(options):
            missing = "the line 'Task: <id>' in the pull request's body"
            example = verdict.keys[-1] if verdict.keys else "<task-id>"
            advice = f"name the task in the pull request's body, by a line such as Task: {example}"
            verdict = verdict.replace(advice=advice)
        verdict = verdict.add("missing-task-id", message, missing)
    if index_error:
        verdict = verdict.add(
            "index-unreadable",
            f"{INDEX} cannot be read: {index_error}",
            f"a readable {INDEX} ({index_error})",
        )
    elif task_id:
        verdict = _judge(verdict, changes, options, runs)
    return verdict.to_part(options.delegation_guard.override_reason)


def _in_ci(options: Settings) -> bool:
    return bool(options.ci or options.github.actions)


def _task_id(changes: ChangeSet, options: Settings) -> tuple[str | None, str]:
    """The task id and its source; without one, None and what the body has instead."""
    if options.task:
        return options.task, options.sources["task"]
    remark = ""
    # A merge group may not have the commits that a receipt is for.
    if changes.pull_request and _in_ci(options) and changes.trigger != "merge_group":
        from rlm_ci.checks._shown_markdown import shown_lines

        for _, line in shown_lines(changes.pull_request.body):
            value = line[5:].strip() if line.startswith("Task:") else ""
            if is_task_id(value):
                return value, "the line 'Task:' of the pull request's body"
            if value and not remark:  # a sentence, or a template's placeholder
                shown = printable(f"Task: {value}"[:_SHOWN_LINE])
                remark = f" (the pull request's body says '{shown}', which names none)"
    return None, remark


def read_index(repository: Repository) -> tuple[list[str], str]:
    """The keys of the registered tasks, in the order of the file; or why there are none."""
    try:
        record = parse(tracked.read(repository, INDEX, INDEX_LIMIT))
    except files.UnreadableError as error:
        return [], str(error)
    items = record.get("items") if isinstance(record, dict) else None
    if not isinstance(items, list):
        return [], 'it is not JSON of the form {"items": [...]}'
    keys = [task_key(item) for item in items if isinstance(item, dict)]
    return [key for key in keys if is_task_id(key)], ""


def task_key(item: Mapping[str, Any]) -> str:
    """The name of a task, by its row in the index; "" without one."""
    identifier, slug = (
        str(item[name]) if isinstance(item.get(name), (str, int)) else "" for name in ("id", "slug")
    )
    if identifier and slug:
        return slug if slug.startswith(f"{identifier}-") else f"{identifier}-{slug}"
    return slug or identifier


def owner_of(name: str, keys: frozenset[str]) -> str | None:
    """The registered task that a run folder, or a task id, belongs to: the longest match."""
    while name not in keys:
        name, dash, _ = name.rpartition("-")
        if not dash:
            return None
    return name


def accepting(task_id: str, keys: frozenset[str], *, succeeded: bool = False) -> Accept:
    """Why a folder in the store, or a manifest in it, is no evidence for a task; None if it is."""

    def accept(folder: str, manifest: dict[str, Any] | None) -> str | None:
        if manifest is None:
            other = owner_of(folder, keys)
            return None if other == task_id else f"belongs to the registered task {other}"
        if manifest.get("task_id") not in (None, folder):
            return "names another task"  # without its name: the file may be foreign
        if succeeded and manifest.get("status") != SUCCEEDED:
            return f"status is {_shown(manifest.get('status'))}, not {SUCCEEDED!r}"
        return None

    return accept


def _judge(verdict: _Verdict, changes: ChangeSet, options: Settings, runs: RunStore) -> _Verdict:
    task_id = verdict.task_id or ""
    keys = frozenset(verdict.keys)
    owner = owner_of(task_id, keys)
    if owner is None:
        return verdict.replace(role="unregistered").add(
            "unregistered-task",
            f"{task_id} is not registered in {INDEX}",
            f"{task_id} in {INDEX}",
            at=INDEX,
        )
    # A word in a pull request's body must not get around the base's policy.
    if owner != task_id and (options.task or options.delegation_guard.receipts != "verified"):
        return verdict.replace(role="subagent", evidence=f"{task_id} is a subagent run of {owner}")
    task_id, verdict = owner, verdict.replace(role="top-level", task_id=owner)
    setting = options.delegation_guard.receipts if _in_ci(options) else "off"
    missing = f"{task_id} has no receipt"
    if setting != "verified":  # a pull request may bring runs, too
        succeeded = options.delegation_guard.require == SUCCEEDED
        verdict = _by_runs(verdict, runs, accepting(task_id, keys, succeeded=succeeded))
        if verdict.evidence or verdict.findings:
            return verdict
        missing = f"{task_id} has no subagent run in {runs.shown}"
        missing += "" if setting == "off" else " and no receipt"
    if setting != "off" and changes.head and changes.repository.git_dir:
        by_receipt = _by_receipt(verdict, changes, options, keys)
        if by_receipt:
            return by_receipt
    if setting != "off":
        written = f"commit what this writes: rlm-ci receipt --task {task_id}"
        first = "in a CI job, " if setting == "verified" else ""
        verdict = verdict.replace(advice=f"{first}{verdict.fix()}; then {written}")
    return verdict.add("no-subagent-manifest", missing, f"a subagent run of {task_id}")


def _by_runs(verdict: _Verdict, runs: RunStore, accept: Accept) -> _Verdict:
    """What the runs of subagents say that are in the store."""
    task_id = verdict.task_id or ""
    rejected: list[ManifestCandidate] = []
    try:
        for number, candidate in enumerate(runs.subagent_runs(task_id, accept), 1):
            if candidate.reason is None:
                evidence = f"{task_id} has a subagent run: {candidate.path}"
                if candidate.recorded_by:
                    evidence += f", recorded by {candidate.recorded_by}"
                    if candidate.status != SUCCEEDED:
                        evidence += f" ({candidate.status.replace('_', ' ') or 'no status'})"
                return verdict.replace(evidence=evidence, examined=number)
            rejected.append(candidate)
    except FileNotFoundError:
        pass
    except OSError as error:
        return verdict.add(
            "runs-unreadable",
            f"the runs in {runs.shown} cannot be read: {error.strerror}",
            f"a readable {runs.shown} ({error.strerror})",
        )
    return verdict.replace(rejected=tuple(rejected), examined=len(rejected))


def _by_receipt(
    verdict: _Verdict, changes: ChangeSet, options: Settings, keys: frozenset[str]
) -> _Verdict | None:
    """What the task's receipt says in CI, where the runs are not; None without one."""
    from rlm_ci.receipts import judge  # a hook has none

    task_id, setting = verdict.task_id or "", options.delegation_guard.receipts
    server = options.github.server_url or "https://github.com"
    unchecked = "its signature is checked in GitHub Actions only"
    if setting == "accept":
        unchecked = "its signature is not checked (delegation_guard.receipts)"
    policy = judge.ReceiptPolicy(
        succeeded=options.delegation_guard.require == SUCCEEDED,
        server_url=server if setting != "accept" and options.github.actions else None,
        why_unchecked=unchecked,
        must_be_verified=setting == "verified",
        workflows=options.delegation_guard.workflows,
    )
    receipt = judge.judge(changes, task_id, lambda name: owner_of(name, keys), policy)
    if receipt is None:
        return None
    verdict = verdict.replace(receipts_seen=1, advice=receipt.hint)
    if receipt.problem:
        return verdict.add(
            "receipt-invalid",
            f"{receipt.path} does not count: {receipt.problem}",
            f"a receipt that counts ({receipt.problem})",
            at=receipt.file,
        )
    return verdict.replace(evidence=f"{task_id} has a receipt: {receipt.label}")


def _shown(value: object) -> str:
    """A value of a manifest, short; anything but a text may be deeply nested."""
    return repr(value[:60]) if isinstance(value, str) else "(no text)"


class _Verdict(Value):
    """What is known so far; becomes the part."""

    task_id: str | None
    runs: str
    keys: tuple[str, ...]
    role: str | None = None
    evidence: str = ""
    examined: int = 0
    rejected: tuple[ManifestCandidate, ...] = ()
    receipts_seen: int = 0
    advice: str = ""
    findings: tuple[Finding, ...] = ()
    missing: tuple[str, ...] = ()

    def add(self, condition: str, message: str, missing: str, *, at: str = "") -> _Verdict:
        finding = Finding(
            f"{ID}/{condition}",
            RULES[condition],
            printable(message),
            evidence=(Location(at),) if at else (),
            subject=self.task_id,
        )
        return self.replace(
            findings=(*self.findings, finding), missing=(*self.missing, printable(missing))
        )

    def fix(self) -> str:
        """What to do, to be copied into a shell."""
        task = self.task_id or (self.keys[-1] if self.keys else "<task-id>")
        if self.role == "unregistered":
            return f"register {task} in {INDEX}, or name a registered task with MCP_RUNNER_TASK_ID"
        export = f"export MCP_RUNNER_TASK_ID={task} and run a subagent with {task}-<stream>"
        if any(finding.rule.endswith("/index-unreadable") for finding in self.findings):
            return f"mend {INDEX}, then {export}"
        if self.advice:
            return self.advice
        return export

    def block(self) -> str:
        """The block of the spec's appendix; its order never changes."""
        task = self.task_id or "<task-id>"
        lines = [f"Missing: {'; '.join(self.missing)}"]
        if self.role != "unregistered":
            lines.append(f"Expected manifests: {self.runs}/{task}-*/cli/<run-id>/manifest.json")
        if self.rejected:
            shown = sorted((candidate.path, candidate.reason) for candidate in self.rejected)[
                :_SHOWN_CANDIDATES
            ]
            listed = "; ".join(f"{path} (reason: {reason})" for path, reason in shown)
            lines.append(f"Candidates (first {_SHOWN_CANDIDATES}): {listed}")
        lines.append(f"Fix: {self.fix()}")
        lines.append(
            'Override: set DELEGATION_GUARD_OVERRIDE_REASON="..." (if delegation is impossible)'
        )
        body = "\n".join(f" - {printable(line)}" for line in lines)
        return f"Delegation guard: issues detected\n{body}"

    def to_part(self, override: str | None) -> Part:
        metrics = {
            "task_id": self.task_id,
            "role": self.role,
            "manifests": self.examined,
            "receipts": self.receipts_seen,
        }
        if not self.findings:
            return Part(ID, printable(self.evidence), metrics)
        hint = self.fix()
        findings = tuple(
            finding.replace(hint=hint, suppression=override) for finding in self.findings
        )
        summary = "; ".join(finding.message for finding in findings)
        places = sum(len(finding.evidence) for finding in findings)
        evidence = Evidence(offered=places, verified=places)
        if override:
            summary = f"overridden: {printable(override)} ({summary})"
        block = None if override else self.block()
        return Part(ID, summary, metrics, findings, block=block, evidence=evidence)
