"""What agent programs print as events: their steps, their final message, and why they failed.

Each line of their standard output is a JSON object in the program's own dialect. It is data: a step
is a line for the terminal, a message is for people and for the next role.
"""

from __future__ import annotations

import json

from rlm_ci.text.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    #: Reads one event into what it says: ``step``, ``text`` of a message that ``more`` may
    #: follow, ``message`` (the final one), ``error``.
    Dialect = Callable[[Mapping[str, Any]], Mapping[str, str]]

#: Bytes of a line; a longer one is not read.
_LINE = 4 << 20
#: Characters of a step.
_STEP = 120


class EventReader:
    """Takes in what a program prints as it comes. Without a ``dialect``, each line is a step.

    ``message`` is its final message so far, ``error`` the newest error that it named; ``is_used``:
    whether any line was an event.
    """

    def __init__(self, dialect: Dialect | None, on_step: Callable[[str], None]) -> None:
        self.message = ""
        self.error = ""
        self.is_used = False
        self._dialect = dialect
        self._on_step = on_step
        self._rest = b""
        self._is_torn = False

    def take(self, chunk: bytes) -> None:
        """Read the lines that ``chunk`` ends."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            if not self._is_torn:
                self._read(line)
            self._is_torn = False
        if len(self._rest) > _LINE:
            self._rest, self._is_torn = b"", True

    def close(self) -> None:
        """Read the last line, which need not end."""
        self.take(b"\n")

    def _read(self, line: bytes) -> None:
        if self._dialect is None:
            self._tell(line.decode("utf-8", "replace"))
            return
        try:
            told = self._dialect(json.loads(line))
        except (ValueError, RecursionError, TypeError, AttributeError, KeyError):
            return  # no event of its dialect
        self.is_used = True
        self.error = str(told.get("error", self.error))
        if "text" in told:
            self.message += str(told["text"])
        elif "step" in told or "message" in told:
            self.message = str(told.get("message", ""))
        if "step" in told:
            self._tell(str(told["step"]))

    def _tell(self, step: str) -> None:
        if words := " ".join(step.split()):
            self._on_step(printable(words)[:_STEP])


def codex(event: Mapping[str, Any]) -> Mapping[str, str]:
    """Read an event of ``codex exec --json``."""
    item = event.get("item") or {}
    match event["type"], item.get("type"):
        case "item.completed", "agent_message":
            return {"message": item["text"]}
        case "item.started", "command_execution":
            return {"step": f"runs {item['command']}"}
        case "item.completed", "file_change":
            return {"step": f"edits {', '.join(one['path'] for one in item['changes'])}"}
        case "item.started", "mcp_tool_call":
            return {"step": f"calls {item['server']}/{item['tool']}"}
        case "turn.failed", _:
            return {"error": event["error"]["message"]}
        case "error", _:
            return {"error": event["message"]}
        case "item.completed", "error":
            return {"error": item["message"]}
    return {}


def claude(event: Mapping[str, Any]) -> Mapping[str, str]:
    """Read an event of ``claude --print --output-format stream-json``."""
    if event["type"] == "result":
        text = str(event.get("result") or "; ".join(map(str, event.get("errors") or ())))
        return {"error": text} if event.get("is_error") else {"message": text}
    if event["type"] == "system" and event.get("subtype") == "api_retry":
        error = f"{event.get('error') or 'no answer'} ({event.get('error_status')})"
        return {"error": error, "step": f"asks again: {error}"}
    blocks = event["message"]["content"] if event["type"] == "assistant" else []
    steps = [_called(one["name"], one["input"]) for one in blocks if one["type"] == "tool_use"]
    return {"step": "; ".join(steps)} if steps else {}


def gemini(event: Mapping[str, Any]) -> Mapping[str, str]:
    """Read an event of ``gemini --output-format stream-json``."""
    match event["type"], event.get("role"), event.get("status"):
        case "message", "assistant", _:
            return {"text": event["content"]}
        case "tool_use", _, _:
            return {"step": _called(event["tool_name"], event["parameters"])}
        case "error", _, _:
            return {"error": event["message"]}
        case "result", _, "error":
            return {"error": event["error"]["message"]}
    return {}


def _called(tool: str, arguments: Mapping[str, Any]) -> str:
    """A call of a tool in a line: its name and the first text that it was given."""
    return " ".join([tool, *[one for one in arguments.values() if isinstance(one, str)][:1]])


def failure(lines: Sequence[str], begins: str, answered: str) -> str:
    """The last of ``lines`` that begins with ``begins``, unless an answer came after it."""
    for line in reversed(lines):
        if line.startswith(begins):
            return line
        if line.startswith(answered):
            break
    return ""
