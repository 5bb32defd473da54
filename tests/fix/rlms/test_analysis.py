"""Analyses before turns, in real runs: what a role gets, and that nothing gets out of bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.resources import loader
from testing.analyses import FORCED, answer, cast, finding
from testing.fix_stage import MEND, MENDED, USELESS, Play, alike, done, write
from testing.loopback_model.replies import refusal
from testing.repl_stage import repl

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from testing.fix_stage import Outcome, Stage
    from testing.loopback_model.replies import Reply

GOAL = "make the tests of calc.py pass"
ROLES = ("planner", "implementer", "tester", "reviewer")
FIX = Play([done("Plan."), MEND, done("Mended."), done("Tested."), done("Verdict: accept")])
EVENTS = {"rlms_decision", "rlms_start", "rlms_end", "rlms_failed", "rlms_skipped"}
ASK = "print(llm_query_batched(['What?'] * 3))"
DEEP = """\
text = rlm_query('go on', context)
print(text)
"""


def events(run: Outcome) -> list[tuple[str, str]]:
    """The names of the events of analyses, and the roles."""
    found = []
    for one in run.lines("events.jsonl"):
        if one["event"] in EVENTS:
            loader.validate(one, "event.schema.json", "event")
            found.append((one["payload"]["role"], one["event"]))
    return found


def results(run: Outcome) -> dict[str, dict[str, Any]]:
    """The result for each role, in the first iteration."""
    found = {}
    for role in ROLES:
        if (run.folder / f"rlm/rlms/{role}-iter-1.json").exists():
            found[role] = told = run.json(f"rlm/rlms/{role}-iter-1.json")
            loader.validate(told, "rlms.schema.json", role)
    return found


def env(**limits: object) -> dict[str, str | None]:
    more = {f"RLM_CI_LOOP_RLMS_{name.upper()}": str(value) for name, value in limits.items()}
    return {**FORCED, **more}


def ended(
    stage: Stage, turns: Mapping[str, Sequence[Reply]], code: int = 0, **limits: object
) -> Outcome:
    stage.llm.script(cast(turns, FIX))
    done, run = stage.fixed("--no-apply", "--roles", "superloop", goal=GOAL, env=env(**limits))
    assert done.code == code, done
    return run


@pytest.mark.full
def test_no_failure_of_an_analysis_keeps_the_loop_from_its_goal(stage: Stage) -> None:
    """Each analysis fails in another way; no role is offered anything, and nothing is invented."""
    nonsense: list[Reply] = [repl("FINAL('The bug is in calc.py:2.')")]
    sound = repl("print(len(context))")  # before an answer that is not
    turns: dict[str, Sequence[Reply]] = {
        "planner": [refusal(400, "No.")],
        "implementer": [repl("1 / 0")],
        "tester": nonsense,
        "reviewer": [f"{sound}\n{answer(finding('missing.py', 9999))}"],
    }
    run = ended(stage, turns)
    found = results(run)
    codes = {role: one["error_code"] for role, one in found.items()}
    assert codes == {
        "planner": "model_invocation_failed",
        "implementer": "worker_failure",
        "tester": "invalid_worker_output",
        "reviewer": "invalid_worker_output",
    }
    steps = {role: one["metrics"]["steps"] for role, one in found.items()}
    assert steps == {"planner": 1, "implementer": 5, "tester": 3, "reviewer": 3}, (
        "asked again twice"
    )
    assert "ZeroDivisionError" in found["implementer"]["error"]
    assert "missing.py:9999: the context has no such file" in found["reviewer"]["error"]
    for one in found.values():
        assert (one["ok"], one["findings"], one["citations"], one["final"]) == (False, [], [], "")
        assert one["errors"] == [{"code": one["error_code"], "message": one["error"]}]
    names = ("rlms_decision", "rlms_start", "rlms_failed")
    assert events(run) == [(role, name) for role in ROLES for name in names]
    index = run.json("rlm/rlms/index.json")
    assert index["current"] == dict.fromkeys(ROLES)
    assert [one["status"] for one in index["entries"]] == ["failed"] * 4
    [turns_taken] = [one["turns"] for one in run.state["iterations"]]
    assert [one["analysis"] for one in turns_taken] == [None] * 4
    assert "An analysis for you" not in run.text("rlm/iteration-1/1-planner-prompt.md")
    metrics = run.report["parts"][0]["metrics"]
    assert (metrics["analyses"], metrics["failed_analyses"].count("iteration 1")) == (None, 4)


@pytest.mark.full
def test_with_its_defaults_it_reads_what_the_failures_name_and_then_what_has_changed(
    stage: Stage,
) -> None:
    stage.llm.script(cast({"": [answer(finding("test_calc.py", 1))]}, FIX))
    large = {"RLM_CI_LOOP_RLMS_ENABLED": "true", "RLM_CI_LOOP_RLMS_AUTO_MAX_LINES": "1"}
    done, run = stage.fixed("--no-apply", "--roles", "superloop", goal="Make it work", env=large)
    assert (done.code, run.final) == (0, "passed"), done
    found = results(run)
    assert {role: one["reason"] for role, one in found.items()} == dict.fromkeys(
        ROLES, "hybrid_auto"
    )
    assert found["planner"]["ok"]
    assert "test_calc.py" in found["planner"]["files"]
    assert "calc.py" in found["reviewer"]["files"]
    assert stage.cli("replay", run.id, "--check").code == 0


@pytest.mark.full
def test_each_limit_is_hard(stage: Stage) -> None:
    stage.llm.script(cast({}, FIX))
    turns: dict[str, Sequence[Reply]] = {
        "planner": [repl("print(1)")],
        "implementer": [repl(ASK)],
        "tester": [repl("while True: pass")],
        "reviewer": [repl(DEEP), repl(DEEP), answer(finding())],
    }
    run = ended(stage, turns, limits_max_steps=3, limits_max_subcalls=2, limits_max_depth=1,
                limits_timeout_seconds=6)  # fmt: skip
    found = results(run)
    told = {role: one["error"] for role, one in found.items()}
    assert "the limit of 3 steps is reached" in told["planner"]
    assert "the limit of 2 sub-calls is reached" in told["implementer"]
    assert "the limit of 6 seconds is reached" in told["tester"]
    assert found["implementer"]["metrics"]["subcalls"] == 2
    assert all(one["metrics"]["steps"] <= 3 for one in found.values())
    assert all(one["metrics"]["subcalls"] <= 2 for one in found.values())
    assert all(one["metrics"]["depth"] <= 1 for one in found.values())
    assert found["reviewer"]["metrics"]["depth"] == 1


@pytest.mark.full
def test_a_role_asks_by_its_last_answer_and_is_offered_nothing_old(stage: Stage) -> None:
    asks, busy = done("RLMS_REQUEST: it is long"), done("Done.")
    play = Play([USELESS, asks], [write("more.txt", "x\n"), busy], [MEND, busy])
    stage.llm.script(cast({"": [answer(finding())]}, play))
    found, run = stage.fixed("--no-apply", goal=GOAL, env={"RLM_CI_LOOP_RLMS_ENABLED": "true"})
    assert found.code == 0, found
    names = ["rlms_decision", "rlms_skipped", "rlms_decision", "rlms_start", "rlms_end"]
    assert [name for _, name in events(run)] == [*names, "rlms_decision", "rlms_skipped"]
    index = run.json("rlm/rlms/index.json")
    told = [(one["status"], one["reason"]) for one in index["entries"]]
    no = ("skipped", "hybrid_not_met")
    assert told == [no, ("ok", "hybrid_requested"), no]
    assert index["current"] == {"single": None}
    prompts = [run.text(f"rlm/iteration-{n}/1-single-prompt.md") for n in (1, 2, 3)]
    assert ["single-iter-2.json" in one for one in prompts] == [False, True, False]
    assert "write a line `RLMS_REQUEST: why`" in prompts[0]


@pytest.mark.full
def test_fail_role_ends_the_run_which_can_be_resumed(stage: Stage) -> None:
    bad, good = {"planner": [refusal(400, "No.")]}, {"": [answer(finding())]}
    more = {"policy_fail_mode": "fail_role"}
    run = ended(stage, bad, 1, **more)
    assert (run.final, run.manifest["status_detail"]) == ("failed", "paused")
    assert "rlm/analysis-failed" in run.text("report.json")
    assert results(run)["planner"]["error_code"] == "model_invocation_failed"
    replayed = stage.cli("replay", run.id, "--check")
    assert replayed.code in (0, 1), replayed
    assert "the report is the same" in replayed.stderr
    stage.llm.script(cast(good, FIX))
    resumed = stage.cli("resume", run.id)
    assert resumed.code == 0, resumed
    assert run.final == "passed"
    assert all(one["ok"] for one in results(run).values())
    replayed = stage.cli("replay", run.id, "--check")
    assert "the report is the same" in replayed.stderr, replayed


@pytest.mark.full
def test_what_a_run_wrote_follows_from_its_record(stage: Stage) -> None:
    turns: dict[str, Sequence[Reply]] = {
        "": [repl(ASK), repl("print(rlm_query('And?', context[:20]))"), answer(finding())]
    }
    run = ended(stage, turns, roles_tester="false")
    assert set(results(run)) == {"planner", "implementer", "reviewer"}
    assert ("tester", "rlms_skipped") in events(run)
    asked = len(stage.llm.completions)
    for words in (("replay", run.id, "--check"), ("verify", run.id)):
        checked = stage.cli(*words)
        assert checked.code == 0, checked
    assert len(stage.llm.completions) == asked
    other = next(one for one in stage.runs() if one.id != run.id)
    names = {name for name in alike(run) if name.startswith("rlm/rlms/")}
    assert len(names) > 20
    assert names == {name for name in alike(other, run) if name.startswith("rlm/rlms/")}
    assert stage.cli("view", run.id).code == 0
    page = run.text("view.html")
    assert "rlm/rlms/planner-iter-1.json" in page
    assert "Analysis for the reviewer" in page
    assert stage.source() != MENDED
