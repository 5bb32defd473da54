"""Change a JSON file of somebody else in place: all bytes around the change stay as they are.

Comments and trailing commas, as some programs allow them in their settings, are read over and kept.
"""

from __future__ import annotations

import json
import re

from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

_BLANK = " \t\r\n"
_SPACE = re.compile(rf"(?:[{_BLANK}]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_LINE_END = re.compile(r"[ \t]*\r?\n")
_SCALAR = re.compile(r"[^\s,\]}/]+")
#: Containers in containers.
_DEPTH = 100


class JsonValue(Value):
    """A value and where it is in the text: from ``start`` to before ``end``.

    Each member or element has its key, and where it begins with it.
    """

    value: Any
    start: int
    end: int
    children: tuple[tuple[int | str, int, JsonValue], ...] = ()

    def child(self, key: int | str) -> JsonValue | None:
        """The member or element of that key; of equal keys the last, as JSON readers take it."""
        return next((child for name, _, child in reversed(self.children) if name == key), None)


def parse(text: str) -> JsonValue:
    """The value of a whole text. Raises ValueError."""
    value = _value(text, _space(text, 1 if text.startswith("\ufeff") else 0), 0)
    if _space(text, value.end) != len(text):
        raise ValueError(f"text after the value, {_where(text, value.end)}")
    return value


def add(text: str, path: Sequence[str], value: object) -> str:
    """``text`` with ``value`` as the last element of the list at ``path``, which is made if needed.

    Raises ValueError where the text is no JSON, or something at ``path`` is of another type.
    """
    container, keys = parse(text), list(path)
    while isinstance(container.value, dict) and keys and (inner := container.child(keys[0])):
        container, keys = inner, keys[1:]
    if not isinstance(container.value, dict if keys else list):
        name = ".".join(path[: len(path) - len(keys)]) or "the whole"
        raise ValueError(f"{name} is not {'an object' if keys else 'a list'}")
    if not keys:
        return _inserted(text, container, None, value)
    value = [value]
    for key in reversed(keys[1:]):
        value = {key: value}
    return _inserted(text, container, keys[0], value)


def remove(text: str, keys: Sequence[int | str]) -> str:
    """``text`` without the value at ``keys``, and without the containers that this leaves empty.

    The outermost stays. Raises ValueError where the text is no JSON.
    """
    containers = [parse(text)]
    for key in keys[:-1]:
        inner = containers[-1].child(key)
        if inner is None:
            return text
        containers.append(inner)
    depth = len(keys) - 1
    while depth and len(containers[depth].children) == 1:
        depth -= 1
    return _without(text, containers[depth], keys[depth])


def _inserted(text: str, container: JsonValue, key: str | None, value: object) -> str:
    """``text`` with a last member or element of ``container``; nothing else is touched."""
    inner, outer = _indents(text, container)
    name = "" if key is None else f"{json.dumps(key)}: "
    content = text[container.start + 1 : container.end - 1]
    if container.children and "\n" not in content:
        body, before, after = json.dumps(value, ensure_ascii=False), ", ", ""
    else:
        newline = "\r\n" if "\r\n" in text else "\n"
        indent: int | str = "\t" if inner.startswith("\t") else len(inner) - len(outer) or 2
        body = json.dumps(value, indent=indent, ensure_ascii=False)
        body = body.replace("\n", f"{newline}{inner}")
        before = f"{',' if container.children else ''}{newline}{inner}"
        after = "" if "\n" in content else f"{newline}{outer}"
    if container.children:
        at, after = container.children[-1][2].end, ""
    else:
        at = container.start + 1 + len(content.rstrip(_BLANK))
    return f"{text[:at]}{before}{name}{body}{after}{text[at:]}"


def _without(text: str, container: JsonValue, key: int | str) -> str:
    """``text`` without one child of ``container`` and a comma; comments around it stay."""
    names = [name for name, _, _ in container.children]
    if key not in names:
        return text
    number = len(names) - 1 - names[::-1].index(key)
    _, start, child = container.children[number]
    comma = _space(text, child.end)
    if number:
        left, right = container.children[number - 1][2].end, child.end
        comma = _space(text, left)
        before, after = text[left:comma] + text[comma + 1 : start], ""
    elif len(names) > 1:
        left, right = start, len(text) - len(text[comma + 1 :].lstrip(_BLANK))
        before, after = "", text[child.end : comma]
    else:
        left, right = container.start + 1, container.end - 1
        before = text[left:start]
        after = text[child.end : comma] + text[comma:right].removeprefix(",")
    if _LINE_END.match(after + text[right:]):
        before = before.rstrip(_BLANK)
    middle = before + after
    return text[:left] + (middle if middle.strip(_BLANK) else "") + text[right:]


def _indents(text: str, container: JsonValue) -> tuple[str, str]:
    """The indentation of what is in ``container``, and of the line that it begins in."""
    line = text[text.rfind("\n", 0, container.start) + 1 :]
    outer = line[: len(line) - len(line.lstrip(" \t"))]
    if container.children:
        start = container.children[0][1]
        before = text[text.rfind("\n", 0, start) + 1 : start]
        if not before.strip() and "\n" in text[container.start : start]:
            return before, outer
    return outer + ("\t" if outer.startswith("\t") else "  "), outer


# ── reading ──


def _where(text: str, at: int) -> str:
    return f"line {text.count(chr(10), 0, at) + 1}"


def _space(text: str, at: int) -> int:
    blank = _SPACE.match(text, at)
    return blank.end() if blank else at


def _value(text: str, at: int, depth: int) -> JsonValue:
    if depth > _DEPTH:
        raise ValueError(f"more than {_DEPTH} levels")
    first = text[at : at + 1]
    if first == '"':
        value, end = _string(text, at)
        return JsonValue(value, at, end)
    if first in ("{", "["):
        return _container(text, at, depth, is_object=first == "{")
    scalar = _SCALAR.match(text, at)
    if scalar is None:
        raise ValueError(f"no value, {_where(text, at)}")
    try:
        return JsonValue(json.loads(scalar[0]), at, scalar.end())
    except ValueError:
        raise ValueError(f"{scalar[0][:40]!r} is no value, {_where(text, at)}") from None


def _string(text: str, at: int) -> tuple[str, int]:
    if text[at : at + 1] != '"':
        raise ValueError(f"no name in quotes, {_where(text, at)}")
    try:
        value, end = json.JSONDecoder().raw_decode(text, at)
    except ValueError:
        raise ValueError(f"no end of a text in quotes, {_where(text, at)}") from None
    return value, end


def _container(text: str, start: int, depth: int, *, is_object: bool) -> JsonValue:
    children: list[tuple[int | str, int, JsonValue]] = []
    closing = "}" if is_object else "]"
    at = _space(text, start + 1)
    while text[at : at + 1] != closing:
        begin, key = at, len(children)
        name: int | str = key
        if is_object:
            name, at = _string(text, at)
            at = _space(text, at)
            if text[at : at + 1] != ":":
                raise ValueError(f"no colon, {_where(text, at)}")
            at = _space(text, at + 1)
        child = _value(text, at, depth + 1)
        children.append((name, begin, child))
        at = _space(text, child.end)
        if text[at : at + 1] == ",":
            at = _space(text, at + 1)
        elif text[at : at + 1] != closing:
            raise ValueError(f"no comma and no {closing}, {_where(text, at)}")
    value: Any = [child.value for _, _, child in children]
    if is_object:
        value = {name: child.value for name, _, child in children}
    return JsonValue(value, start, at + 1, tuple(children))
