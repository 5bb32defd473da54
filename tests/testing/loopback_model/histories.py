"""What endpoints want of a conversation's history: what they gave, back; ids; the order of roles.

The rules and the words are those of refusals that people got, with other names and figures.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from testing.loopback_model.replies import Raw, refusal

_SIGNATURE = {"google": {"thought_signature": "c2lnbmF0dXJl"}}


def _signed(messages: Sequence[Mapping[str, Any]]) -> Raw | None:
    """Gemini: the first call of each step has the signature that came with it."""
    for number, message in enumerate(messages, 1):
        for call in message.get("tool_calls", ())[:1]:
            if call.get("extra_content") != _SIGNATURE:
                name = call["function"]["name"]
                text = (
                    "Function call is missing a thought_signature in functionCall parts. "
                    f"Additional data, function call `default_api:{name}` , position {number}."
                )
                error = {"code": 400, "message": text, "status": "INVALID_ARGUMENT"}
                return Raw(400, json.dumps([{"error": error}]).encode())
    return None


def _reasoned(messages: Sequence[Mapping[str, Any]]) -> Raw | None:
    """DeepSeek while it thinks: each answer with calls has the reasoning that came with it."""
    calling = (message for message in messages if message.get("tool_calls"))
    if all(message.get("reasoning_content") for message in calling):
        return None
    return refusal(
        400, "The `reasoning_content` in the thinking mode must be passed back to the API."
    )


def _nine(messages: Sequence[Mapping[str, Any]]) -> Raw | None:
    """Mistral: an id has nine letters and digits."""
    for call in itertools.chain(*(message.get("tool_calls", ()) for message in messages)):
        if not re.fullmatch("[A-Za-z0-9]{9}", call["id"]):
            text = f"Tool call id was {call['id']} but must be a-z, A-Z, 0-9, with a length of 9."
            error = {"object": "error", "message": text, "type": "invalid_function_call"}
            return Raw(400, {**error, "param": None, "code": "3280"})
    return None


def _alternating(messages: Sequence[Mapping[str, Any]]) -> Raw | None:
    """Templates of Devstral, Gemma and others: users and plain answers take turns."""
    plain = [one["role"] for one in messages if one["role"] == "user" or not _calls(one)]
    turns = [role for role in plain if role in ("user", "assistant")]
    if all(role == ("user", "assistant")[at % 2] for at, role in enumerate(turns)):
        return None
    return refusal(
        500,
        "Jinja Exception: After the optional system message, conversation roles must alternate "
        "user and assistant roles except for tool calls and results.",
    )


def _calls(message: Mapping[str, Any]) -> bool:
    return message["role"] == "assistant" and bool(message.get("tool_calls"))


@dataclass(frozen=True)
class History:
    """The rules of one endpoint: what it ``refuses``, the members that it gives and takes back.

    ``call_id`` is the id of all its calls, None for one of its own.
    """

    refuses: Callable[[Sequence[Mapping[str, Any]]], Raw | None]
    of_message: Mapping[str, Any] = field(default_factory=dict)
    of_call: Mapping[str, Any] = field(default_factory=dict)
    call_id: str | None = None

    @property
    def members(self) -> frozenset[str]:
        return frozenset((*self.of_message, *self.of_call))


HISTORIES = {
    "gemini": History(_signed, of_call={"extra_content": _SIGNATURE}),
    "deepseek": History(_reasoned, of_message={"reasoning_content": "I look at it first."}),
    "mistral": History(_nine, call_id=""),
    "llamacpp": History(_alternating),
}
