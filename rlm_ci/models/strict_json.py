"""Read a model's answer strictly, as one unambiguous JSON object."""

from __future__ import annotations

import json
import math

from rlm_ci.text.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final, NoReturn

#: The largest answer in bytes.
LIMIT: Final = 1 << 20
#: Around the reasoning that some models put before the answer.
_THOUGHTS: Final = "<think>", "</think>"
#: Digits of a whole number.
_DIGITS: Final = 300
_NAMES: Final = {
    list: "an array", str: "a string", int: "a number", float: "a number", bool: "a boolean",
    type(None): "null",
}  # fmt: skip


def read_object(text: str) -> dict[str, Any]:
    """The JSON object in ``text``, perhaps in a fence and behind one ``<think>`` block.

    Raises ValueError, in words for the model, for anything else: text around it, NaN, a repeated
    key, half of a surrogate pair, too many bytes or levels.
    """
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > LIMIT:
        raise ValueError(f"the answer has {size:,} bytes, more than {LIMIT:,}")
    body = unfenced(_thought_out(text.strip()))
    if not body:
        raise ValueError("the answer is empty: answer in text")
    try:
        value = json.loads(
            body,
            object_pairs_hook=_members,
            parse_int=_whole,
            parse_float=_finite,
            parse_constant=_refuse,
        )
        # Only the value shows half a pair that was written as an escape.
        json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("the answer is nested too deeply") from None
    except UnicodeEncodeError:
        raise ValueError("the answer has half of a surrogate pair") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"the answer is not one JSON object and nothing else: {error}") from None
    if not isinstance(value, dict):
        raise ValueError(f"the answer is {_NAMES[type(value)]}, not a JSON object")
    return value


def _thought_out(body: str) -> str:
    """The text without a leading ``<think>`` block."""
    if not body.startswith(_THOUGHTS[0]):
        return body
    _, end, said = body.partition(_THOUGHTS[1])
    if not end:
        raise ValueError("the answer ends within its thoughts, and has no plan")
    return said.strip()


def unfenced(body: str) -> str:
    """The text without a fence around it."""
    first, _, rest = body.partition("\n")
    if first.rstrip().casefold() in ("```", "```json") and rest.endswith("\n```"):
        return rest.removesuffix("```").strip()
    return body


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for name, value in pairs:
        if name in members:
            raise ValueError(f"the key '{printable(name[:100])}' is twice in one object")
        members[name] = value
    return members


def _whole(digits: str) -> int:
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
