"""Tool calls as a model writes them, native or in its text: read, named, checked by their schema.

They are taken where exactly one reading is possible and all of it names tools that there are. What
is a draft or an example has no call form around it, leaves more than one reading, or has words
behind it.
"""

from __future__ import annotations

import json
import re

from rlm_ci.models import thoughts
from rlm_ci.models.strict_json import objects_in
from rlm_ci.resources import loader
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
    from typing import Any

    from rlm_ci.models import Completion

    Pair = tuple[str, Mapping[str, Any]]


#: Forms with marks around a call: Hermes and Qwen, Qwen's coder, Mistral, harmony.
_TAGGED = re.compile(r"<tool_call>(.*?)(?:</tool_call>|\Z)", re.DOTALL)
_XML = re.compile(r"<function=([^>\s]+)>(.*?)</function>", re.DOTALL)
_PARAMETER = re.compile(r"<parameter=([^>\s]+)>\n?(.*?)\n?</parameter>", re.DOTALL)
_MISTRAL = re.compile(r"\[TOOL_CALLS\]\s*(\[.*\])", re.DOTALL)
_HARMONY = re.compile(
    r"\bto=([\w.-]+)[^<]*(?:<\|constrain\|>[^<]*)?<\|message\|>(.*?)<\|call\|>", re.DOTALL
)
_NAMES = ("name", "tool", "tool_name", "function")
_ARGUMENTS = ("arguments", "parameters", "args", "input")
#: What no plain answer has: the beginning of a call, though it may be wrong or cut off.
_SIGN = re.compile(
    r"\"(?:action|tool|tool_name|arguments)\"\s*:|<tool_call>|<function=|\[TOOL_CALLS\]|<\|"
)
#: What servers and templates put around the name of a tool.
_PREFIX = re.compile(r"(?:functions|default_api|tools?)[.:/]")
_SUFFIX = re.compile(r"<\|.*", re.DOTALL)


_CLOSINGS = ("</tool_call>", "</function>")
_FENCES = ("```", "~~~")
_MARK = re.compile(r"<[^<>]{0,40}>")


def is_plain(text: str) -> bool:
    """Whether ``text`` says something, and no sign of a call is in it."""
    return bool(text.strip()) and _SIGN.search(text) is None


def calls_in(text: str, schemas: Mapping[str, Mapping[str, Any]]) -> list[Pair]:
    """The names and arguments of the calls in ``text``; none where it can be read in two ways.

    ``schemas`` are those of the arguments, by the name of a tool.
    """
    readings = [pairs for read in (_tagged, _mistral, _harmony) if (pairs := list(read(text)))]
    if not readings:
        pairs = [pair for value in objects_in(text) if (pair := _pair(value))]
        readings = [pairs] if len(pairs) == 1 else []
    if len(readings) != 1 or _goes_on(text):
        return []
    calls = [(tool_name(name, schemas), arguments) for name, arguments in readings[0]]
    if not all(name in schemas for name, _ in calls):
        return []
    return [(name, _typed(arguments, schemas[name])) for name, arguments in calls]


def _goes_on(text: str) -> bool:
    """Whether words follow the last call: then it was a draft, an example or data."""
    ends = [text.rfind(mark) + len(mark) for mark in _CLOSINGS if mark in text]
    if not ends:
        fence = max(map(text.rfind, _FENCES))
        if not 0 <= text.rfind("}") < fence:
            return False
        ends = [fence + len(_FENCES[0])]
    return any(map(str.isalnum, _MARK.sub("", text[max(ends) :])))


def tool_name(name: str, names: Collection[str]) -> str:
    """``name`` without what a template put around that of a tool; itself if that is none."""
    bare = _PREFIX.sub("", _SUFFIX.sub("", name).strip(), count=1)
    return bare if name not in names and bare in names else name


def sound_arguments(text: str) -> str:
    """Arguments that were encoded twice, as they were before; others as they are."""
    if not text.lstrip().startswith('"'):
        return text
    try:
        inner = json.loads(text)
        is_object = isinstance(inner, str) and isinstance(json.loads(inner), dict)
    except (ValueError, RecursionError):
        return text
    return inner if is_object else text


def _tagged(text: str) -> Iterator[Pair]:
    bodies = _TAGGED.findall(text) or ([text] if _XML.search(text) else [])
    for body in bodies:
        forms = _XML.findall(body)
        if forms:
            for name, inner in forms:
                yield name, dict(_PARAMETER.findall(inner))
        else:
            yield _only_pair(body)


def _mistral(text: str) -> Iterator[Pair]:
    match = _MISTRAL.search(text)
    values = _decoded(match[1]) if match else None
    for value in values if isinstance(values, list) else ():
        yield _pair(value) or ("", {})


def _harmony(text: str) -> Iterator[Pair]:
    for name, body in _HARMONY.findall(text):
        value = _decoded(body)
        yield (name, value) if isinstance(value, dict) else ("", {})


def _only_pair(body: str) -> Pair:
    """The call that a body is; an empty name where it is none."""
    values = objects_in(body)
    pair = _pair(values[0]) if len(values) == 1 else None
    return pair or ("", {})


def _pair(value: object) -> Pair | None:
    """The call that an object describes."""
    if not isinstance(value, dict):
        return None
    inner = value.get("function")
    if isinstance(inner, dict):
        value = inner
    name = next((value[key] for key in _NAMES if isinstance(value.get(key), str)), None)
    arguments = next((value[key] for key in _ARGUMENTS if key in value), None)
    if isinstance(arguments, str):
        arguments = _decoded(arguments)
    return (name, arguments) if name is not None and isinstance(arguments, dict) else None


def _typed(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments whose texts, as XML has nothing else, became what the schema wants."""
    kinds = {name: rule.get("type") for name, rule in schema.get("properties", {}).items()}
    return {
        name: _decoded(value, value)
        if isinstance(value, str) and kinds.get(name, "string") != "string"
        else value
        for name, value in arguments.items()
    }


def _decoded(text: str, default: object = None) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return default


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
                name=tool_name(call.name, schemas),
                arguments=sound_arguments(call.arguments),
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
        for index, (name, arguments) in enumerate(calls_in(completion.text, schemas))
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
