"""``delegate.spawn``: start or continue a pipeline as a run of its own.

The run gets its id from here, so that it is known for certain, whatever else starts meanwhile.
``rlm-ci start`` makes it, and a process that carries it out by itself; its output comes here.
"""

from __future__ import annotations

import os
import sys
import threading
import time

from rlm_ci.delegation import tokens
from rlm_ci.delegation.child_environment import child_environment
from rlm_ci.delegation.status import latest_step, run_ids
from rlm_ci.delegation.tool import ToolError
from rlm_ci.errors import OK, TERMINATED, DamagedError, RlmCiError, StorageError
from rlm_ci.pipelines import background
from rlm_ci.pipelines.definition import EPISODE, WITH_GOAL
from rlm_ci.pipelines.stored_runs import status_in_words
from rlm_ci.runs import FAILED, IN_PROGRESS, cancel, find, inbox, is_task_id, manifest, new_run_id
from rlm_ci.runs.journal.run_event import CHILD_STARTED
from rlm_ci.runs.run import is_free
from rlm_ci.system import files
from rlm_ci.system.process_stream import stream
from rlm_ci.text.printable import encodable, printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from rlm_ci.delegation.tool import Call
    from rlm_ci.pipelines.stored_runs import StoredRuns
    from rlm_ci.runs.find import FoundRun


SPAWN_FAILED = "spawn_failed"
_MOST_MS = 30_000
#: Seconds that a start has to end well, once its time is over.
_GRACE = 2.0
_CANDIDATES = 3
#: Bytes of a goal: the system bounds one argument of a program.
_GOAL = 100_000
_ERROR = 2_000
#: Seconds between two looks at a run.
_LOOK, _LONGEST = 0.1, 1.0
_NAMING = (
    "name it <parent task>-<stream>, such as 0951-checkout-review: then the delegation guard "
    "counts the run for the task 0951-checkout"
)


class _Child(Value):
    """The run that is to be: its ids, its folder, and those that were there before."""

    runs: StoredRuns
    task_id: str
    run_id: str
    parent: FoundRun | None
    before: frozenset[str]

    @property
    def path(self) -> str:
        return os.path.join(self.tasks, self.run_id)

    @property
    def tasks(self) -> str:
        """The folder of all runs of the task."""
        return os.path.join(os.path.abspath(self.runs.store.root), self.task_id, "cli")

    def read(self) -> FoundRun:
        return find.find(self.runs.store, os.path.join(self.path, manifest.NAME))


def spawn(call: Call, arguments: dict[str, Any]) -> dict[str, Any]:
    """Start a run; return once it is there, or, without ``start_only``, once it has ended."""
    server = call.server
    child = _planned(call, arguments)
    child.runs.store.require_plain(child.task_id, "cli")
    start_only = arguments.get("start_only", False)
    environ = child_environment(
        server,
        child.runs,
        arguments.get("env", {}),
        mode=arguments.get("delegate_mode"),
        parent=run_ids(child.parent)["manifest_path"] if child.parent else None,
    )
    if not start_only:  # after an error it stays attached: the client has no id of it
        server.attached.add(child.path, child.runs.out)
    refused = _start(call, child, arguments, environ)
    if refused is not None:
        server.attached.remove(child.path)
        return refused
    entry = _registered(child)
    if not start_only:
        entry = _ended(call, child, entry, arguments.get("timeout_ms"))
        if entry.run.has_ended:
            server.attached.remove(child.path)
    return {**run_ids(entry), **_state(entry)}


