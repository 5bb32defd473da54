"""The nodes of a recursion, and their results.

A node is a part of a repository. Its scope is a range of files in the order of the corpus, or a
range of lines in one file. The scopes of a node's children divide its own without a gap, so the
leaves cover everything if their ranges lie end to end.
"""

from __future__ import annotations

from rlm_ci.report.findings import Evidence, Finding, Location
from rlm_ci.values import Row, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from rlm_ci.decoding import Interned
    from rlm_ci.redaction.redactor import Redactor

#: Kinds of a scope.
REPO = "repo"
FOLDER = "dir"
MODULE = "module"
FILE_GROUP = "file_group"
FILE_SLICE = "file_slice"
PROMPT = "prompt"

#: The decision about a node.
LEAF = "leaf"
SPLIT = "split"

#: Statuses of a node; the last three are ends.
QUEUED = "queued"
RUNNING = "running"
COMPLETED = "completed"
FAILED = "failed"
CANCELLED = "cancelled"

#: The status of a result besides COMPLETED and FAILED: a part of its scope was not covered.
PARTIAL = "partial"


class NodeScope(Row):
    """The files ``first`` to ``last - 1`` of the corpus, or lines of the one file ``first``.

    ``path`` is the folder or the file, ``""`` at the top; lines are 1-based, inclusive, and None
    for whole files. A prompt has no files of its own, and ``path`` is its label.
    """

    kind: str
    path: str
    first: int
    last: int
    line_start: int | None = None
    line_end: int | None = None

    @property
    def title(self) -> str:
        """The scope in words. Files have numbers in the order of the corpus."""
        if self.line_start is not None:
            return f"{self.path}:{self.line_start}-{self.line_end}"
        if not self.path and self.kind == REPO:
            return "the repository"
        first = self.first + 1
        one_file = f"file {first:,}"
        files = one_file if first == self.last else f"files {first:,} to {self.last:,}"
        return f"{self.path}, {files}" if self.path else files


def scope_of(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """The scope of a journalled node; older versions had its kind and its path in it."""
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


class LeafText(Row):
    """A file or a slice of one; ``line_start`` is the number of its first line.

    ``blob`` is the object id of the whole file. The first slice also has the bytes of the file,
    ``file_bytes``, for analyses that need the whole file.
    """

    path: str
    blob: str
    content: bytes
    line_start: int = 1
    file_bytes: bytes | None = None

    @property
    def complete(self) -> bytes:
        """The whole file for its first slice, else ``content``."""
        return self.content if self.file_bytes is None else self.file_bytes


class LeafTask(Value):
    """All that a leaf's analysis needs, for any process on any machine."""

    node: Node
    texts: tuple[LeafText, ...]
    options: Mapping[str, Any]


class TracedFinding(Value):
    """A finding, and the leaves that reported it."""

    finding: Finding
    nodes: tuple[Interned, ...]


class NodeResult(Value):
    """The result of a node.

    ``data`` is the objective's own, as JSON. ``uncovered`` are pairs of path and reason for what
    was not covered, which makes the result PARTIAL. ``counts`` are of the pointers that a model
    offered; ``metrics`` are the objective's. ``artifacts`` are the files that were made of it,
    below the folder of the recursion; ``aggregation_notes`` say what became of the parts of a
    split node.
    """

    _ignores = True
    _optional = ("counts", "artifacts", "aggregation_notes")

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
    artifacts: tuple[str, ...] = ()
    aggregation_notes: tuple[str, ...] = ()

    def without_secrets(self, redactor: Redactor) -> NodeResult:
        """The result with its texts redacted; paths are identities, and stay."""
        return self.replace(
            summary=redactor.text(self.summary),
            findings=tuple(_traced(finding, redactor) for finding in self.findings),
            evidence=tuple(map(redactor.location, self.evidence)),
            notes=tuple(map(redactor.text, self.notes)),
            uncovered=tuple((path, redactor.text(reason)) for path, reason in self.uncovered),
            data=redactor.json(self.data),
        )

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> NodeResult:
        """Read a record of the journal that repeats nothing of other nodes."""
        if record["counts"] == _NO_COUNTS:  # of most, and so in memory once
            record = {name: value for name, value in record.items() if name != "counts"}
        return super().from_dict(record)


_NO_COUNTS = dict.fromkeys(Evidence._fields, 0)


def _traced(traced_finding: TracedFinding, redactor: Redactor) -> TracedFinding:
    """The same object if there is nothing to hide: the journal knows findings by identity."""
    finding = redactor.finding(traced_finding.finding)
    return (
        traced_finding
        if finding == traced_finding.finding
        else traced_finding.replace(finding=finding)
    )
