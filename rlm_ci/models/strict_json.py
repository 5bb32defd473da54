"""A model's answer read as JSON, strictly: one object, in which nothing can be understood twice."""

from __future__ import annotations

import json
import math

from rlm_ci.text.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final, NoReturn

#: Bytes of an answer that are looked at.
LIMIT: Final = 1 << 20
#: How some models begin and end what they think before they answer.
_THOUGHTS: Final = "<think>", "</think>"
#: Digits of a whole number.
_DIGITS: Final = 300
_NAMES: Final = {
    list: "an array", str: "a string", int: "a number", float: "a number", bool: "a boolean",
    type(None): "null",
}  # fmt: skip


def read_object(text: str) -> dict[str, Any]:
    """The JSON object that ``text`` is, whole, or that stands in the one fence around it.

    What a model thinks before it, in one ``<think>`` block, is no part of its answer. Raises
    ValueError, with words for the model, for anything else: text around it, NaN, a key that
    stands twice, half of a surrogate pair, too many bytes or levels.
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
        # Also where it was written as an escape, which only its value shows.
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
    """What follows the thoughts that a text begins with; the text where it has none."""
    if not body.startswith(_THOUGHTS[0]):
        return body
    _, end, said = body.partition(_THOUGHTS[1])
    if not end:
        raise ValueError("the answer ends within its thoughts, and has no plan")
    return said.strip()


def unfenced(body: str) -> str:
    """What stands in the one fence around a text; the text where there is none."""
    first, _, rest = body.partition("\n")
    if first.rstrip().casefold() in ("```", "```json") and rest.endswith("\n```"):
        return rest.removesuffix("```").strip()
    return body


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise ValueError(f"the key '{printable(name[:100])}' is twice in one object")
            seen.add(name)
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
