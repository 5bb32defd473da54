"""Reductions by machine: one result of the answers about all parts of a text."""

from __future__ import annotations

import json
from collections import Counter
from decimal import Decimal

from rlm_ci.models.strict_json import unfenced
from rlm_ci.text.printable import encodable, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any, Final

CONCAT: Final = "concat"
COUNT: Final = "count"
SUM: Final = "sum"
UNION: Final = "union"
MOST_FREQUENT: Final = "most_frequent"
#: By prompts to a model, in a tree.
MODEL: Final = "model"
#: Those that need answers in JSON.
OF_JSON: Final = frozenset((COUNT, SUM, UNION, MOST_FREQUENT))
_SHOWN: Final = 80
#: Larger numbers are not exact in JSON.
_MOST: Final = Decimal(1 << 53)


class ReduceError(ValueError):
    """The first answer that does not fit the reduction, and why."""


def reduced(how: str, field: str, answers: Sequence[tuple[str, str]]) -> str:
    """The result of ``answers``, pairs of a name and a text, by one of the reductions above.

    With a ``field`` it is of that member of each answer; one without it counts as null. Raises
    ReduceError.
    """
    if how == CONCAT:
        return "\n\n".join(f"{name}:\n{text.strip()}" for name, text in answers)
    try:
        return encodable(
            _by_machine(how, [(name, _value(name, text, field)) for name, text in answers])
        )
    except RecursionError:
        raise ReduceError("an answer is nested too deeply") from None


def _by_machine(how: str, values: Sequence[tuple[str, Any]]) -> str:
    if how == SUM:
        return _as_text({"sum": _sum(values)})
    items = list(_items(value for _, value in values))
    if how == COUNT:
        return _as_text({"count": len(items)})
    times = Counter(_as_text(item, sort_keys=True) for item in items)
    pairs = [(json.loads(text), often) for text, often in times.items()]
    if how == UNION:
        return _as_text({"count": len(pairs), "values": [value for value, _ in pairs]})
    return _as_text({"count": len(pairs), "values": sorted(pairs, key=lambda pair: -pair[1])})


def _value(name: str, text: str, field: str) -> Any:
    try:
        value = json.loads(
            unfenced(text.strip()), parse_float=_number, parse_int=_number, parse_constant=_number
        )
    except (ValueError, ArithmeticError):
        raise ReduceError(f"the answer of {name} is not JSON with plain numbers") from None
    if not field:
        return value
    if not isinstance(value, dict):
        raise ReduceError(f"the answer of {name} has no member {printable(field[:_SHOWN])}")
    return value.get(field)


def _number(digits: str) -> Decimal:
    number = Decimal(digits)
    if not number.is_finite() or abs(number) >= _MOST:
        raise ValueError(digits[:_SHOWN])
    return number


def _items(values: Iterable[Any]) -> Iterator[Any]:
    """What is counted: the items of lists, and other values but null and false."""
    for value in values:
        if isinstance(value, list):
            yield from value
        elif value is not None and value is not False:
            yield value


def _sum(values: Sequence[tuple[str, Any]]) -> Any:
    """The sum of numbers and lists of numbers, or of objects with numbers, key by key."""
    total, by_key = Decimal(0), dict[str, Decimal]()
    is_by_key = any(isinstance(value, dict) for _, value in values)
    for name, value in values:
        for key, number in _numbers(name, value, is_by_key=is_by_key):
            total += number
            by_key[key] = by_key.get(key, Decimal(0)) + number
    if not is_by_key:
        return total
    return dict(sorted(by_key.items(), key=lambda pair: -pair[1]))


def _numbers(name: str, value: Any, *, is_by_key: bool) -> Iterator[tuple[str, Decimal]]:
    if value is None:
        return
    if is_by_key and not isinstance(value, dict):
        raise ReduceError(f"the answer of {name} is no object, as others are")
    members = value.items() if isinstance(value, dict) else [("", value)]
    for key, member in members:
        for number in member if isinstance(member, list) else [member]:
            if not isinstance(number, Decimal):
                raise ReduceError(f"the answer of {name} has something that is no number")
            yield key, number


def _as_text(value: Any, *, sort_keys: bool = False) -> str:
    return json.dumps(value, default=_plain, ensure_ascii=False, sort_keys=sort_keys)


def _plain(value: Decimal) -> int | float:
    integer = int(value)
    return integer if integer == value else float(value)
