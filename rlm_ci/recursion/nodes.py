"""What a recursion is made of: nodes, what was decided of them, what they came to.

A node is a bounded part of a repository. Its scope is a run of files in the one order that its
corpus has, or some lines of one file; so the scopes of a node's children part it without a gap,
and to prove that the leaves cover everything is to lay runs end to end.
"""

from __future__ import annotations

from sys import intern

from rlm_ci.report.findings import Evidence, Finding, Location
from rlm_ci.values import Row, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from rlm_ci.redaction.redactor import Redactor

#: Kinds of a scope.
REPO = "repo"
FOLDER = "dir"
MODULE = "module"
FILE_GROUP = "file_group"
FILE_SLICE = "file_slice"
KINDS = (REPO, FOLDER, MODULE, FILE_GROUP, FILE_SLICE)

#: What is decided of a node.
LEAF = "leaf"
SPLIT = "split"

#: Statuses of a node; the last three are ends.
QUEUED = "queued"
RUNNING = "running"
COMPLETED = "completed"
FAILED = "failed"
CANCELLED = "cancelled"

#: The status of a result besides COMPLETED and FAILED: a part of its scope was not looked at.
PARTIAL = "partial"


class NodeScope(Row):
    """The files ``first`` to ``last - 1`` of the corpus, or lines of the one file ``first``.

    ``path`` is the folder or the file, ``""`` at the top; lines are 1-based, inclusive, and None
    for whole files.
    """

    kind: str
    path: str
    first: int
    last: int
    line_start: int | None = None
    line_end: int | None = None


def scope_of(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """The scope of a node as it is journalled; of old, its kind and its path were within."""
    scope: Mapping[str, Any] = record["scope"]
    if "kind" in scope:
        return scope
    return {**scope, "kind": record["scope_type"], "path": record["scope_ref"]}


class Node(Row):
    """One node. ``id`` derives from scope and parent: two runs over the same tree agree."""

    id: str
    parent: str | None
    depth: int
    scope: NodeScope


class NodeProbe(Row):
    """What is known of a node before anything is decided: figures only, no content is read.

    ``share`` is the part of ``size`` that the largest child would have, 1.0 where the node cannot
    be split. ``digest`` is a hash over the paths and blobs of its files.
    """

    node: Node
    files: int
    size: int
    children: int
    share: float
    hashed: Callable[[], str]

    @property
    def digest(self) -> str:
        return self.hashed()


class Decision(Row):
    """``kind`` is LEAF or SPLIT, ``reason`` one of the reasons of ``tree``, for machines."""

    kind: str
    reason: str
    confidence: float


class LeafText(Row):
    """A file, or lines of one, as a leaf looks at it; ``line_start`` is its first line's number.

    ``blob`` is the object id of the whole file, ``whole`` its bytes where these are its first
    slice: what can only be told of whole files is told there.
    """

    path: str
    blob: str
    content: bytes
    line_start: int = 1
    whole: bytes | None = None

    @property
    def complete(self) -> bytes:
        """The whole file where these are its first slice, else the same bytes."""
        return self.content if self.whole is None else self.whole


class LeafTask(Value):
    """All that a leaf's analysis needs: it can be sent to any process, on any machine."""

    node: Node
    texts: tuple[LeafText, ...]
    options: Mapping[str, Any]


class TracedFinding(Value):
    """A finding, and the leaves that it comes from: more than one, where two have said the same."""

    finding: Finding
    nodes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        return {"finding": self.finding.to_dict(), "nodes": list(self.nodes)}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> TracedFinding:
        return cls(Finding.from_dict(record["finding"]), tuple(map(intern, record["nodes"])))


class NodeResult(Value):
    """What a node came to.

    ``data`` is the objective's own, as JSON. ``uncovered`` are pairs of path and reason: what of
    the scope was not looked at, which makes it PARTIAL. ``counts`` tells what became of the
    pointers that a model offered; ``refuted`` and the like are the objective's, in ``metrics``.
    """

    node_id: str
    status: str
    summary: str
    confidence: float
    findings: tuple[TracedFinding, ...] = ()
    evidence: tuple[Location, ...] = ()
    notes: tuple[str, ...] = ()
    uncovered: tuple[tuple[str, str], ...] = ()
    counts: Evidence = Evidence()
    metrics: Mapping[str, float] = {}
    data: Mapping[str, Any] = {}

    def without_secrets(self, redactor: Redactor) -> NodeResult:
        """The same result; paths, which are identities, stay as they are."""
        return self.replace(
            summary=redactor.text(self.summary),
            findings=tuple(_traced(one, redactor) for one in self.findings),
            evidence=tuple(map(redactor.place, self.evidence)),
            notes=tuple(map(redactor.text, self.notes)),
            uncovered=tuple((path, redactor.text(reason)) for path, reason in self.uncovered),
            data=redactor.json(self.data),
        )

    def to_dict(self) -> dict[str, Any]:
        """As it is journalled; ``from_dict`` reads it back."""
        return {
            "node_id": self.node_id,
            "status": self.status,
            "summary": self.summary,
            "confidence": self.confidence,
            "findings": [one.to_dict() for one in self.findings],
            "evidence": [place.to_dict() for place in self.evidence],
            "notes": list(self.notes),
            "uncovered": [list(pair) for pair in self.uncovered],
            "counts": {name: getattr(self.counts, name) for name in self.counts._fields},
            "metrics": dict(self.metrics),
            "data": dict(self.data),
        }

    @classmethod
    def from_dict(
        cls, record: Mapping[str, Any], findings: tuple[TracedFinding, ...] | None = None
    ) -> NodeResult:
        """``findings`` are those of the record, where they are known."""
        evidence, counts = record["evidence"], record["counts"]
        if findings is None:
            findings = (
                tuple(map(TracedFinding.from_dict, record["findings"]))
                if record["findings"]
                else ()
            )
        # By the hundred thousand, and most of them say little: what is empty costs nothing.
        return cls(
            record["node_id"],
            record["status"],
            record["summary"],
            record["confidence"],
            findings,
            tuple(map(Location.from_dict, evidence)) if evidence else (),
            tuple(record["notes"]),
            tuple(map(_pair, record["uncovered"])),
            Evidence(
                counts["offered"], counts["verified"], counts["reanchored"], counts["rejected"]
            )
            if counts != _NO_COUNTS
            else _NOTHING,
            record["metrics"],
            record["data"],
        )


_NOTHING = NodeResult.counts
_NO_COUNTS = dict.fromkeys(Evidence._fields, 0)


def _pair(pair: list[str]) -> tuple[str, str]:
    path, reason = pair
    return path, reason


def _traced(one: TracedFinding, redactor: Redactor) -> TracedFinding:
    """The same one where there is nothing to hide: it may be known elsewhere."""
    finding = redactor.finding(one.finding)
    return one if finding is one.finding else one.replace(finding=finding)
