"""``repo_rlm_*``: reviews and wikis of a repository, as the commands of the same names do them."""

from __future__ import annotations

import os
import time

from rlm_ci import checks
from rlm_ci.change import change_set
from rlm_ci.change.agent_authors import as_agent
from rlm_ci.config.settings import environment
from rlm_ci.delegation.spawn import carry_on, reap
from rlm_ci.delegation.status import record, run_ids, run_of
from rlm_ci.delegation.tool import ToolError
from rlm_ci.judge.judge import judge
from rlm_ci.pipelines import background
from rlm_ci.pipelines.stored_runs import flag_of, more_of, way_on
from rlm_ci.runs import archive
from rlm_ci.system import files
from rlm_ci.text.printable import encodable, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rlm_ci.delegation.tool import Call
    from rlm_ci.pipelines.stored_runs import StoredRuns
    from rlm_ci.runs.find import FoundRun

_OBJECTIVES = ("review", "wiki")
#: Arguments of a start, and the settings that they are on the command line.
_FLAGS = {
    "task_id": "task",
    "base": "base",
    "head": "head",
    "worktree": "recursion.worktree",
    "order": "recursion.scheduler",
    "concurrency": "recursion.concurrency",
    "max_depth": "recursion.max_depth",
    "max_minutes": "recursion.max_minutes",
    "prose": "wiki.prose",
    "model": "model",
    "max_calls": "max_calls",
    "max_tokens": "max_tokens",
    "budget_usd": "budget_usd",
}
_BUDGETS = ("max_calls", "max_tokens", "budget_usd", "max_minutes")
_ENDING = ".tar.gz"
#: Findings in one answer.
_FINDINGS = 100


def check(call: Call, arguments: dict[str, Any]) -> dict[str, Any]:
    """Run checks on the work tree, or on the change since ``base``; nothing is written.

    Who calls a tool is an agent, and is judged as one. Paths limit ``doc-archive``, and ``scope``
    says of them whether they may be touched.
    """
    root = call.server.runs(arguments.get("repo")).root
    flags: dict[str, Any] = {"repo": root}
    flags |= {name: arguments[name] for name in ("base",) if name in arguments}
    if "paths" in arguments:
        flags["paths"] = tuple(os.path.join(root, path) for path in arguments["paths"])
    report = judge(
        flags,
        checks.require(arguments.get("checks", ()), "checks", usage=True),
        lambda repository: change_set.from_local(repository, "worktree"),
        environ=as_agent(environment()),
    ).report
    findings = [
        {
            "rule": finding.rule,
            "severity": finding.severity.label,
            "message": finding.message,
            "hint": finding.hint,
            "path": encodable(finding.evidence[0].path) if finding.evidence else None,
            "line": finding.evidence[0].line_start if finding.evidence else None,
        }
        for finding in report.findings
        if finding.suppression is None
    ]
    return {
        "verdict": report.verdict(),
        "exit_code": report.exit_code(),
        "summaries": {part.id: part.summary for part in report.parts},
        "problems": sorted({str(part.error) for part in report.parts if part.error}),
        "findings": findings[:_FINDINGS],
        "omitted": max(0, len(findings) - _FINDINGS),
    }


def start(call: Call, arguments: dict[str, Any]) -> dict[str, Any]:
    """Start a run in the background, and say where it is."""
    objective = arguments["objective"]
    runs = call.server.runs(arguments.get("repo"))
    repository = runs.root
    flags: dict[str, Any] = {"repo": repository}
    for name, key in _FLAGS.items():
        if name in arguments:
            value = arguments[name]
            flags[key] = value if isinstance(value, bool) else str(value)
    if "path" in arguments:
        inner = _inside(call, repository, arguments["path"])
        flags |= {"recursion.path": inner} if inner else {}
    if "out" in arguments:
        flags["wiki.out"] = _writable(call, runs, arguments["out"])
    begun, pid = background.start(background.settings_of(flags), objective, flags)
    reap(pid)
    entry = call.server.find(begun.run_id, repository)
    return {**run_ids(entry), "pipeline_id": begun.pipeline_id, "status": begun.status}


