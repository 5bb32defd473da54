"""A question about a long text: plan, read and ask sub-calls until the planner has an answer.

The text stays on disk. The planner sees what it asked for, within limits. Its answers and those
of sub-calls are facts of the run's record, and all else follows from these and the context: a run
that is resumed or replayed repeats every iteration exactly.
"""

from __future__ import annotations

from collections import Counter
from itertools import chain, count

from rlm_ci.environments.symbolic.iteration import unread
from rlm_ci.environments.symbolic.planner.planner import BadPlanError, is_lifted
from rlm_ci.errors import LimitError
from rlm_ci.models.record.clock import over
from rlm_ci.runs.journal import spans
from rlm_ci.runs.state import FAILED, NO_PROGRESS, PASSED, PAUSED, FinalState
from rlm_ci.text import printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from rlm_ci.environments.symbolic.execute_plan import PlanExecutor
    from rlm_ci.environments.symbolic.iteration import Iteration
    from rlm_ci.environments.symbolic.planner.plan import Count, Plan, Read, Search
    from rlm_ci.environments.symbolic.planner.planner import AcceptedPlan, PlannerReply
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
        for iteration in count():
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
