"""Verifies a recursion's folder by itself: its sequence, its schemas, its tree."""

from __future__ import annotations

import os
from collections import Counter

from rlm_ci.errors import RlmCiError
from rlm_ci.recursion.journal import node_records, run_json
from rlm_ci.recursion.journal.node_records import NAMES, NODES, QUEUE, RESULTS
from rlm_ci.recursion.nodes import CANCELLED, COMPLETED, FAILED, FILE_SLICE, LEAF, SPLIT, scope_of
from rlm_ci.resources import loader
from rlm_ci.runs.journal.reader import JournalReader
from rlm_ci.text.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Final

#: Problems that are reported at most.
_MOST: Final = 100
_SCHEMAS: Final = {
    RESULTS: "result.schema.json",
    NODES: "node.schema.json",
    QUEUE: "queue.schema.json",
}


def verify(folder: str) -> list[str]:
    """The problems of the journals in ``folder``, a line each. Raises StorageError."""
    checked = _Checked()
    try:
        head = run_json.read(folder)
    except RlmCiError as error:
        return [printable(str(error))]
    if head is None:
        return [f"{run_json.NAME} is missing"]
    checked.add(run_json.NAME, loader.misfit(head, "run.schema.json"))
    takes = (checked.results, checked.nodes, checked.queue)
    rising = node_records.shares_numbers(folder)
    for name, take in zip(NAMES, takes, strict=True):
        reader = JournalReader(os.path.join(folder, name), rising=rising)
        try:
            reader.read(_checking(checked, name, take))
        except RlmCiError as error:
            checked.add(name, str(error))
            return checked.problems
        if reader.tail:
            checked.add(name, f"{len(reader.tail)} bytes are behind the last record")
    checked.tree(head)
    return checked.problems


def _checking(checked: _Checked, name: str, take: Take) -> Callable[..., None]:
    misfit = loader.misfits(_SCHEMAS[name])

    def taken(found: list[dict[str, Any]]) -> None:
        for record in found:
            # The reader has checked the checksum, and removed it.
            wrong = misfit({"crc": "00000000", **record})
            if wrong:
                checked.add(_at(name, record), wrong)
            else:
                take(record)

    return taken


def _at(name: str, record: Mapping[str, Any]) -> str:
    return f"{name}: record {record['seq']}"


if TYPE_CHECKING:
    Take = Callable[[dict[str, Any]], None]
    Place = tuple[str | None, int, str, int, int, int, int]


