"""The progress of a recursion, read from its folder while another process may write there."""

from __future__ import annotations

import os
from collections import Counter

from rlm_ci.recursion.journal import node_records, run_json
from rlm_ci.recursion.nodes import CANCELLED, COMPLETED, FAILED, FILE_GROUP, SPLIT, scope_of
from rlm_ci.runs.journal.reader import JournalReader
from rlm_ci.text.printable import count
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Final

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
        head = run_json.read(self._folder)
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
