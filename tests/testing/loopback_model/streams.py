"""How the endpoints of providers stream an answer: one row each.

The forms are those of streams that people got, with other names and figures.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: Characters of an event, and events of a long answer: millions of them would show nothing more.
_CHUNK = 12
_EVENTS = 400


@dataclass(frozen=True)
class StreamForm:
    """What an endpoint's events look like.

    ``usage``: in the ``last`` event, which has no choices; in ``each``, with that of the last; in
    ``both`` ends, in parts; in ``groq``'s own member; ``none``, whatever was asked for.
    """

    usage: str = "last"
    #: Whether it says that it is done, why it ended, and which number a call has.
    has_done: bool = True
    has_reason: bool = True
    has_numbers: bool = True
    number: int | None = None
    #: What comes between two events: a comment while nothing happens.
    comment: bytes = b""
    newline: bytes = b"\n"
    #: A first event without a choice, as Azure's filter sends it.
    head: Mapping[str, Any] = field(default_factory=dict)
    #: Whether a call comes as one event.
    has_whole_calls: bool = False
    #: Whether parts of a text come in pieces: lists of thinking, then the answer as texts.
    has_pieces: bool = False
    #: The error that is sent after so many events, instead of the others.
    error: tuple[int, Mapping[str, Any]] | None = None
    #: The connection ends after so many events.
    cut: int | None = None
    #: Seconds for which the connection stays open after the last event.
    linger: float = 0


_FILTERS = {"prompt_filter_results": [{"prompt_index": 0, "content_filter_results": {}}]}
FORMS = {
    "openai": StreamForm(),
    "azure": StreamForm(head=_FILTERS),
    "groq": StreamForm(usage="groq"),
    "openrouter": StreamForm(comment=b": OPENROUTER PROCESSING"),
    "deepseek": StreamForm(comment=b": keep-alive", usage="each"),
    "gemini": StreamForm(usage="each", has_whole_calls=True, number=0),
    "anthropic": StreamForm(usage="both", newline=b"\r\n"),
    "mistral": StreamForm(usage="each", has_whole_calls=True, has_pieces=True),
    "ollama": StreamForm(has_whole_calls=True, has_numbers=False),
    "llamacpp": StreamForm(has_done=False),
    "vllm": StreamForm(usage="each"),
    "bare gateway": StreamForm(usage="none", has_reason=False),
}


def events(body: Mapping[str, Any], form: StreamForm, *, with_usage: bool) -> Iterator[bytes]:
    """A whole answer as a stream of ``form`` sends it."""
    parts = list(_numbered(_chunks(body, form), form))
    usage = body.get("usage") if with_usage and form.usage != "none" else None
    if form.usage == "both" and usage:
        parts[0]["usage"] = {"prompt_tokens": usage["prompt_tokens"], "completion_tokens": 0}
        parts[-1]["usage"] = {"completion_tokens": usage["completion_tokens"]}
    elif form.usage == "each" and usage:
        for number, part in enumerate(parts, 1):
            written = usage["completion_tokens"] * number // len(parts)
            part["usage"] = {**usage, "completion_tokens": written}
            part["usage"].pop("total_tokens", None)
        parts[-1]["usage"] = usage
    elif form.usage == "groq" and usage:
        parts[-1]["x_groq"] = {"id": "req_1", "usage": usage}
    elif usage is not None:
        parts.append({**_head(body), "choices": [], "usage": usage})
    if form.head:
        parts.insert(0, {**_head(body), "choices": [], **form.head})
    for number, part in enumerate(parts):
        if form.error and number == form.error[0]:
            yield _event(form.error[1], form)
            return
        if number == form.cut:
            return
        if form.comment:
            yield form.comment + form.newline * 2
        yield _event(part, form)
    if form.has_done:
        yield b"data: [DONE]" + form.newline * 2


def _event(value: Mapping[str, Any], form: StreamForm) -> bytes:
    return b"data: " + json.dumps(value).encode() + form.newline * 2


def _head(body: Mapping[str, Any]) -> dict[str, Any]:
    members = {key: body[key] for key in body if key not in ("choices", "usage", "object")}
    return {**members, "object": "chat.completion.chunk"}


def _chunks(body: Mapping[str, Any], form: StreamForm) -> Iterator[dict[str, Any]]:
    """The events of the one choice."""
    choice = body["choices"][0]
    message = choice["message"]

    def chunk(delta: Mapping[str, Any], reason: str | None = None) -> dict[str, Any]:
        return {
            **_head(body),
            "choices": [{"index": 0, "delta": dict(delta), "finish_reason": reason}],
        }

    yield chunk({"role": "assistant", "content": ""})
    members = {key: value for key, value in message.items() if key not in ("role", "tool_calls")}
    for name, value in sorted(members.items(), key=lambda pair: pair[0] == "content"):
        if isinstance(value, str):
            for piece in _slices(value) or [""]:
                yield chunk({name: piece})
        elif form.has_pieces and name == "content" and value:
            yield from (chunk({name: piece}) for part in value for piece in _pieces(part))
        elif value is not None:
            yield chunk({name: value})
    for index, call in enumerate(message.get("tool_calls", ())):
        function, number = call["function"], {"index": index}
        if form.has_whole_calls:
            yield chunk({"tool_calls": [{**number, **call}]})
            continue
        yield chunk({"tool_calls": [{**number, **call, "function": {**function, "arguments": ""}}]})
        for piece in _slices(function["arguments"]):
            yield chunk({"tool_calls": [{**number, "function": {"arguments": piece}}]})
    yield chunk({}, choice["finish_reason"] if form.has_reason else None)


def _pieces(part: Mapping[str, Any]) -> Iterator[str | list[dict[str, Any]]]:
    """What an event has of a part of a text."""
    if part["type"] == "thinking":
        written = part["thinking"][0]["text"]
        for piece in _slices(written):
            inner = {"type": "text", "text": piece}
            yield [{"type": "thinking", "thinking": [inner]}]
    elif part.keys() == {"type", "text"}:
        yield part["text"]
    else:
        yield [dict(part)]


def _slices(text: str) -> list[str]:
    """What each event has of ``text``."""
    size = max(_CHUNK, len(text) // _EVENTS)
    return [text[start : start + size] for start in range(0, len(text), size)]


def _numbered(parts: Iterator[dict[str, Any]], form: StreamForm) -> Iterator[dict[str, Any]]:
    for part in parts:
        for call in part["choices"][0]["delta"].get("tool_calls", ()):
            if not form.has_numbers:
                del call["index"]
            elif form.number is not None:
                call["index"] = form.number
        yield part
