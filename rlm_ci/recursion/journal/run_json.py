"""``run.json``: the subject and the progress of a recursion; replaced whole, read at any time.

The journals are the record. This file says which run they belong to, so that no other run
continues them.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter

from rlm_ci.errors import ConfigError, DamagedError
from rlm_ci.recursion.journal import journal, node_records
from rlm_ci.recursion.nodes import (
    CANCELLED,
    COMPLETED,
    FAILED,
    FILE_GROUP,
    RUNNING,
    SPLIT,
    scope_of,
)
from rlm_ci.runs.journal.reader import JournalReader
from rlm_ci.runs.manifest import timestamp
from rlm_ci.system import files
from rlm_ci.text.printable import count, encodable, printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, Final, Self

    from rlm_ci.recursion.corpus.corpus import Corpus
    from rlm_ci.recursion.nodes import Node, NodeResult
    from rlm_ci.recursion.objective import Objective
    from rlm_ci.recursion.scheduler import Budget, Constraints


NAME: Final = "run.json"
VERSION: Final = 1
#: Seconds between two writes of the file.
_EVERY: Final = 2.0
_LIMIT: Final = 8 << 20
#: The nodes depend on these: a run continues only if they are the same.
_SAME: Final = ("objective", "domain", "root_node_id", "corpus", "shape", "options")


def head(
    corpus: Corpus, node: Node, objective: Objective, budget: Budget, constraints: Constraints
) -> dict[str, Any]:
    """The part of ``run.json`` that does not change."""
    return {
        "objective": objective.name,
        "domain": objective.domain,
        "root_node_id": node.id,
        "corpus": {
            "commit": corpus.commit,
            "digest": corpus.digest,
            "files": len(corpus.files),
            "bytes": sum(file.size for file in corpus.files),
            "omitted": len(corpus.omitted),
        },
        "shape": {
            **constraints.shape.to_dict(),
            "min_confidence": constraints.min_confidence,
        },
        "options": dict(objective.options),
        "config": {
            "scheduler": constraints.order,
            "concurrency": constraints.concurrency,
            "attempts": constraints.attempts,
            "max_depth": budget.max_depth,
            "max_minutes": budget.minutes,
            "reserve": budget.reserve,
        },
    }


class RunOverview:
    """The file of one run in progress."""

    def __init__(self, store: journal.Journals, record: dict[str, Any]) -> None:
        self._store = store
        self._path = os.path.join(store.folder, NAME)
        self._record = record
        self._written = 0.0
        self._progress: dict[str, int] = record["progress"]

    @classmethod
    def begin(cls, store: journal.Journals, head: Mapping[str, Any], name: str) -> Self:
        """Write that the run begins, or continues. Raises ConfigError if it was another run."""
        stored = read(store.folder)
        # Through JSON, which turns tuples into lists.
        fields = json.loads(json.dumps(head, allow_nan=False))
        if stored is not None:
            _require_same(stored, fields, store.folder)
        elif store.resumed:
            raise DamagedError(
                "the journals are there, and what they are of is not",
                where=os.path.join(store.folder, NAME),
                hint="restore the run's folder from a copy, or start a new run",
            )
        total, deepest = store.counts()
        record = {
            "version": VERSION,
            "run_id": (stored or {}).get("run_id") or name,
            "status": RUNNING,
            "created_at": (stored or {}).get("created_at", _now()),
            "updated_at": None,
            "completed_at": None,
            **fields,
            "progress": {
                "nodes_total": total,
                "nodes_completed": 0,
                "nodes_failed": 0,
                "active_nodes": 0,
                "max_depth_seen": deepest,
            },
            "checkpoint": {},
            "output_index": [],
            "error": None,
        }
        overview = cls(store, record)
        if store.resumed:
            store.event(node_records.RUN_RESUMED)
            store.log(f"resumed, with {count(total, 'node')}")
        else:
            store.log(f"begun: {record['objective']}, {count(record['corpus']['files'], 'file')}")
        overview.write()
        return overview

    def entered(self, count: int, depth: int) -> None:
        self._progress["nodes_total"] += count
        self._progress["max_depth_seen"] = max(self._progress["max_depth_seen"], depth)

    def ended(self, *, is_failed: bool) -> None:
        self._progress["nodes_failed" if is_failed else "nodes_completed"] += 1

    def look(self) -> None:
        """Write the file, if it is due."""
        if time.monotonic() - self._written >= _EVERY:
            self.write()

    def write(self) -> None:
        self._written = time.monotonic()
        some = self._progress
        ended = some["nodes_completed"] + some["nodes_failed"]
        some["active_nodes"] = some["nodes_total"] - ended
        _write(self._path, self._record, self._store.checkpoint)

    def end(self, result: NodeResult) -> None:
        """Write how it ended."""
        self._record["status"] = FAILED if result.status == FAILED else COMPLETED
        self._record["completed_at"] = _now()
        if result.status == FAILED:
            self._record["error"] = {"code": "failed", "message": encodable(result.summary)[:500]}
        self._store.log(f"ended: {self._record['status']}")
        self.write()


def read(folder: str) -> dict[str, Any] | None:
    """The file of the run in ``folder``; None if there is none. Raises DamagedError."""
    path = os.path.join(folder, NAME)
    try:
        record = json.loads(files.read(path, _LIMIT))
        if not isinstance(record, dict) or record["version"] != VERSION:
            raise ValueError
        _ = [record[name] for name in (*_SAME, "status", "created_at", "run_id")]
    except files.UnreadableError as error:
        if error.missing:
            return None
        raise _damaged(path, str(error)) from None
    except (ValueError, KeyError, RecursionError):
        raise _damaged(path, "it is not what this version of rlm-ci writes") from None
    return record


def index(folder: str, outputs: Sequence[tuple[str, str]]) -> None:
    """List what a run produced: pairs of kind and path, relative to its folder."""
    record = read(folder)
    if record is not None:
        record["output_index"] = [{"kind": kind, "path": path} for kind, path in outputs]
        _write(os.path.join(folder, NAME), record)


def cancel(folder: str) -> int:
    """Mark the nodes that have not ended as cancelled; returns their number.

    This process must hold the run. Raises DamagedError, StorageError.
    """
    record = read(folder)
    if record is None:
        return 0
    with journal.Journals.open(folder) as store:
        active = store.cancel()
        store.flush()
        records = store.checkpoint
    record |= {"status": CANCELLED, "completed_at": _now()}
    _write(os.path.join(folder, NAME), record, records)
    return active


def _require_same(stored: Mapping[str, Any], fields: Mapping[str, Any], folder: str) -> None:
    for name in _SAME:
        if stored[name] != fields[name]:
            what = "the files are" if name in ("corpus", "root_node_id") else f"its {name} is"
            raise ConfigError(
                f"{what} not what it was when the run began",
                where=printable(folder),
                hint="start a new run; or bring back what it began with, and resume",
            )


def _write(path: str, record: dict[str, Any], seq: int | None = None) -> None:
    """With ``seq``, the last number in the journals, as a checkpoint of now."""
    if seq is not None:
        now = _now()
        record |= {"updated_at": now, "checkpoint": {"seq": seq, "updated_at": now}}
    files.write(path, json.dumps(record, indent=2).encode("ascii") + b"\n", 0o600)


def _damaged(path: str, why: str) -> DamagedError:
    return DamagedError(
        f"it cannot be read: {why}",
        where=path,
        hint="restore the run's folder from a copy, or start a new run",
    )


def _now() -> str:
    return timestamp(time.time())


#: Errors in a progress, the most frequent first, and nodes of its branch.
_TOP: Final = 5
_BRANCH: Final = 40


class TreeProgress(Value):
    """``solved`` of ``total`` nodes have ended, ``failed`` of these with a failure.

    ``active`` leaves are at work, ``depths`` counts the nodes of each depth, ``errors`` are pairs
    of a message and its number; ``branch`` leads from the root to the latest node, as scopes in
    words.
    """

    run_id: str
    objective: str
    domain: str | None
    status: str
    total: int
    solved: int
    failed: int
    active: int
    max_depth: int
    depths: tuple[int, ...] = ()
    errors: tuple[tuple[str, int], ...] = ()
    branch: tuple[str, ...] = ()
    current: str = ""

    def to_dict(self) -> dict[str, Any]:
        errors = [{"message": text, "count": number} for text, number in self.errors]
        lists = {"depths": list(self.depths), "errors": errors, "branch": list(self.branch)}
        return super().to_dict() | lists


class ProgressWatch:
    """Follows a run; each look reads only what is new."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._nodes = JournalReader(
            os.path.join(folder, node_records.NODES), rising=node_records.shares_numbers(folder)
        )
        self._states: dict[str, str] = {}
        self._parents: dict[str, tuple[str | None, str]] = {}
        self._depths: Counter[int] = Counter()
        self._counts: Counter[str] = Counter()
        self._errors: Counter[str] = Counter()
        self._current = ""

    def look(self) -> TreeProgress | None:
        """None if there is no run. Raises DamagedError, StorageError."""
        head = read(self._folder)
        if head is None:
            return None
        self._nodes.read(self._take)
        branch = self._branch()
        return TreeProgress(
            head["run_id"],
            head["objective"],
            head["domain"],
            head["status"],
            self._depths.total(),
            self._counts[COMPLETED] + self._counts[FAILED],
            self._counts[FAILED],
            self._counts["running"],
            max(self._depths, default=0),
            tuple(self._depths[depth] for depth in range(max(self._depths, default=-1) + 1)),
            tuple(self._errors.most_common(_TOP)),
            branch,
            branch[-1] if branch else "",
        )

    def _take(self, records: list[dict[str, Any]]) -> None:
        states, counts = self._states, self._counts
        for record in records:
            identifier, status = record["node_id"], record["status"]
            if status == "queued":
                self._depths[record["depth"]] += 1
                self._parents[identifier] = record["parent_id"], in_words(scope_of(record))
            else:
                counts[states.get(identifier, "")] -= 1
                if status == "running" and record["decision"] == SPLIT:
                    status = "waiting"
                counts[status] += 1
                states[identifier] = status
                if status in ("running", "waiting"):
                    self._current = identifier
                elif status != CANCELLED and record["errors"]:
                    self._errors.update(error["message"] for error in record["errors"])

    def _branch(self) -> tuple[str, ...]:
        titles: list[str] = []
        identifier: str | None = self._current
        while identifier in self._parents and len(titles) < _BRANCH:
            identifier, shown = self._parents[identifier]
            titles.append(shown)
        return tuple(reversed(titles))


def in_words(scope: Mapping[str, Any]) -> str:
    """A scope in words."""
    where = scope["path"] or "."
    if scope["line_start"]:
        return f"{where}:{scope['line_start']}-{scope['line_end']}"
    # A group of files has the name of its folder.
    some = f" ({count(scope['last'] - scope['first'], 'file')})"
    return f"{where}{some if scope['kind'] == FILE_GROUP else ''}"
