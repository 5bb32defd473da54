"""The loop of a question: what goes on, what ends it, what is noted, and what a resume finds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.environments.symbolic.iteration import Iteration
from rlm_ci.environments.symbolic.loop import AskEnd, Question
from rlm_ci.environments.symbolic.planner.plan import Plan, Read, Search, Subcall
from rlm_ci.environments.symbolic.planner.planner import AcceptedPlan, BadPlanError, PlannerReply
from rlm_ci.errors import ConfigError, LimitError
from rlm_ci.models.record.clock import RunClock
from rlm_ci.runs.journal import spans
from rlm_ci.runs.state import RunState
from testing.planner_steps import CHUNK, read, search, step, subcall

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

ASK = Subcall("summarize", (CHUNK,), (), 100)
LOOK = Search("error", 20)
SEE = Read(CHUNK, 0, 100)
FINAL = Plan("final", final_answer="So it is.")
#: Iterations and minutes; None is no limit.
Limits = tuple[float | None, float | None]
NO_END: Limits = (None, None)


class Facts:
    """A record in memory, through JSON as on the disk; ``only`` finds, and makes nothing."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], str] = {}
        self.only = False

    def __call__(
        self,
        kind: str,
        step: str,
        _key: Mapping[str, Any],
        produce: Callable[[], Mapping[str, Any]],
    ) -> dict[str, Any]:
        if (kind, step) not in self.kept:
            if self.only:
                raise ConfigError(f"the run ended before {step} was answered")
            self.kept[kind, step] = json.dumps(produce())
        found: dict[str, Any] = json.loads(self.kept[kind, step])
        return found


class Planning:
    """Gives one plan after the other, and notes after which steps each was asked for.

    Of each iteration its prompts have room for as many searches and reads as ``room`` says.
    """

    def __init__(self, plans: Sequence[Plan | Exception], room: int = 99) -> None:
        self.plans = plans
        self.room = room
        self.asked: list[tuple[int, ...]] = []

    def __call__(self, iteration: int, steps: Sequence[Iteration]) -> AcceptedPlan:
        self.asked.append(tuple(one.iteration for one in steps))
        said = self.plans[min(iteration, len(self.plans) - 1)]
        if isinstance(said, Exception):
            raise said
        whole = {
            (one.iteration, number)
            for one in steps
            for number in range(min(self.room, len(one.searches) + len(one.reads)))
        }
        told = {**asked(iteration), "complete_spans": frozenset(whole)}
        return AcceptedPlan(**told, plan=said, clamped=())


def asked(iteration: int) -> dict[str, Any]:
    return {
        "errors": (),
        "prompt_bytes": 1000 + iteration,
        "truncation": {"searches_dropped": iteration},
        "artifacts": ({"prompt": f"rlm/planner/{iteration}/attempt-1/prompt.txt"},),
        "seen": ((iteration * 10, iteration * 10 + 5),),
        "complete_spans": frozenset(),
    }


class Acting:
    """Carries everything out at once; ``limit`` is the iteration in which a budget ends."""

    def __init__(self, limit: int | None = None) -> None:
        self.limit = limit
        self.carried_out: list[int] = []

    def act(self, plan: Plan, iteration: int) -> Iteration:
        if iteration == self.limit:
            raise LimitError("the limit of 3 calls is reached", budget="max_calls")
        self.carried_out.append(iteration)
        return step(
            iteration,
            *(search(one.query, "found") for one in plan.searches),
            *(read("text", pointer=one.pointer) for one in plan.reads),
            *(subcall("said", iteration=iteration, spans=((500, 600),)) for _ in plan.subcalls),
        )


