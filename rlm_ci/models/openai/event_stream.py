"""An answer that came as server-sent events, put together to what a whole one would be.

Some gateways stream without being asked, and some models answer in no other way.
"""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Final

_BEGINNINGS: Final = (b"data:", b"event:", b"id:", b"retry:", b":")


def is_stream(data: bytes) -> bool:
    """Whether ``data`` begins as events do, and no JSON does."""
    return data[:64].lstrip(b"\xef\xbb\xbf \t\r\n").startswith(_BEGINNINGS)


def whole(data: bytes) -> dict[str, Any] | None:
    """The answer of all events; None where its end, or any answer, is missing.

    Raises ValueError and RecursionError for an event that is no JSON.
    """
    answer: dict[str, Any] = {}
    message: dict[str, Any] = {"role": "assistant", "content": None}
    reason: object = None
    for event in _events(data):
        choices = event.get("choices")
        answer |= {name: value for name, value in event.items() if value and name != "choices"}
        choice = choices[0] if isinstance(choices, list) and choices else None
        if isinstance(choice, dict):
            delta = choice.get("delta") or choice.get("message")
            _add(message, delta if isinstance(delta, dict) else {})
            reason = choice.get("finish_reason") or reason
    if "error" in answer:
        return answer
    if not reason:
        return None
    return {**answer, "choices": [{"message": message, "finish_reason": reason}]}


def _events(data: bytes) -> Iterator[dict[str, Any]]:
    for block in data.replace(b"\r\n", b"\n").split(b"\n\n"):
        lines = [line[5:].removeprefix(b" ") for line in block.split(b"\n") if line[:5] == b"data:"]
        text = b"\n".join(lines)
        if text and text.strip() != b"[DONE]":
            event = json.loads(text)
            if isinstance(event, dict):
                yield event


def _add(message: dict[str, Any], delta: dict[str, Any]) -> None:
    """Add the pieces of an event: texts grow, lists too, calls go by their number."""
    for name, piece in delta.items():
        known = message.get(name)
        if name == "tool_calls" and isinstance(piece, list):
            calls = message.setdefault(name, [])
            for number, part in enumerate(one for one in piece if isinstance(one, dict)):
                _add_call(calls, part, number)
        elif isinstance(piece, str) and isinstance(known, str) and name != "role":
            message[name] = known + piece
        elif isinstance(piece, list) and isinstance(known, list):
            message[name] = [*known, *piece]
        elif piece is not None:
            message[name] = piece


def _add_call(calls: list[dict[str, Any]], part: dict[str, Any], number: int) -> None:
    index = part.get("index")
    index = index if isinstance(index, int) and 0 <= index <= len(calls) else number
    if index >= len(calls):
        calls.append({"function": {"name": "", "arguments": ""}})
    call = calls[index]
    function = part.get("function")
    if isinstance(function, dict):
        for name, piece in function.items():
            before = call["function"].get(name)
            joins = isinstance(piece, str) and isinstance(before, str)
            call["function"][name] = before + piece if joins else (piece or before)
    call |= {name: value for name, value in part.items() if value and name != "function"}
