"""A budget that has ended a run is raised: it goes on from there, and nothing is asked again."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from testing.fix_stage import (
    MEND,
    MENDED,
    TWO_TURNS,
    USELESS,
    Play,
    alike,
    call,
    done,
    told_plainly,
)

if TYPE_CHECKING:
    from testing.fix_stage import Outcome, Stage

#: Three turns: the first two are of no use.
THREE = Play([USELESS, done()], [call("read", path="calc.py"), done("Read.")], [MEND, done()])
#: The same, of a model that counts more tokens.
DEAR = Play(*([replace(one, usage=(3000, 500)) for one in turn] for turn in THREE.iterations))


def asked_once(stage: Stage, run: Outcome) -> None:
    bodies = [str(one.body) for one in stage.llm.completions]
    assert len(bodies) == len(set(bodies)) == len(run.facts())


@pytest.mark.full
def test_a_run_goes_on_with_more_of_what_has_ended_it(stage: Stage) -> None:
    stage.llm.script(TWO_TURNS)
    ended, run = stage.fixed("--max-iterations", "1")
    assert (ended.code, run.final) == (3, "max_iterations"), ended
    assert f"continue it: rlm-ci resume {run.id} --max-iterations N\n" in ended.stderr
    calls = len(stage.llm.completions)
    nothing = stage.cli("resume", run.id)
    assert nothing.code == 3, nothing
    assert "there is nothing to resume" in nothing.stderr
    assert f"rlm-ci resume {run.id} --max-iterations N" in nothing.stderr
    for wrong in (("--max-calls", "9"), ("--max-iterations", "1")):
        refused = stage.cli("resume", run.id, *wrong)
        assert refused.code == 2, refused
        told_plainly(refused)
    assert len(stage.llm.completions) == calls
    assert run.manifest["status_detail"] == "max_iterations"
    resumed = stage.cli("resume", run.id, "--max-iterations", "2")
    assert (resumed.code, run.final, stage.source()) == (0, "passed", MENDED), resumed
    asked_once(stage, run)
    assert run.state["maxIterations"] == 2
    assert run.report["usage"]["calls"] == len(stage.llm.completions)
    replayed = stage.cli("replay", run.id, "--check")
    assert replayed.code == 0, replayed


@pytest.mark.full
@pytest.mark.parametrize(
    ("budget", "little", "more"),
    [
        ("--max-calls", "3", "10"),
        ("--max-tokens", "14000", "900000"),
        ("--budget-usd", "0.04", "9"),
        ("--max-minutes", "0.005", "9"),
        ("--max-iterations", "2", "unlimited"),
    ],
)
def test_every_budget_can_be_raised(stage: Stage, budget: str, little: str, more: str) -> None:
    stage.llm.script(DEAR)
    _, whole = stage.fixed("--no-apply")
    stage.llm.asked.clear()
    if budget == "--max-minutes":  # no machine is so quick that it takes less
        slow = ([replace(answer, delay=0.1) for answer in turn] for turn in DEAR.iterations)
        stage.llm.script(Play(*slow))
    ended, run = stage.fixed("--no-apply", budget, little)
    status = budget[2:].replace("-", "_")
    assert (ended.code, run.final) == (3, status), ended
    resumed = stage.cli("resume", run.id, budget, more)
    assert (resumed.code, run.final) == (0, "passed"), resumed
    places = [one["place"] for one in run.facts()]
    assert len(places) == len(set(places))
    assert run.text("rlm/result.patch") == whole.text("rlm/result.patch")
    if budget != "--max-minutes":  # by which a call may have been cut off
        asked_once(stage, run)
    expected = alike(whole)
    found = alike(run)
    assert found.keys() == expected.keys()
    replayed = stage.cli("replay", run.id, "--check")
    assert replayed.code == 0, replayed


@pytest.mark.full
def test_what_was_raised_stays_when_it_is_killed_and_raised_again(stage: Stage) -> None:
    stage.llm.script(THREE)
    _, run = stage.fixed("--max-calls", "1")
    second = stage.cli("resume", run.id, "--max-calls", "2")
    assert (second.code, run.final) == (3, "max_calls"), second
    child = stage.spawn("resume", run.id, "--max-calls", "20")
    assert child.kill_when(lambda: len(run.facts("raised")) == 2)
    child.wait()
    resumed = stage.cli("resume", run.id)
    assert (resumed.code, stage.source()) == (0, MENDED), resumed
    asked_once(stage, run)
    assert stage.cli("replay", run.id, "--check").code == 0


@pytest.mark.full
def test_what_no_budget_has_ended_is_not_raised(stage: Stage) -> None:
    stage.llm.script(Play([done()]))
    ended, run = stage.fixed()
    assert (ended.code, run.final) == (3, "no_progress"), ended
    again = stage.cli("resume", run.id, "--max-iterations", "900")
    assert (again.code, "there is nothing to resume" in again.stderr) == (3, True), again
    assert "with a higher budget" not in again.stderr


@pytest.mark.full
def test_what_is_set_wrong_costs_nothing_that_was_paid(stage: Stage) -> None:
    """A run that cannot go on as things are set can, once they are set right."""
    stage.llm.script(TWO_TURNS)
    _, run = stage.fixed("--max-iterations", "1")
    more = ("resume", run.id, "--max-iterations", "2")
    refused = stage.cli(*more, env={"OPENAI_API_KEY": "", "OPENAI_BASE_URL": ""})
    assert refused.code == 5, refused
    assert run.manifest["status_detail"] == "max_iterations", "as it was"
    resumed = stage.cli(*more)
    assert (resumed.code, stage.source()) == (0, MENDED), resumed
    asked_once(stage, run)


@pytest.mark.full
def test_a_raise_that_cannot_hold_is_not_written_down(stage: Stage) -> None:
    """Calls of an agent that is not ours are not ours to count."""
    agent = "sh -c 'sleep 0.2; sed -i s/-/+/ calc.py'"
    child = stage.spawn(*stage.words("--agent", agent))
    assert child.kill_when(lambda: any(run.facts("terms") for run in stage.runs()))
    child.wait()
    run = stage.only()
    refused = stage.cli("resume", run.id, "--max-calls", "9")
    assert refused.code == 5, refused
    assert run.facts("raised") == []
    resumed = stage.cli("resume", run.id)
    assert (resumed.code, stage.source()) == (0, MENDED), resumed


@pytest.mark.full
def test_a_fix_that_began_as_a_question_can_be_raised(stage: Stage) -> None:
    """Its context could not be built, so it mends; what its end says to do, works."""
    stage.llm.script(TWO_TURNS)
    words = ("--context", "missing.txt", "--max-iterations", "1")
    ended, run = stage.fixed(*words)
    assert (ended.code, run.final) == (3, "max_iterations"), ended
    resumed = stage.cli("resume", run.id, "--max-iterations", "2")
    assert (resumed.code, stage.source()) == (0, MENDED), resumed
