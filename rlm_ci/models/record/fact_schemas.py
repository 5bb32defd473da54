"""What the facts of a question hold, by kind: a journal may come from anywhere.

Its sums only say that a record is whole. Whoever reads a fact must be able to trust its types.
"""

from __future__ import annotations

import math
from decimal import Decimal, InvalidOperation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Final

    Holds = Callable[[Any], bool]

#: No count and no price comes to as much: beyond it a sum is not a JSON number any more.
_MOST: Final = 1 << 53


def require(kind: str, value: Mapping[str, Any]) -> None:
    """Raise TypeError for a fact that is not of the shape of its ``kind``, if that has one."""
    if kind in _SHAPES and not _SHAPES[kind](value):
        raise TypeError(kind)


def _text(value: Any) -> bool:
    return type(value) is str


def _flag(value: Any) -> bool:
    return type(value) is bool


def _count(value: Any) -> bool:
    return type(value) is int and 0 <= value < _MOST


def _whole(value: Any) -> bool:
    return type(value) is int


def _positive(value: Any) -> bool:
    return _count(value) and value > 0


def _number(value: Any) -> bool:
    return type(value) in (int, float) and value >= 0 and math.isfinite(value)


def _money(value: Any) -> bool:
    try:
        return _text(value) and 0 <= Decimal(value) < _MOST
    except InvalidOperation:
        return False


def _maybe(holds: Holds) -> Holds:
    return lambda value: value is None or holds(value)


def _one_of(*texts: str) -> Holds:
    return lambda value: _text(value) and value in texts


def _list(holds: Holds) -> Holds:
    return lambda value: isinstance(value, list) and all(map(holds, value))


def _named(holds: Holds) -> Holds:
    """An object, whatever the names of its members."""
    return lambda value: isinstance(value, dict) and all(map(holds, value.values()))


def _record(shape: Mapping[str, Holds]) -> Holds:
    """An object with these members; those whose name ends in ``?`` may be left out."""

    def check(value: Any) -> bool:
        return isinstance(value, dict) and all(
            holds(value[name.rstrip("?")]) if name.rstrip("?") in value else name.endswith("?")
            for name, holds in shape.items()
        )

    return check


def _terms(value: Any) -> bool:
    """Those of a question; a fix loop agrees on others, and reads them with doubt itself."""
    return not isinstance(value, dict) or "limits" not in value or _QUESTION(value)


_FAILURE: Final = _record(
    {"what": _text, "where": _text, "hint": _text, "code": _count, "budget": _maybe(_text)}
)
_DIGEST: Final = _record({"bytes": _count, "sha256": _text})
_USAGE: Final = _record(
    {
        "prompt_tokens": _count,
        "completion_tokens": _count,
        "cached_tokens": _count,
        "estimated": _flag,
    }
)
_QUESTION: Final = _record(
    {
        "goal": _text,
        "limits": _named(_positive),
        "model?": _text,
        "provider?": _text,
        "head?": _maybe(_text),
        "max_iterations?": _maybe(_number),
        "max_minutes?": _maybe(_number),
        "max_completion_tokens?": _positive,
        "subcall_models?": _list(_text),
    }
)
_SHAPES: Final[Mapping[str, Holds]] = {
    "artifacts": _named(_DIGEST),
    "canary": _record({"secret": _text}),
    "charge": _record({"usage": _USAGE, "cost": _maybe(_money)}),
    "clock": _record({"seconds": _number, "at": _text}),
    "completion": _record(
        {
            "text": _text,
            "tool_calls": _list(_record({"id": _text, "name": _text, "arguments": _text})),
            "finish_reason": _text,
            "model": _text,
            "usage": _maybe(_USAGE),
            "cost": _maybe(_money),
        }
    ),
    "context": _record(
        {
            "object_id": _maybe(_text),
            "stamp?": _named(_whole),
            "adopted?": _flag,
            "why?": _text,
        }
    ),
    "failed": _FAILURE,
    "left": _record({"calls": _maybe(_count)}),
    "mode": _record(
        {
            "name": _one_of("iterative", "symbolic"),
            "reason": _text,
            "wanted": _one_of("auto", "iterative", "symbolic"),
        }
    ),
    "standing": _record({"refuted": _named(_text)}),
    "structured": _record({"takes_schema": _flag, "said?": _text}),
    "subcall": _record({"error": _maybe(_FAILURE)}),
    "terms": _terms,
}
