"""How a question ends: each intent, each budget, each way of getting nowhere, and its exit code."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.resources import loader
from testing.ask_stage import (  # fmt: skip
    ANSWER,
    NOBODY,
    REFUSED,
    Script,
    chunk,
    final,
    going_on,
    iteration_of,
    left,
    prompt_of,
    read,
    span,
    subcall,
)
from testing.fix_stage import told_plainly
from testing.loopback_model.replies import Answer, refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from testing.ask_stage import Asking
    from testing.fix_stage import Outcome
    from testing.loopback_model.replies import Reply

PROSE = f"One of these:\n{json.dumps(going_on())}\n{json.dumps(going_on())}"
#: Looks for something else in each iteration, without an end.
BUSY = [going_on(searches=[{"query": f"order {n}"}]) for n in range(99)]


def turns(run: Outcome) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = run.state["symbolic_iterations"]
    return found


# ── intents ──


@pytest.mark.full
def test_final_before_anything_else(stage: Asking) -> None:
    """Decision 6: ``final`` before any sub-call is allowed."""
    stage.llm.script(Script(final()))
    ended, run = stage.ask()
    assert (ended.code, run.final) == (0, "passed"), ended
    assert ANSWER in " ".join(ended.stdout.split())
    assert "it cites nothing" in run.report["parts"][0]["summary"]


def test_fail_has_the_planner_s_reason(stage: Asking) -> None:
    """Decision 13c, contract: ``fail`` ends with 1, its reason is the finding. Spec: "Initialize
    rlm/state.json with context.object_id, chunk_count, budgets", before the first plan.
    """
    begun: list[dict[str, Any]] = []

    def fail(_prompt: str) -> dict[str, Any]:
        begun.append(stage.only().state)
        return going_on("fail", reason="The log says nothing of payments.")

    stage.llm.script(Script(fail))
    ended, run = stage.ask()
    [first] = begun
    assert (first["context"], first["budgets"]) == (run.state["context"], run.state["budgets"])
    assert (first["symbolic_iterations"], first["final"]) == ([], None)
    assert not loader.misfit(first, "state.schema.json")
    assert (ended.code, run.final) == (1, "failed"), ended
    [finding] = run.report["findings"]
    assert finding["rule"] == "rlm/failed"
    assert finding["message"] == "The log says nothing of payments."
    assert "The log says nothing of payments." in ended.stdout
    assert ended.stdout.startswith("the question  rlm/failed  high")
    assert run.report["documents"] == []


def test_pause_leaves_a_run_that_goes_on(stage: Asking) -> None:
    """``pause`` leaves a resumable run (exit 3, status paused); what it asks for is carried out
    when it is resumed. A replay of a run that was paused, and of one that went on, is the same.
    """
    paused = going_on("pause", reason="Ask me tomorrow.", reads=[read(chunk(1), 90)])
    stage.llm.script(Script(paused, final(f"{ANSWER} [{span(0, 90)}].")))
    ended, run = stage.ask()
    assert (ended.code, run.final) == (3, "paused"), ended
    assert run.report["verdict"] == "incomplete"
    assert run.state["final"]["reason"] == "paused: Ask me tomorrow."
    assert run.manifest["status_detail"] == "paused"
    assert [turn["intent"] for turn in turns(run)] == ["pause"]
    assert turns(run)[0]["reads"] == []
    replayed = stage.cli("replay", run.id, "--check", env=NOBODY)
    assert replayed.code == 0, replayed
    resumed = stage.cli("resume", run.id)
    assert (resumed.code, run.final) == (0, "passed"), resumed
    assert [turn["intent"] for turn in turns(run)] == ["pause", "final"]
    assert turns(run)[0]["reads"][0]["bytes"] == 90
    assert run.report["evidence"]["verified"] == 1
    assert len(stage.llm.completions) == 2
    replayed = stage.cli("replay", run.id, "--check", env=NOBODY)
    assert replayed.code == 0, replayed
    assert left(stage.runs()[-1]) == left(run)


@pytest.mark.full
def test_each_pause_is_lifted_by_one_resume(stage: Asking) -> None:
    stage.llm.script(Script(going_on("pause"), going_on("pause"), final()))
    ended, run = stage.ask()
    assert (ended.code, run.final) == (3, "paused"), ended
    assert stage.cli("resume", run.id).code == 3
    assert [turn["intent"] for turn in turns(run)] == ["pause", "pause"]
    assert stage.cli("resume", run.id).code == 0
    assert len(stage.llm.completions) == 3


# ── getting nowhere ──


@pytest.mark.parametrize(
    ("plans", "iterations"),
    [
        ([going_on()], 2),
        (
            [
                going_on(searches=[{"query": "error"}], reads=[read(chunk(1), 50)]),
                going_on(reads=[read(chunk(1), 50, reason="again")]),
                going_on(searches=[{"query": "error", "top_k": 20, "reason": "and again"}]),
            ],
            3,
        ),
    ],
    ids=["empty", "the same again"],
)
@pytest.mark.sample(1)
def test_plans_that_bring_nothing_end_it(
    stage: Asking, plans: Sequence[Any], iterations: int
) -> None:
    """Empty ``continue`` plans twice in a row end the run honestly; so do the same searches and
    reads again: no_progress, exit 3.
    """
    stage.llm.script(Script(*plans))
    ended, run = stage.ask()
    assert (ended.code, run.final) == (3, "no_progress"), ended
    assert len(turns(run)) == iterations
    assert run.report["verdict"] == "incomplete"
    assert "2 plans in a row asked for nothing new" in ended.stdout


@pytest.mark.parametrize(
    ("arguments", "status", "asked"),
    [
        (("--max-calls", "3"), "max_calls", 3),
        (("--max-iterations", "2"), "max_iterations", 2),
        (("--max-tokens", "9000"), "max_tokens", None),
        (("--budget-usd", "0.02"), "budget_usd", None),
        (("--max-minutes", "0.01"), "max_minutes", None),
    ],
    ids=["calls", "iterations", "tokens", "usd", "minutes"],
)
@pytest.mark.sample(1)
def test_a_budget_ends_it(
    stage: Asking, arguments: Sequence[str], status: str, asked: int | None
) -> None:
    """Exit 3 with the budget's name as final.status; the ledger is never overspent."""

    def play(request: Any) -> Reply:
        said = Script(*BUSY)(request)
        assert isinstance(said, str)
        return Answer(said, delay=0.3) if status == "max_minutes" else said

    stage.llm.script(play)
    ended, run = stage.ask(*arguments)
    assert (ended.code, run.final) == (3, status), ended
    assert run.report["verdict"] == "incomplete"
    assert asked is None or len(stage.llm.completions) == asked
    usage = run.report["usage"]
    if status == "max_tokens":
        assert usage["prompt_tokens"] + usage["completion_tokens"] <= 9000
    if status == "budget_usd":
        assert 0 < usage["cost_usd"] <= 0.02
    replayed = stage.cli("replay", run.id, "--check", env=NOBODY)
    assert replayed.code == 0, replayed


