"""What one iteration of the symbolic loop came to, as its planner's next prompt is made of it.

Texts in here are bounded by the limits and free of secrets; :meth:`Iteration.to_dict` is the
step's entry in ``rlm/state.json`` and holds pointers, byte counts and paths, no text of the
source or of a model.
"""

from __future__ import annotations

from rlm_ci.text.printable import encodable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from rlm_ci.context.context import Excerpt, QueryResult

#: How a pointer to the output of an earlier sub-call begins: ``subcall:<iteration>:<id>``.
SUBCALL = "subcall:"

SUCCEEDED = "succeeded"
FAILED = "failed"
#: How the error of a sub-call begins that was asked of a model which nobody allowed.
NOT_ALLOWED = "model not allowed"


def subcall_pointer(iteration: int, subcall_id: str) -> str:
    """The pointer by which later iterations read the output of a sub-call."""
    return f"{SUBCALL}{iteration}:{subcall_id}"


class SearchResult(Value):
    """``found`` holds at most ``top_k`` hits; its previews are as the planner may see them."""

    query: str
    top_k: int
    found: QueryResult
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {
            "query": encodable(self.query),
            "top_k": self.top_k,
            "reason": encodable(self.reason),
            "total_hits": self.found.total_hits,
            "chunks_matched": self.found.chunks_matched,
            "hits": [
                {
                    "pointer": hit.pointer,
                    "start_byte": hit.start_byte,
                    "end_byte": hit.end_byte,
                    "score": hit.score,
                }
                for hit in self.found.hits
            ],
        }


class ReadResult(Value):
    """An excerpt of the context, or of an earlier sub-call's output.

    ``excerpt.start`` and ``excerpt.end`` are byte offsets in ``source.txt``, or, where
    ``of_subcall``, in that sub-call's ``output.txt``.
    """

    pointer: str
    excerpt: Excerpt
    reason: str = ""

    @property
    def of_subcall(self) -> bool:
        return self.pointer.startswith(SUBCALL)

    def to_dict(self) -> dict[str, Any]:
        return {
            "pointer": self.pointer,
            "bytes": self.excerpt.end - self.excerpt.start,
            "start_byte": self.excerpt.start,
            "end_byte": self.excerpt.end,
            "truncated": self.excerpt.truncated,
            "reason": encodable(self.reason),
        }


class SubcallResult(Value):
    """What one sub-call gave. ``pointer`` is how later iterations name its output.

    ``output`` is the whole text of ``output.txt``, possibly empty where it ``status`` is
    ``failed``; ``error`` then says why. ``cut`` is True for an output that the model's cap on
    tokens ended. ``spans`` are the byte ranges of the source that it was shown.
    ``artifact_paths`` (``input``, ``prompt``, ``output``, ``meta``) are relative to the run's
    folder, so that a prompt that names them is the same in a replay.
    """

    id: str
    purpose: str
    pointer: str
    status: str
    output: str
    error: str | None
    input_bytes: int
    output_bytes: int
    clamped: tuple[Mapping[str, Any], ...]
    artifact_paths: Mapping[str, str]
    pointers: tuple[str, ...] = ()
    spans: tuple[tuple[int, int], ...] = ()
    model: str = ""
    cut: bool = False

    @property
    def succeeded(self) -> bool:
        return self.status == SUCCEEDED

    def to_dict(self, prefix: str = "") -> dict[str, Any]:
        return {
            "id": self.id,
            "purpose": self.purpose,
            "pointer": self.pointer,
            "pointers": list(self.pointers),
            "status": self.status,
            "error": self.error,
            "model": encodable(self.model),
            "input_bytes": self.input_bytes,
            "output_bytes": self.output_bytes,
            "cut": self.cut,
            "clamped": [dict(one) for one in self.clamped],
            "artifact_paths": {name: prefix + path for name, path in self.artifact_paths.items()},
        }


class Iteration(Value):
    """The searches, reads and sub-calls of one iteration, each in its plan's order."""

    iteration: int
    searches: tuple[SearchResult, ...] = ()
    reads: tuple[ReadResult, ...] = ()
    subcalls: tuple[SubcallResult, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether the plan asked for nothing."""
        return not (self.searches or self.reads or self.subcalls)

    def to_dict(self, prefix: str = "") -> dict[str, Any]:
        """The entry of ``state.json``; ``prefix`` goes before the paths of artifacts."""
        return {
            "iteration": self.iteration,
            "searches": [one.to_dict() for one in self.searches],
            "reads": [one.to_dict() for one in self.reads],
            "subcalls": [one.to_dict(prefix) for one in self.subcalls],
        }
