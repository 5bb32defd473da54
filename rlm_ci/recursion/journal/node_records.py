"""The records of a recursion, and where they are: a journal each for results, nodes and events.

``read`` gives what the journals say of each node in the end, so that two runs can be compared.
"""

from __future__ import annotations

import json
import os

from rlm_ci import decoding
from rlm_ci.errors import DamagedError
from rlm_ci.recursion.nodes import COMPLETED, FAILED, PARTIAL, NodeResult
from rlm_ci.runs.journal.reader import JournalReader
from rlm_ci.system import files
from rlm_ci.text.printable import encodable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, Final

    from rlm_ci.decoding import Count
    from rlm_ci.recursion.tree_split import Part

    Decision = tuple[str, str, float]  # kind, reason, confidence
    Error = tuple[int, str, bool]  # code, message, retryable
    #: By the name of a journal and the id of a node, what it says of it.
    Outcomes = Mapping[str, Mapping[str, Mapping[str, Any]]]
    EventName = str
    NodeId = str

RESULTS: Final = "results.jsonl"
NODES: Final = "nodes.jsonl"
QUEUE: Final = "queue.jsonl"
NAMES: Final = (RESULTS, NODES, QUEUE)
#: What records have since each journal counts by itself.
LATER: Final = ("domain", "budgets", "evidence", "metrics", "artifacts", "aggregation_notes")

_STATUSES: Final = (COMPLETED, PARTIAL, FAILED)
_POINTER: Final[tuple[str, ...]] = ("path", "path_b64", "line_start", "line_end")
#: Characters of an error's message.
_MESSAGE: Final = 500
#: Bytes of the first record of a journal of events at most.
_FIRST: Final = 64 << 10


#: Names of the scheduler's events.
ENQUEUED = "node_enqueued"
DEQUEUED = "node_dequeued"
SPLIT_UP = "node_split"
DONE = "node_completed"
FAILURE = "node_failed"
AGGREGATED = "node_aggregated"
REQUEUED = "node_requeued"
RUN_CANCELLED = "run_cancelled"
RUN_RESUMED = "run_resumed"
if not TYPE_CHECKING:
    EventName = decoding.one_of(
        ENQUEUED, DEQUEUED, SPLIT_UP, DONE, FAILURE, AGGREGATED, REQUEUED, RUN_CANCELLED,
        RUN_RESUMED,
    )  # fmt: skip
    NodeId = decoding.hex_digits(16)


class QueueEvent(Value):
    """One line of ``queue.jsonl``; the journal adds the number and the checksum."""

    _optional = ()

    event: EventName
    #: Those that it happened to, in order.
    nodes: tuple[NodeId, ...]
    #: About when, in milliseconds of the epoch.
    at: Count


def shares_numbers(folder: str) -> bool:
    """Whether the three journals in ``folder`` share a sequence of numbers, as they did once.

    Events came last in it. Raises StorageError.
    """
    path = os.path.join(folder, QUEUE)
    try:
        descriptor = files.open_regular(path, os.O_RDONLY)
        try:
            first = os.read(descriptor, _FIRST).partition(b"\n")[0]
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise files.storage_error(error, path) from None
    try:
        return bool(json.loads(first)["seq"] > 1)
    except (ValueError, TypeError, KeyError, RecursionError):
        return False  # its reader reports it


def queued(
    identifier: str, parent: str | None, depth: int, part: Part, of: Mapping[str, Any]
) -> dict[str, Any]:
    """``of`` are the fields that the nodes of a run share."""
    kind, path, first, last, start, end, size = part
    lines = {"line_start": start or None, "line_end": end or None}
    return {
        "node_id": identifier,
        "parent_id": parent,
        "depth": depth,
        "scope_type": kind,
        "scope_ref": encodable(path),
        "scope": {"bytes": size, "first": first, "last": last, **lines},
        "status": "queued",
        **of,
    }


def running(
    identifier: str,
    decision: Decision,
    children: Sequence[str],
    attempt: int,
    budgets: Mapping[str, float | None],
) -> dict[str, Any]:
    kind, reason, confidence = decision
    return {
        "node_id": identifier,
        "decision": kind,
        "reason": reason,
        "confidence": float(confidence),
        "child_ids": [*children],
        "attempt": attempt,
        "budgets": {**budgets},
        "status": "running",
    }


def ended(
    identifier: str, status: str, errors: Sequence[Error] = (), result: NodeResult | None = None
) -> dict[str, Any]:
    """``result`` is the node's; a cancelled one has none."""
    some = [
        {"code": code, "message": encodable(message)[:_MESSAGE], "retryable": again}
        for code, message, again in errors
    ]
    return {
        "node_id": identifier,
        "status": status,
        "errors": some,
        "evidence": [] if result is None else _pointers(result),
        "metrics": {} if result is None else {**result.metrics},
    }


