"""A question about a long text: plan, carry out the plan, until the planner has an answer."""

from __future__ import annotations

import itertools
import time
from bisect import bisect_right
from collections import Counter
from itertools import chain

from rlm_ci.context.pointers import PointerError, chunk_id
from rlm_ci.context.scope import Scope
from rlm_ci.context.search import pattern_counts
from rlm_ci.context.search.pattern_counts import CHUNK, FILE, CountRow, PatternCount
from rlm_ci.environments.symbolic.iteration import (
    CountResult,
    Iteration,
    ReadResult,
    SearchResult,
    count_pointer,
    unread,
)
from rlm_ci.environments.symbolic.map_reduce.maps import MapRun
from rlm_ci.environments.symbolic.planner.plan import Count
from rlm_ci.environments.symbolic.planner.planner import BadPlanError, is_lifted
from rlm_ci.environments.symbolic.planner.progress_notes import quote
from rlm_ci.errors import LimitError
from rlm_ci.models.record.clock import over
from rlm_ci.runs.journal import spans
from rlm_ci.runs.state import FAILED, NO_PROGRESS, PASSED, PAUSED, FinalState
from rlm_ci.text import printable
from rlm_ci.text.patterns import PatternError
from rlm_ci.text.printable import count, encodable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    from rlm_ci.context.context import Context, Hit, QueryResult
    from rlm_ci.environments.symbolic.planner.plan import Plan, Read, Search
    from rlm_ci.environments.symbolic.planner.planner import AcceptedPlan, PlannerReply
    from rlm_ci.environments.symbolic.subcalls import ModelAccess, Subcalls
    from rlm_ci.environments.symbolic.visible_context import VisibleContext
    from rlm_ci.models.record.clock import RunClock
    from rlm_ci.runs import Fact
    from rlm_ci.runs.state import RunState

    #: Makes the plan for an iteration after earlier ones. Raises BadPlanError, LimitError.
    Planning = Callable[[int, Sequence[Iteration]], AcceptedPlan]


#: Plans in a row without anything new that end a run.
ENOUGH = 2
#: How often a plan may repeat a search or read, for which prompts may have no room.
_OFTEN = 3
_REASON = 500
#: Unread parts that an answer names.
_UNREAD = 20


class AskEnd(Value):
    """The end of a run; ``seen`` are the ranges of the source's bytes that models were shown.

    ``look`` finds those from a start to an end, where nobody kept them.
    """

    final: FinalState
    answer: str = ""
    seen: tuple[tuple[int, int], ...] = ()
    look: Callable[[int, int], list[tuple[int, int]]] | None = None


