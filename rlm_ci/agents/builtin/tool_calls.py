"""Tool calls as a model writes them: read, named, and held against their schema."""

from __future__ import annotations

import json

from rlm_ci.text.printable import printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

_ID_LIMIT = 64
#: Characters of an answer in which calls are looked for, and places where one may begin.
_TEXT_LIMIT = 1 << 20
_CANDIDATES = 64


class ToolCall(Value):
    """One call: ``arguments`` as the model wrote them, ``index`` among those of its answer."""

    id: str
    name: str
    arguments: str
    index: int = 0


def from_tools(tool_calls: Iterable[Mapping[str, Any]], turn: int) -> list[ToolCall]:
    """The calls of an answer, each with an id that no other of them has.

    An id that is odd is replaced by one that follows from its place, so that it is the same
    when the run is resumed.
    """
    calls: list[ToolCall] = []
    for index, one in enumerate(tool_calls):
        name, arguments = one.get("name"), one.get("arguments")
        ident = one.get("id")
        if not isinstance(ident, str) or not _is_sound(ident) or any(ident == c.id for c in calls):
            ident = f"call_{turn}_{index}"
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        calls.append(ToolCall(ident, name if isinstance(name, str) else "", text, index))
    return calls


def _is_sound(ident: str) -> bool:
    return 0 < len(ident) <= _ID_LIMIT and ident.isascii() and ident.isprintable()


def from_text(text: str, turn: int) -> list[ToolCall]:
    """The first JSON object with a ``tool`` in an answer, as a list of none or one.

    Only the first: what a model writes behind a call is what it imagines to come of it.
    """
    decoder = json.JSONDecoder()
    at = -1
    for _ in range(_CANDIDATES):
        at = text.find("{", at + 1, _TEXT_LIMIT)
        if at < 0:
            break
        try:
            value, _end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict) and isinstance(value.get("tool"), str):
            arguments = json.dumps(value.get("arguments", {}), ensure_ascii=False)
            return [ToolCall(f"call_{turn}_0", value["tool"], arguments)]
    return []


_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}


def misfit(arguments: object, schema: Mapping[str, Any]) -> str:
    """What is wrong with a call's arguments, in words for the model; "" when nothing is.

    Knows the little of JSON Schema that tools use: types, ``required``, ``items``,
    ``minimum``, ``enum``; a name that the schema does not have is wrong.
    """
    if not isinstance(arguments, dict):
        return "the arguments must be a JSON object"
    known: Mapping[str, Any] = schema["properties"]
    for name in arguments:
        if name not in known:
            told = f"there is no argument '{printable(name[:100])}'"
            return f"{told}; it takes {', '.join(known) or 'none'}"
    for name in schema.get("required", ()):
        if name not in arguments:
            return f"{name!r} is missing"
    for name, value in arguments.items():
        wrong = _wrong(value, known[name])
        if wrong:
            return f"{name!r} {wrong}"
    return ""


def _wrong(value: object, schema: Mapping[str, Any]) -> str:
    kind = schema["type"]
    if not isinstance(value, _TYPES[kind]) or (kind == "integer" and isinstance(value, bool)):
        return f"must be of type {kind}"
    if "enum" in schema and value not in schema["enum"]:
        return f"must be one of {', '.join(schema['enum'])}"
    if isinstance(value, int) and value < schema.get("minimum", value):
        return f"must be at least {schema['minimum']}"
    if isinstance(value, str):
        return _wrong_text(value)
    if isinstance(value, list) and "items" in schema:
        wrong = next((text for text in (_wrong(one, schema["items"]) for one in value) if text), "")
        return f"has an item that {wrong}" if wrong else ""
    return ""


def _wrong_text(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        return "has half of a surrogate pair"
    return "has a NUL character" if "\0" in value else ""
