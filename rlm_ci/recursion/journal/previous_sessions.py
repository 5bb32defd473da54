"""Reads the journals of earlier sessions, for the session that continues the run."""

from __future__ import annotations

import os
from itertools import compress, count

from rlm_ci.errors import DamagedError
from rlm_ci.recursion import coverage
from rlm_ci.recursion.journal import record_lines, recovery
from rlm_ci.recursion.nodes import CANCELLED, COMPLETED, FAILED, PARTIAL
from rlm_ci.runs.journal.reader import JournalReader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

#: The bits of a node's state; above them is the decision about a node that has not ended.
KNOWN: Final = 1
ENDED: Final = 2
DECIDED: Final = 4
#: The state of a running node whose decision is not read yet.
_RUNNING: Final = -1


class PreviousSessions:
    """The results and the states of nodes from earlier sessions.

    These are done again: failed results, results with parts left out for a limit, the results of
    all nodes above these, and a result that is older than that of a node below it.
    """

    def __init__(self) -> None:
        self.handles: dict[str, int] = {}
        self.states: dict[str, int] = {}
        self.decisions: list[tuple[str, str, float]] = []
        self.deepest = 0
        self._count = 0
        self._known: dict[tuple[Any, ...], int] = {}
        self._again: set[str] = set()
        #: Nodes that have several results.
        self._twice: set[str] = set()

    def results(self, found: list[dict[str, Any]]) -> None:
        number = self._count
        self._count += len(found)
        handles, again = self.handles, self._again
        try:
            for record in found:
                identifier = record["node_id"]
                if identifier in handles:
                    self._twice.add(identifier)
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
                    _ = states[identifier]  # it must have begun
                    states[identifier] = KNOWN | ENDED
                elif status != CANCELLED or identifier not in states:
                    raise ValueError(status)
        except (KeyError, TypeError, ValueError):
            raise _misshapen(recovery.NODES, found) from None
        self.deepest = deepest

    def skim_results(self, data: bytes, bodies: list[bytes]) -> bool:
        """As ``results``, if all of them are complete."""
        found = record_lines.skim_results(data, bodies)
        if found is None:
            return False
        first = self._count
        self._count += len(found)
        known = len(self.handles)
        twice = self.handles.keys() & found
        self.handles.update(zip(found, range(first, self._count), strict=True))
        if len(self.handles) - known + len(twice) != len(found):
            twice.update(one for one in found if found.count(one) > 1)
        self._twice |= twice
        self._again.difference_update(found if self._again else ())
        return True

    def skim_nodes(self, data: bytes, bodies: list[bytes]) -> bool:
        """As ``nodes``, if none has errors."""
        found = record_lines.skim_nodes(data, bodies)
        if found is None:
            return False
        identifiers, heads = found
        meant: dict[bytes, int] = {}
        for head in dict.fromkeys(heads):
            state = self._meant(head)
            if state is None:
                return False
            meant[head] = state
        states = self.states
        states.update(zip(identifiers, map(meant.__getitem__, heads), strict=True))
        # Only nodes that have not ended need their decision: they are few.
        running = frozenset(head for head, state in meant.items() if state == _RUNNING)
        begun = compress(count(), map(running.__contains__, heads))
        for at in [at for at in begun if states[identifiers[at]] == _RUNNING]:
            decision = record_lines.skim_decision(bodies[at])
            if decision is None:
                return False
            states[identifiers[at]] = KNOWN | self._decision(*decision)
        return True

    def _meant(self, head: bytes) -> int | None:
        """The state of a node by the beginning of its record; None if that does not tell."""
        if head == record_lines.ENDED:
            return KNOWN | ENDED
        if head.startswith(record_lines.RUNNING):
            return _RUNNING
        depth, comma, _ = head[len(record_lines.QUEUED) :].partition(b",")
        if not head.startswith(record_lines.QUEUED) or not comma:
            return None
        self.deepest = max(self.deepest, int(depth))
        return KNOWN

    def _decision(self, *key: Any) -> int:
        """The bits of a state that mean a decision."""
        at = self._known.get(key)
        if at is None:
            self.decisions.append(key)
            at = self._known[key] = len(self.decisions)
        return at * DECIDED

    def settle(self, folder: str) -> None:
        """Drop the results that are to be done again, and all that rest on them."""
        if not self._again | self._twice:
            return
        parents, decided, failed = _above(folder)

        def reopen(one: str | None, *, is_kept: bool = False) -> None:
            """Reopen a node and all above; with ``is_kept`` their results stay."""
            while one is not None and one in self.states:
                if not is_kept:
                    self.handles.pop(one, None)
                self.states[one] = KNOWN | (self._decision(*decided[one]) if one in decided else 0)
                one = parents.get(one)

        for identifier in self._twice - self._again:
            if identifier in failed:  # killed before its new end was written
                reopen(identifier, is_kept=True)
            number, above = self.handles.get(identifier, 0), parents.get(identifier)
            if above is not None and self.handles.get(above, number) < number:
                reopen(above)
        for identifier in self._again:
            reopen(identifier)
            # A decision under a limit is made anew.
            decision = decided.get(identifier)
            if decision is not None and decision[1] in _LIMITED and identifier in self.states:
                self.states[identifier] = KNOWN


_LIMITED: Final = (coverage.DEADLINE, "budget_below_reserve")


def read(folder: str) -> tuple[PreviousSessions, recovery.RecoveredJournals]:
    """Read, and recover, the journals. Raises DamagedError, StorageError."""
    sessions = PreviousSessions()
    results, nodes, queue = readers = recovery.readers(folder, places=True)
    results.read(sessions.results, sessions.skim_results, record_lines.whole_numbers)
    nodes.read(sessions.nodes, sessions.skim_nodes)
    queue.read(None, lambda *_: True)
    return sessions, recovery.recover(folder, readers)


def _is_open(record: dict[str, Any]) -> bool:
    status = record["status"]
    if status == PARTIAL:
        return any(reason.partition(":")[0] in coverage.AGAIN for _, reason in record["uncovered"])
    if status not in (COMPLETED, FAILED):
        raise ValueError(status)
    return bool(status == FAILED)


def _above(
    folder: str,
) -> tuple[dict[str, str | None], dict[str, tuple[str, str, float]], set[str]]:
    """The parent of each node, its last decision, and the nodes whose last end was a failure."""
    parents: dict[str, str | None] = {}
    decided: dict[str, tuple[str, str, float]] = {}
    failed: set[str] = set()

    def take(found: list[dict[str, Any]]) -> None:
        for record in found:
            if record["status"] == "queued":
                parents[record["node_id"]] = record["parent_id"]
            elif record["status"] == "running":
                key = record["decision"], record["reason"], record["confidence"]
                decided[record["node_id"]] = key
            if record["status"] == FAILED:
                failed.add(record["node_id"])
            elif record["status"] != CANCELLED:
                failed.discard(record["node_id"])

    JournalReader(os.path.join(folder, recovery.NODES), rising=True).read(take)
    return parents, decided, failed


def _misshapen(name: str, found: list[dict[str, Any]]) -> DamagedError:
    numbers = f"{found[0].get('seq')} to {found[-1].get('seq')}"
    return DamagedError(
        f"a record among {numbers} is not what a run writes",
        where=name,
        hint="it was not written by this version of rlm-ci; start a new run",
    )
