"""Read what an endpoint sent as a completion, and trust nothing in it.

Compatible endpoints answer 200 with web pages, cut JSON, no choices or no text: each of these is
an error.
"""

from __future__ import annotations

import json
import re
from hashlib import sha256

from rlm_ci.errors import RemoteError
from rlm_ci.models import (
    PROMPT_CUT,
    SHORTER,
    Completion,
    SpentError,
    TokenUsage,
    text_of,
    thoughts,
)
from rlm_ci.text.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

    from rlm_ci.models.openai.event_stream import EventStream

#: No context has fewer tokens: an endpoint with a smaller count does not count.
_LEAST_CONTEXT: Final = 400
#: Hardly any text has more bytes a token.
_MOST_BYTES: Final = 16
_CONTEXT: Final = "its context: num_ctx of Ollama, -c of llama-server, --max-model-len of vLLM"
#: A count beyond it is nonsense, and must not reach a budget's arithmetic.
_MOST_TOKENS: Final = 10**12
_LATER: Final = "resume the run; if it stays so, use another model or endpoint"
_REWORD: Final = "reword the goal, or use another model"
_EMPTY: Final = "the answer is empty"
#: Members of a message and of a call that every endpoint knows. What else there is belongs to one
#: endpoint, such as Gemini's ``thought_signature`` and DeepSeek's ``reasoning_content``.
_MESSAGE: Final = frozenset(("role", "content", "refusal", "tool_calls", "function_call"))
_CALL: Final = frozenset(("id", "type", "index", "function"))
_FUNCTION: Final = frozenset(("name", "arguments"))
#: What a part of a text has that is nothing but text.
_PLAIN: Final = frozenset(("type", "text"))
#: Models that want the reasoning in the text of an answer back with it: MiniMax's documentation of
#: calls says so, while other templates cut it out of the history.
_THINK_ON: Final = re.compile("minimax", re.IGNORECASE)
#: Bytes of what is kept for the endpoint, of a message and of each call.
_MOST_EXTRA: Final = 1 << 20
#: Levels of it, and what stands for the size of what is never sent.
_LEVELS: Final = 64
_UNSIZED: Final = 1 << 40
#: Other words than OpenAI's for why an answer ended.
_REASONS: Final = {
    "max_tokens": "length", "max_output_tokens": "length", "model_length": "length",
    "model_context_window_exceeded": "length",
    "end_turn": "stop", "eos": "stop", "eos_token": "stop", "stop_sequence": "stop",
    "tool_use": "tool_calls", "function_call": "tool_calls",
    "safety": "content_filter", "refusal": "content_filter", "sensitive": "content_filter",
    "recitation": "content_filter", "prohibited_content": "content_filter",
    "abort": "error", "aborted": "error", "cancelled": "error", "network_error": "error",
    "insufficient_system_resource": "error", "malformed_function_call": "error",
}  # fmt: skip
_URL_HINT: Final = "check the base URL: that of an OpenAI-compatible API mostly ends in /v1"


def parse(data: bytes) -> dict[str, Any]:
    """The JSON object in ``data``. Raises RemoteError, SpentError."""
    start = data[:64].lstrip(b"\xef\xbb\xbf \t\r\n")
    if not start:
        raise _lost("the endpoint gave an empty answer")
    if start[:1] == b"<":
        raise RemoteError("the endpoint answered with a web page, not JSON", hint=_URL_HINT)
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise unreadable(error) from None
    if not isinstance(value, dict):
        raise RemoteError("the answer is not a JSON object", hint=_URL_HINT)
    return value


def streamed(stream: EventStream) -> dict[str, Any]:
    """What the events of an answer make. Raises SpentError."""
    try:
        value = stream.end()
    except (ValueError, RecursionError) as error:
        raise unreadable(error) from None
    if value is None:
        raise _lost("the answer was streamed, and ends before its end")
    return value


def unreadable(error: ValueError | RecursionError) -> SpentError:
    """The error of an answer, or an event of it, that is no JSON."""
    if isinstance(error, RecursionError):
        return SpentError("the answer is JSON that is nested too deeply", hint=_LATER)
    return _lost("the answer is incomplete JSON, or not JSON")


