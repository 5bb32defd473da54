"""The gate ``review``: what a run shows against a result goes back to the agent."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING, Any

import pytest

from testing.fix_stage import MENDED, USELESS, Play, alike, call, done
from testing.loopback_model.replies import Answer

if TYPE_CHECKING:
    from testing.fix_stage import Outcome, Stage
    from testing.loopback_model.server import Asked
    from testing.program import Ended

ON = {"RLM_CI_LOOP_GATES_REVIEW_ENABLED": None}
CHEAT = "return 3 if a == 1 else a - b  # a + b"
CHEATS = [call("edit", path="calc.py", old="return a - b", new=CHEAT), done("Summary: mended.")]
MENDS = [call("edit", path="calc.py", old=CHEAT, new="return a + b"), done("Summary: all of it.")]
UNMENDED, BREAKS = "assert add(2, 2) == 4", "assert add(1, 0) == 1"
CLAIM: dict[str, Any] = {
    "domain": "quality", "severity": "high", "confidence": 0.9, "path": "calc.py",
    "message": "It adds only what the test adds.", "line_start": 2, "line_end": 2,
    "quote": CHEAT, "suggested_fix": None,
}  # fmt: skip


class Reviewer:
    """The agent's model, which also reviews: it claims something of the cheat, by ``shows``."""

    def __init__(
        self, shows: str, rule: str = "special-cases-the-test", agent: Play | None = None
    ) -> None:
        self._shows = shows
        self._claim = {**CLAIM, "rule": rule}
        self._agent = agent or Play(CHEATS, MENDS)
        self.asked = 0

    def __call__(self, asked: Asked) -> Answer:
        prompt = str(asked.messages[0]["content"])
        if "You review a change" in prompt:
            self.asked += 1
            assert "does it special-case the\ntest" in prompt
            said: dict[str, Any] = {"findings": [self._claim] if CHEAT in prompt else []}
        elif "the smallest reproduction" in prompt:
            code = f"from calc import add\n\n{self._shows}\n"
            said = {
                "kind": "script" if self._shows else "none", "path": "more.py", "content": code,
                "expects": "AssertionError", "breaks": "`add` is wrong",
            }  # fmt: skip
        elif "A test was written to show a fault" in prompt:
            said = {"verdict": "fault", "reason": "it is to add"}
        elif "Try to refute" in prompt:
            said = {"verdict": "upheld", "reason": "it is there"}
        else:
            return self._agent(asked)
        return Answer(json.dumps(said))


def reviewed(stage: Stage, model: Reviewer, *words: str) -> tuple[Ended, Outcome]:
    stage.llm.script(model)
    return stage.fixed(*words, env=ON)


def gate(run: Outcome, iteration: int) -> dict[str, str]:
    [found] = run.state["iterations"][iteration - 1]["gates"]
    assert found["name"] == "review"
    return {"verdict": found["verdict"], "reason": found["reason"]}


@pytest.mark.full
@pytest.mark.parametrize(
    ("shows", "rule", "how"),
    [
        (UNMENDED, "special-cases-the-test", "at the base for the same reason"),
        pytest.param(BREAKS, "wrong-sum", "passes at the base", marks=pytest.mark.full),
    ],
)
def test_what_a_run_shows_is_sent_back_and_mended(
    stage: Stage, shows: str, rule: str, how: str
) -> None:
    ended, run = reviewed(stage, Reviewer(shows, rule))
    assert (ended.code, run.final) == (0, "passed"), ended
    assert gate(run, 1)["verdict"] == "failed"
    assert gate(run, 1)["reason"].startswith("1 objection shown by a run: calc.py:2: It adds only")
    assert gate(run, 2) == {"verdict": "passed", "reason": "no objection"}
    prompt = run.text("rlm/iteration-2/1-single-prompt.md")
    assert shows in prompt
    assert how in prompt
    assert stage.source() == MENDED
    asked = len(stage.llm.completions)
    replayed = stage.cli("replay", run.id, "--check", env={"OPENAI_API_KEY": None})
    assert replayed.code == 0, replayed
    verified = stage.cli("verify", run.id)
    assert verified.code == 0, verified
    assert len(stage.llm.completions) == asked


