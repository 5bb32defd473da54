"""What each program says to a hook, and how it takes an answer."""

from __future__ import annotations

import json

import pytest

from rlm_ci.agent_hooks import dialects
from rlm_ci.errors import ConfigError

#: A stop in the words of each program.
STOPS = {
    "claude": {"session_id": "s", "cwd": "/w", "hook_event_name": "Stop", "stop_hook_active": True,
               "transcript_path": "/t", "last_assistant_message": "done"},
    "codex": {"session_id": "s", "cwd": "/w", "hook_event_name": "Stop", "stop_hook_active": True,
              "transcript_path": "/t", "last_assistant_message": "done", "turn_id": "1"},
    "copilot": {"sessionId": "s", "cwd": "/w", "transcriptPath": "/t", "stopReason": "end_turn",
                "stop_hook_active": True, "response": "done"},
    "cursor": {"conversation_id": "s", "workspace_roots": ["/w"], "transcript_path": "/t",
               "status": "completed", "loop_count": 1},
    "gemini": {"session_id": "s", "cwd": "/w", "hook_event_name": "AfterAgent",
               "stop_hook_active": True, "transcript_path": "/t", "prompt_response": "done"},
}  # fmt: skip


@pytest.mark.parametrize("agent", dialects.AGENTS)
def test_a_stop_is_read_from_the_words_of_each_program(agent: str) -> None:
    event = dialects.parse(agent, "stop", json.dumps(STOPS[agent]).encode())
    assert (event.session_id, event.cwd, event.transcript_path) == ("s", "/w", "/t")
    assert event.loop_count == (1 if agent == "cursor" else None)
    assert event.last_message == ("" if agent == "cursor" else "done")


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[1]", b'"text"', b"\xff\xfe", b"[" * 100_000, b'{"a": ' * 100_000]
)
def test_what_is_no_object_is_refused(data: bytes) -> None:
    with pytest.raises(ConfigError, match="not a JSON object"):
        dialects.parse("claude", "stop", data)


def test_fields_of_other_kinds_count_as_missing() -> None:
    strange = {
        "session_id": 7, "cwd": ["/w"], "loop_count": True, "workspace_roots": [7],
    }  # fmt: skip
    assert dialects.parse("cursor", "stop", json.dumps(strange).encode()) == dialects.Event(
        "stop", "cursor"
    )


def test_a_byte_order_mark_is_skipped() -> None:
    event = dialects.parse("cursor", "stop", b'\xef\xbb\xbf{"conversation_id": "s"}')
    assert event.session_id == "s"


@pytest.mark.parametrize("agent", dialects.AGENTS)
def test_each_program_is_held_in_its_own_form(agent: str) -> None:
    answer = json.loads(dialects.hold(agent, "why"))
    if agent == "cursor":
        assert answer == {"followup_message": "why"}
    else:
        assert answer == {"decision": "block", "reason": "why"}


@pytest.mark.parametrize("agent", dialects.AGENTS)
def test_a_person_is_told_where_the_program_shows_it(agent: str) -> None:
    answer = dialects.tell(agent, "it\nstayed red")
    assert answer == "" if agent == "cursor" else json.loads(answer) == {
        "systemMessage": "it\nstayed red"
    }  # fmt: skip
    assert "advice" in json.dumps(json.loads(dialects.advise(agent, "advice")))
