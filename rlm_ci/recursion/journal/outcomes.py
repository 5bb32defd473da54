"""What the journals of a recursion say of each node in the end: two runs can be compared."""

from __future__ import annotations

import os

from rlm_ci.errors import DamagedError
from rlm_ci.recursion.journal import node_records
from rlm_ci.recursion.journal.node_records import NAMES, NODES, QUEUE, RESULTS
from rlm_ci.runs.journal.reader import JournalReader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    #: By the name of a journal and the id of a node, what it says of it.
    Outcomes = Mapping[str, Mapping[str, Mapping[str, Any]]]

#: They depend on who was quicker, on what was left, or on how often the run was killed.
_ORDER = ("seq", "attempt", "budgets")
_HINT = "restore the run's folder from a copy"


def read(folder: str) -> Outcomes:
    """The last words on each node in ``folder``: what was decided, how it ended, its result.

    Raises DamagedError, StorageError for a journal that is damaged or torn.
    """
    outcomes: dict[str, dict[str, dict[str, Any]]] = {NODES: {}, RESULTS: {}}
    rising = node_records.shares_numbers(folder)
    for name in NAMES:
        reader = JournalReader(os.path.join(folder, name), rising=rising)
        for batch in reader.some():
            for record in batch if name != QUEUE else ():
                fields = {key: value for key, value in record.items() if key not in _ORDER}
                node = record["node_id"]
                earlier = outcomes[name].get(node, {}) if name == NODES else {}
                outcomes[name][node] = earlier | fields
        if reader.tail:
            problem = f"{len(reader.tail)} bytes are behind the last record"
            raise DamagedError(problem, where=name, hint=_HINT)
    return outcomes


def comparable(outcomes: Outcomes, folder: str) -> Outcomes:
    """``outcomes`` as far as the journals in ``folder`` have them: earlier ones say less."""
    if not node_records.shares_numbers(folder):
        return outcomes
    return {
        name: {
            node: {key: value for key, value in fields.items() if key not in node_records.LATER}
            for node, fields in nodes.items()
        }
        for name, nodes in outcomes.items()
    }