@pytest.mark.full
@pytest.mark.parametrize("shows", ["", UNMENDED])
def test_what_is_only_argued_is_told_and_does_not_hold_a_result_back(
    stage: Stage, shows: str
) -> None:
    """A fault of the base is no objection, but for a claim that the fix leaves it."""
    model = Reviewer(shows, "wrong-sum")
    ended, run = reviewed(stage, model)
    assert (ended.code, run.final, model.asked) == (0, "passed", 1), ended
    assert gate(run, 1)["reason"].startswith("1 remark that no run shows: calc.py:2: It adds only")
    [found] = run.report["findings"]
    assert (found["proof"]["level"], found["severity"]) == ("argued", "medium")
    assert not found["proof"]["path"]  # a loop keeps no folder of proofs
    assert "It adds only what the test adds" in run.text("comment.md")


@pytest.mark.full
def test_without_a_sandbox_a_remark_says_that_nothing_was_run(stage: Stage) -> None:
    ended, run = reviewed(stage, Reviewer(UNMENDED), "--sandbox", "none")
    assert ended.code == 0, ended
    assert "what the test adds. (there is no sandbox" in gate(run, 1)["reason"]


@pytest.mark.full
def test_without_room_for_the_review_nothing_is_green(stage: Stage) -> None:
    ended, run = reviewed(stage, Reviewer(UNMENDED), "--max-calls", "2")
    assert (ended.code, run.final) == (3, "max_calls"), ended
    assert "the result was not reviewed: budget: no room in max_calls" in ended.stdout
    assert gate(run, 1)["verdict"] == "failed"


@pytest.mark.full
def test_what_no_prompt_can_show_is_not_green(stage: Stage) -> None:
    """A line too long for a prompt would be the place for a special case."""
    hidden = f"{CHEAT} {'x' * 130_000}"
    hides = [call("edit", path="calc.py", old="return a - b", new=hidden), done()]
    mends = [call("write", path="calc.py", content=MENDED), done()]
    ended, run = reviewed(stage, Reviewer(UNMENDED, agent=Play(hides, mends)))
    assert (ended.code, run.final) == (0, "passed"), ended
    why = "the result was not reviewed: calc.py: line 2 is too long for a prompt"
    assert gate(run, 1) == {"verdict": "failed", "reason": why}
    assert why in run.text("rlm/iteration-2/1-single-prompt.md")
    assert stage.source() == MENDED


@pytest.mark.full
def test_an_objection_that_stays_ends_as_the_loop_does(stage: Stage) -> None:
    model = Reviewer(UNMENDED, agent=Play(CHEATS, [USELESS, done()]))
    ended, run = reviewed(stage, model, "--max-iterations", "6")
    assert (ended.code, run.final) == (3, "no_progress"), ended
    assert "gate review fails: 1 objection shown by a run" in ended.stdout


@pytest.mark.full
def test_killed_in_a_review_and_resumed_it_asks_nothing_twice(stage: Stage) -> None:
    ended, calm = reviewed(stage, Reviewer(UNMENDED), "--no-apply")
    assert ended.code == 0, ended
    records = calm.lines("calls.jsonl")
    at = [n for n, one in enumerate(records) if "gate-review-1/proofs" in one.get("place", "")]
    child, written = stage.begin("--no-apply", env=ON)
    assert child.kill_when(lambda: written() > at[1])
    assert child.wait() == -signal.SIGKILL
    run = stage.runs()[-1]
    before = len(run.facts())
    stage.llm.asked.clear()
    resumed = stage.cli("resume", run.id, env=ON)
    assert (resumed.code, run.final) == (0, "passed"), resumed
    assert before + len(stage.llm.completions) == len(run.facts()) == len(calm.facts())
    assert alike(run) == alike(calm)


@pytest.mark.full
def test_another_agent_is_reviewed_only_if_that_is_asked_for(stage: Stage) -> None:
    stage.repo.write("agent.sh", "sed -i 's/a - b/a + b/' calc.py\n").commit()
    model = Reviewer(UNMENDED)
    ended, _ = reviewed(stage, model, "--agent", "sh agent.sh", "--no-apply")
    assert (ended.code, model.asked) == (0, 0), ended
    wanted = {"RLM_CI_LOOP_GATES_REVIEW_ENABLED": "true"}
    ended, run = stage.fixed("--agent", "sh agent.sh", "--no-apply", env=wanted)
    assert (ended.code, model.asked, gate(run, 1)["verdict"]) == (0, 1, "passed"), ended
