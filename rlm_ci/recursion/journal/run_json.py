"""``run.json``: the subject and the progress of a recursion; replaced as a whole.

The journals are the record. This file says which run they belong to, so that no other run
continues them.
"""

from __future__ import annotations

import json
import os
import time

from rlm_ci.errors import ConfigError, DamagedError
from rlm_ci.recursion.journal import journal
from rlm_ci.recursion.nodes import CANCELLED, COMPLETED, FAILED, RUNNING
from rlm_ci.runs.manifest import timestamp
from rlm_ci.system import files
from rlm_ci.text.printable import count, encodable, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, Final, Self

    from rlm_ci.recursion.corpus.corpus import Corpus
    from rlm_ci.recursion.limits import Budget, Constraints
    from rlm_ci.recursion.nodes import Node, NodeResult
    from rlm_ci.recursion.objective import Objective

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
            store.event(journal.RUN_RESUMED)
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
