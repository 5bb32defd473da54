"""What agent programs print as events: their steps, their final message, and why they failed.

Each line of their standard output is a JSON object in the program's own dialect. It is data: a step
is a line for the terminal, a message is for people and for the next role.
"""

from __future__ import annotations

import json
import re

from rlm_ci.text.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    #: Reads one event into what it says: ``step``, ``text`` of a message that ``more`` may
    #: follow, ``message`` (the final one), ``error``, ``usage``.
    Dialect = Callable[[Mapping[str, Any]], Mapping[str, Any]]

#: Bytes of a line; a longer one is not read.
_LINE = 4 << 20
_AIDER_TOKENS = re.compile(r"Tokens: ([0-9.]+k?) sent,(?: .*,)? ([0-9.]+k?) received")
_AIDER_COST = re.compile(r"\$([0-9.]+) session\.")
#: A number of tokens or dollars that is none.
_MOST = 1e12
#: Claude Code counts what is cached apart.
_CLAUDE_INPUT = ("inputTokens", "cacheCreationInputTokens", "cacheReadInputTokens")
#: Characters of a step.
_STEP = 120


class EventReader:
    """Takes in what a program prints as it comes. Without a ``dialect``, each line is a step.

    ``message`` is its final message so far, ``error`` the newest error that it named; ``is_used``:
    whether any line was an event. ``usage`` is what it says that it used: tokens and dollars.
    """

    def __init__(self, dialect: Dialect | None, on_step: Callable[[str], None]) -> None:
        self.message = ""
        self.error = ""
        self.usage: Mapping[str, float] = {}
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
            fields = self._dialect(json.loads(line))
        except (ValueError, RecursionError, TypeError, AttributeError, KeyError):
            return  # no event of its dialect
        self.is_used = True
        self.error = str(fields.get("error", self.error))
        self.usage = _numbers(fields["usage"]) if "usage" in fields else self.usage
        if "text" in fields:
            self.message += str(fields["text"])
        elif "step" in fields or "message" in fields:
            self.message = str(fields.get("message", ""))
        if "step" in fields:
            self._tell(str(fields["step"]))

    def _tell(self, step: str) -> None:
        if words := " ".join(step.split()):
            self._on_step(printable(words)[:_STEP])


def _numbers(usage: Mapping[str, Any]) -> dict[str, float]:
    """What of ``usage`` is a number: any other says nothing."""
    numbers = {name: value for name, value in usage.items() if type(value) in (int, float)}
    return {name: value for name, value in numbers.items() if 0 <= value < _MOST}


def codex(event: Mapping[str, Any]) -> Mapping[str, Any]:
    """Read an event of ``codex exec --json``."""
    item = event.get("item") or {}
    match event["type"], item.get("type"):
        case "item.completed", "agent_message":
            return {"message": item["text"]}
        case "item.started", "command_execution":
            return {"step": f"runs {item['command']}"}
        case "item.completed", "file_change":
            return {"step": f"edits {', '.join(change['path'] for change in item['changes'])}"}
        case "item.started", "mcp_tool_call":
            return {"step": f"calls {item['server']}/{item['tool']}"}
        case "turn.completed", _:
            return {"usage": _tokens(event["usage"])}
        case "turn.failed", _:
            return {"error": event["error"]["message"]}
        case "error", _:
            return {"error": event["message"]}
        case "item.completed", "error":
            return {"error": item["message"]}
    return {}


def claude(event: Mapping[str, Any]) -> Mapping[str, Any]:
    """Read an event of ``claude --print --output-format stream-json``."""
    if event["type"] == "result":
        text = str(event.get("result") or "; ".join(map(str, event.get("errors") or ())))
        models = list((event.get("modelUsage") or {}).values())  # of a title, too
        usage = {"cost_usd": event.get("total_cost_usd")}
        if models:
            usage["prompt_tokens"] = sum(used[name] for used in models for name in _CLAUDE_INPUT)
            usage["completion_tokens"] = sum(used["outputTokens"] for used in models)
        return {"error" if event.get("is_error") else "message": text, "usage": usage}
    if event["type"] == "system" and event.get("subtype") == "api_retry":
        error = f"{event.get('error') or 'no answer'} ({event.get('error_status')})"
        return {"error": error, "step": f"asks again: {error}"}
    blocks = event["message"]["content"] if event["type"] == "assistant" else []
    calls = [block for block in blocks if block["type"] == "tool_use"]
    steps = [_called(call["name"], call["input"]) for call in calls]
    return {"step": "; ".join(steps)} if steps else {}


def gemini(event: Mapping[str, Any]) -> Mapping[str, Any]:
    """Read an event of ``gemini --output-format stream-json``."""
    match event["type"], event.get("role"), event.get("status"):
        case "message", "assistant", _:
            return {"text": event["content"]}
        case "tool_use", _, _:
            return {"step": _called(event["tool_name"], event["parameters"])}
        case "error", _, _:
            return {"error": event["message"]}
        case "result", _, status:
            usage = {"usage": _tokens(event.get("stats") or {})}
            return {**usage, "error": event["error"]["message"]} if status == "error" else usage
    return {}


def _tokens(usage: Mapping[str, Any]) -> dict[str, Any]:
    """The tokens of a program's usage by our names."""
    names = {"prompt_tokens": "input_tokens", "completion_tokens": "output_tokens"}
    return {field: usage.get(name) for field, name in names.items()}


def _called(tool: str, arguments: Mapping[str, Any]) -> str:
    """A call of a tool in a line: its name and the first text that it was given."""
    return " ".join([tool, *[value for value in arguments.values() if isinstance(value, str)][:1]])


def aider(lines: Sequence[str]) -> Mapping[str, Any]:
    """Read the answer of Aider, which ends with 0 where its model cannot be reached.

    An error that an answer came after is none. Thousands are rounded: ``2.3k sent``.
    """
    fields: dict[str, Any] = {}
    for line in lines:
        if line.startswith("litellm."):
            fields["error"] = line
        elif used := _AIDER_TOKENS.match(line):
            fields.pop("error", None)
            usage = fields.setdefault("usage", {"prompt_tokens": 0.0, "completion_tokens": 0.0})
            for name, number in zip(usage, used.groups(), strict=False):
                usage[name] += float(number.rstrip("k")) * (1000 if number.endswith("k") else 1)
        if cost := _AIDER_COST.search(line):
            fields.setdefault("usage", {})["cost_usd"] = float(cost[1])
    return fields
