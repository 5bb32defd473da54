"""Read what an endpoint sent as a completion, whole or as events, and trust nothing in it.

Compatible endpoints answer 200 with web pages, cut JSON, no choices or no text: each of these is
an error.

Dialects differ: usage in the last event, in each, or in none; calls with and without a number;
``[DONE]`` or just an end; comments while nothing comes; errors in the middle.
"""

from __future__ import annotations

import json
import re
from hashlib import sha256

from rlm_ci.errors import RemoteError
from rlm_ci.models import PROMPT_CUT, SHORTER, Completion, SpentError, TokenUsage, text_of, thoughts
from rlm_ci.text.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final


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


_BEGINNINGS: Final = (b"data:", b"event:", b"id:", b"retry:", b"error:", b":")
#: Members that an event may repeat; other texts go on where the last one ended.
_WHOLE: Final = frozenset(("role", "type", "id", "index", "format"))
#: Kinds of parts of a text that come in pieces without a number.
_PARTS: Final = frozenset(("text", "thinking"))


def is_stream(data: bytes) -> bool:
    """Whether ``data`` begins as events do, and no JSON does."""
    return data[:64].lstrip(b"\xef\xbb\xbf \t\r\n").startswith(_BEGINNINGS)


class EventStream:
    """Takes the bytes of an answer as they come.

    ``tokens`` counts the events with a piece of the answer, ``size`` is how many bytes its text and
    an event that is not whole have. ``reason`` is why the answer ended; ``is_done``: the endpoint
    said that nothing follows.
    """

    def __init__(self) -> None:
        self.tokens = 0
        self.reason: object = None
        self.is_done = False
        self._written = 0
        self._line = b""  # one that is not whole yet
        self._data: list[bytes] = []
        self._answer: dict[str, Any] = {}
        self._message: dict[str, Any] = {"role": "assistant"}
        self._calls: list[dict[str, Any]] = []

    def feed(self, data: bytes) -> str:
        """The text that ``data`` adds to the answer: content, reasoning and arguments of calls.

        Raises ValueError and RecursionError for an event that is no JSON.
        """
        *lines, self._line = (self._line + data).split(b"\n")
        added = "".join(map(self._take, lines))
        self._written += len(added.encode("utf-8", "surrogatepass"))
        return added

    def end(self) -> dict[str, Any] | None:
        """The whole answer; None where its end, or any answer, is missing. Raises as ``feed``."""
        self.feed(b"\n\n")
        if "error" not in self._answer and not (self.reason or (self.is_done and self.tokens)):
            return None
        message = {"content": None, **_joined(self._message)}
        if self._calls:
            message["tool_calls"] = _joined(self._calls)
        return {**self._answer, "choices": [{"message": message, "finish_reason": self.reason}]}

    @property
    def part(self) -> str:
        """What came of an answer that is nothing but text; "" for any other."""
        members = {name for name, value in self._message.items() if name != "role" and value}
        text = self._message.get("content")
        if not isinstance(text, _Text) or members != {"content"} or self._calls:
            return ""
        return "".join(text)

    @property
    def size(self) -> int:
        return self._written + len(self._line)

    @property
    def usage(self) -> object:
        """The endpoint's count so far, if it gave one."""
        return self._answer.get("usage")

    def _take(self, line: bytes) -> str:
        """The text that a line adds: an empty one ends an event."""
        name, _, value = line.rstrip(b"\r").partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" "))
        elif name == b"error":  # as older servers of llama.cpp send it
            self._data.append(b'{"error":%b}' % value)
        if line.strip() or not self._data:
            return ""
        text, self._data = b"\n".join(self._data).strip(), []
        if self.is_done or not text:
            return ""
        if text == b"[DONE]":
            self.is_done = True
            return ""
        event = json.loads(text)
        return self._add_event(event) if isinstance(event, dict) else ""

    def _add_event(self, event: dict[str, Any]) -> str:
        choices, groq = event.pop("choices", None), event.pop("x_groq", None)
        for part in (groq if isinstance(groq, dict) else {}, event):
            usage, error = part.pop("usage", None), part.get("error")
            if isinstance(usage, dict):  # some endpoints give its parts one by one
                existing = self._answer.get("usage", {})
                self._answer["usage"] = usage | {
                    name: figure for name, figure in existing.items() if not usage.get(name)
                }
            self._answer |= {"error": error} if error else {}
        self._answer |= {name: value for name, value in event.items() if value}
        choice = choices[0] if isinstance(choices, list) and choices else None
        if not isinstance(choice, dict):
            return ""
        self.reason = choice.get("finish_reason") or self.reason
        delta = choice.get("delta") or choice.get("message")
        return self._add_delta(delta) if isinstance(delta, dict) else ""

    def _add_delta(self, delta: dict[str, Any]) -> str:
        calls = delta.pop("tool_calls", None)
        parts = (
            [part for part in calls if isinstance(part, dict)] if isinstance(calls, list) else []
        )
        texts = [value for name, value in delta.items() if name not in _WHOLE]
        self.tokens += bool(parts or any(texts))
        _grow(self._message, delta)
        for part in parts:
            function = part.pop("function", None)
            function = function if isinstance(function, dict) else {}
            call = self._call(part, function)
            _grow(call, {name: value for name, value in part.items() if value != ""})
            _grow(call["function"], function)
            texts.append(function.get("arguments"))
        # Some endpoints name reasoning twice.
        return "".join(dict.fromkeys(text for text in texts if isinstance(text, str)))

    def _call(self, part: dict[str, Any], function: dict[str, Any]) -> dict[str, Any]:
        """The call that ``part`` begins, or goes on with.

        Some endpoints give no numbers, and Gemini numbers all 0: another id is another call.
        """
        index, identity = part.get("index"), part.get("id")
        existing = [
            call for call in self._calls if index is not None and call.get("index") == index
        ]
        if identity:
            same = [call for call in self._calls if call.get("id") == identity]
            existing = same or [call for call in existing if not call.get("id")]
        elif index is None:
            existing = [] if function.get("name") else self._calls
        if existing:
            return existing[-1]
        self._calls.append({"function": {}})
        return self._calls[-1]


