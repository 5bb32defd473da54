"""The results of one iteration of the symbolic loop, for the next prompt and the state.

Texts in here are bounded by the limits and free of secrets. ``Iteration.to_dict`` is the entry in
``rlm/state.json``: pointers, byte counts and paths, but no text of the source or of a model.
"""

from __future__ import annotations

from rlm_ci.text.printable import count, encodable, printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from rlm_ci.context.context import Excerpt, Hit, QueryResult
    from rlm_ci.context.search.pattern_counts import PatternCount
    from rlm_ci.environments.symbolic.planner.plan import Count, Map

#: The beginning of a pointer to a sub-call's output: ``subcall:<iteration>:<id>``.
SUBCALL = "subcall:"

#: The fields of a hit in the state.
_HIT = ("pointer", "start_byte", "end_byte", "score")

SUCCEEDED = "succeeded"
FAILED = "failed"
#: A map for which the budget has no room, or that has no parts.
REFUSED = "refused"
#: The beginning of the error of a sub-call that names a model which is not allowed.
NOT_ALLOWED = "model not allowed"


def subcall_pointer(iteration: int, subcall_id: str) -> str:
    return f"{SUBCALL}{iteration}:{subcall_id}"


def count_pointer(iteration: int, number: int) -> str:
    """The name of a count: ``number`` counts those of the iteration from 1."""
    return f"count:{iteration}:{number}"


class SearchResult(Value):
    """``query_result`` has at most ``top_k`` hits, with redacted previews."""

    query: str
    top_k: int
    query_result: QueryResult
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {
            "query": encodable(self.query),
            "top_k": self.top_k,
            "reason": encodable(self.reason),
            "total_hits": self.query_result.total_hits,
            "chunks_matched": self.query_result.chunks_matched,
            "hits": [{name: getattr(hit, name) for name in _HIT} for hit in self.query_result.hits],
        }


class CountResult(Value):
    """A count, as the ``fact`` has it; ``rows`` and the previews of ``hits`` are redacted.

    ``pointer`` names it; ``pattern_count`` is None for an error.
    """

    pointer: str
    request: Count
    fact: Mapping[str, Any]
    pattern_count: PatternCount | None = None
    rows: str = ""
    hits: tuple[Hit, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        request = {**self.request.to_dict(), "reason": encodable(self.request.reason)}
        request["pattern"] = encodable(self.request.pattern)
        return {"pointer": self.pointer, **request, "found": dict(sorted(self.fact.items()))}


class ReadResult(Value):
    """An excerpt of the context, or of an earlier sub-call's output.

    The excerpt's offsets are bytes of ``source.txt`` or, if ``of_subcall``, of ``output.txt``.
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
    """``pointer`` names the output in later iterations.

    ``output`` is the text of ``output.txt``, possibly empty if ``status`` is ``failed``;
    ``error`` then says why. ``cut`` is True if the cap on tokens ended it. ``spans`` are the byte
    ranges of the source that the model was shown. ``artifact_paths`` (``input``, ``prompt``,
    ``output``, ``meta``) are relative to the run's folder.
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
            "clamped": [dict(clamp) for clamp in self.clamped],
            "artifact_paths": {name: prefix + path for name, path in self.artifact_paths.items()},
        }


class MapResult(Value):
    """``pointer`` names ``output``, the result of the answers about all parts.

    ``forecast`` is what it may cost at most. It is refused if that has an error; a failed map has
    no output. ``unasked`` are the bytes of the parts that the budget had no room for after all;
    ``reductions`` are the answers of models about answers.
    """

    id: str
    pointer: str
    request: Map
    forecast: Mapping[str, Any]
    status: str = REFUSED
    error: str | None = None
    parts: tuple[SubcallResult, ...] = ()
    unasked: tuple[str, ...] = ()
    reductions: tuple[SubcallResult, ...] = ()
    output: str = ""
    output_path: str = ""

    @property
    def calls(self) -> tuple[SubcallResult, ...]:
        return self.parts + self.reductions

    def to_dict(self, prefix: str = "") -> dict[str, Any]:
        request = {
            name: encodable(value) if isinstance(value, str) else value
            for name, value in self.request.to_dict().items()
        }
        return {
            "id": self.id,
            "pointer": self.pointer,
            **request,
            "forecast": dict(sorted(self.forecast.items())),
            "status": self.status,
            "error": self.error,
            "parts": [part.to_dict(prefix) for part in self.parts],
            "unasked": list(self.unasked),
            "reductions": [reduction.to_dict(prefix) for reduction in self.reductions],
            "output_bytes": len(self.output.encode()),
            "output_path": prefix + self.output_path if self.output_path else None,
        }


class Iteration(Value):
    """The searches, counts, reads, sub-calls and maps of an iteration, each in its plan's order."""

    iteration: int
    searches: tuple[SearchResult, ...] = ()
    reads: tuple[ReadResult, ...] = ()
    subcalls: tuple[SubcallResult, ...] = ()
    counts: tuple[CountResult, ...] = ()
    maps: tuple[MapResult, ...] = ()

    @property
    def calls(self) -> tuple[SubcallResult, ...]:
        """All sub-calls, those of maps too."""
        return self.subcalls + tuple(call for result in self.maps for call in result.calls)

    def to_dict(self, prefix: str = "") -> dict[str, Any]:
        """The entry of ``state.json``; ``prefix`` goes before the paths of artifacts."""
        return {
            "iteration": self.iteration,
            "searches": [search.to_dict() for search in self.searches],
            **({"counts": [result.to_dict() for result in self.counts]} if self.counts else {}),
            "reads": [read.to_dict() for read in self.reads],
            "subcalls": [subcall.to_dict(prefix) for subcall in self.subcalls],
            **({"maps": [result.to_dict(prefix) for result in self.maps]} if self.maps else {}),
        }


def merged(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same bytes as spans that neither touch nor overlap, in order."""
    result: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if result and start <= result[-1][1]:
            result[-1] = result[-1][0], max(result[-1][1], end)
        elif start < end:
            result.append((start, end))
    return result


def unread(turns: Sequence[Mapping[str, Any]]) -> tuple[int, list[str]]:
    """The number of parts of all maps in turns of a state, and the bytes that were not read."""
    maps = [item for turn in turns for item in turn.get("maps", ())]
    missing = [
        part["pointers"][0].partition("#bytes:")[2]
        for item in maps
        for part in item["parts"]
        if part["status"] != SUCCEEDED or part["clamped"]
    ]
    unasked = [span for item in maps for span in item["unasked"]]
    return sum(len(item["parts"]) for item in maps) + len(unasked), missing + unasked


def counted_in(turns: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The counts in turns of a state by their pointers, each in the words of a citation."""
    return {
        item["pointer"]: _words(item["pattern"], item["found"])
        for turn in turns
        for item in turn.get("counts", ())
        if item["found"]["error"] is None
    }


def _words(pattern: str, counted: Mapping[str, Any]) -> str:
    text = f'{count(counted["hits"], "hit")} of "{printable(encodable(pattern))}"'
    if counted["by"] != "groups":
        return text
    return f"{text}, {count(counted['values'], 'different value')}"


def all_calls(turn: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The entries of all sub-calls in a turn of a state, those of maps too."""
    mapped = (call for item in turn.get("maps", ()) for call in item["parts"] + item["reductions"])
    return [*turn["subcalls"], *mapped]
