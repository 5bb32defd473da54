"""The three journals of a recursion: ``nodes.jsonl``, ``results.jsonl``, ``queue.jsonl``.

Records wait in memory until there are many, or a moment has passed; all are then written as one
batch (see ``recovery``). A result is read back as it was written, by the aggregation of this
process and by a resumed run alike. A finding is written once, with the lowest node that has it;
nodes above refer to it by its number, and do not repeat the other lists of their children either
(see ``inherited_results``). Of written results, memory has only the offsets in the file, and the
findings that no node above has used yet.
"""

from __future__ import annotations

import json
import os
import time
from array import array
from contextlib import ExitStack

from rlm_ci.errors import DamagedError, StorageError
from rlm_ci.recursion.journal import inherited_results, previous_sessions, record_lines, recovery
from rlm_ci.recursion.nodes import CANCELLED, NodeResult, TracedFinding
from rlm_ci.runs.journal.journal import Journal
from rlm_ci.system import files, process
from rlm_ci.values import Closing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, Final, Self

    from rlm_ci.recursion.journal.previous_sessions import PreviousSessions
    from rlm_ci.recursion.journal.record_lines import Error
    from rlm_ci.recursion.split.tree import Part
    from rlm_ci.redaction.redactor import Redactor
    from rlm_ci.runs.journal.record_format import Halves

#: A batch of so many records is written at once.
_BATCH: Final = 8192
#: Nodes of one event at most.
_MERGED: Final = 256
#: Seconds between batches at least, and how much longer than writing one takes.
_PAUSE: Final = 0.1
_RATIO: Final = 10
#: Names of the scheduler's events.
ENQUEUED = "node_enqueued"
DEQUEUED = "node_dequeued"
SPLIT = "node_split"
DONE = "node_completed"
FAILURE = "node_failed"
AGGREGATED = "node_aggregated"
REQUEUED = "node_requeued"
RUN_CANCELLED = "run_cancelled"
RUN_RESUMED = "run_resumed"


