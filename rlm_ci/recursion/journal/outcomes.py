"""What the journals of a recursion say of each node in the end: two runs can be compared."""

from __future__ import annotations

from rlm_ci.errors import DamagedError
from rlm_ci.recursion.journal import recovery

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    #: By the name of a journal and the id of a node, what it says of it.
    Outcomes = Mapping[str, Mapping[str, Mapping[str, Any]]]

#: They depend on who was quicker, or on how often the run was killed.
_ORDER = ("seq", "attempt")
_HINT = "restore the run's folder from a copy"


def read(folder: str) -> Outcomes:
    """The last words on each node in ``folder``: what was decided, how it ended, its result.

    Raises DamagedError, StorageError for a journal that is torn or has a gap.
    """
    outcomes: dict[str, dict[str, dict[str, Any]]] = {recovery.NODES: {}, recovery.RESULTS: {}}
    readers = recovery.readers(folder)
    for reader, name in zip(readers, recovery.NAMES, strict=True):

        def take(records: list[dict[str, Any]], name: str = name) -> None:
            for record in records:
                if name == recovery.QUEUE:
                    return
                fields = {key: value for key, value in record.items() if key not in _ORDER}
                node = record["node_id"]
                earlier = outcomes[name].get(node, {}) if name == recovery.NODES else {}
                outcomes[name][node] = earlier | fields

        reader.read(take)
        if reader.tail:
            problem = f"{len(reader.tail)} bytes are behind the last record"
            raise DamagedError(problem, where=name, hint=_HINT)
    missing = recovery.gap(readers)
    if missing:
        raise DamagedError(f"record {missing} is in none of the journals, or in two", hint=_HINT)
    return outcomes