# ── answers that are no plan ──


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("bad", "kind", "told"),
    [
        (PROSE, "plan_parse_error", "not one JSON object and nothing else"),
        (json.dumps(going_on("stop")), "plan_validation_error", "stop"),
    ],
    ids=["parse", "schema"],
)
def test_a_bad_plan_is_repaired_once(stage: Asking, bad: str, kind: str, told: str) -> None:
    """Spec: "record plan_parse_error in rlm/state.json and retry planner once with an explicit
    'return valid JSON only' repair prompt"; "record plan_validation_error and retry once".
    """
    stage.llm.script(Script([bad, final()]))
    ended, run = stage.ask()
    assert ended.code == 0, ended
    [turn] = turns(run)
    [error] = turn["planner_errors"]
    assert error["kind"] == kind
    assert told in error["message"]
    assert len(turn["planner"]) == 2
    assert (run.folder / "rlm/planner/0/attempt-1/output.txt").read_text() == bad
    first, second = stage.prompts()
    assert "Return valid JSON only" not in first
    assert "Return valid JSON only" in second
    assert told in second


@pytest.mark.parametrize(
    ("bad", "worse", "kinds"),
    [
        (PROSE, "no, really", ["plan_parse_error", "plan_parse_error"]),
        ({"intent": "final"}, going_on("stop"), ["plan_validation_error"] * 2),
        (PROSE, going_on(reads=[{"pointer": chunk(99), "bytes": 1}]),
         ["plan_parse_error", "plan_validation_error"]),
    ],
    ids=["parse", "schema", "both"],
)  # fmt: skip
@pytest.mark.sample(1)
def test_bad_twice_is_a_hard_failure(stage: Asking, bad: Any, worse: Any, kinds: list[str]) -> None:
    """Spec: "If it fails twice, hard-fail with invalid_config"; "hard-fail with actionable
    error". Exit 5, both errors recorded in the state, the answers kept.
    """
    stage.llm.script(Script(going_on(searches=[{"query": "error"}]), [bad, worse]))
    ended, run = stage.ask()
    assert ended.code == 5, ended
    told_plainly(ended)
    assert "rlm/planner/1" in ended.stderr
    assert "take a model that keeps to JSON" in ended.stderr
    assert run.state["final"]["status"] == "invalid_config"
    assert run.state["final"]["exitCode"] == 5
    last = turns(run)[-1]
    assert (last["iteration"], last["intent"]) == (1, None)
    assert [error["kind"] for error in last["planner_errors"]] == kinds
    assert len(stage.llm.completions) == 3