class _Checked:
    def __init__(self) -> None:
        self.problems: list[str] = []
        #: Parent, depth, kind, first, last, line_start, line_end of each node.
        self._places: dict[str, Place] = {}
        self._decided: dict[str, tuple[str, int]] = {}
        #: Children that a split has named, until they follow, with their parents.
        self._announced: dict[str, str] = {}
        self._ended: dict[str, str] = {}
        self._results: dict[str, str] = {}
        self._lineage: dict[str, str] = {}
        #: The findings of each result, and which results refer to which.
        self._findings: dict[str, int] = {}
        self._gathered: dict[tuple[str, str], None] = {}
        self._touched: dict[str, int] = {}

    def add(self, where: str, what: str) -> None:
        if what and len(self.problems) < _MOST:
            self.problems.append(printable(f"{where}: {what}"))

    def results(self, record: Mapping[str, Any]) -> None:
        identifier, findings = record["node_id"], record["findings"]
        self._results[identifier] = record["status"]
        where = _at(RESULTS, record)
        known = 0
        for child in record.get("children", ()):
            if child not in self._findings:
                self.add(where, f"there is no result of {child} before it")
            self._gathered[identifier, child] = None
            known += self._findings.get(child, 0)
        for traced in findings:
            if isinstance(traced, dict):
                for leaf in traced["nodes"]:
                    self._lineage.setdefault(leaf, identifier)
            elif traced >= known:
                self.add(where, f"its children have {known} findings, and no number {traced}")
        self._findings[identifier] = len(findings)
        for name in record.get("gathered", ()):
            inherited = record["data"].get(name.removeprefix("data."))
            if name != "uncovered" and not isinstance(inherited, list):
                self.add(where, f"it has no list {name}")

    def nodes(self, record: Mapping[str, Any]) -> None:
        identifier, status = record["node_id"], record["status"]
        where = _at(NODES, record)
        if status == "queued":
            if identifier in self._places:
                self.add(where, f"node {identifier} is there already")
            scope = scope_of(record)
            above = self._announced.pop(identifier, None)
            if above not in (None, record["parent_id"]):
                self.add(where, f"node {identifier} was to be a child of {above}")
            self._places[identifier] = (
                record["parent_id"],
                record["depth"],
                scope["kind"],
                scope["first"],
                scope["last"],
                scope["line_start"] or 0,
                scope["line_end"] or 0,
            )
        elif identifier not in self._places:
            self.add(where, f"node {identifier} is not known")
        elif status == "running":
            below = record.get("child_ids")
            self._decided[identifier] = (
                record["decision"], record["children"] if below is None else len(below)
            )  # fmt: skip
            if below:
                self._announced.update(dict.fromkeys(below, identifier))
            self._ended.pop(identifier, None)
        else:
            if status != CANCELLED and identifier not in self._decided:
                self.add(where, f"nothing was decided of node {identifier}")
            self._ended[identifier] = status

    def queue(self, record: Mapping[str, Any]) -> None:
        for identifier in record["nodes"]:
            self._touched.setdefault(identifier, record["seq"])

    def tree(self, head: Mapping[str, Any]) -> None:
        """Check that children have parents, leaves lie end to end, and ended nodes have results."""
        for identifier, seq in self._touched.items():
            if identifier not in self._places:
                self.add(QUEUE, f"record {seq}: node {identifier} is not known")
        for identifier in self._results:
            if identifier not in self._places:
                self.add(RESULTS, f"node {identifier} is not known")
        for leaf, identifier in self._lineage.items():
            if leaf not in self._places:
                self.add(RESULTS, f"a finding of {identifier} comes from no node, {leaf}")
        for identifier, child in self._gathered:
            if child in self._places and self._places[child][0] != identifier:
                self.add(RESULTS, f"{identifier} has findings of {child}, no child of it")
        for identifier, status in self._ended.items():
            self._end(identifier, status)
        self._parents()
        root = head["root_node_id"]
        if head["status"] in (COMPLETED, FAILED):
            self._covered(root)
        elif self._places and root not in self._places:
            self.add(NODES, f"the root {root} is not there")

    def _end(self, identifier: str, status: str) -> None:
        result = self._results.get(identifier)
        if result is None and status != CANCELLED:
            self.add(RESULTS, f"node {identifier} has ended, and has no result")
        elif status != CANCELLED and (result == FAILED) != (status == FAILED):
            self.add(RESULTS, f"node {identifier} is {status}, its result {result}")

    def _parents(self) -> None:
        children: Counter[str] = Counter()
        for identifier, place in self._places.items():
            parent, depth = place[:2]
            if parent is None:
                continue
            above = self._places.get(parent)
            if above is None:
                self.add(NODES, f"node {identifier} has no parent {parent}")
            elif depth != above[1] + 1 or not above[3] <= place[3] <= place[4] <= above[4]:
                self.add(NODES, f"node {identifier} does not lie within {parent}")
            children[parent] += 1
        for identifier, (decision, count) in self._decided.items():
            if decision == SPLIT and identifier in self._ended and children[identifier] != count:
                self.add(NODES, f"node {identifier} does not have its {count} children")

    def _covered(self, root: str) -> None:
        """Check that the leaves, end to end, are the scope of the run."""
        whole = self._places.get(root)
        if whole is None:
            self.add(NODES, f"the root {root} is not there")
            return
        at, line = whole[3], 0
        leaves = [
            self._places[identifier]
            for identifier, (decision, _) in self._decided.items()
            if decision == LEAF and identifier in self._places
        ]
        for _, _, kind, first, last, start, end in sorted(leaves, key=lambda place: place[3:6]):
            if line and (first != at or kind != FILE_SLICE):
                at, line = at + 1, 0  # after the last slice of a file
            expected = line + 1 if kind == FILE_SLICE else 0
            if first != at or start != expected:
                self.add(NODES, f"the leaves leave a gap, or overlap, at file {at}")
                return
            at, line = (at, end) if kind == FILE_SLICE else (last, 0)
        if at + (1 if line else 0) != whole[4]:
            self.add(NODES, f"the leaves end at file {at}, and not at {whole[4]}")
        if root not in self._ended:
            self.add(NODES, f"the root {root} has not come to its end")
