"""What earlier processes wrote into the journals, as whoever goes on has to know it."""

from __future__ import annotations

import os
from array import array

from rlm_ci.errors import DamagedError
from rlm_ci.recursion import coverage, recovery, skimming
from rlm_ci.recursion.nodes import CANCELLED, COMPLETED, FAILED, PARTIAL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

#: How far a node had come; what was decided of it stands above these bits.
KNOWN: Final = 1
ENDED: Final = 2
DECIDED: Final = 4


class Earlier:
    """What earlier processes wrote: results by node, and how far each node had come.

    A result that failed is none, nor is one of which a part was left out for want of budget,
    nor is that of any node above: they are done again.
    """

    def __init__(self) -> None:
        self.handles: dict[str, int] = {}
        self.states: dict[str, int] = {}
        self.decisions: list[tuple[str, str, float]] = []
        self.starts = array("q")
        self.deepest = 0
        self._count = 0
        self._known: dict[tuple[Any, ...], int] = {}
        self._again: set[str] = set()

    def results(self, found: list[dict[str, Any]]) -> None:
        number = self._count
        self._count += len(found)
        handles, again = self.handles, self._again
        try:
            for record in found:
                identifier = record["node_id"]
                handles[identifier] = number
                number += 1
                if _is_open(record):
                    again.add(identifier)
                elif again:
                    again.discard(identifier)
        except (KeyError, TypeError, AttributeError, ValueError):
            raise _misshapen(recovery.RESULTS, found) from None

    def nodes(self, found: list[dict[str, Any]]) -> None:
        states, deepest = self.states, self.deepest
        try:
            for record in found:
                identifier = record["node_id"]
                status = record["status"]
                if status == "queued":
                    states[identifier] = KNOWN
                    deepest = max(deepest, record["depth"])
                elif status == "running":
                    states[identifier] = KNOWN | self._decision(
                        record["decision"], record["reason"], record["confidence"]
                    )
                elif status in (COMPLETED, FAILED):
                    states[identifier] |= ENDED
                elif status != CANCELLED or identifier not in states:
                    raise ValueError(status)
        except (KeyError, TypeError, ValueError):
            raise _misshapen(recovery.NODES, found) from None
        self.deepest = deepest

    def skim_results(self, lines: bytes) -> bool:
        """As ``results``, where all of them are whole."""
        found = skimming.results(lines)
        if found is None or not all(found[1]):
            return False
        first = self._count
        self._count += len(found[0])
        self.handles.update(zip(found[0], range(first, self._count), strict=True))
        self._again.difference_update(found[0] if self._again else ())
        return True

    def skim_nodes(self, lines: bytes) -> bool:
        """As ``nodes``, where nothing went wrong with any."""
        found = skimming.nodes(lines)
        if found is None:
            return False
        states = self.states
        for confidence, decision, running, reason, depth, queued, ended, status in found:
            if queued:
                states[queued] = KNOWN
                self.deepest = max(self.deepest, int(depth))
            elif running:
                states[running] = KNOWN | self._decision(decision, reason, float(confidence))
            elif status == COMPLETED:
                states[ended] = states.get(ended, 0) | ENDED
        return True

    def _decision(self, *key: Any) -> int:
        """What is noted of a node for a decision."""
        at = self._known.get(key)
        if at is None:
            self.decisions.append(key)
            at = self._known[key] = len(self.decisions)
        return at * DECIDED

    def settle(self, folder: str) -> None:
        """Take back the results that are to be done again, and all that rest on them."""
        if not self._again:
            return
        parents = parents_of(folder)
        for identifier in self._again:
            one: str | None = identifier
            while one is not None and one in self.states:
                self.handles.pop(one, None)
                self.states[one] &= ~ENDED
                one = parents.get(one)
            # What was decided under a limit is decided anew.
            state = self.states.get(identifier, 0)
            if state >= DECIDED and self.decisions[state // DECIDED - 1][1] in _LIMITED:
                self.states[identifier] = KNOWN


_LIMITED: Final = (coverage.DEADLINE, "budget_below_reserve")


def read(folder: str) -> tuple[Earlier, recovery.Found]:
    """All that stands in the journals. Raises DamagedError, StorageError."""
    before = Earlier()
    results, nodes, queue = scans = (
        recovery.Scan(os.path.join(folder, recovery.RESULTS), places=True),
        recovery.Scan(os.path.join(folder, recovery.NODES)),
        recovery.Scan(os.path.join(folder, recovery.QUEUE)),
    )
    results.read(before.results, before.skim_results)
    nodes.read(before.nodes, before.skim_nodes)
    queue.read(None, lambda _lines: True)
    before.starts = results.starts
    return before, recovery.recover(folder, scans)


def _is_open(record: dict[str, Any]) -> bool:
    status = record["status"]
    if status == PARTIAL:
        return any(reason.partition(":")[0] in coverage.AGAIN for _, reason in record["uncovered"])
    if status not in (COMPLETED, FAILED):
        raise ValueError(status)
    return bool(status == FAILED)


def parents_of(folder: str) -> dict[str, str | None]:
    """The node above each node."""
    parents: dict[str, str | None] = {}

    def take(found: list[dict[str, Any]]) -> None:
        for record in found:
            if record["status"] == "queued":
                parents[record["node_id"]] = record["parent_id"]

    recovery.Scan(os.path.join(folder, recovery.NODES)).read(take)
    return parents


def _misshapen(name: str, found: list[dict[str, Any]]) -> DamagedError:
    numbers = f"{found[0].get('seq')} to {found[-1].get('seq')}"
    return DamagedError(
        f"a record among {numbers} is not what a run writes",
        where=name,
        hint="it was not written by this version of rlm-ci; start a new run",
    )