@pytest.mark.full
def test_a_plan_that_is_bad_again_after_a_resume_is_told_as_before(stage: Asking) -> None:
    """Each resume allows two more answers; all stand in the state, which fits its schema."""
    stage.llm.script(Script([PROSE, PROSE, PROSE, PROSE]))
    ended, run = stage.ask()
    for attempts in (2, 4):
        assert ended.code == 5, ended
        [turn] = turns(run)
        assert (len(turn["planner"]), len(turn["planner_errors"])) == (attempts, attempts)
        assert not loader.misfit(run.state, "state.schema.json"), run.state
        assert stage.cli("verify", run.id).code == 0
        if attempts == 2:
            ended = stage.cli("resume", run.id)


@pytest.mark.full
def test_an_unknown_purpose_is_rejected(stage: Asking) -> None:
    """Spec: "Unknown purpose values are rejected ... deterministically"; decision 23a: in the
    same repair round as any schema error.
    """
    bad = going_on(subcalls=[subcall(chunk(1), purpose="translate")])
    stage.llm.script(Script([bad, final()]))
    ended, run = stage.ask()
    assert ended.code == 0, ended
    [error] = turns(run)[0]["planner_errors"]
    assert error["kind"] == "plan_validation_error"
    assert "translate" in error["message"]
    assert not stage.subcalls()


# ── what is clamped, and what fails ──


@pytest.mark.full
def test_what_is_too_much_is_clamped_and_recorded(stage: Asking) -> None:
    """Spec: "Clamp reads, searches, subcalls counts to per-iteration budgets and record any
    clamping in state"; "bytes clamped to RLM_MAX_BYTES_PER_CHUNK_READ"; ``top_k`` defaults to
    RLM_SEARCH_TOP_K. Each budget under its name.
    """
    env = {
        "RLM_MAX_SUBCALLS_PER_ITERATION": "2", "RLM_MAX_CHUNK_READS_PER_ITERATION": "1",
        "RLM_MAX_BYTES_PER_CHUNK_READ": "100", "RLM_SEARCH_TOP_K": "1",
        "RLM_MAX_PREVIEW_BYTES": "40", "RLM_MAX_CONCURRENCY": "1",
    }  # fmt: skip
    plan = going_on(
        searches=[
            {"query": "settled"},
            {"query": "error", "top_k": 9},
            *({"query": name} for name in ("worker", "order", "state")),
        ],
        reads=[read(chunk(1), 10**12), read(chunk(2))],
        subcalls=[
            subcall(chunk(1), size=10**9),
            subcall(snippets=[read(chunk(1), 9000), *[read(chunk(2), 60)] * 8]),
            subcall(chunk(3)),
        ],
    )
    stage.llm.script(Script(plan, final()))
    ended, run = stage.ask(env=env)
    assert ended.code == 0, ended
    turn = turns(run)[0]
    assert {row["what"]: (row["asked"], row["given"]) for row in turn["clamped"]} == {
        "searches": (5, 4), "reads": (2, 1), "subcalls": (3, 2), "searches[1].top_k": (9, 1),
        "reads[0].bytes": (10**12, 100), "subcalls[0].max_input_bytes": (10**9, 120_000),
        "subcalls[1].snippets": (9, 8), "subcalls[1].snippets[0].bytes": (9000, 8192),
    }  # fmt: skip
    assert [search["top_k"] for search in turn["searches"]] == [1] * 4
    assert [len(search["hits"]) for search in turn["searches"]] == [1] * 4
    assert [read["bytes"] for read in turn["reads"]] == [100]
    assert [subcall["input_bytes"] for subcall in turn["subcalls"]] == [65536, 4000]
    previews = [
        section["end"] - section["start"]
        for section in json.loads(run.text("rlm/planner/1/attempt-1/meta.json"))["sections"]
        if section["kind"] == "search"
    ]
    assert len(previews) == 4
    assert max(previews) <= 40


