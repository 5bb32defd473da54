"""Carries out a plan of the symbolic mode: searches, then reads, then sub-calls.

An :class:`Iteration` follows from the context, the plan and the recorded answers of models alone: a
run that repeats it with these gets the same one.
"""

from __future__ import annotations

from rlm_ci.ask.iteration import Iteration, ReadResult, SearchResult
from rlm_ci.ask.subcalls import Subcalls
from rlm_ci.ask.visible_context import VisibleContext

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rlm_ci.agents.builtin.turn_loop import Complete
    from rlm_ci.ask.planner.plan import Plan, PlanLimits, Search
    from rlm_ci.ask.subcalls import Write
    from rlm_ci.context.context import Context, QueryResult
    from rlm_ci.runs import Fact


class PlanExecutor:
    """What a planner's plans act on: a context, and the models that sub-calls ask.

    ``redact`` takes secrets out of a text; the longest that it knows has ``longest`` bytes.
    ``model`` answers sub-calls that name none; ``models`` are the others that may be named, see
    :class:`~rlm_ci.ask.subcalls.Subcalls`.
    """

    def __init__(
        self,
        context: Context,
        complete: Complete,
        fact: Fact,
        *,
        limits: PlanLimits,
        model: str,
        question: str,
        max_tokens: int,
        write: Write,
        redact: Callable[[str], str],
        longest: int = 0,
        models: Sequence[str] = (),
    ) -> None:
        self._context = context
        self._limits = limits
        self._window = VisibleContext(context, redact, longest)
        self._subcalls = Subcalls(
            complete,
            fact,
            window=self._window,
            limits=limits,
            model=model,
            models=models,
            question=question,
            max_tokens=max_tokens,
            write=write,
        )

    def flaw(self, pointer: str) -> str | None:
        """Why ``pointer`` cannot be read now, in words for a planner; None if it can."""
        return self._window.flaw(pointer)

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
        found = self._context.search(
            queries,
            top_k=max(one.top_k for one in searches),
            preview_bytes=self._limits.preview_bytes,
        )
        by_query = dict(zip(queries, found, strict=True))
        return tuple(
            SearchResult(
                one.query, one.top_k, self._shown(by_query[one.query], one.top_k), one.reason
            )
            for one in searches
        )

    def _shown(self, found: QueryResult, top_k: int) -> QueryResult:
        """The best ``top_k`` hits, their previews without secrets."""
        shown = self._window.shown
        hits = (
            hit.replace(preview=shown(hit.preview_start, hit.preview_end, hit.preview))
            for hit in found.hits[:top_k]
        )
        return found.replace(hits=tuple(hits))
