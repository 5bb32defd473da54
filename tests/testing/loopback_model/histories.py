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

Refuses = Callable[[Sequence[Mapping[str, Any]]], Raw | None]

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


def _reasoned(text: str) -> Refuses:
    """DeepSeek and Kimi while they think: each answer with calls has its reasoning, also of ""."""

    def refuses(messages: Sequence[Mapping[str, Any]]) -> Raw | None:
        for number, message in enumerate(messages):
            if message.get("tool_calls") and not isinstance(message.get("reasoning_content"), str):
                return refusal(400, text.format(number))
        return None

    return refuses


def _detailed(messages: Sequence[Mapping[str, Any]]) -> Raw | None:
    """OpenRouter for models that sign their reasoning: its blocks come back as they were."""
    for message in messages:
        if message.get("tool_calls") and message.get("reasoning_details") != _DETAILS:
            return refusal(400, "Provider returned error: thinking blocks cannot be modified")
    return None


def _thinking_in_text(messages: Sequence[Mapping[str, Any]]) -> Raw | None:
    """MiniMax where reasoning is not split off: it goes on from what it thought before its calls.

    Its documentation wants that back; what it does without, it does not say. Here it is an error.
    """
    for message in messages:
        thought = f"<think>{_WORDS}</think>"
        if message.get("tool_calls") and not str(message["content"]).startswith(thought):
            return refusal(400, "invalid params, the chain of thought is incomplete (2013)")
    return None


def _no_prefill(messages: Sequence[Mapping[str, Any]]) -> Raw | None:
    """Anthropic's newer models write no answer on."""
    if messages[-1]["role"] != "assistant":
        return None
    text = (
        "This model does not support assistant message prefill. The conversation must end with a "
        "user message."
    )
    return refusal(400, text, kind="invalid_request_error")


def _unsaid(messages: Sequence[Mapping[str, Any]]) -> Raw | None:
    """Groq: some of its models give reasoning, and do not take it."""
    for number, message in enumerate(messages):
        if "reasoning" in message:
            text = (
                f"'messages.{number}' : for 'role:assistant' the following must be satisfied"
                f"[('messages.{number}' : property 'reasoning' is unsupported)]"
            )
            return refusal(400, text, kind="invalid_request_error")
    return None


def _mistral(messages: Sequence[Mapping[str, Any]]) -> Raw | None:
    """Ids, and the role at the end; the reasoning stands in its parts of the text."""
    if messages[-1]["role"] == "assistant" and not messages[-1].get("prefix"):
        text = (
            "Expected last role User or Tool (or Assistant with prefix True) for serving but got "
            "assistant"
        )
        return Raw(400, {"object": "error", "message": text, "code": "3230"})
    return _nine(messages)


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

    refuses: Refuses
    of_message: Mapping[str, Any] = field(default_factory=dict)
    of_call: Mapping[str, Any] = field(default_factory=dict)
    of_function: Mapping[str, Any] = field(default_factory=dict)
    call_id: str | None = None
    #: The name of its model, where that tells what it wants.
    model: str = "m-1"
    #: Whether a client need not learn anything from refusals.
    is_kind: bool = True

    @property
    def members(self) -> frozenset[str]:
        return frozenset((*self.of_message, *self.of_call, *self.of_function, "prefix"))

    def message(self, text: str | None) -> dict[str, Any]:
        """The members of an answer; parts of a text get it in place of their own."""
        members = dict(self.of_message)
        if isinstance(members.get("content"), str):
            members["content"] = members["content"].replace(TEXT, text or "")
        elif "content" in members and text is not None:
            members["content"] = [
                {**part, "text": text} if part.get("text") == TEXT else part
                for part in members["content"]
            ]
        return members


def _any(_messages: Sequence[Mapping[str, Any]]) -> None:
    return None


#: What stands for the text of an answer among the parts that an endpoint gives.
TEXT = "(the answer)"
_WORDS = "I look at it first."
_DETAILS = [
    {"type": "reasoning.text", "text": _WORDS, "format": "anthropic-claude-v1", "index": 0,
     "signature": "c2lnbmF0dXJl"},
    {"type": "reasoning.encrypted", "data": "b3BhcXVl", "id": "rs_1", "index": 1},
]  # fmt: skip
_REASONED = {"reasoning_content": _WORDS}
_DEEPSEEK = _reasoned(
    "The `reasoning_content` in the thinking mode must be passed back to the API."
)
_KIMI = _reasoned(
    "thinking is enabled but reasoning_content is missing in assistant tool call message at "
    "index {}"
)
#: By provider of docs/models.md, and by maker of models that people reach through them.
HISTORIES = {
    "openai": History(_any, {"annotations": []}),
    "anthropic": History(_no_prefill),
    "azure": History(_any, {"annotations": []}),
    "gemini": History(_signed, of_call={"extra_content": _SIGNATURE}),
    "groq": History(_unsaid, {"reasoning": _WORDS}, is_kind=False),
    "mistral": History(
        _mistral,
        {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": _WORDS}]},
                     {"type": "text", "text": TEXT}]},
        call_id="",
    ),
    "openrouter": History(_detailed, {"reasoning": _WORDS, "reasoning_details": _DETAILS}),
    "together": History(_any, {"reasoning": ""}),
    "lmstudio": History(_alternating, _REASONED),
    "ollama": History(_any, {"reasoning": _WORDS}),
    "vllm": History(_any, {"reasoning_content": None, "annotations": None, "audio": None}),
    "llamacpp": History(_alternating, _REASONED),
    "deepseek": History(_DEEPSEEK, _REASONED),
    "deepseek without a thought": History(_DEEPSEEK, {"reasoning_content": ""}),
    "kimi": History(_KIMI, _REASONED),
    "glm": History(_any, _REASONED),
    "minimax": History(_any, {"reasoning_details": [{**_DETAILS[0], "signature": ""}]}),
    "minimax in the text": History(
        _thinking_in_text, {"content": f"<think>{_WORDS}</think>\n\n{TEXT}"}, model="MiniMax-M2",
    ),
    "qwen": History(_any, _REASONED),
    "a gateway to gemini": History(_any, of_function={"thought_signature": "c2lnbmF0dXJl"}),
}  # fmt: skip