def _pointers(result: NodeResult) -> list[dict[str, Any]]:
    """Where that is which supports what the node itself found."""
    pointers: dict[tuple[object, ...], dict[str, Any]] = {}
    locations = (
        traced.finding.evidence for traced in result.findings if traced.nodes == (result.node_id,)
    )
    for some in (result.evidence, *locations):
        for location in some:
            record = location.to_dict()
            short: dict[str, Any] = {name: record[name] for name in _POINTER if name in record}
            pointers.setdefault(tuple(short.values()), short)
    return list(pointers.values())


def result(node_result: NodeResult, children: Sequence[NodeResult] = ()) -> dict[str, Any]:
    """The record of a result; what results of ``children`` have is not repeated.

    A finding of theirs is its number among all of theirs. The lists in ``gathered`` begin with
    theirs, end to end, which are left out. Raises ValueError for what its schema does not allow.
    """
    if node_result.status not in _STATUSES or not 0 <= node_result.confidence <= 1:
        raise ValueError(
            f"a result that is {node_result.status}, with a confidence of {node_result.confidence}"
        )
    if not all(traced.finding.evidence for traced in node_result.findings):
        raise ValueError("a finding without evidence")
    below = [child for child in children if child.findings or child.uncovered or child.data]
    numbers: dict[int, int] = {}
    if node_result.findings:
        for child in below:
            for traced in child.findings:
                numbers[id(traced)] = len(numbers)
    gathered: list[str] = []
    uncovered = _own_values(
        "uncovered", node_result.uncovered, [child.uncovered for child in below], gathered
    )
    data = {
        key: _own_values(
            f"data.{key}", value, [child.data.get(key, ()) for child in below], gathered
        )
        if below and isinstance(value, list | tuple)
        else value
        for key, value in node_result.data.items()
    }
    record = {
        "node_id": node_result.node_id,
        "status": node_result.status,
        "summary": node_result.summary,
        "confidence": node_result.confidence,
        "findings": [
            numbers[id(traced)] if id(traced) in numbers else traced.to_dict()
            for traced in node_result.findings
        ],
        "evidence": [location.to_dict() for location in node_result.evidence],
        "notes": [*node_result.notes],
        "uncovered": [[*pair] for pair in uncovered],
        "counts": node_result.counts.to_dict(),
        "metrics": {**node_result.metrics},
        "data": data,
        "artifacts": [*node_result.artifacts],
        "aggregation_notes": [*node_result.aggregation_notes],
    }
    if gathered:
        record["gathered"] = gathered
    if numbers or gathered:
        record["children"] = [child.node_id for child in below]
    return record


def is_plain(node_result: NodeResult) -> bool:
    """Whether it has a summary alone, as most have, and JSON gives it back unchanged."""
    return (
        type(node_result) is NodeResult
        and node_result.counts is NodeResult.counts
        and type(node_result.confidence) is float
        and type(node_result.summary) is str
        and node_result.summary.isascii()
        and (node_result.findings, node_result.evidence, node_result.notes, node_result.uncovered)
        == _NONE
        and node_result.metrics == node_result.data == {}
    )


_NONE: Final[tuple[object, ...]] = ((), (), (), ())


def _own_values(
    name: str, values: Sequence[Any], below: Sequence[Any], gathered: list[str]
) -> Sequence[Any]:
    """``values`` without those ``below``, if they begin with them: then it is ``gathered``."""
    inherited = [value for some in below if isinstance(some, list | tuple) for value in some]
    if not inherited or list(values[: len(inherited)]) != inherited:
        return values
    gathered.append(name)
    return values[len(inherited) :]


#: They depend on who was quicker, on what was left, or on how often the run was killed.
_ORDER = ("seq", "attempt", "budgets")
_HINT = "restore the run's folder from a copy"


def read(folder: str) -> Outcomes:
    """The last words on each node in ``folder``: what was decided, how it ended, its result.

    Raises DamagedError, StorageError for a journal that is damaged or torn.
    """
    outcomes: dict[str, dict[str, dict[str, Any]]] = {NODES: {}, RESULTS: {}}
    rising = shares_numbers(folder)
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
    if not shares_numbers(folder):
        return outcomes
    return {
        name: {
            node: {key: value for key, value in fields.items() if key not in LATER}
            for node, fields in nodes.items()
        }
        for name, nodes in outcomes.items()
    }
