"""The steps of a review or a wiki: the nodes of its recursion, and what each asked a model."""

from __future__ import annotations

import json
import os

from rlm_ci.recursion.journal import node_records
from rlm_ci.recursion.nodes import CANCELLED, COMPLETED, NodeScope, scope_of
from rlm_ci.recursion.nodes import FAILED as NODE_FAILED
from rlm_ci.recursion.nodes import PARTIAL as NODE_PARTIAL
from rlm_ci.viewer.folder import mapping_in, mappings_in, number_in, text_in, texts_in, whole_in
from rlm_ci.viewer.steps import DONE, FAILED, PARTIAL, RUNNING, ViewedStep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from rlm_ci.viewer.folder import RunFolder

_STATUSES = {
    COMPLETED: DONE, NODE_FAILED: FAILED, NODE_PARTIAL: PARTIAL, CANCELLED: FAILED,
}  # fmt: skip
#: Events that begin a node, and that end it.
_BEGINS = (node_records.DEQUEUED, node_records.SPLIT_UP)
_ENDS = (node_records.DONE, node_records.FAILURE, node_records.AGGREGATED)
#: Paths that a node did not cover, and that are listed.
_LISTED = 50
_LINES = ("line_start", "line_end")


class ViewedRecursion:
    """The nodes of a recursion, each below the one that was split."""

    def __init__(self, folder: RunFolder, root: ViewedStep) -> None:
        self._folder = folder
        self._root = root
        self._nodes: dict[str, ViewedStep] = {}
        self._first: dict[str, float] = {}

    def read(self) -> Mapping[str, ViewedStep]:
        """The steps of the nodes by their ids."""
        rising = node_records.shares_numbers(os.path.join(self._folder.path, "rlm"))
        takes = {
            node_records.NODES: self._node,
            node_records.RESULTS: self._result,
            node_records.QUEUE: self._event,
        }
        for name, take in takes.items():
            for record in self._folder.records(f"rlm/{name}", rising=rising):
                take(record)
        return self._nodes

    def _node(self, record: Mapping[str, Any]) -> None:
        node, status = text_in(record, "node_id"), text_in(record, "status")
        step = self._nodes.get(node)
        if step is None:
            if status != "queued" or not isinstance(record.get("scope"), dict):
                return
            scope = scope_of({"scope_type": "", "scope_ref": "", **record})
            step = ViewedStep("node", _title(scope), "")
            step.order = whole_in(record, "seq")
            step.tell("scope", text_in(scope, "kind"))
            size = number_in(scope, "bytes")
            files = whole_in(scope, "last") - whole_in(scope, "first")
            step.tell("files", files)
            step.tell("size", None if size is None else f"{size:,} bytes")
            step.tell("node", node)
            above = self._nodes.get(text_in(record, "parent_id"), self._root)
            self._nodes[node] = above.add(step)
        elif status == "running":
            step.status = RUNNING
            step.tell("decision", f"{text_in(record, 'decision')}: {_words(record, 'reason')}")
            confidence = number_in(record, "confidence")
            step.tell("confidence of the split", confidence)
            if whole_in(record, "attempt") > 1:
                step.tell("attempt", whole_in(record, "attempt"))
        elif status != "queued":
            step.status = _STATUSES.get(status, step.status)
            for error in mappings_in(record, "errors"):
                step.tell("error", text_in(error, "message"))

    def _result(self, record: Mapping[str, Any]) -> None:
        node = text_in(record, "node_id")
        step = self._nodes.get(node)
        if step is None:
            return
        step.status = _STATUSES.get(text_in(record, "status"), step.status)
        step.tell("summary", text_in(record, "summary"))
        step.tell("confidence", number_in(record, "confidence"))
        counts = mapping_in(record, "counts")
        if whole_in(counts, "offered"):
            counted = (f"{whole_in(counts, name)} {name}" for name in counts)
            step.tell("pointers", ", ".join(counted))
        for note in (*texts_in(record, "notes"), *texts_in(record, "aggregation_notes")):
            step.tell("note", note)
        for name in texts_in(record, "artifacts"):
            step.tell("file", name)
        step.new_findings = [
            mapping_in(entry, "finding") for entry in mappings_in(record, "findings")
        ]
        step.show("Findings", "\n".join(map(_finding, step.new_findings)))
        uncovered = record.get("uncovered")
        pairs = uncovered if isinstance(uncovered, list) else []
        lines = [": ".join(map(str, pair)) for pair in pairs[:_LISTED] if isinstance(pair, list)]
        more = len(pairs) - len(lines)
        step.show("Not covered", "\n".join([*lines, *([f"and {more:,} more"] if more else [])]))
        metrics = {name: value for name, value in mapping_in(record, "metrics").items() if value}
        step.show("Metrics", json.dumps(metrics, indent=2) if metrics else "", "json")

    def _event(self, record: Mapping[str, Any]) -> None:
        name, at = text_in(record, "event"), number_in(record, "at")
        if at is None or name not in (*_BEGINS, *_ENDS):
            return
        when = at / 1000 - self._folder.began
        for node in texts_in(record, "nodes"):
            step = self._nodes.get(node)
            if step is None:
                continue
            if name in _BEGINS:
                self._first.setdefault(node, when)
                step.took(self._first[node], None)
            else:
                step.took(step.start, when)


def _title(scope: Mapping[str, Any]) -> str:
    path, start = text_in(scope, "path"), number_in(scope, "line_start")
    lines = (None, None) if start is None else (whole_in(scope, n) for n in _LINES)
    files = (whole_in(scope, "first"), whole_in(scope, "last"))
    return NodeScope.of((text_in(scope, "kind"), path, *files, *lines)).title


def _words(record: Mapping[str, Any], name: str) -> str:
    return text_in(record, name).replace("_", " ")


def _finding(row: Mapping[str, Any]) -> str:
    location = next(iter(mappings_in(row, "evidence")), {})
    where = f"{text_in(location, 'path')}:{location.get('line_start')}"
    return f"{text_in(row, 'severity')}  {where}  {text_in(row, 'rule')}: {text_in(row, 'message')}"
