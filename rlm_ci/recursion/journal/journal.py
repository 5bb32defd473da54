"""The journals of a recursion, ``nodes.jsonl``, ``results.jsonl`` and ``queue.jsonl``.

The results of leaves are facts: each is written before it is used, and a resumed run takes it from
its journal. Results of split nodes follow from these and from the answers of models, which are
facts of the run: they are made again, and written where they are others. So no order among the
three journals matters, and a kill may tear any of them.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import ExitStack

from rlm_ci.errors import DamagedError, StorageError
from rlm_ci.recursion import coverage
from rlm_ci.recursion.journal import node_records
from rlm_ci.recursion.journal.node_records import (
    NODES,
    QUEUE,
    RESULTS,
    RUN_CANCELLED,
    QueueEvent,
)
from rlm_ci.recursion.nodes import (
    CANCELLED,
    COMPLETED,
    FAILED,
    PARTIAL,
    QUEUED,
    RUNNING,
    SPLIT,
    NodeResult,
    TracedFinding,
)
from rlm_ci.recursion.tree_split import BUDGET_BELOW_RESERVE, DEADLINE_EXCEEDED
from rlm_ci.runs.journal.journal import Journal
from rlm_ci.runs.manifest import timestamp
from rlm_ci.system import files
from rlm_ci.text.printable import printable
from rlm_ci.values import Closing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, Final

    from rlm_ci.recursion.journal.node_records import Decision, Error
    from rlm_ci.recursion.tree_split import Part
    from rlm_ci.redaction.redactor import Redactor


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


#: Nodes of one event at most.
_MERGED: Final = 256
#: Seconds between syncs at least, and how much longer than a sync takes.
_PAUSE: Final = 0.1
_RATIO: Final = 10
_LOG: Final = ("logs", "recursion.log")
_NO_BUDGETS: Final[Mapping[str, float | None]] = {}


class Journals(Closing):
    """The three journals of a run, open for the one process that holds it.

    A record survives a kill once it is written, and a failure of power after the next ``flush``.
    After an error of the disk nothing more is written. ``resumed`` tells whether there were
    records.
    """

    def __init__(
        self,
        folder: str,
        journals: Mapping[str, Journal],
        earlier: EarlierRecords,
        redactor: Redactor | None,
    ) -> None:
        self.folder = folder
        self.resumed = any(journal.seq for journal in journals.values())
        self._journals = journals
        self._earlier = earlier
        self._redactor = redactor
        self._shared: Mapping[str, Any] = {}
        self._has_failed = False
        self._is_synced = True
        self._due = time.monotonic() + _PAUSE
        #: The last event, still open, and its nodes.
        self._event = ""
        self._nodes: list[str] = []

    @classmethod
    def open(cls, folder: str, *, redactor: Redactor | None = None) -> Journals:
        """Read the journals in ``folder``, or create them, and append to them.

        ``redactor`` knows the secrets. Raises DamagedError, StorageError.
        """
        files.make_folder(folder, 0o700)
        earlier = EarlierRecords()
        takes = {RESULTS: earlier.results, NODES: earlier.nodes, QUEUE: None}
        is_shared = node_records.shares_numbers(folder)
        with ExitStack() as stack:
            opened = {
                name: stack.enter_context(
                    Journal.open(
                        os.path.join(folder, name),
                        take=take,
                        places=name == RESULTS,
                        rising=is_shared,
                    )
                )
                for name, take in takes.items()
            }
            store = cls(folder, opened, earlier, redactor)
            for name, journal in opened.items():
                if journal.torn:
                    store.log(f"{name}: a torn record was cut off, kept in {journal.torn}")
            stack.pop_all()
        earlier.settle()
        return store

    # ── earlier sessions ──

    def finished_result(self, identifier: str) -> NodeResult | None:
        """The result of a leaf, if it need not be made again. Raises DamagedError, StorageError."""
        earlier = self._earlier
        position = earlier.places.get(identifier)
        decision = earlier.decisions.get(identifier)
        is_split = decision is not None and decision[0] == SPLIT
        if position is None or is_split or identifier in earlier.unfinished:
            return None
        record = self._stored(position)
        try:
            return None if "children" in record else NodeResult.from_dict(record)
        except (LookupError, TypeError, ValueError, AttributeError):
            raise DamagedError(
                f"the result of node {identifier} is not what a run writes",
                where=os.path.join(self.folder, RESULTS),
                hint="restore the run's folder from a copy, or start a new run",
            ) from None

    def is_completed(self, identifier: str) -> bool:
        """Whether an earlier session has completed this node, and that still holds."""
        return self._earlier.is_completed(identifier)

    def is_known(self, identifier: str) -> bool:
        return identifier in self._earlier.states

    def decided(self, identifier: str) -> Decision | None:
        """The decision about a node in an earlier session."""
        return self._earlier.decisions.get(identifier)

    def counts(self) -> tuple[int, int]:
        """The number of nodes of earlier sessions, and the largest depth."""
        return len(self._earlier.states), self._earlier.deepest

    @property
    def checkpoint(self) -> int:
        """The number of records."""
        return sum(journal.seq for journal in self._journals.values())

    def cancel(self) -> int:
        """Record that the run is cancelled, and its nodes at work; returns their number."""
        active = self._earlier.active()
        for identifier in active:
            self._append(NODES, node_records.ended(identifier, CANCELLED))
        self.event(RUN_CANCELLED, active)
        return len(active)

    # ── records ──

    def of(self, run_id: str, objective: str, domain: str | None) -> None:
        """Set the run, the objective and the domain of the nodes that follow."""
        self._shared = {"run_id": run_id, "objective": objective, "domain": domain}

    def queued(self, identifier: str, parent: str | None, depth: int, part: Part) -> None:
        record = node_records.queued(identifier, parent, depth, part, self._shared)
        self._append(NODES, record)

    def running(
        self,
        identifier: str,
        decision: Decision,
        children: Sequence[str] = (),
        attempt: int = 1,
        budgets: Mapping[str, float | None] = _NO_BUDGETS,
    ) -> None:
        """``budgets`` is what is left for the node, by dimension; None is no limit."""
        record = node_records.running(identifier, decision, children, attempt, budgets)
        self._append(NODES, record)

    def ended(self, result: NodeResult, status: str, errors: Sequence[Error] = ()) -> None:
        """Record the end of a node, unless an earlier session has, with the same result."""
        if self._redactor is not None:
            clean = self._redactor.text
            errors = [(code, clean(text), again) for code, text, again in errors]
        self._append(NODES, node_records.ended(result.node_id, status, errors, result))
        for _, text, _ in errors:
            self.log(f"node {result.node_id}: {text}")

    def event(self, name: str, identifiers: Sequence[str] = ()) -> None:
        """Record an event; equal ones in a row become one record."""
        if name != self._event or len(self._nodes) >= _MERGED or not identifiers:
            self._close_event()
            self._event = name
        self._nodes.extend(identifiers)

    def _close_event(self) -> None:
        if self._event:
            name, nodes = self._event, self._nodes
            self._event, self._nodes = "", []
            queue_event = QueueEvent(name, tuple(nodes), int(time.time() * 1000))
            self._append(QUEUE, queue_event.to_dict())

    def result(
        self, result: NodeResult, children: Sequence[NodeResult] | None = None
    ) -> NodeResult:
        """Write a result; returns it without secrets, with what is new in it as it is read back.

        That of a split node comes with those of its ``children``: what they have is not repeated,
        and nothing is written if an earlier session has written the same. Raises TypeError or
        ValueError for one that is no JSON.
        """
        record = node_records.result(result, children or ())
        redactor = self._redactor
        if redactor is None and children is None and node_records.is_plain(result):
            self._append_result(record)
            return result
        text = json.dumps(record)
        if redactor is not None and redactor.text(text) != text:
            result = result.without_secrets(redactor)
            record = node_records.result(result, children or ())
            text = json.dumps(record)
        read = json.loads(text)
        if children is None:
            self._append_result(record)
            return NodeResult.from_dict(read)
        if not self._has(read):
            decision = self._earlier.reopened(result.node_id)
            if decision is not None:  # whoever is killed now finds it at work
                self.running(result.node_id, decision, [child.node_id for child in children])
            self._append_result(record)
        findings = zip(result.findings, read["findings"], strict=True)
        return result.replace(
            findings=tuple(
                finding if isinstance(new, int) else TracedFinding.from_dict(new)
                for finding, new in findings
            )
        )

    def _append_result(self, record: dict[str, Any]) -> None:
        self._append(RESULTS, record)
        starts = self._journals[RESULTS].starts or ()
        self._earlier.places[record["node_id"]] = len(starts) - 1

    def add_artifacts(self, identifier: str, artifacts: Sequence[str]) -> None:
        """Add to the last result of a node the files that were made of it."""
        record = self._stored(self._earlier.places[identifier])
        if record.get("artifacts") != [*artifacts]:
            self._append_result({**record, "artifacts": [*artifacts]})

    def _has(self, record: Mapping[str, Any]) -> bool:
        """Whether the last result of its node is the same, whatever was made of it."""
        position = self._earlier.places.get(record["node_id"]) if self.resumed else None
        return position is not None and self._stored(position) | {"artifacts": []} == record

    def _stored(self, position: int) -> dict[str, Any]:
        """The result at ``position``, without its number and sum. Raises as ``Journal.record``."""
        record = self._journals[RESULTS].record_at(position)
        del record["seq"], record["crc"]
        return record

    def _append(self, name: str, record: dict[str, Any]) -> None:
        if self._has_failed:
            raise StorageError(
                "the disk has failed before; nothing more is written",
                where=self.folder,
                hint="see to the disk, and resume the run",
            )
        try:
            self._journals[name].append(record, durable=False)
        except StorageError:
            self._has_failed = True
            raise
        self._is_synced = False

    def log(self, text: str) -> None:
        """Add a line to the log of a recursion. Raises StorageError."""
        clean = printable(text if self._redactor is None else self._redactor.text(text))
        path = os.path.join(self.folder, *_LOG)
        files.make_folder(os.path.dirname(path), 0o700)
        line = f"{timestamp(time.time())} {clean}\n"
        files.append(path, line.encode("utf-8", "backslashreplace"))

    # ── the disk ──

    def beat(self) -> None:
        """Sync, if that is due."""
        if time.monotonic() >= self._due:
            self.flush()

    def idle(self) -> float:
        """As ``beat``; returns the seconds until the next sync is due, 0.0 if nothing waits."""
        self.beat()
        if self._is_synced and not self._event:
            return 0.0
        return max(self._due - time.monotonic(), 0.001)

    def flush(self) -> None:
        """Return when all records are on the disk. Raises StorageError."""
        begun = time.monotonic()
        self._close_event()
        try:
            for journal in self._journals.values():
                journal.sync()
        except StorageError:
            self._has_failed = True
            raise
        self._is_synced = True
        now = time.monotonic()
        self._due = now + max(_PAUSE, (now - begun) * _RATIO)

    def close(self) -> None:
        """Flush, and close the files, also after an error. Raises StorageError."""
        with ExitStack() as stack:
            for journal in self._journals.values():
                stack.callback(journal.close)
            if not self._has_failed:
                self._close_event()
