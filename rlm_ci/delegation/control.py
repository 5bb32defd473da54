"""``delegate.pause`` and ``delegate.cancel``: steer a run of this machine."""

from __future__ import annotations

import json
import os
import shlex
import time

from rlm_ci.delegation.child_environment import inherited
from rlm_ci.delegation.spawn import carry_on
from rlm_ci.delegation.status import run_ids
from rlm_ci.delegation.tool import ToolError
from rlm_ci.pipelines.stored_runs import status_in_words
from rlm_ci.runs import delegated, inbox, manifest
from rlm_ci.runs.delegated import CONTROL, LOCK, PAUSE, RESUME
from rlm_ci.system import files
from rlm_ci.system.lock import PATIENCE, Lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rlm_ci.delegation.tool import Call, ServerContext
    from rlm_ci.pipelines.stored_runs import StoredRuns
    from rlm_ci.runs.find import FoundRun

#: Requests that are remembered, so that one that is sent again does nothing.
_REQUESTS = 100
#: Seconds in which a run that was asked to pause may just be stopping.
_STOP = 2.0
_LOOK = 0.05
CONFIRM = {
    "type": "object",
    "properties": {"cancel": {"type": "boolean", "title": "Cancel the run"}},
    "required": ["cancel"],
}


def pause(call: Call, arguments: dict[str, Any]) -> dict[str, Any]:
    """Ask a run to pause before its next step, or let it go on."""
    entry = call.server.find(arguments["manifest_path"])
    runs = call.server.owner(entry)
    new_action = PAUSE if arguments["paused"] else RESUME
    run = entry.run
    if run.has_ended and run.status_detail != manifest.PAUSED:
        raise ToolError(
            "run_ended",
            f"the run has ended: {status_in_words(entry, time.time())}",
            hint="only a run that goes on or is paused can be paused or resumed",
        )
    request = arguments.get("request_id")
    is_new, before = ask(call.server, entry, new_action, request, arguments.get("reason"))
    if is_new and new_action == RESUME:
        go_on(call, runs, entry, was_asked_to_pause=before == PAUSE)
    entry = entry.read()
    seq, action = delegated.last_action(entry.path)
    return {
        **run_ids(entry),
        "paused": entry.run.status_detail == manifest.PAUSED,
        "action": action or RESUME,
        "control_seq": seq,
        "request_id": request,
        "repeated": not is_new,
        "status": entry.run.status,
        "status_detail": entry.run.status_detail,
        "gone": entry.is_gone(time.time()),
    }


def cancel(call: Call, arguments: dict[str, Any]) -> dict[str, Any]:
    """Cancel a run, if a person says so."""
    entry = call.server.find(arguments["manifest_path"])
    runs = call.server.owner(entry)
    command = None
    if not entry.run.can_be_cancelled:
        status = "ended_before"
    else:
        answer = call.ask_person(
            f"Cancel the run {entry.run_id} ({entry.run.pipeline_id}, task {entry.task_id})?"
            " Only reviews and wikis can be resumed after that.",
            CONFIRM,
        )
        if answer is None or answer["action"] == "cancel":  # nobody has chosen
            status, command = "confirmation_required", _command(runs, entry)
        elif answer["action"] == "accept" and (answer["content"] or {}).get("cancel") is True:
            status = "cancelled" if runs.cancel(entry.read()).ended_now else "ended_before"
        else:
            status = "declined"
    entry = entry.read()
    return {
        **run_ids(entry),
        "status": status,
        "run_status": entry.run.status,
        "status_detail": entry.run.status_detail,
        "gone": entry.is_gone(time.time()),
        "command": command,
    }


def _command(runs: StoredRuns, entry: FoundRun) -> str:
    """What a person types to cancel the run."""
    moved = runs.settings.sources["runs_dir"] != "default"
    variable = f"CODEX_ORCHESTRATOR_RUNS_DIR={shlex.quote(runs.store.root)} " if moved else ""
    return f"{variable}rlm-ci cancel {entry.run_id} --repo {shlex.quote(runs.root)}"


def ask(
    server: ServerContext, entry: FoundRun, action: str, request: str | None, reason: str | None
) -> tuple[bool, str]:
    """Ask a run to pause or to go on; whether that is new, and what was asked before.

    Raises LockedError, DamagedError, StorageError.
    """
    outcome = _write(entry, action, request, reason)
    if outcome[0]:
        payload = {"request_id": request, "reason": reason}
        inbox.send(entry.path, f"{action}_requested", payload, server.redactor)
    return outcome


def _write(
    entry: FoundRun, action: str, request: str | None, reason: str | None
) -> tuple[bool, str]:
    with Lock.wait(os.path.join(entry.path, LOCK), PATIENCE):
        record = delegated.read(entry.path)
        before = str(record["latest_action"].get("action", ""))
        requests = [text for text in record["requests"] if isinstance(text, str)]
        if request is not None and request in requests:
            return False, before
        latest = {
            "action": action,
            "requested_by": "delegate.pause",
            "requested_at": manifest.timestamp(time.time()),
            "request_id": request,
            "reason": reason,
        }
        record = {
            "run_id": entry.run_id,
            "control_seq": record["control_seq"] + 1,
            "latest_action": latest,
            "requests": [*requests, *([request] if request else [])][-_REQUESTS:],
        }
        data = f"{json.dumps(record, indent=2)}\n".encode()
        files.write(os.path.join(entry.path, CONTROL), data, 0o600)
        return True, before


def go_on(call: Call, runs: StoredRuns, entry: FoundRun, *, was_asked_to_pause: bool) -> None:
    """Resume the run in the background, if it is paused. Raises ToolError where that fails."""
    until = time.monotonic() + (_STOP if was_asked_to_pause else 0.0)
    while entry.is_going(time.time()) and time.monotonic() < until:  # it may be about to stop
        time.sleep(_LOOK)
        entry = entry.read()
    if entry.is_resumable and not entry.is_going(time.time()):
        above = entry.run.parent_run_id
        parent = _manifest_of(call.server, above) if above else None
        carry_on(call, runs, entry, environ=inherited(call.server, runs, parent))


def _manifest_of(server: ServerContext, run_id: str) -> str | None:
    try:
        run = server.find(run_id)
    except ToolError:
        return None
    return os.path.join(os.path.abspath(run.path), manifest.NAME)
