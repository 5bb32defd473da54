"""Read a model's answer strictly, as one unambiguous JSON object."""

from __future__ import annotations

import json
import math
import re

from rlm_ci.models import thoughts
from rlm_ci.text.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Final, NoReturn

    #: What is wrong with an object, in words for the model; "" when nothing is.
    Misfit = Callable[[Mapping[str, Any]], str]

#: The largest answer in bytes.
LIMIT: Final = 1 << 20
#: Places at which an object may begin.
_MOST: Final = 64
#: A string, or a comma that an end follows.
_STRING_OR_END: Final = re.compile(r'"(?:[^"\\]|\\.)*"|,(?P<end>\s*[}\]])', re.DOTALL)
#: How an object begins; any other brace belongs to prose or code.
_BEGINNING: Final = re.compile(r"\{\s*[\"'}]")
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
#: Digits of a whole number.
_DIGITS: Final = 300
_NAMES: Final = {
    list: "an array", str: "a string", int: "a number", float: "a number", bool: "a boolean",
    type(None): "null",
}  # fmt: skip


def read_object(text: str, misfit: Misfit | None = None) -> dict[str, Any]:
    """The JSON object in ``text``, perhaps behind reasoning, in a fence, or with prose around it.

    Where there is exactly one, a comma before an end, a line break in a string and a backslash
    before no escape are overlooked: to ask for a comma costs a call. Of several objects, exactly
    one that ``misfit`` finds nothing wrong with is taken. Raises ValueError, in words for the
    model, for anything else: two objects, a broken one, NaN, a repeated key, half of a surrogate
    pair, too many bytes or levels.
    """
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > LIMIT:
        raise ValueError(f"the answer has {size:,} bytes, more than {LIMIT:,}")
    thought, answer = thoughts.split(text.removeprefix("\ufeff").strip())
    body = unfenced(answer.strip())
    if not body:
        within = (
            "ends within its thoughts, and has no plan" if thought else "is empty: answer in text"
        )
        raise ValueError(f"the answer {within}")
    try:
        value = _DECODER.decode(body)
    except json.JSONDecodeError as error:
        values, are_all = _objects(body)
        if len(values) != 1 or not are_all or body[0] == "[":
            values = _fitting(values, misfit)
        if len(values) != 1:
            raise ValueError(
                f"the answer is not one JSON object and nothing else: {error}"
            ) from None
        value = values[0]
    except RecursionError:
        raise ValueError("the answer is nested too deeply") from None
    try:  # only the value shows half a pair that was written as an escape
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ValueError("the answer has half of a surrogate pair") from None
    if not isinstance(value, dict):
        raise ValueError(f"the answer is {_NAMES[type(value)]}, not a JSON object")
    return value


def _fitting(values: list[dict[str, Any]], misfit: Misfit | None) -> list[dict[str, Any]]:
    return [value for value in values if misfit is not None and not misfit(value)]


def objects_in(text: str) -> list[dict[str, Any]]:
    """The JSON objects in ``text``, none of them inside another; reasoning is left out."""
    return _objects(thoughts.split(text[:LIMIT])[1])[0]


def _objects(text: str) -> tuple[list[dict[str, Any]], bool]:
    """The objects in ``text``, as they are or else mended, and whether none of them is broken."""
    values, are_all = _scanned(text)
    if are_all:
        return values, True
    mended, are_all = _scanned(_STRING_OR_END.sub(_mended, text))
    return (mended, True) if are_all else (values or mended, False)


def _scanned(text: str) -> tuple[list[dict[str, Any]], bool]:
    values: list[dict[str, Any]] = []
    are_all = True
    at = text.find("{")
    for _ in range(_MOST):
        if at < 0:
            break
        try:
            value, end = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            end, are_all = at + 1, are_all and not _BEGINNING.match(text, at)
        else:
            values.append(value)
        at = text.find("{", end)
    return [value for value in values if value] or values[:1], are_all and at < 0


def _mended(match: re.Match[str]) -> str:
    """A string with its control characters and lone backslashes escaped; an end without a comma."""
    if match["end"]:
        return match["end"]
    text = _ESCAPE.sub(lambda hit: hit[0] if hit[1] in '"\\/bfnrtu' else f"\\{hit[0]}", match[0])
    return "".join(json.dumps(char)[1:-1] if char < " " else char for char in text)


def unfenced(body: str) -> str:
    """The text without a fence around it."""
    first, _, content = body.partition("\n")
    if first.rstrip().casefold() in ("```", "```json") and content.endswith("\n```"):
        return content.removesuffix("```").strip()
    return body


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for name, value in pairs:
        if name in members:
            raise ValueError(f"the key '{printable(name[:100])}' is twice in one object")
        members[name] = value
    return members


def _integer(digits: str) -> int:
    if len(digits) > _DIGITS:
        raise ValueError(f"the number {digits[:20]}… is too large")
    return int(digits)


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"the number {digits[:20]} is too large")
    return number


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_members,
    parse_int=_integer,
    parse_float=_finite,
    parse_constant=_refuse,
)