class Journals(Closing):
    """The three journals of a run, open for the one process that holds it.

    ``recovered`` lists what was cut off after a kill. After an error of the disk nothing more is
    written.
    """

    def __init__(
        self,
        folder: str,
        found: recovery.RecoveredJournals,
        previous: PreviousSessions,
        files: list[Journal],
    ) -> None:
        self.folder = folder
        self.recovered = found.cut
        self.resumed = found.seq > 0
        self.seq = found.seq
        self._past = previous
        #: In the order of ``recovery.NAMES``; of a stored run only its results.
        self._files = files
        self._waiting: tuple[list[Halves], ...] = ([], [], [])
        #: The waiting results that JSON does not change, None for the others.
        self._plain: list[NodeResult | None] = []
        #: Node and findings of the results in use, by number, as they were read.
        self._known: dict[int, tuple[str, tuple[TracedFinding, ...]]] = {}
        #: What nodes above may inherit of those results; and, for results of this process that
        #: refer to their children's, the numbers of these.
        self._given: dict[int, inherited_results.InheritedResult] = {}
        self._below: dict[int, array[int]] = {}
        self._has_failed = False
        self._redactor: Redactor | None = None
        self._named = record_lines.named("", "")
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
        previous, found = previous_sessions.read(folder)
        if found.cut:  # some records that were read are gone now
            cut = found.cut
            previous, found = previous_sessions.read(folder)
            found = found.replace(cut=cut)
        previous.settle(folder)
        with ExitStack() as stack:
            opened = [stack.enter_context(Journal.behind(one)) for one in found.readers]
            stack.pop_all()
        journals = cls(folder, found, previous, opened)
        journals._redactor = redactor
        return journals

    @classmethod
    def stored(cls, folder: str) -> Self:
        """Open the journals for reading only; a node has its last result.

        Raises DamagedError, StorageError.
        """
        previous, found = previous_sessions.read(folder)
        return cls(folder, found, previous, [Journal.behind(found.readers[0], writes=False)])

    # ── earlier sessions ──

    def found(self, identifier: str) -> int | None:
        """The number of a node's valid result, if it has one."""
        return self._past.handles.get(identifier)

    def is_ended(self, identifier: str) -> bool:
        """Whether the journal has the end of this node."""
        return bool(self._past.states.get(identifier, 0) & previous_sessions.ENDED)

    def is_known(self, identifier: str) -> bool:
        return identifier in self._past.states

    def decided(self, identifier: str) -> tuple[str, str, float] | None:
        """The decision about a node in an earlier session: kind, reason, confidence."""
        state = self._past.states.get(identifier, 0)
        return (
            self._past.decisions[state // previous_sessions.DECIDED - 1]
            if state >= previous_sessions.DECIDED
            else None
        )

    def counts(self) -> tuple[int, int, int]:
        """The number of nodes of earlier sessions, that of ended ones, and the largest depth."""
        states = self._past.states
        ended = sum(1 for state in states.values() if state & previous_sessions.ENDED)
        return len(states), ended, self._past.deepest

    def active(self) -> list[str]:
        """The nodes of earlier sessions that have not ended."""
        return [
            one for one, state in self._past.states.items() if not state & previous_sessions.ENDED
        ]

    def cancel(self, identifiers: Sequence[str]) -> None:
        """Record that these nodes, and the run, are cancelled."""
        for one in identifiers:
            self.ended(one, CANCELLED)
        self.event(RUN_CANCELLED, identifiers)

    # ── records ──

    def of(self, run_id: str, objective: str) -> None:
        """Set the run and the objective of the nodes that follow."""
        self._named = record_lines.named(run_id, objective)

    def queued(self, identifier: str, parent: str | None, depth: int, part: Part) -> None:
        self._waiting[1].append(record_lines.queued(identifier, parent, depth, part, self._named))

    def running(
        self,
        identifier: str,
        decision: tuple[str, str, float],
        children: Sequence[str] = (),
        attempt: int = 1,
    ) -> None:
        self._waiting[1].append(record_lines.running(identifier, decision, children, attempt))

    def ended(self, identifier: str, status: str, errors: Sequence[Error] = ()) -> None:
        halves = record_lines.ended(identifier, status, errors)
        if errors and self._redactor is not None:
            clean = [(code, self._redactor.text(text), again) for code, text, again in errors]
            halves = record_lines.ended(identifier, status, clean)
        self._waiting[1].append(halves)

    def event(self, name: str, identifiers: Sequence[str] = ()) -> None:
        """Record an event; equal ones in a row become one record."""
        if name != self._event or len(self._nodes) >= _MERGED or not identifiers:
            self._close_event()
            self._event = name
        self._nodes.extend(identifiers)
        if len(self._waiting[1]) >= _BATCH:
            self.flush()

    def _close_event(self) -> None:
        if self._event:
            at = int(time.time() * 1000)
            self._waiting[2].append(record_lines.event(self._event, self._nodes, at))
            self._event, self._nodes = "", []

    def result(self, result: NodeResult, children: Sequence[int] = ()) -> int:
        """Write a result; returns its number.

        What it inherits of the results ``children``, as ``results`` gave them, is not repeated.
        Raises TypeError or ValueError for one that is no JSON.
        """
        waiting = self._waiting[0]
        is_plain = record_lines.is_plain(result)
        known = [self._known[one] for one in children if one in self._known]
        findings = [one for _, some in known for one in some]
        places = {id(one): place for place, one in enumerate(findings)} if result.findings else {}
        halves, refers = (
            (record_lines.plain(result), False)
            if is_plain
            else self._halves(result, children, places)
        )
        redactor = self._redactor
        if redactor is not None and any(redactor.text(half) != half for half in halves):
            result = result.without_secrets(redactor)
            halves, refers = self._halves(result, children, places)
            is_plain = False
        waiting.append(halves)
        self._plain.append(result if is_plain else None)
        number = self._written + len(waiting) - 1
        if places:
            # New ones as JSON gives them back.
            self._known[number] = (
                result.node_id,
                tuple(
                    one
                    if id(one) in places
                    else TracedFinding.from_dict(json.loads(json.dumps(one.to_dict())))
                    for one in result.findings
                ),
            )
        if refers:
            self._below[number] = array("q", self._meant(children))
        for child in children:
            self._known.pop(child, None)
            self._given.pop(child, None)
        return number

    def _halves(
        self, result: NodeResult, children: Sequence[int], places: Mapping[int, int]
    ) -> tuple[Halves, bool]:
        """A result's record, and whether it refers to its children's."""
        given = [self._given[one] for one in children if one in self._given]
        own, gathered = inherited_results.own(result, given) if given else (result, ())
        of = [
            self._known[one][0] if one in self._known else self._given[one].node_id
            for one in self._meant(children)
        ]
        return record_lines.result(own, of, places, gathered), bool(places or gathered)

    def _meant(self, children: Sequence[int]) -> list[int]:
        """The children that a record may refer to."""
        return [one for one in children if one in self._known or one in self._given]

    def status(self, number: int) -> str:
        """The status of a result. Raises DamagedError, StorageError."""
        return self._read((number,), findings=False, data=False)[0].status

    def results(self, numbers: Sequence[int]) -> list[NodeResult]:
        """Results by their numbers, kept for ``result``. Raises DamagedError, StorageError."""
        found = self._read(numbers)
        for number, one in zip(numbers, found, strict=True):
            if one.findings:
                self._known[number] = one.node_id, one.findings
            if (one.data or one.uncovered) and (given := inherited_results.InheritedResult(one)):
                self._given[number] = given
        return found

    def _read(
        self, numbers: Sequence[int], *, findings: bool = True, data: bool = True
    ) -> list[NodeResult]:
        """The results, on request without ``findings``, or without the inherited ``data``."""
        written = self._written
        found: list[Any] = [
            self._plain[one - written] if one >= written else None for one in numbers
        ]
        bodies = [
            self._body(number) for number, one in zip(numbers, found, strict=True) if one is None
        ]
        try:
            records = iter(json.loads(b"[%b]" % b",".join(bodies)) if bodies else ())
            for place, number in enumerate(numbers):
                if found[place] is None:
                    record = next(records)
                    some = self._findings(number, record) if findings else ()
                    found[place] = NodeResult.from_dict(record, some)
                    if data and record.get("gathered"):
                        below = self._read(self._children(number, record), findings=False)
                        found[place] = inherited_results.whole(
                            found[place], record["gathered"], below
                        )
            return found
        except (LookupError, TypeError, ValueError, AttributeError, RecursionError):
            raise DamagedError(
                "a result is not what a run writes",
                where=os.path.join(self.folder, recovery.RESULTS),
                hint="restore the run's folder from a copy, or start a new run",
            ) from None

    def _findings(self, number: int, record: Mapping[str, Any]) -> tuple[TracedFinding, ...] | None:
        """The findings of a record that refers to its children's; None if it has all itself."""
        if number in self._known:
            return self._known[number][1]
        if "children" not in record:
            return None
        below = self._read(self._children(number, record), data=False)
        gathered = [one for child in below for one in child.findings]
        found: list[TracedFinding] = []
        for one in record["findings"]:
            if isinstance(one, dict):
                found.append(TracedFinding.from_dict(one))
            elif one < 0:
                raise IndexError(one)
            else:
                found.append(gathered[one])
        return tuple(found)

    def _children(self, number: int, record: Mapping[str, Any]) -> Sequence[int]:
        of: Sequence[int] | None = self._below.get(number)
        if of is None:
            of = [self._past.handles[child] for child in record["children"]]
        if any(child >= number for child in of):
            raise IndexError(number)
        return of

    @property
    def _written(self) -> int:
        return len(self._files[0].starts or ())

    def _body(self, number: int) -> bytes:
        written = self._written
        if number < written:
            return self._files[0].line(number)
        return record_lines.text_of(self._waiting[0][number - written]).encode("ascii")

    # ── the disk ──

    def beat(self) -> None:
        """Write what waits, if a batch is due."""
        if time.monotonic() >= self._due:
            self.flush()

    def idle(self) -> float:
        """As ``beat``; returns the seconds until the next batch is due, 0.0 if nothing waits."""
        self.beat()
        if not (self._event or any(self._waiting)):
            return 0.0
        return max(self._due - time.monotonic(), 0.001)

    def flush(self) -> None:
        """Write and sync all that waits. Raises StorageError."""
        if self._has_failed:
            raise StorageError(
                "the disk has failed before; nothing more is written",
                where=self.folder,
                hint="see to the disk, and resume the run",
            )
        begun = time.monotonic()
        self._close_event()
        deferred = process.defer()  # signals wait: half a batch would be cut off
        try:
            for place, halves in enumerate(self._waiting):
                if halves:
                    self._files[place].append_all(halves, self.seq + 1)
                    self.seq += len(halves)
                    halves.clear()
                    if place == 0:
                        self._plain.clear()
        except StorageError:
            self._has_failed = True
            raise
        finally:
            process.undefer(deferred)
        now = time.monotonic()
        self._due = now + max(_PAUSE, (now - begun) * _RATIO)

    def close(self) -> None:
        """Flush, and close the files, also after an error. Raises StorageError."""
        try:
            if self._files and not self._has_failed:
                self.flush()
        finally:
            while self._files:
                self._files.pop().close()
