"""Carries out a plan of the symbolic mode: searches, then reads, then sub-calls.

The result depends on the context, the plan and the recorded answers of models alone, so a run
that repeats it gets the same result.
"""

from __future__ import annotations

from rlm_ci.environments.symbolic.iteration import Iteration, ReadResult, SearchResult

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlm_ci.context.context import QueryResult
    from rlm_ci.environments.symbolic.planner.plan import Plan, Search
    from rlm_ci.environments.symbolic.subcalls import Subcalls
    from rlm_ci.environments.symbolic.visible_context import VisibleContext


class PlanExecutor:
    """Searches and reads in ``window``; a preview has at most ``preview_bytes``."""

    def __init__(self, window: VisibleContext, subcalls: Subcalls, preview_bytes: int) -> None:
        self._window = window
        self._subcalls = subcalls
        self._preview_bytes = preview_bytes

    def act(self, plan: Plan, iteration: int) -> Iteration:
        """Carry out ``plan``, whose pointers have no flaw.

        Raises LimitError, ConfigError, DamagedError, StorageError, UnavailableError.
        """
        searches = self._search(plan.searches)
        reads = tuple(
            ReadResult(
                one.pointer, self._window.read(one.pointer, one.size, one.offset), one.reason
            )
            for one in plan.reads
        )
        subcalls = self._subcalls.run(plan.subcalls, iteration) if plan.subcalls else ()
        return Iteration(iteration, searches, reads, subcalls)

    def _search(self, searches: Sequence[Search]) -> tuple[SearchResult, ...]:
        """All searches of a plan in one pass over the source."""
        if not searches:
            return ()
        queries = tuple(dict.fromkeys(one.query for one in searches))
        found = self._window.context.search(
            queries,
            top_k=max(one.top_k for one in searches),
            preview_bytes=self._preview_bytes,
        )
        by_query = dict(zip(queries, found, strict=True))
        return tuple(
            SearchResult(
                one.query, one.top_k, self._shown(by_query[one.query], one.top_k), one.reason
            )
            for one in searches
        )

    def _shown(self, found: QueryResult, top_k: int) -> QueryResult:
        shown = self._window.shown
        hits = (
            hit.replace(preview=shown(hit.preview_start, hit.preview_end, hit.preview))
            for hit in found.hits[:top_k]
        )
        return found.replace(hits=tuple(hits))