class Question:
    """One question.

    The limits end it, None is no limit. ``plan`` asks the planner; ``shown`` names a file of the
    run, given its path in the run's folder; ``on_step`` reports progress.
    """

    def __init__(
        self,
        plan: Planning,
        environment: PlanExecutor,
        *,
        max_iterations: float | None,
        max_minutes: float | None,
        fact: Fact,
        clock: RunClock,
        state: RunState,
        shown: Callable[[str], str],
        on_step: Callable[[str], None],
    ) -> None:
        self._plan = plan
        self._environment = environment
        self._limits = max_iterations, max_minutes
        self._fact = fact
        self._clock = clock
        self._state = state
        self._shown = shown
        self._on_step = on_step
        self._seen: list[tuple[int, int]] = []
        self._plans: list[Plan] = []  # those that were carried out, by iteration

    def run(self) -> AskEnd:
        """Iterate until there is an answer, a limit is reached, or there is no progress.

        Raises BadPlanError, and any other error that ends a run.
        """
        steps: list[Iteration] = []
        idle = 0
        for iteration in itertools.count():
            seconds, at = self._clock.tick(iteration)
            stop = over(iteration, seconds / 60, *self._limits)
            if stop:
                return self._ended(*stop)
            try:
                title = f"iteration {iteration}"
                words = f"{title}: asking for a plan"
                with spans.span("iteration", title, key=f"iteration-{iteration}", words=words):
                    planned, step = self._turn(iteration, at, steps)
            except LimitError as error:
                return self._ended(error.budget, error.what)
            if step is None:
                return self._concluded(planned.plan, iteration)
            steps.append(step)
            idle = idle + 1 if self._is_idle(planned) else 0
            self._plans.append(planned.plan)
            if idle == ENOUGH:
                return self._ended(NO_PROGRESS, f"{idle} plans in a row asked for nothing new")
        raise AssertionError("the count of iterations has no end")

    def _is_idle(self, planned: AcceptedPlan) -> bool:
        """Whether the prompt of a plan already shows all that the plan asks for.

        A plan may repeat, a few times, what had no room in the prompt.
        """
        plan = planned.plan
        if plan.intent != "continue":  # a pause that was lifted
            return False
        looked = [_looked(earlier) for earlier in self._plans]
        shown = {looked[iteration][index] for iteration, index in planned.complete_spans}
        often = Counter(chain.from_iterable(looked))
        shown |= {request for request, times in often.items() if times >= _OFTEN}
        called = {value for earlier in self._plans for value in (*earlier.subcalls, *earlier.maps)}
        values = (*plan.subcalls, *plan.maps)
        return shown.issuperset(_looked(plan)) and called.issuperset(values)

    def _turn(
        self, iteration: int, at: str, steps: Sequence[Iteration]
    ) -> tuple[AcceptedPlan, Iteration | None]:
        """A plan and its results; None for a plan that ends the run."""
        try:
            planned = self._plan(iteration, steps)
        except BadPlanError as error:
            self._note(iteration, at, error.reply)
            raise
        plan = planned.plan
        self._seen += planned.seen
        goes_on = plan.intent == "continue" or (
            plan.intent == "pause" and is_lifted(self._fact, str(iteration))
        )
        if not goes_on:
            self._note(iteration, at, planned, plan)
            return planned, None
        self._on_step(f"iteration {iteration}: {_summary(plan)}")
        try:
            step = self._environment.act(plan, iteration)
        except LimitError:
            self._note(iteration, at, planned, plan)
            raise
        self._seen += [span for call in step.calls for span in call.spans]
        self._note(iteration, at, planned, plan, step)
        return planned, step

    def _concluded(self, plan: Plan, iteration: int) -> AskEnd:
        # Some planners give their reason as the answer.
        reason = printable.printable(plan.reason.strip() or plan.final_answer)[:_REASON]
        turns = printable.count(iteration + 1, "iteration")
        if plan.intent == "final":
            final = FinalState.of(PASSED, f"answered after {turns}")
            answer = plan.final_answer + unread_note(self._state.entries)
            return AskEnd(final, answer, tuple(self._seen))
        if plan.intent == "fail":
            return self._ended(FAILED, reason or "the planner gave up, and gave no reason")
        return self._ended(PAUSED, f"paused: {reason}" if reason else "paused by the planner")

    def _ended(self, status: str, reason: str) -> AskEnd:
        return AskEnd(FinalState.of(status, reason), seen=tuple(self._seen))

    def _note(
        self,
        iteration: int,
        at: str,
        reply: PlannerReply,
        plan: Plan | None = None,
        step: Iteration | None = None,
    ) -> None:
        entry: dict[str, Any] = {
            "iteration": iteration,
            "startedAt": at,
            "intent": plan.intent if plan else None,
            "reason": plan.reason if plan else None,
            "planner_prompt_bytes": reply.prompt_bytes,
            "planner": [
                {name: self._shown(path) for name, path in paths.items()}
                for paths in reply.artifacts
            ],
            "planner_errors": list(reply.errors),
            "clamped": list(getattr(reply, "clamped", ())),
            "truncation": dict(reply.truncation),
            "searches": [],
            "reads": [],
            "subcalls": [],
        }
        if step is not None:
            entry |= step.to_dict(self._shown(""))
        self._state.add(entry)
        details = spans.current().details
        details |= {"intent": entry["intent"], "reason": entry["reason"]}
        details["planner's errors"] = "; ".join(error["message"] for error in reply.errors)