def test_a_failed_subcall_is_a_result(stage: Asking) -> None:
    """A failed sub-call is a typed result for the planner, not the end of the run; its artifacts
    are kept; ``model`` is honoured. Replayed, the planner is told the same.
    """
    stage.llm.models = ["gpt-4o-mini"]
    plan = going_on(
        subcalls=[subcall(chunk(1), model="no-such-model"), subcall(chunk(2), purpose="classify")]
    )
    stage.llm.script(Script(plan, final()))
    ended, run = stage.ask()
    assert ended.code == 0, ended
    failed, good = turns(run)[0]["subcalls"]
    assert (failed["status"], good["status"]) == ("failed", "succeeded")
    assert "no-such-model" in failed["error"]
    folder = run.folder / "rlm/subcalls/0/sc0001"
    assert sorted(path.name for path in folder.iterdir()) == [
        "input.json", "meta.json", "output.txt", "prompt.txt",
    ]  # fmt: skip
    assert json.loads((folder / "meta.json").read_text())["status"] == "failed"
    assert "no-such-model" in stage.prompts()[-1]
    replayed = stage.cli("replay", run.id, "--check", env=NOBODY)
    assert replayed.code == 0, replayed


@pytest.mark.full
def test_outputs_are_read_again_by_pointer(stage: Asking) -> None:
    """Outputs of earlier sub-calls can be read again by pointer (``subcall:<iteration>:<id>``),
    and given to other sub-calls: spec, "symbolic recursion cycle".
    """
    again = "subcall:0:sc0001"
    stage.llm.script(
        Script(
            going_on(subcalls=[subcall(chunk(1))]),
            going_on(reads=[read(again, 8, offset=3)], subcalls=[subcall(again, purpose="verify")]),
            final(),
        )
    )
    ended, run = stage.ask()
    assert ended.code == 0, ended
    output = (run.folder / "rlm/subcalls/0/sc0001/output.txt").read_text()
    assert output in stage.subcalls()[-1]
    [entry] = turns(run)[1]["reads"]
    assert (entry["start_byte"], entry["end_byte"]) == (3, 11)


@pytest.mark.full
def test_subcalls_run_at_once_and_stay_in_order(stage: Asking) -> None:
    """Spec: "Runner may execute subcalls concurrently up to RLM_MAX_CONCURRENCY"; the results
    stand in the plan's order, whoever answered first.
    """
    plan = going_on(subcalls=[subcall(chunk(1), size=500 + n) for n in range(4)])
    script = Script(plan, final())
    under_way, most = 0, 0

    def play(request: Any) -> Reply:
        nonlocal under_way, most
        if iteration_of(request) is not None:
            return script(request)
        with stage.llm.lock:
            under_way += 1
            most = max(most, under_way)
            number = under_way
        time.sleep(0.3 / number)  # whoever came last is the first to be answered
        with stage.llm.lock:
            under_way -= 1
        return f"Answer to {len(prompt_of(request))} characters."

    stage.llm.script(play)
    ended, run = stage.ask(env={"RLM_MAX_CONCURRENCY": "3"})
    assert ended.code == 0, ended
    assert most == 3
    entries = turns(run)[0]["subcalls"]
    assert [one["id"] for one in entries] == ["sc0001", "sc0002", "sc0003", "sc0004"]
    assert [one["input_bytes"] for one in entries] == [500, 501, 502, 503]
    for one in entries:
        prompt = run.text(f"rlm/subcalls/0/{one['id']}/prompt.txt")
        output = run.text(f"rlm/subcalls/0/{one['id']}/output.txt")
        assert output == f"Answer to {len(prompt)} characters."