def resumable(part: str) -> str:
    """The text of a broken answer from which the endpoint can go on; "" within its reasoning."""
    return "" if thoughts.split(part)[0] else part.rstrip()


def completion_of(value: dict[str, Any], model: str) -> Completion:
    """The completion in an answer. Raises SpentError."""
    _no_error(value)
    usage = usage_of(value.get("usage"))
    choices = value.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise _lost("the answer has no choices", usage)
    message = choices[0].get("message")
    if not isinstance(message, dict):
        raise _lost("the answer has no message", usage)
    return _completion(message, choices[0].get("finish_reason"), value.get("model"), usage, model)


def require_whole_prompt(value: dict[str, Any], usage: TokenUsage | None, size: int) -> None:
    """Raise SpentError if the endpoint cut a prompt of ``size`` bytes, as Ollama does silently."""
    tokens = usage.prompt_tokens + usage.cached_tokens if usage else 0
    is_counted = tokens >= _LEAST_CONTEXT
    if value.get("truncated") is True or (is_counted and size > _MOST_BYTES * tokens):
        read = f"read {tokens:,} tokens of a prompt of {size:,} bytes" if is_counted else "said so"
        raise SpentError(f"{PROMPT_CUT}: it {read} ({_CONTEXT})", hint=SHORTER, usage=usage)


def _completion(
    message: dict[str, Any], reason: object, name: object, usage: TokenUsage | None, model: str
) -> Completion:
    bag = _Bag()
    calls = _calls(message, usage, bag)
    thought, text = thoughts.split(text_of(message.get("content")))
    reason = _reason(reason)
    if reason == "content_filter":
        what = "the endpoint's content filter blocked the answer"
        raise SpentError(what, hint=_REWORD, usage=usage)
    if reason == "error":
        raise _lost("the endpoint broke off the answer with an error", usage)
    if not text and not calls:
        refusal = message.get("refusal")
        if isinstance(refusal, str) and refusal:
            what = f"the model refused: {printable(refusal)}"
            raise SpentError(what, hint=_REWORD, usage=usage)
        if reason == "length":
            what = "the model used up its tokens before it answered"
            hint = "raise the cap on tokens of one answer; hidden reasoning counts too"
            raise SpentError(what, hint=hint, usage=usage)
        raise _lost("the answer is nothing but reasoning" if thought else _EMPTY, usage)
    reason = reason or ("tool_calls" if calls else "stop")
    model_name = name if isinstance(name, str) and name else model
    content = message.get("content")
    if thought and isinstance(content, str) and _THINK_ON.search(f"{model} {name}"):
        own_content: object = content
    else:
        own_content = _own_parts(content)
    extra = bag.members(message, _MESSAGE, content=own_content)
    left_out = ", ".join(bag.left_out)
    return Completion(
        text, calls, reason, model_name, usage, thoughts=thought, extra=extra, left_out=left_out
    )


def _reason(reason: object) -> str:
    """Why an answer ended, in OpenAI's words; "" for an endpoint that does not say."""
    word = reason.lower() if isinstance(reason, str) else ""
    return _REASONS.get(word, word)


def _own_parts(content: object) -> list[Any] | None:
    """The parts of a text that only their endpoint knows, all in their order; None for plain ones.

    Mistral's reasoning comes so, and is wanted back in its place.
    """
    if not isinstance(content, list):
        return None
    parts = [part for part in content if isinstance(part, dict)]
    is_plain = all(
        part.keys() <= _PLAIN and isinstance(part.get("text", ""), str | dict) for part in parts
    )
    return None if is_plain else parts


def _calls(
    message: dict[str, Any], usage: TokenUsage | None, bag: _Bag
) -> tuple[dict[str, Any], ...]:
    value = message.get("tool_calls")
    if not value and isinstance(message.get("function_call"), dict):  # as before tools
        value = [{"function": message["function_call"]}]
    calls: list[dict[str, Any]] = []
    for index, call in enumerate(value if isinstance(value, list) else ()):
        function = call.get("function") if isinstance(call, dict) else None
        name = function.get("name") if isinstance(function, dict) else None
        if not isinstance(function, dict) or not isinstance(name, str) or not name:
            raise _lost("a tool call of the answer is malformed", usage)
        arguments = function.get("arguments")
        if not isinstance(arguments, str):  # some endpoints parse them
            arguments = json.dumps({} if arguments is None else arguments)
        # Some endpoints number the calls, some leave the id out, some repeat one.
        identity = call.get("id")
        if not isinstance(identity, str) or any(identity == other["id"] for other in calls):
            identity = ""
        row = {"id": identity or _identity(index, name, arguments), "name": name}
        extra = bag.members(call, _CALL, function=bag.members(function, _FUNCTION) or None)
        calls.append({**row, "arguments": arguments, **({"extra": extra} if extra else {})})
    return tuple(calls)