class _Text(list[str]):
    """The pieces of one text."""


def _grow(value: dict[str, Any], pieces: dict[str, Any]) -> None:
    """Add ``pieces``: texts and lists go on; what an event repeats, and other values, replace."""
    for name, piece in pieces.items():
        existing = value.get(name)
        if isinstance(piece, str) and name not in _WHOLE:
            if not isinstance(existing, list):
                value[name] = _Text([piece])
            elif not isinstance(existing, _Text):
                _add_item(existing, {"type": "text", "text": piece})
            elif name != "name" or [piece] != existing:
                existing.append(piece)
        elif isinstance(piece, list):
            items = existing if isinstance(existing, list) else []
            if isinstance(existing, _Text):
                items = []
                if any(existing):
                    _add_item(items, {"type": "text", "text": "".join(existing)})
            value[name] = items
            for item in piece:
                _add_item(items, item)
        elif name == "function_call" and isinstance(piece, dict):
            value[name] = existing if isinstance(existing, dict) else {}
            _grow(value[name], piece)
        elif piece is not None:
            value[name] = piece
        else:
            value.setdefault(name, None)


def _add_item(items: list[Any], item: Any) -> None:
    """Add an item of a list, or the pieces of one whose number the list has.

    Parts of a text have no number: Mistral's thinking and its answer go on while the kind is the
    same.
    """
    if not isinstance(item, dict):
        items.append(item)
        return
    marks = (item.get("index"), item.get("type"))
    goes_on = marks[0] is not None or marks[1] in _PARTS
    others = items if marks[0] is not None else items[-1:]
    same = [
        other
        for other in others
        if isinstance(other, dict) and (other.get("index"), other.get("type")) == marks
    ]
    if not (same and goes_on):
        items.append({})
        same = items
    _grow(same[-1], item)


def _joined(value: Any) -> Any:
    """``value`` with each text as one."""
    if isinstance(value, _Text):
        return "".join(value)
    if isinstance(value, dict):
        return {name: _joined(inner) for name, inner in value.items()}
    return [_joined(inner) for inner in value] if isinstance(value, list) else value