def _planned(call: Call, arguments: dict[str, Any]) -> _Child:
    runs = call.server.runs(arguments.get("repo"))
    parent = _parent(call, arguments)
    pipeline, task = arguments["pipeline"], arguments.get("task_id")
    if task is None:
        if arguments.get("start_only", False):
            raise ToolError("task_id_required", "start_only needs a task_id", hint=_NAMING)
        above = parent.task_id if parent else runs.task_or_own()
        task = f"{above}-{pipeline}"
    if not is_task_id(task):
        raise ToolError("invalid_arguments", f"{task[:80]!r} is not a task id", hint=_NAMING)
    if not is_task_id(pipeline):
        raise ToolError("invalid_arguments", f"there is no pipeline {printable(pipeline)[:80]!r}")
    goal = arguments.get("goal", "")
    if pipeline in (WITH_GOAL, EPISODE) and not goal.strip():
        raise ToolError("goal_required", f"the pipeline {pipeline} needs a goal")
    if "\0" in goal or len(goal.encode("utf-8", "replace")) > _GOAL:
        raise ToolError(
            "invalid_arguments",
            f"a goal has at most {_GOAL:,} bytes, and no null byte",
            hint="write a long text to a file, and name it with env: RLM_CONTEXT_PATH",
        )
    child = _Child(runs, task, new_run_id(time.time()), parent, frozenset())
    return child.replace(before=frozenset(files.names_in(child.tasks)))


def _parent(call: Call, arguments: dict[str, Any]) -> FoundRun | None:
    """The run in which this server is, else the one that the call names."""
    own_manifest = call.server.environ.get("CODEX_ORCHESTRATOR_MANIFEST_PATH")
    if own_manifest:
        try:
            return call.server.find(own_manifest)
        except RlmCiError:  # it is another program's, or of a repository outside of the roots
            return None
    word = arguments.get("parent_manifest_path") or arguments.get("parent_run_id")
    return call.server.find(word, arguments.get("repo")) if word else None


def _start(
    call: Call, child: _Child, arguments: dict[str, Any], environ: dict[str, str]
) -> dict[str, Any] | None:
    """Start the run; None once it is there, else the answer that it is not."""
    argv = [sys.executable, "-P", "-m", "rlm_ci", "start", arguments["pipeline"], "--format=json"]
    argv += ["--no-interactive", f"--repo={child.runs.root}", f"--task={child.task_id}"]
    argv += [f"--run-id={child.run_id}"]
    if child.parent is not None:
        argv += [f"--parent-run={child.parent.run_id}"]
    if arguments.get("goal"):
        argv += [f"--goal={encodable(arguments['goal'])}"]
    limit = min(_MOST_MS, child.runs.settings.delegate.spawn_timeout_ms)
    grace = min(_GRACE, limit / 2000)
    ended = stream(
        argv,
        env=environ,
        timeout=limit / 1000 - grace,
        grace=grace,
        watch=lambda _: "cancelled" if call.cancelled.is_set() else "",
    )
    is_there = os.path.lexists(os.path.join(child.path, manifest.NAME))
    # A start that is told to end does so before the run is made, or when it is whole.
    if is_there and ended.returncode in (OK, TERMINATED) and ended.reason != "cancelled":
        return None
    output = ended.output.without_seam().text()
    error = child.runs.redactor.text(output).strip()[-_ERROR:]
    if ended.reason == "timeout":
        error = f"the run was not there within {limit:,} ms. {error}".strip()
    if is_there:
        _cancel(child)
    if ended.reason == "cancelled":
        raise ToolError("cancelled", "the call was taken back")
    return _failed(child, limit, error or f"rlm-ci start ended with {ended.returncode}")


def _failed(child: _Child, limit: int, error: str) -> dict[str, Any]:
    names = files.names_in(child.tasks)[::-1]
    new = [name for name in names if name not in child.before]
    others = [*new, *(name for name in names if name in child.before)][:_CANDIDATES]
    candidates = []
    for name in others:
        path = os.path.join(child.tasks, name, manifest.NAME)
        if name in child.before:
            reason = "it was there before"
        elif not os.path.lexists(path):
            reason = "manifest.json missing"
        else:
            reason = "its start failed" if name == child.run_id else "another call started it"
        candidates.append({"path": path, "reason": reason})
    root = os.path.abspath(child.runs.store.root)
    return {
        "status": SPAWN_FAILED,
        "runs_root": root,
        "task_id": child.task_id,
        "timeout_ms": limit,
        "expected_manifest_glob": os.path.join(root, child.task_id, "cli", "*", manifest.NAME),
        "candidates": candidates,
        "error": error,
    }


