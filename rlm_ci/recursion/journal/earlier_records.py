"""What the journals say of nodes and results, for the session that goes on with them."""

from __future__ import annotations

from rlm_ci.errors import DamagedError
from rlm_ci.recursion import coverage
from rlm_ci.recursion.journal import node_records
from rlm_ci.recursion.nodes import CANCELLED, COMPLETED, FAILED, PARTIAL, QUEUED, RUNNING
from rlm_ci.recursion.split.tree import BUDGET_BELOW_RESERVE, DEADLINE_EXCEEDED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

    from rlm_ci.recursion.journal.node_records import Decision

#: Decisions under a limit, which are made anew where a result is missing or left something out.
_LIMITED: Final = (DEADLINE_EXCEEDED, BUDGET_BELOW_RESERVE)
_ENDS: Final = (COMPLETED, FAILED)


class EarlierRecords:
    """By the id of a node: its last status, its decision, the place of its last result.

    ``unfinished`` are those to be done again: failed ones, and those with parts left out for a
    limit.
    """

    def __init__(self) -> None:
        self.places: dict[str, int] = {}
        self.states: dict[str, str] = {}
        self.decisions: dict[str, Decision] = {}
        self.unfinished: set[str] = set()
        self.deepest = 0
        self._count = 0
        self._same: dict[Any, Decision] = {}

    def results(self, records: list[dict[str, Any]]) -> None:
        """Take records of results. Raises DamagedError."""
        try:
            for record in records:
                identifier = record["node_id"]
                self.places[identifier] = self._count
                self._count += 1
                if _is_open(record):
                    self.unfinished.add(identifier)
                else:
                    self.unfinished.discard(identifier)
        except (KeyError, TypeError, AttributeError, ValueError):
            raise misshapen(node_records.RESULTS, records) from None

    def nodes(self, records: list[dict[str, Any]]) -> None:
        """Take records of nodes. Raises DamagedError."""
        try:
            for record in records:
                identifier, status = record["node_id"], record["status"]
                if status == QUEUED:
                    self.states[identifier] = QUEUED
                    self.deepest = max(self.deepest, record["depth"])
                elif status == RUNNING:
                    self.states[identifier] = RUNNING
                    key = record["decision"], record["reason"], record["confidence"]
                    self.decisions[identifier] = self._same.setdefault(key, key)
                elif status in _ENDS:
                    _ = self.states[identifier]  # it must have begun
                    self.states[identifier] = COMPLETED if status == COMPLETED else FAILED
                elif status != CANCELLED or identifier not in self.states:
                    raise ValueError(status)
        except (KeyError, TypeError, ValueError):
            raise misshapen(node_records.NODES, records) from None

    def settle(self) -> None:
        """Reopen what is to be done again, once all records are taken."""
        for identifier in self.unfinished:
            self.reopened(identifier)
        limited = [key for key, (_, reason, _) in self.decisions.items() if reason in _LIMITED]
        for identifier in limited:
            if identifier in self.unfinished or identifier not in self.places:
                del self.decisions[identifier]

    def reopened(self, identifier: str) -> Decision | None:
        """The decision about a node that had ended, which is now to be done again."""
        if self.states.get(identifier) not in _ENDS:
            return None
        self.states[identifier] = RUNNING
        return self.decisions.get(identifier)

    def is_completed(self, identifier: str) -> bool:
        return self.states.get(identifier) == COMPLETED

    def active(self) -> list[str]:
        return [identifier for identifier, state in self.states.items() if state not in _ENDS]


def _is_open(record: dict[str, Any]) -> bool:
    status = record["status"]
    if status == PARTIAL:
        return any(reason.partition(":")[0] in coverage.AGAIN for _, reason in record["uncovered"])
    if status not in _ENDS:
        raise ValueError(status)
    return bool(status == FAILED)


def misshapen(name: str, records: list[dict[str, Any]]) -> DamagedError:
    """The error for records that no run writes."""
    numbers = f"{records[0].get('seq')} to {records[-1].get('seq')}"
    return DamagedError(
        f"a record among {numbers} is not what a run writes",
        where=name,
        hint="it was not written by this version of rlm-ci; start a new run",
    )
