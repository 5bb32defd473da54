"""What each coding agent says to a hook, and how it takes an answer.

Facts of the programs, as tables by agent; nothing here reads or writes.
"""

from __future__ import annotations

import json

from rlm_ci.errors import ConfigError
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

AGENTS = ("claude", "codex", "copilot", "cursor", "gemini")
EVENTS = ("session-start", "prompt", "stop", "after-edit", "subagent-start", "subagent-stop")
#: The programs without hooks for their subagents.
WITHOUT_SUBAGENTS = ("gemini",)
#: Bytes of an event: a prompt, or the last message, may be long.
LIMIT = 16 << 20
#: Bytes of an answer's text. Claude takes 10,000 characters, Codex cuts out what is beyond.
LONGEST = 9_000
#: The keys of a field, in the order that they are looked for: snake case, then Copilot's own.
_KEYS = {
    "session_id": ("session_id", "conversation_id", "sessionId"),
    "cwd": ("cwd",),
    "transcript_path": ("agent_transcript_path", "transcript_path", "transcriptPath"),
    "subagent_id": ("agent_id", "subagent_id", "agentId"),
    "subagent_type": ("agent_type", "subagent_type", "agentType", "agentName"),
    "last_message": ("last_assistant_message", "prompt_response", "summary", "response"),
    "prompt": ("prompt", "task", "initialPrompt"),
    "source": ("source",),
    "outcome": ("status", "stopReason", "error"),
}
#: Where a program holds an agent otherwise than by ``decision`` and ``reason``.
_HOLDS = {"cursor": "followup_message"}
#: How a program says that a person or an error ended the turn.
CUT_SHORT = ("aborted", "error")
#: The programs that show a person the ``systemMessage`` of a hook.
_TELLING = ("claude", "codex", "copilot", "gemini")
#: The name of the event after an edit, where advice to the agent carries it.
_AFTER_EDIT = {"claude": "PostToolUse", "codex": "PostToolUse", "gemini": "AfterTool"}
_ADVICE = {"cursor": "additional_context", "copilot": "additionalContext"}


class Event(Value):
    """One event of a session; a text is "" where the program does not give it."""

    name: str
    agent: str
    session_id: str = ""
    cwd: str = ""
    loop_count: int | None = None
    subagent_id: str = ""
    subagent_type: str = ""
    transcript_path: str = ""
    last_message: str = ""
    prompt: str = ""
    outcome: str = ""
    source: str = ""


def parse(agent: str, name: str, data: bytes) -> Event:
    """The event ``name`` of ``agent``. Raises ConfigError for what is no JSON object."""
    try:
        record = json.loads(data.decode("utf-8-sig", "replace"))  # Cursor begins with a mark
    except (ValueError, RecursionError):
        record = None
    if not isinstance(record, dict):
        raise ConfigError(
            "the event is not a JSON object",
            where="standard input",
            hint=f"{agent} runs this command as a hook; see docs/agent-hooks.md",
        )
    texts = {field: _text(record, keys) for field, keys in _KEYS.items()}
    roots = record.get("workspace_roots")
    if not texts["cwd"] and isinstance(roots, list) and roots:
        texts["cwd"] = _text({"root": roots[0]}, ("root",))
    count = record.get("loop_count")
    return Event(
        name,
        agent,
        loop_count=count if isinstance(count, int) and not isinstance(count, bool) else None,
        **texts,
    )


def _text(record: dict[str, Any], keys: tuple[str, ...]) -> str:
    values = (record.get(key) for key in keys)
    return next((value for value in values if isinstance(value, str) and value), "")


def hold(agent: str, reason: str) -> str:
    """What keeps ``agent`` at work, with ``reason`` as its next instruction."""
    if agent in _HOLDS:
        return _answer({_HOLDS[agent]: reason})
    return _answer({"decision": "block", "reason": reason})


def tell(agent: str, message: str) -> str:
    """What shows a person ``message``; "" where the program has no way to."""
    return _answer({"systemMessage": message}) if agent in _TELLING else ""


def advise(agent: str, message: str) -> str:
    """What tells ``agent`` something after an edit."""
    if agent in _ADVICE:
        return _answer({_ADVICE[agent]: message})
    event = _AFTER_EDIT[agent]
    specific = {"hookEventName": event, "additionalContext": message}
    return _answer({"hookSpecificOutput": specific})


def _answer(record: dict[str, Any]) -> str:
    return json.dumps(record) + "\n"