def _identity(index: int, name: str, arguments: str) -> str:
    """An id for a call without one: nine letters and digits, as Mistral's models want them."""
    text = f"{index}\0{name}\0{arguments}".encode("utf-8", "surrogatepass")
    return sha256(text).hexdigest()[:9]


class _Bag:
    """Keeps what an endpoint wants back; ``left_out`` says what it could not."""

    def __init__(self) -> None:
        self.left_out: list[str] = []

    def members(
        self, value: dict[str, Any], format_members: frozenset[str], **more: object
    ) -> dict[str, Any]:
        """The members beyond those of the format, and ``more``.

        Null says that there is none. All else is kept, empty or not: DeepSeek wants its reasoning
        back also where it is "". Where there is no room for all, the smallest stay.
        """
        extra = {name: item for name, item in value.items() if name not in format_members} | more
        sizes = {name: _size(item) for name, item in extra.items() if item is not None}
        room = _MOST_EXTRA
        for name, size in sorted(sizes.items(), key=lambda row: row[1]):
            room -= size
            if room < 0:
                del extra[name]
                why = f"{size:,} bytes" if size < _UNSIZED else "no Unicode, or nested too deeply"
                self.left_out.append(f"{printable(name[:60])} ({why})")
        return {name: item for name, item in extra.items() if item is not None}


def _size(item: object) -> int:
    """The bytes of a member as JSON; ``_UNSIZED`` for what no request can have."""
    try:
        size = len(json.dumps(item, ensure_ascii=False).encode())
    except (UnicodeEncodeError, RecursionError):
        return _UNSIZED
    return size if _is_flat(item, _LEVELS) else _UNSIZED


def _is_flat(item: object, levels: int) -> bool:
    inner = item.values() if isinstance(item, dict) else item if isinstance(item, list) else ()
    return levels > 0 and all(_is_flat(below, levels - 1) for below in inner)


def usage_of(value: object) -> TokenUsage | None:
    """The endpoint's count; None without a plausible one."""
    if not isinstance(value, dict):
        return None
    prompt, written = _count(value.get("prompt_tokens")), _count(value.get("completion_tokens"))
    if not prompt or written is None:
        return None
    # Where reasoning is counted apart, only the total has it.
    written = max(written, (_count(value.get("total_tokens")) or 0) - prompt)
    details = value.get("prompt_tokens_details")
    cached = _count(details.get("cached_tokens")) if isinstance(details, dict) else None
    return TokenUsage(prompt, written, min(cached or 0, prompt))


def _count(value: object) -> int | None:
    if isinstance(value, float) and value.is_integer():  # as some gateways write it
        value = int(value)
    return value if type(value) is int and 0 <= value < _MOST_TOKENS else None


def _no_error(value: dict[str, Any]) -> None:
    """Raise SpentError for an error that came with status 200, as gateways send them."""
    if value.get("error"):
        raise _lost(f"the endpoint reported an error: {printable(message_of(value))}")


def _lost(what: str, usage: TokenUsage | None = None) -> SpentError:
    """The error of a useless answer; asking once more may help."""
    return SpentError(what, hint=_LATER, usage=usage, again=True)


def message_of(value: object) -> str:
    """The message in an endpoint's error, which comes in several shapes; "" without one."""
    for key in ("error", "message", "detail", "code"):
        if isinstance(value, dict) and value.get(key):
            value = value[key]
    if isinstance(value, list):  # what FastAPI says of each member of a request
        rows = [row for row in value[:5] if isinstance(row, dict)]
        return "; ".join(f"{row.get('msg')}: {row.get('loc')}" for row in rows)
    return value if isinstance(value, str) else ""