class Place:
    """A run in ``folder``; each ``ask`` is a new process that finds the same record."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "state.json"
        self.facts = Facts()
        self.now = 0.0
        self.told: list[str] = []
        self.planning = Planning(())
        self.acting = Acting()

    def ask(
        self,
        *plans: Plan | Exception,
        limits: Limits = NO_END,
        limit: int | None = None,
        room: int = 99,
    ) -> AskEnd:
        self.planning, self.acting = Planning(plans, room), Acting(limit)
        state = RunState(str(self.path), {}, mode="symbolic", turns="symbolic_iterations")
        question = Question(
            self.planning,
            self.acting,  # type: ignore[arg-type]
            max_iterations=limits[0],
            max_minutes=limits[1],
            fact=self.facts,
            clock=RunClock(self.facts, clock=lambda: self.now, now=lambda: 0.0),
            state=state,
            shown=lambda path: f"run/{path}",
            on_step=self._step,
        )
        with spans.recorded(spans.SpanLog(lambda _name, _payload: None, self._step)):
            return question.run()

    def _step(self, text: str) -> None:
        self.told.append(text)
        self.now += 30  # each step takes half a minute

    @property
    def turns(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.path.read_text())["symbolic_iterations"]
        return found


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def status(ended: AskEnd) -> tuple[str, int]:
    return ended.final.status, ended.final.exit_code


def test_plan_act_and_plan_again_until_there_is_an_answer(place: Place) -> None:
    """Spec: "Runner appends results + artifact references to rlm/state.json"; a symbolic
    recursion cycle is planner step, sub-calls, results fed back, next planner step or final.
    """
    plans = (Plan("continue", (LOOK,)), Plan("continue", (), (SEE,), (ASK,)), FINAL)
    ended = place.ask(*plans)
    assert (status(ended), ended.answer) == (("passed", 0), "So it is.")
    assert place.planning.asked == [(), (0,), (0, 1)]
    assert place.acting.carried_out == [0, 1]
    assert [turn["intent"] for turn in place.turns] == ["continue", "continue", "final"]
    assert [turn["planner_prompt_bytes"] for turn in place.turns] == [1000, 1001, 1002]
    [made] = place.turns[1]["subcalls"]
    assert made["id"] == "sc0001"
    assert place.turns[0]["planner"] == [{"prompt": "run/rlm/planner/0/attempt-1/prompt.txt"}]
    assert place.turns[2]["truncation"] == {"searches_dropped": 2}


def test_what_models_were_shown_is_what_can_be_cited(place: Place) -> None:
    """That is what stood in prompts of the planner, and what sub-calls were given."""
    ended = place.ask(Plan("continue", (), (), (ASK,)), FINAL)
    assert sorted(ended.seen) == [(0, 5), (10, 15), (500, 600)]


def test_a_turn_is_told_before_it_is_taken(place: Place) -> None:
    place.ask(Plan("continue", (LOOK, LOOK), (SEE,), (ASK,)), Plan("continue", (), (SEE,)), FINAL)
    assert place.told == [
        "iteration 0: asking for a plan", "iteration 0: 2 searches, 1 read, 1 sub-call",
        "iteration 1: asking for a plan", "iteration 1: 1 read",
        "iteration 2: asking for a plan",
    ]  # fmt: skip


def test_fail_is_the_planner_s_word(place: Place) -> None:
    ended = place.ask(Plan("fail", reason="It is \x1b[31mnot\nthere."))
    assert status(ended) == ("failed", 1)
    assert ended.final.reason == "It is \\x1b[31mnot\\nthere."
    elsewhere = place.ask(Plan("fail", reason=" ", final_answer="It is nowhere.")).final
    assert elsewhere.reason == "It is nowhere."
    assert place.ask(Plan("fail")).final.reason == "the planner gave up, and gave no reason"
    assert len(place.ask(Plan("fail", reason="x" * 9999)).final.reason) == 500


def test_a_pause_is_lifted_by_the_next_process(place: Place) -> None:
    """``pause`` leaves a resumable run; its plan is carried out when it is resumed."""
    plans = (Plan("pause", (), (SEE,), reason="Later."), FINAL)
    ended = place.ask(*plans)
    assert (status(ended), ended.final.reason) == (("paused", 3), "paused: Later.")
    assert (place.acting.carried_out, place.turns[0]["reads"]) == ([], [])
    assert status(place.ask(*plans)) == ("passed", 0)
    assert place.acting.carried_out == [0]
    assert place.turns[0]["intent"] == "pause"


def test_a_replay_goes_as_far_as_the_run_did(place: Place) -> None:
    """Replay of a paused run: paused; of one that was resumed: its end."""
    plans = (Plan("pause"), FINAL)
    place.ask(*plans)
    place.facts.only = True
    assert status(place.ask(*plans)) == ("paused", 3)
    place.facts.only = False
    place.ask(*plans)
    place.facts.only = True
    assert status(place.ask(*plans)) == ("passed", 0)


def test_pauses_that_ask_for_nothing_are_no_standing_still(place: Place) -> None:
    """Each of them was lifted by somebody; only ``continue`` plans can be idle."""
    plans = (Plan("pause"), Plan("pause"), FINAL)
    assert [place.ask(*plans).final.status for _ in range(3)] == ["paused", "paused", "passed"]


@pytest.mark.parametrize(
    ("plans", "turns"),
    [
        ([Plan("continue")], 2),
        ([Plan("continue", (LOOK,)), Plan("continue"), Plan("continue", (LOOK,))], 3),
        ([Plan("continue", (LOOK, Search("b", 1)), (SEE,)),
          Plan("continue", (LOOK.replace(reason="again"),)), Plan("continue", (), (SEE,))], 3),
        ([Plan("continue"), Plan("continue", (LOOK,)), Plan("continue"), Plan("continue")], 4),
    ],
    ids=["nothing", "the same", "part of the same", "nothing twice, later"],
)  # fmt: skip
def test_two_plans_in_a_row_that_bring_nothing_end_it(
    place: Place, plans: list[Plan], turns: int
) -> None:
    """Empty ``continue`` plans twice in a row, or the same looks again, end the run honestly."""
    ended = place.ask(*plans)
    assert status(ended) == ("no_progress", 3)
    assert len(place.turns) == turns


def test_what_differs_in_anything_but_its_reason_is_new(place: Place) -> None:
    plans = [
        Plan("continue", (LOOK,), (SEE,)),
        Plan("continue", (LOOK.replace(top_k=1),)),
        Plan("continue"),
        Plan("continue", (), (SEE.replace(offset=1),)),
        Plan("continue", (LOOK,)),
        Plan("continue", (LOOK,), (), (ASK,)),
        Plan("continue"),
        FINAL,
    ]
    assert status(place.ask(*plans)) == ("passed", 0)
    assert len(place.turns) == 8


def test_what_had_no_room_may_be_read_again(place: Place) -> None:
    """RLM_MAX_CHUNK_READS_PER_ITERATION of RLM_MAX_BYTES_PER_CHUNK_READ do not fit in a prompt:
    whoever keeps to both, and reads again what was left out, is not standing still.
    """
    reads = tuple(Read(CHUNK, 8192 * number, 8192) for number in range(8))
    plans = [Plan("continue", (), part) for part in (reads, reads[3:], reads[6:])]
    ended = place.ask(*plans, FINAL, room=3)
    assert status(ended) == ("passed", 0)
    ended = place.ask(plans[0], *[Plan("continue", (), reads[:3])] * 9, room=3)
    assert (status(ended), len(place.turns)) == (("no_progress", 3), 3)


def test_nothing_is_read_again_forever(place: Place) -> None:
    """Two plans that push each other out of the prompt come to an end without any budget."""
    ends = [Read(CHUNK, 0, 8192), Read(CHUNK, 8192, 8192)]
    plans = [Plan("continue", (), (ends[number % 2],)) for number in range(40)]
    ended = place.ask(*plans, room=0)
    assert (status(ended), len(place.turns)) == (("no_progress", 3), 8)


def test_the_same_subcalls_again_and_again_bring_nothing(place: Place) -> None:
    """One more try may be meant, for one that failed: the second in a row ends the run."""
    ended = place.ask(Plan("continue", (), (), (ASK,)))
    assert (status(ended), len(place.turns)) == (("no_progress", 3), 3)
    another = ASK.replace(expected_output="json")
    plans = (Plan("continue", (), (), asked) for asked in ((ASK,), (ASK,), (ASK, another), (ASK,)))
    assert status(place.ask(*plans, FINAL)) == ("passed", 0)


@pytest.mark.parametrize(
    ("limits", "ends", "turns"),
    [
        ((2, None), "max_iterations", 2),
        ((None, 2), "max_minutes", 2),
        ((9, 2.5), "max_minutes", 3),
        ((0, None), "max_iterations", 0),
    ],
)
def test_a_budget_ends_it_between_two_turns(
    place: Place, limits: Limits, ends: str, turns: int
) -> None:
    ended = place.ask(*(Plan("continue", (Search(f"{n}", 1),)) for n in range(99)), limits=limits)
    assert status(ended) == (ends, 3)
    assert len(place.turns if turns else []) == turns


def test_time_that_was_used_is_used_in_the_next_process_as_well(place: Place) -> None:
    plans = [Plan("continue", (Search(f"{n}", 1),)) for n in range(99)]
    place.ask(*plans[:2], Plan("pause"), limits=(None, 2))
    used = place.now
    place.now += 10_000  # nobody was at work then
    ended = place.ask(*plans, limits=(None, 2))
    assert status(ended) == ("max_minutes", 3)
    assert place.now - used - 10_000 <= 4 * 30


def test_a_limit_in_the_middle_of_a_turn_is_an_end(place: Place) -> None:
    """What was asked for is noted, without what was not carried out any more."""
    ended = place.ask(Plan("continue", (LOOK,)), Plan("continue", (), (), (ASK,)), limit=1)
    assert (status(ended), ended.final.reason) == (
        ("max_calls", 3), "the limit of 3 calls is reached",
    )  # fmt: skip
    assert [turn["intent"] for turn in place.turns] == ["continue", "continue"]
    assert place.turns[1]["subcalls"] == []
    ended = place.ask(LimitError("no money", budget="budget_usd"))
    assert status(ended) == ("budget_usd", 3)


def test_plans_that_are_none_are_noted_before_it_fails(place: Place) -> None:
    """Spec: plan_parse_error and plan_validation_error are recorded in the state."""
    errors = ({"kind": "plan_parse_error", "message": "no JSON"},) * 2
    bad = BadPlanError(
        "no plan",
        PlannerReply(**{**asked(1), "errors": errors}),
        where="rlm/planner/1",
        hint="retry",
    )
    with pytest.raises(BadPlanError):
        place.ask(Plan("continue", (LOOK,)), bad)
    last = place.turns[-1]
    assert (last["iteration"], last["intent"], last["reason"]) == (1, None, None)
    assert last["planner_errors"] == list(errors)


def test_another_error_is_not_an_end_of_its_own(place: Place) -> None:
    with pytest.raises(ConfigError, match="no key"):
        place.ask(ConfigError("no key"))
