"""Keeps the journal small: lists that a node inherits from its children are not written again.

The lists of a result are usually those of the children end to end, and then its own entries. Only
its own entries are written, so no node above repeats the entries of a file.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from rlm_ci.recursion.nodes import NodeResult

#: A result may inherit this, and the lists among its data, by their names.
UNCOVERED = "uncovered"
_DATA = "data."


class InheritedResult:
    """The lists of a result that the nodes above may inherit."""

    __slots__ = ("data", "node_id", "uncovered")

    def __init__(self, result: NodeResult) -> None:
        self.node_id = result.node_id
        self.uncovered = result.uncovered
        self.data = {key: value for key, value in result.data.items() if _is_list(value)}

    def __bool__(self) -> bool:
        return bool(self.uncovered or any(self.data.values()))


def own(
    result: NodeResult, children: Sequence[InheritedResult]
) -> tuple[NodeResult, tuple[str, ...]]:
    """The result without the entries of its children, and the names of the shortened lists."""
    gathered: list[str] = []
    uncovered = tuple(pair for child in children for pair in child.uncovered)
    size = len(uncovered)
    if uncovered and result.uncovered[:size] == uncovered:
        gathered.append(UNCOVERED)
        result = result.replace(uncovered=result.uncovered[size:])
    data: dict[str, Any] = {}
    for key, value in result.data.items():
        below = [one for child in children for one in child.data.get(key, ())]
        if below and _is_list(value) and list(value[: len(below)]) == below:
            gathered.append(f"{_DATA}{key}")
            data[key] = list(value[len(below) :])
    if data:
        result = result.replace(data={**result.data, **data})
    return result, tuple(gathered)


def whole(
    result: NodeResult, gathered: Sequence[str], children: Sequence[NodeResult]
) -> NodeResult:
    """The inverse of ``own``. Raises KeyError, TypeError for input that ``own`` never makes."""
    data: dict[str, Any] = dict(result.data)
    uncovered = result.uncovered
    given = [InheritedResult(child) for child in children]
    for name in gathered:
        if name == UNCOVERED:
            uncovered = (*(pair for child in given for pair in child.uncovered), *uncovered)
        else:
            key = name.removeprefix(_DATA)
            below = [one for child in given for one in child.data.get(key, ())]
            data[key] = [*below, *data[key]]
    return result.replace(data=data, uncovered=uncovered)


def has(record: Mapping[str, Any], name: str) -> bool:
    """Whether the record of a result has the list ``name``."""
    return name == UNCOVERED or _is_list(record["data"].get(name.removeprefix(_DATA)))


def _is_list(value: object) -> bool:
    return isinstance(value, list | tuple)
