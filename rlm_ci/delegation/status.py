"""``delegate.status``: where a run stands, from its manifest and its events."""

from __future__ import annotations

import os
from collections import deque

from rlm_ci.delegation.tool import ToolError
from rlm_ci.pipelines import stored_runs
from rlm_ci.runs import manifest
from rlm_ci.runs.checksums import EVENTS, LOG
from rlm_ci.runs.journal import spans
from rlm_ci.runs.journal.journal import replay

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rlm_ci.delegation.tool import Call
    from rlm_ci.runs.find import FoundRun

#: The latest events that a status has.
_EVENTS = 10
_FIELDS = (
    "pipeline_id", "parent_run_id", "status", "status_detail", "started_at", "updated_at",
    "completed_at", "exit_code", "summary",
)  # fmt: skip


def status(call: Call, arguments: dict[str, Any]) -> dict[str, Any]:
    """The run that ``manifest_path`` or ``run_id`` means; live or ended."""
    return record(run_of(call, arguments))


def run_of(call: Call, arguments: dict[str, Any]) -> FoundRun:
    """The run that a call is about. Raises ToolError, RlmCiError."""
    # No schema says this: some models' services take no alternatives in that of an input.
    words = [arguments[name] for name in ("manifest_path", "run_id") if name in arguments]
    if not words:
        raise ToolError("invalid_arguments", "name the run by manifest_path, or by run_id")
    entry, *others = [call.server.find(word, arguments.get("repo")) for word in words]
    if any(os.path.realpath(other.path) != os.path.realpath(entry.path) for other in others):
        raise ToolError(
            "invalid_arguments", "manifest_path and run_id are of two runs", hint="give one of them"
        )
    return entry


def record(entry: FoundRun) -> dict[str, Any]:
    """What a status says of a run."""
    run_record = stored_runs.record(entry)
    steps = [{name: step[name] for name in ("title", "status")} for step in run_record["commands"]]
    return {
        **run_ids(entry),
        **{name: run_record[name] for name in _FIELDS},
        "gone": run_record["gone"],
        "steps": steps,
        "child_runs": run_record["child_runs"],
        "recursion": run_record.get("recursion"),
        "events": _events(os.path.join(entry.path, EVENTS)),
    }


def run_ids(entry: FoundRun) -> dict[str, Any]:
    """The ids of a run and its files, which may not be there yet, by their absolute paths."""
    path = os.path.abspath(entry.path)
    log = os.path.join(path, LOG)
    return {
        "run_id": entry.run_id,
        "task_id": entry.task_id,
        "manifest_path": os.path.join(path, manifest.NAME),
        "events_path": os.path.join(path, EVENTS),
        "log_path": log if os.path.exists(log) else None,  # of a run in the background
    }


def latest_step(entry: FoundRun) -> str:
    """What a run is doing, or did last, in words; "" where it has not said."""
    path = os.path.join(entry.path, EVENTS)
    return spans.latest(replay(path, live=True)) if os.path.exists(path) else ""


def _events(path: str) -> list[dict[str, Any]]:
    if not os.path.exists(path):
        return []
    latest = deque(replay(path, live=True), _EVENTS)
    return [
        {
            "seq": event["seq"],
            "timestamp": event.get("timestamp"),
            "event": event.get("event"),
            "text": stored_runs.event_text(event),
        }
        for event in latest
    ]
