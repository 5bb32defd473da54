"""Calls that a model wrote into its text, where its server did not read them.

They are taken where exactly one reading is possible and all of it names tools that there are. What
is a draft or an example has no call form around it, leaves more than one reading, or has words
behind it.
"""

from __future__ import annotations

import json
import re

from rlm_ci.models.strict_json import objects_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from typing import Any

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