@pytest.mark.full
def test_an_endpoint_without_schemas_is_asked_without_one(stage: Asking) -> None:
    """Decision 13c: structured output is tried on the first planner call, and remembered."""
    stage.llm.unknown_parameter = "response_format"
    ended, run = stage.ask()
    assert ended.code == 0, ended
    assert ["response_format" in one.body for one in stage.llm.completions].count(True) == 1
    assert run.report["usage"]["calls"] == 5


@pytest.mark.full
def test_a_service_that_stays_away_is_waited_for_by_a_resume(stage: Asking) -> None:
    """Exit 8; what was paid for before is not asked for again."""
    script = Script(going_on(reads=[read(chunk(1), 50)]), final())
    stage.llm.script(
        lambda asked: script(asked) if not iteration_of(asked) else refusal(401, "no such key")
    )
    ended, run = stage.ask()
    assert (ended.code, run.final) == (8, "error"), ended
    told_plainly(ended)
    stage.llm.script(script)
    resumed = stage.cli("resume", run.id)
    assert (resumed.code, run.final) == (0, "passed"), resumed
    assert len(run.facts()) == 2


# ── citations ──


@pytest.mark.full
def test_a_citation_that_does_not_hold_is_marked(stage: Asking) -> None:
    """Unverifiable citations are counted and marked; the answer stands."""
    other = f"ctx:sha256:{'0' * 64}#chunk:c000001"
    stage.llm.script(
        Script(
            going_on(searches=[{"query": "gateway"}]),
            final(f"Because [{span(0, 9)}], see {other} and {chunk(99)}, and {chunk(2)}."),
        )
    )
    ended, run = stage.ask()
    assert ended.code == 0, ended
    assert run.report["evidence"] == {"offered": 4, "verified": 1, "reanchored": 0, "rejected": 3}
    assert {one["rule"] for one in run.report["findings"]} == {"rlm/unverified-citation"}
    text = run.report["documents"][0]["text"]
    assert text.count("[unverified: ") == 3
    assert "[unverified: chunk c000099]" in text  # the object's id says nothing to a person
    assert "3 could not be verified" in run.report["parts"][0]["summary"]
    assert REFUSED in stage.prompts()[-1]


# ── what cannot begin ──


@pytest.mark.parametrize(
    ("env", "arguments", "told"),
    [
        (NOBODY, (), "no model is set up"),
        ({}, ("--agent", "codex"), "not the agent 'codex'"),
        ({"RLM_MAX_PLANNER_PROMPT_BYTES": "2000"}, (), "RLM_MAX_PLANNER_PROMPT_BYTES"),
        ({"RLM_CHUNK_OVERLAP_BYTES": "70000"}, ("--mode", "symbolic"), "RLM_CHUNK_OVERLAP_BYTES"),
        ({"RLM_SEARCH_TOP_K": "0"}, (), "RLM_SEARCH_TOP_K"),
    ],
    ids=["nobody", "agent", "prompt", "overlap", "top_k"],
)
@pytest.mark.sample(2)
def test_what_cannot_begin_says_why(
    stage: Asking, env: dict[str, str | None], arguments: Sequence[str], told: str
) -> None:
    """Exit 5, one error and one hint, and nobody is asked."""
    ended = stage.cli(*stage.words("--context", "service.log", *arguments), env=env)
    assert ended.code == 5, ended
    told_plainly(ended)
    assert told in ended.stderr
    assert not stage.llm.completions
