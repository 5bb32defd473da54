"""An answer that comes as server-sent events, put together to what a whole one would be.

Dialects differ: usage in the last event, in each, or in none; calls with and without a number;
``[DONE]`` or just an end; comments while nothing comes; errors in the middle.
"""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

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
