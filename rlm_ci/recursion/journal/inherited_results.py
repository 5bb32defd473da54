"""What a node only passes on of its children stands in the journal once, with them.

A list of what is told of a scope is, as a rule, those of the children laid end to end, and then
something of the node's own. Only that is written of it: so that what is known of a file does not
stand in the result of each node above.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from rlm_ci.recursion.nodes import NodeResult

#: What of a result may be gathered: this, and the lists among its data, by their names.
UNCOVERED = "uncovered"
_DATA = "data."


class InheritedResult:
    """What a result has that those above it may pass on."""

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
    """The result without what it has of its children, and the names of what that is."""
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
    """The result as it was before ``own``. Raises KeyError, TypeError for what that never made."""
    data: dict[str, Any] = dict(result.data)
    uncovered = result.uncovered
    for name in gathered:
        if name == UNCOVERED:
            below = [pair for child in children for pair in child.uncovered]
            uncovered = (*below, *uncovered)
        else:
            key = name.removeprefix(_DATA)
            data[key] = [*_laid(children, key), *data[key]]
    return result.replace(data=data, uncovered=uncovered)


def has(record: Mapping[str, Any], name: str) -> bool:
    """Whether a record of a result has the list that ``name`` means."""
    return name == UNCOVERED or _is_list(record["data"].get(name.removeprefix(_DATA)))


def _laid(children: Sequence[NodeResult], key: str) -> list[Any]:
    lists = (child.data.get(key, ()) for child in children)
    return [one for found in lists if _is_list(found) for one in found]


def _is_list(value: object) -> bool:
    return isinstance(value, list | tuple)
