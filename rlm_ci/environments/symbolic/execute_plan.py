"""Carries out a plan of the symbolic mode: searches, counts, reads, sub-calls, maps.

The result depends on the context, the plan and the recorded answers of models alone, so a run
that repeats it gets the same result.
"""

from __future__ import annotations

import time

from rlm_ci.environments.symbolic import counts
from rlm_ci.environments.symbolic.iteration import (
    CountResult,
    Iteration,
    ReadResult,
    SearchResult,
    count_pointer,
)
from rlm_ci.environments.symbolic.map_reduce.maps import MapRun
from rlm_ci.runs.journal import spans
from rlm_ci.text.printable import count, encodable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rlm_ci.context.context import Hit, QueryResult
    from rlm_ci.environments.symbolic.planner.plan import Count, Plan, Read, Search
    from rlm_ci.environments.symbolic.subcalls import ModelAccess, Subcalls
    from rlm_ci.environments.symbolic.visible_context import VisibleContext


class PlanExecutor:
    """Searches, counts and reads in ``window``."""

    def __init__(self, window: VisibleContext, subcalls: Subcalls, access: ModelAccess) -> None:
        self._window = window
        self._subcalls = subcalls
        self._access = access

    def act(self, plan: Plan, iteration: int) -> Iteration:
        """Carry out ``plan``, whose pointers have no flaw.

        Raises LimitError, ConfigError, DamagedError, StorageError, UnavailableError.
        """
        searches = self._search(plan.searches)
        counted = tuple(
            self._count(request, count_pointer(iteration, number))
            for number, request in enumerate(plan.counts, 1)
        )
        reads = tuple(map(self._read, plan.reads))
        subcalls = self._subcalls.run(plan.subcalls, iteration) if plan.subcalls else ()
        maps = tuple(
            MapRun(self._access, self._window, self._subcalls, request).run(iteration, number)
            for number, request in enumerate(plan.maps, 1)
        )
        return Iteration(iteration, searches, reads, subcalls, counted, maps)

    def _search(self, searches: Sequence[Search]) -> tuple[SearchResult, ...]:
        """All searches of a plan in one pass over the source."""
        if not searches:
            return ()
        since = time.monotonic()
        queries = tuple(dict.fromkeys(search.query for search in searches))
        query_results = self._window.context.search(
            queries,
            top_k=max(search.top_k for search in searches),
            preview_bytes=self._access.limits.preview_bytes,
        )
        by_query = dict(zip(queries, query_results, strict=True))
        results = tuple(
            SearchResult(
                search.query,
                search.top_k,
                self._shown(by_query[search.query], search.top_k),
                search.reason,
            )
            for search in searches
        )
        for result in results:
            hits = count(result.query_result.total_hits, "hit")
            title = f"search “{self._masked(result.query)}”: {hits}"
            with spans.span("search", title, since=since) as step:
                step.details |= {
                    "reason": self._masked(result.reason),
                    "chunks matched": result.query_result.chunks_matched,
                    "hits": "\n".join(map(_hit, result.query_result.hits)),
                }
        return results

    def _read(self, read: Read) -> ReadResult:
        with spans.span("read", "read") as step:
            excerpt = self._window.read(read.pointer, read.size, read.offset)
            result = ReadResult(read.pointer, excerpt, read.reason)
            answer = " of an earlier answer" if result.of_subcall else ""
            step.title = f"read bytes {excerpt.start:,} to {excerpt.end:,}{answer}"
            pointer = read.pointer.rpartition("#")[2]
            step.details |= {"pointer": pointer, "reason": self._masked(read.reason)}
            if excerpt.truncated:
                step.outcome = spans.PARTIAL
                step.details["cut off at"] = f"{excerpt.end - excerpt.start:,} bytes"
            step.details["text"] = excerpt.text
        return result

    def _masked(self, text: str) -> str:
        return self._window.redact(encodable(text))

    def _count(self, request: Count, pointer: str) -> CountResult:
        """A count is a fact: how long an expression may take depends on the machine."""
        context = self._window.context
        key = request.replace(reason="").to_dict()
        with spans.span("search", f"count “{self._masked(request.pattern)}”") as step:
            fact = self._access.fact(
                counts.COUNT, pointer, key, lambda: counts.counted(request, context)
            )
            pattern_count = counts.from_fact(fact)
            step.details |= {"error": fact["error"], "reason": self._masked(request.reason)}
            step.title += f": {count(pattern_count.hits if pattern_count else 0, 'hit')}"
            if pattern_count is None:
                step.outcome = spans.FAILED
            else:
                step.details |= {
                    "lines": pattern_count.lines,
                    "counted by": pattern_count.by,
                    "different values": pattern_count.values,
                }
        if pattern_count is None:
            return CountResult(pointer, request, fact)
        hits = (self._in_line(start, end) for start, end in pattern_count.first)
        rows = counts.table(pattern_count, context, self._window.text, self._window.redact)
        return CountResult(pointer, request, fact, pattern_count, rows, self._redacted(hits))

    def _in_line(self, start: int, end: int) -> Hit:
        """A hit, with its line as the preview, as far as there is room."""
        context, size = self._window.context, self._access.limits.preview_bytes
        hit = context.hit(context.layout.at(start), start, end, 1, size)
        distance = context.raw(end, hit.preview_end).find(b"\n")
        if distance < 0:
            return hit
        line = context.read_span(hit.preview_start, end + distance)
        return hit.replace(preview=line.text, preview_end=line.end)

    def _shown(self, result: QueryResult, top_k: int) -> QueryResult:
        return result.replace(hits=self._redacted(result.hits[:top_k]))

    def _redacted(self, hits: Iterable[Hit]) -> tuple[Hit, ...]:
        shown = self._window.shown
        return tuple(
            hit.replace(preview=shown(hit.preview_start, hit.preview_end, hit.preview))
            for hit in hits
        )


def _hit(hit: Hit) -> str:
    span = hit.pointer.rpartition("#")[2]
    return f"{span}  bytes {hit.start_byte:,}, score {hit.score}"