def unread_note(turns: Sequence[Mapping[str, Any]]) -> str:
    """What an answer says about parts that maps did not read; "" if there are none."""
    number, missing = unread(turns)
    if not missing:
        return ""
    names = list(dict.fromkeys(missing))  # several maps may miss the same part
    shown = ", ".join(names[:_UNREAD])
    if len(names) > _UNREAD:
        shown += f" and {len(names) - _UNREAD:,} more"
    parts = printable.count(number, "part")
    return (
        f"\n\nNot all of the text was read: {len(missing):,} of {parts} were not read whole"
        f" (bytes {shown})."
    )


def _looked(plan: Plan) -> tuple[Search | Count | Read, ...]:
    """What a plan asks for, in the order in which prompts show it."""
    searches = (search.replace(reason="") for search in plan.searches)
    counts = (count.replace(reason="") for count in plan.counts)
    return (*searches, *counts, *(read.replace(reason="") for read in plan.reads))


def _summary(plan: Plan) -> str:
    kinds = (
        (len(plan.searches), "search", "searches"),
        (len(plan.counts), "count", "counts"),
        (len(plan.reads), "read", "reads"),
        (len(plan.subcalls), "sub-call", "sub-calls"),
        (len(plan.maps), "map", "maps"),
    )
    words = [f"{number} {noun if number == 1 else many}" for number, noun, many in kinds if number]
    return ", ".join(words) or "nothing asked for"


#: The kind of the fact.
COUNT = "count"


def counted(count: Count, context: Context) -> dict[str, Any]:
    """The fact: a PatternCount as JSON, or ``error``, why there is none, for the planner.

    Raises DamagedError, StorageError.
    """
    try:
        pattern_count = pattern_counts.count(
            context, count.pattern, count.scope.spans(context), fold=count.ignore_case, by=count.by,
            rows=count.top_k, first=count.hits,
        )  # fmt: skip
    except (PatternError, PointerError) as error:
        return {"error": str(error)}
    rows = [
        {"hits": row.hits, "spans": [[*span] for span in row.spans]} for row in pattern_count.rows
    ]
    first = [[*span] for span in pattern_count.first]
    return {"error": None, **pattern_count.to_dict(), "rows": rows, "first": first}


def from_fact(fact: Mapping[str, Any]) -> PatternCount | None:
    """The count in a fact; None if it has an error."""
    if fact["error"] is not None:
        return None
    rows = (CountRow(tuple(map(tuple, row["spans"])), row["hits"]) for row in fact["rows"])
    numbers = {name: fact[name] for name in ("by", "hits", "lines", "chunks", "values")}
    return PatternCount(**numbers, rows=tuple(rows), first=tuple(map(tuple, fact["first"])))


def from_state(entry: Mapping[str, Any]) -> Count:
    """What was asked, from an entry of the state."""
    values = {name: entry[name] for name in ("pattern", "by", "ignore_case", "top_k", "hits")}
    scope = Scope(entry["scope"]["chunks"], tuple(entry["scope"]["files"]))
    return Count(**values, scope=scope)


def table(
    count: PatternCount,
    context: Context,
    text: Callable[[int, int], str],
    redact: Callable[[str], str] = str,
) -> str:
    """The rows, a line each; ``text`` gives that of a range of bytes."""

    def quoted(name: str) -> str:
        return quote(name, len(name))

    def label(row: CountRow) -> str:
        if count.by == CHUNK:
            [(start, _)] = row.spans
            return f"chunk:{chunk_id(start // context.layout.step)}"
        places = ", ".join(f"{start}-{end}" for start, end in row.spans)
        if count.by != FILE:
            values = ", ".join(quoted(text(start, end)) for start, end in row.spans)
            return f"{values}, first at bytes {places}"
        if not row.spans:
            return "outside of all files"
        file = context.files[bisect_right(context.files.ends, row.spans[0][0])]
        return f"{quoted(redact(file.path))}, bytes {places}"

    return "\n".join(f"{row.hits:,}: {label(row)}" for row in count.rows)


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
            fact = self._access.fact(COUNT, pointer, key, lambda: counted(request, context))
            pattern_count = from_fact(fact)
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
        rows = table(pattern_count, context, self._window.text, self._window.redact)
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