def _registered(child: _Child) -> FoundRun:
    """The run, once it has its token, and its parent knows of it. Raises RlmCiError."""
    entry, above = child.read(), child.parent
    try:
        tokens.issue(
            child.path,
            child.run_id,
            above.path if above else None,
            above.run_id if above else None,
        )
        if above is not None:
            payload = {
                "run_id": child.run_id,
                "task_id": child.task_id,
                "pipeline_id": entry.run.pipeline_id,
                "manifest": os.path.join(child.path, manifest.NAME),
            }
            inbox.send(above.path, CHILD_STARTED, payload, child.runs.redactor)
    except RlmCiError:
        _cancel(child)
        raise
    return entry


def _cancel(child: _Child) -> None:
    """End a run whose spawn has failed."""
    try:
        begun = manifest.read(child.path)
        if begun.status != FAILED:
            cancel.cancel(child.path, begun, redactor=child.runs.redactor, out=child.runs.out)
    except (DamagedError, StorageError):  # the answer tells what is wrong
        return


def _ended(call: Call, child: _Child, entry: FoundRun, limit: int | None) -> FoundRun:
    """The run once it has ended, or after ``limit`` milliseconds, in which case it goes on."""
    begun = reported_at = time.monotonic()
    until = None if limit is None else begun + limit / 1000
    pause = _LOOK
    while entry.is_going(time.time()) and (until is None or time.monotonic() < until):
        if (now := time.monotonic()) - reported_at >= _LONGEST:
            reported_at = now
            words = status_in_words(entry, time.time())
            if step := latest_step(entry):
                words = f"{words}, {step}"
            call.progress(round(now - begun, 1), f"{entry.run_id}: {words}")
        if call.cancelled.wait(pause):
            cancel.interrupt(child.path, redactor=child.runs.redactor, out=child.runs.out)
            raise ToolError("cancelled", "the call was taken back, and its run interrupted")
        pause = min(_LONGEST, pause * 1.25)
        entry = entry.read()
    return entry


def _state(entry: FoundRun) -> dict[str, Any]:
    run = entry.run
    return {
        "status": run.status,
        "status_detail": run.status_detail,
        "exit_code": run.exit_code,
        "summary": run.summary,
        "gone": entry.is_gone(time.time()),
    }


#: Seconds in which a resumed run has to begin, or to be refused.
_PATIENCE = 10.0
_RESUMING_LOOK = 0.05


def carry_on(
    call: Call,
    runs: StoredRuns,
    entry: FoundRun,
    words: Sequence[str] = (),
    environ: Mapping[str, str] | None = None,
) -> FoundRun:
    """Continue a run of ``runs`` with the options ``words``. Raises ToolError if it is refused."""
    until = time.monotonic() + _PATIENCE
    while not is_free(entry.path) and time.monotonic() < until:  # its last process is ending
        time.sleep(_RESUMING_LOOK)
    ended = reap(background.carry_out(runs, entry.path, words, environ))
    before = entry.read().run.updated_at
    while not ended.is_set() and time.monotonic() < until and not call.cancelled.is_set():
        entry = entry.read()
        if entry.run.status == IN_PROGRESS and entry.run.updated_at != before:
            break
        time.sleep(_RESUMING_LOOK)
    entry = entry.read()
    if ended.is_set() and entry.run.updated_at == before:
        raise ToolError(
            "resume_refused",
            "the run was not continued",
            where=entry.run_id,
            hint="its log has the reason",
            log_path=run_ids(entry)["log_path"],
        )
    return entry


def reap(pid: int) -> threading.Event:
    """Take the end of a process of ours when it comes, since this server may live on for long."""
    ended = threading.Event()

    def wait() -> None:
        os.waitpid(pid, 0)
        ended.set()

    threading.Thread(target=wait, name=f"run {pid}", daemon=True).start()
    return ended
