"""What OpenAI's chat API takes: each request to the service is held against it.

The shapes follow https://platform.openai.com/docs/api-reference/chat/create as far as we use
it; that a tool's result answers a call that was made is said there in words, and here in code.
"""

from __future__ import annotations

from typing import Any

import jsonschema_rs

_TEXT = {"type": "string"}
_CONTENT = {
    "anyOf": [
        _TEXT,
        {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["type", "text"],
                "properties": {"type": {"const": "text"}, "text": _TEXT},
            },
        },
    ]
}
_CALL = {
    "type": "object",
    "additionalProperties": False,
    "required": ["id", "type", "function"],
    "properties": {
        "id": {"type": "string", "minLength": 1},
        "type": {"const": "function"},
        "function": {
            "type": "object",
            "additionalProperties": False,
            "required": ["name", "arguments"],
            "properties": {"name": {"$ref": "#/$defs/name"}, "arguments": _TEXT},
        },
    },
}


def _message(role: str, required: list[str], **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": ["role", *required],
        "properties": {"role": {"const": role}, "name": _TEXT, **properties},
    }


_REQUEST = {
    "$defs": {"name": {"type": "string", "pattern": "^[a-zA-Z0-9_-]{1,64}$"}},
    "type": "object",
    "additionalProperties": False,
    "required": ["model", "messages"],
    "properties": {
        "model": {"type": "string", "minLength": 1},
        "messages": {
            "type": "array",
            "minItems": 1,
            "items": {
                "oneOf": [
                    _message("system", ["content"], content=_CONTENT),
                    _message("developer", ["content"], content=_CONTENT),
                    _message("user", ["content"], content=_CONTENT),
                    _message("tool", ["content", "tool_call_id"], content=_CONTENT,
                             tool_call_id=_TEXT),
                    _message(
                        "assistant", [],
                        content={"anyOf": [_CONTENT, {"type": "null"}]},
                        tool_calls={"type": "array", "minItems": 1, "items": _CALL},
                    ),
                ]
            },
        },
        "max_tokens": {"type": "integer", "minimum": 1},
        "max_completion_tokens": {"type": "integer", "minimum": 1},
        "temperature": {"type": "number", "minimum": 0, "maximum": 2},
        "tools": {
            "type": "array",
            "minItems": 1,
            "maxItems": 128,
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["type", "function"],
                "properties": {
                    "type": {"const": "function"},
                    "function": {
                        "type": "object",
                        "additionalProperties": False,
                        "required": ["name"],
                        "properties": {
                            "name": {"$ref": "#/$defs/name"},
                            "description": _TEXT,
                            "parameters": {"type": "object"},
                            "strict": {"type": ["boolean", "null"]},
                        },
                    },
                },
            },
        },
        "tool_choice": {"enum": ["none", "auto", "required"]},
        "response_format": {
            "type": "object",
            "required": ["type"],
            "properties": {"type": {"enum": ["text", "json_object", "json_schema"]}},
        },
        "stream": {"type": "boolean"},
        "stream_options": {
            "type": "object",
            "additionalProperties": False,
            "properties": {"include_usage": {"type": "boolean"}},
        },
    },
}  # fmt: skip
_VALIDATOR = jsonschema_rs.validator_for(_REQUEST)


def deviations(body: Any, members: frozenset[str] = frozenset()) -> list[str]:
    """What OpenAI would refuse in a request; ``members`` are an endpoint's own, in messages."""
    if members and isinstance(body.get("messages"), list):
        body = {**body, "messages": [_plain(message, members) for message in body["messages"]]}
    found = [
        f"{'/'.join(map(str, e.instance_path))}: {e.message}" for e in _VALIDATOR.iter_errors(body)
    ]
    if found:
        return found
    if "max_tokens" in body and "max_completion_tokens" in body:
        found.append("max_tokens and max_completion_tokens at once")
    if "stream_options" in body and not body.get("stream"):
        found.append("stream_options without stream")
    if "tool_choice" in body and "tools" not in body:
        found.append("tool_choice without tools")
    return found + _unanswered(body["messages"])


def _plain(message: Any, members: frozenset[str]) -> Any:
    """A message, with its calls, without an endpoint's own members."""
    if not isinstance(message, dict):
        return message
    kept = {"content", "name", "arguments"}  # a member of these names has another meaning
    plain = {name: one for name, one in message.items() if name in kept or name not in members}
    if "content" in members and isinstance(plain.get("content"), list):
        plain["content"] = "parts"
    if isinstance(calls := plain.get("tool_calls"), list):
        plain["tool_calls"] = [_plain(call, members) for call in calls]
    if isinstance(function := plain.get("function"), dict):
        plain["function"] = _plain(function, members)
    return plain


def _unanswered(messages: list[dict[str, Any]]) -> list[str]:
    """Calls without their results, right behind them, and results without their calls."""
    found: list[str] = []
    waiting: set[str] = set()
    for number, message in enumerate(messages):
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                found.append(f"messages/{number}: no call {message['tool_call_id']} before it")
            waiting.discard(message["tool_call_id"])
            continue
        if waiting:
            found.append(f"messages/{number}: calls without a result: {', '.join(sorted(waiting))}")
        waiting = {call["id"] for call in message.get("tool_calls", ())}
        if message["role"] == "assistant" and not waiting and not message.get("content"):
            found.append(f"messages/{number}: neither content nor tool_calls")
    if waiting:
        found.append(f"calls without a result at the end: {', '.join(sorted(waiting))}")
    return found
