"""Tool calls as a model writes them: read, named, and checked against their schema."""

from __future__ import annotations

import json

from rlm_ci.environments import written_calls
from rlm_ci.models import thoughts
from rlm_ci.resources import loader
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any

    from rlm_ci.models import Completion

_ID_LIMIT = 64
#: Characters of an answer in which calls are looked for, and places where one may begin.
_TEXT_LIMIT = 1 << 20
_CANDIDATES = 64
#: Where a call was found that its server did not read.
IN_TEXT = "text"


class ToolCall(Value):
    """One call: ``arguments`` as the model wrote them, ``index`` among those of its answer.

    ``if_all_well``: it is left out where an earlier call of the answer failed. ``extra`` are
    members of it that its endpoint wants back. ``origin`` is ``IN_TEXT`` where the model wrote it
    into its text instead of calling.
    """

    id: str
    name: str
    arguments: str
    index: int = 0
    if_all_well: bool = False
    extra: Mapping[str, Any] = {}
    origin: str = ""


def schemas_of(tools: Iterable[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """The schemas of the arguments, by the name of a tool."""
    return {tool["function"]["name"]: tool["function"]["parameters"] for tool in tools}


def function(
    name: str, description: str, properties: Mapping[str, Any], required: int
) -> dict[str, Any]:
    """A tool as OpenAI describes a function; the first ``required`` arguments must be there."""
    return {
        "type": "function",
        "function": {
            "name": name,
            "description": description,
            "parameters": {
                "type": "object",
                "properties": properties,
                "required": list(properties)[:required],
            },
        },
    }


def from_tools(tool_calls: Iterable[Mapping[str, Any]], turn: int) -> list[ToolCall]:
    """The calls of an answer, each with an id of its own.

    An odd id is replaced by one that follows from its place, the same when the run is resumed.
    """
    calls: list[ToolCall] = []
    for index, tool_call in enumerate(tool_calls):
        name, arguments = tool_call.get("name"), tool_call.get("arguments")
        ident = tool_call.get("id")
        if not isinstance(ident, str) or not _is_sound(ident) or any(ident == c.id for c in calls):
            ident = made_id(turn, index)
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        name = name if isinstance(name, str) else ""
        calls.append(ToolCall(ident, name, text, index, extra=tool_call.get("extra", {})))
    return calls


def made_id(turn: int, index: int) -> str:
    """The id of a call that has none: nine letters and digits, as Mistral's models want them."""
    return f"c{turn % 100_000:05}{index % 1000:03}"


def _is_sound(ident: str) -> bool:
    return 0 < len(ident) <= _ID_LIMIT and ident.isascii() and ident.isprintable()


def of_completion(
    completion: Completion, turn: int, schemas: Mapping[str, Mapping[str, Any]]
) -> list[ToolCall]:
    """The calls of an answer: those that its server read, or else those in its text.

    ``schemas`` are those of the arguments, by the name of a tool. Names lose what a template puts
    around them, and arguments that were encoded twice are decoded.
    """
    calls = from_tools(completion.tool_calls, turn)
    if calls:
        return [
            call.replace(
                name=written_calls.tool_name(call.name, schemas),
                arguments=written_calls.sound_arguments(call.arguments),
            )
            for call in calls
        ]
    return [
        ToolCall(
            made_id(turn, index),
            name,
            json.dumps(arguments, ensure_ascii=False),
            index,
            origin=IN_TEXT,
        )
        for index, (name, arguments) in enumerate(written_calls.calls_in(completion.text, schemas))
    ]


def from_text(text: str, turn: int) -> list[ToolCall]:
    """The first JSON object with a ``tool``; the rest is imagined."""
    value = object_with("tool", text)
    if value is None:
        return []
    raw = value.get("arguments", {})
    arguments = raw if isinstance(raw, str) else json.dumps(raw, ensure_ascii=False)
    return [ToolCall(made_id(turn, 0), value["tool"], arguments)]


def object_with(key: str, text: str) -> dict[str, Any] | None:
    """The first JSON object in ``text`` that has a string as ``key``, also inside another."""
    decoder = json.JSONDecoder(strict=False)
    text = thoughts.split(text[:_TEXT_LIMIT])[1]
    at = -1
    for _ in range(_CANDIDATES):
        at = text.find("{", at + 1)
        if at < 0:
            break
        try:
            value, _end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict) and isinstance(value.get(key), str):
            return value
    return None


def checker(schema: Mapping[str, Any]) -> Callable[[object], str]:
    """A function that says for the model what is wrong with arguments; "" if nothing is.

    An argument that the schema does not name is wrong, unless it says itself what others may be.
    """
    misfit = loader.misfits({"additionalProperties": False, **schema})
    return lambda arguments: misfit(arguments) or _wrong_text(arguments)


def _texts(value: Any) -> Iterator[str]:
    """All texts in a value of JSON, names of members too."""
    waiting = [value]
    while waiting:
        inner = waiting.pop()
        if isinstance(inner, str):
            yield inner
        elif isinstance(inner, dict):
            waiting += [*inner, *inner.values()]
        elif isinstance(inner, list):
            waiting += inner


def _wrong_text(arguments: Any) -> str:
    for name, value in arguments.items():
        text = "".join(_texts(value))
        if "\0" in text:
            return f"{name!r} has a NUL character"
        if any("\ud800" <= char <= "\udfff" for char in text):
            return f"{name!r} has half of a surrogate pair"
    return ""
