"""One event of a run, as ``events.jsonl`` and ``inbox.jsonl`` have it."""

from __future__ import annotations

from rlm_ci import decoding
from rlm_ci.runs import manifest as manifests
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from rlm_ci.decoding import Text

    Timestamp = str
    EventVersion = int
    EventName = str
    Actor = str

VERSION = 1
#: The payload of this one names ``task_id`` and ``run_id`` of the child.
CHILD_STARTED = "child_started"
#: What may come from others; the rest a run says only itself.
FROM_OTHERS = (
    CHILD_STARTED, "question_queued", "question_answered", "question_closed", "pause_requested",
    "resume_requested", "security_violation",
)  # fmt: skip
_ITSELF = (
    "run_started", "progress", "span_started", "span_ended", "step_started", "step_completed",
    "step_failed", "run_completed", "run_failed", "run_resumed", "run_canceled", "agent_message",
    "tool_called", "rlms_decision", "rlms_start", "rlms_end", "rlms_failed", "rlms_skipped",
)  # fmt: skip
if not TYPE_CHECKING:
    Timestamp = manifests.Timestamp
    EventVersion = decoding.one_of(VERSION)
    EventName = decoding.one_of(*_ITSELF, *FROM_OTHERS)
    Actor = decoding.text(200)


class RunEvent(Value):
    """One event of a run; its journal adds the number and the checksum."""

    _optional = ()

    schema_version: EventVersion
    timestamp: Timestamp
    task_id: Text
    run_id: Text
    event: EventName
    #: Who did it: runner (the process of the run), agent, user, delegation, or a role.
    actor: Actor
    #: Of the event; inbox is its number in inbox.jsonl, if it came from there.
    payload: Mapping[str, Any]