def review(call: Call, arguments: dict[str, Any]) -> dict[str, Any]:
    return start(call, {**arguments, "objective": "review"})


def wiki(call: Call, arguments: dict[str, Any]) -> dict[str, Any]:
    return start(call, {**arguments, "objective": "wiki"})


def status(call: Call, arguments: dict[str, Any]) -> dict[str, Any]:
    return record(_run_of(call, arguments))


def resume(call: Call, arguments: dict[str, Any]) -> dict[str, Any]:
    """Continue a run in the background."""
    entry = _run_of(call, arguments)
    more = [name for name in _BUDGETS if name in arguments]
    if entry.is_going(time.time()):
        raise ToolError("run_not_resumable", "the run goes on already", where=entry.run_id)
    if not (entry.is_resumable or (more and entry.can_be_raised)):
        hint = f"give it more: {more_of(entry.run)}" if entry.can_be_raised else way_on(entry)
        what = f"the run is {entry.run.status}: there is nothing to resume"
        raise ToolError("run_not_resumable", what, where=entry.run_id, hint=hint)
    words = [word for name in more for word in (flag_of(name), str(arguments[name]))]
    runs = call.server.owner(entry, arguments.get("repo"))
    return record(carry_on(call, runs, entry, words))


def cancel(call: Call, arguments: dict[str, Any]) -> dict[str, Any]:
    """End a run; its nodes are kept, and ``repo_rlm_resume`` continues it."""
    entry = _run_of(call, arguments)
    outcome = call.server.owner(entry, arguments.get("repo")).cancel(entry)
    return {**record(entry.read()), "cancelled": outcome.ended_now}


def export(call: Call, arguments: dict[str, Any]) -> dict[str, Any]:
    """Write the run and all that it made to one file, which must not be there yet."""
    entry = run_of(call, arguments)
    runs = call.server.owner(entry, arguments.get("repo"))
    if "out" in arguments:
        target = _writable(call, runs, arguments["out"])
        if not target.endswith(_ENDING):
            raise ToolError("path_not_permitted", f"an archive must end in {_ENDING}")
        if os.path.lexists(target):
            raise ToolError("file_exists", "the file is there already", where=printable(target))
        folder = os.path.dirname(target)
    else:
        folder = os.path.join(runs.out, entry.task_id)
        files.require_inside(runs.root, folder)
        target = os.path.join(folder, f"{entry.run_id}{_ENDING}")
    files.make_folder(folder)
    done = archive.export(entry.path, entry.run_id, target, runs.redactor.text)
    facts = {"run_id": entry.run_id, "file": target, "files": done.files}
    return {**facts, "bytes": done.size, "sha256": done.sha256}


def _run_of(call: Call, arguments: dict[str, Any]) -> FoundRun:
    """The review or the wiki that the arguments mean. Raises ToolError for another run."""
    entry = run_of(call, arguments)
    if entry.run.pipeline_id not in _OBJECTIVES:
        raise ToolError(
            "not_a_repository_run",
            f"the run is of the pipeline {printable(entry.run.pipeline_id)[:80]}",
            where=entry.run_id,
            hint="repo_rlm_* are about reviews and wikis; for others see delegate.*",
        )
    return entry


def _inside(call: Call, repository: str, path: str) -> str | None:
    """A path of the repository, relative to it."""
    full = call.server.confine(os.path.join(repository, path))
    inner = files.below(os.path.realpath(repository), full)
    if inner is None or not os.path.exists(full):
        raise ToolError("path_not_found", f"there is no {printable(path)[:200]!r}")
    return inner


def _writable(call: Call, runs: StoredRuns, path: str) -> str:
    """A path of the repository for results: not in git's folder, nor among the runs."""
    full = call.server.confine(os.path.join(runs.root, path))
    is_kept = files.below(os.path.realpath(runs.store.root), full) is not None
    if is_kept or ".git" in full.lower().split(os.sep):
        raise ToolError(
            "path_not_permitted",
            f"{printable(path)[:200]!r} is among the files of git or of the runs",
            hint="name another path",
        )
    return full
