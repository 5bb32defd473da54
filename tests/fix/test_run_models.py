"""What a model's endpoint, the settings for it and earlier answers do to a whole run."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from testing.fix_stage import BUG, MENDED, TWO_TURNS, USELESS, Play, done, told_plainly
from testing.loopback_model.replies import Answer, slow_headers

if TYPE_CHECKING:
    from pathlib import Path

    from testing.fix_stage import Stage
    from testing.loopback_model.replies import Reply

pytestmark = pytest.mark.full

#: Ways to keep a run waiting.
SLOW: dict[str, Reply] = {
    "silence": Answer("late", delay=40),
    "a byte now and then": Answer("x" * 5000, drip=0.2),
    "headers without an end": slow_headers(0.2),
}
#: A run without a validator has no mark in its prompts that only it knows.
UNVALIDATED = ("--validator", "none", "--max-iterations", "1")


@pytest.mark.parametrize("reply", SLOW.values(), ids=list(SLOW))
def test_the_minutes_hold_while_a_model_is_asked(stage: Stage, reply: Reply) -> None:
    """Time budgets hold, whatever the endpoint does; what may have been spent is charged."""
    stage.llm.script([reply] * 5)
    began = time.monotonic()
    ended, run = stage.fixed("--max-minutes", "0.15")  # a busy machine needs some of it to begin
    assert time.monotonic() - began < 30
    assert (ended.code, run.final) == (3, "max_minutes"), ended
    assert len(stage.llm.completions) == run.report["usage"]["calls"] == 1
    # Of an answer that came in part the part is charged: the run has no limit of tokens or money.
    charged = run.report["usage"]["completion_tokens"]
    assert 0 < charged < 4096 if reply is SLOW["a byte now and then"] else charged == 4096


def test_the_timeout_bounds_an_answer_that_drips(stage: Stage) -> None:
    stage.llm.script([slow_headers(0.2)] * 5)
    ended, run = stage.fixed(env={"RLM_CI_MODELS_TIMEOUT": "3"})
    assert ended.code == 8, ended
    told_plainly(ended)
    assert "the answer was not whole after 3 seconds" in ended.stderr
    assert len(stage.llm.completions) == 2, "it is asked once more, and no more than that"
    assert run.manifest["status"] == "failed"


WRONG = {
    "a URL with a bracket": ({"OPENAI_BASE_URL": "http://[::1"}, "OPENAI_BASE_URL"),
    "a port that is none": ({"OPENAI_BASE_URL": "http://localhost:abc/v1"}, "OPENAI_BASE_URL"),
    "an empty label": ({"OPENAI_BASE_URL": "http://a..b/v1"}, "OPENAI_BASE_URL"),
    "a key that is none": ({"OPENAI_API_KEY": "clé-0123456789"}, "OPENAI_API_KEY"),
    "a proxy that is none": ({"HTTP_PROXY": "foo://x", "NO_PROXY": None}, "HTTP_PROXY"),
    "no certificates": ({"SSL_CERT_FILE": "/nowhere.pem"}, "SSL_CERT_FILE"),
}


@pytest.mark.parametrize(("env", "named"), WRONG.values(), ids=list(WRONG))
def test_a_wrong_setting_is_named(stage: Stage, env: dict[str, str | None], named: str) -> None:
    ended = stage.rlm(env=env)
    assert ended.code == 5, ended
    told_plainly(ended)
    assert named in ended.stderr
    assert stage.llm.completions == []


def test_what_decides_a_request_is_agreed_on_at_the_beginning(stage: Stage) -> None:
    """No journalled answer is asked for again, whatever is set when the run goes on."""
    stage.llm.script(TWO_TURNS)
    first = {"RLM_CI_MODELS_MAX_COMPLETION_TOKENS": "3000"}
    child = stage.spawn(*stage.words(), env=first)
    child.kill_when(lambda: len(stage.llm.completions) >= 3)
    child.wait()
    run = stage.only()
    answered = len(run.facts())
    before = len(stage.llm.completions)
    resumed = stage.cli("resume", run.id, env={"RLM_CI_MODELS_MAX_COMPLETION_TOKENS": "7000"})
    assert resumed.code == 0, resumed
    assert run.final == "passed"
    assert len(stage.llm.completions) - before == 5 - answered
    assert {asked.cap for asked in stage.llm.completions} == {3000}
    assert stage.source() == MENDED


def test_the_provider_is_agreed_on_at_the_beginning(stage: Stage) -> None:
    stage.llm.script(TWO_TURNS)
    azure = {"OPENAI_BASE_URL": stage.llm.origin, "OPENAI_API_VERSION": "2024-10-21"}
    ended, run = stage.fixed(env=azure)
    assert ended.code == 0, ended
    stage.repo.write("calc.py", BUG)
    asked = len(stage.llm.completions)
    replayed = stage.cli("replay", run.id, "--check", env={"OPENAI_API_KEY": None})
    assert replayed.code == 0, replayed
    assert len(stage.llm.completions) == asked


def test_a_run_does_not_go_on_with_another_provider(stage: Stage) -> None:
    stage.llm.script(TWO_TURNS)
    child = stage.spawn(*stage.words())
    child.kill_when(lambda: len(stage.llm.completions) >= 2)
    child.wait()
    azure = {"OPENAI_BASE_URL": stage.llm.origin, "OPENAI_API_VERSION": "2024-10-21"}
    ended = stage.cli("resume", stage.only().id, env=azure)
    assert ended.code == 5, ended
    assert "the run began with openai, and would use azure now" in ended.stderr


def test_a_call_that_was_lost_with_its_process_is_told(stage: Stage) -> None:
    """At most the calls in flight at the kill are repeated, and counted."""
    stage.llm.script(Play([Answer("", calls=USELESS.calls, delay=0.3), done()]))
    child = stage.spawn(*stage.words(*UNVALIDATED))
    child.kill_when(lambda: bool(stage.llm.completions))
    child.wait()
    ended = stage.cli("resume", stage.only().id)
    assert ended.code == 0, ended
    assert "asked again, because their answers were lost: 1 call" in ended.stderr
    assert len(stage.llm.completions) == 3


def test_the_answers_of_earlier_runs_are_taken_where_that_is_wanted(stage: Stage) -> None:
    """The cross-run cache: found, journalled here, counted as replayed, needed nowhere else."""
    stage.llm.script(Play([USELESS, done()]))
    _, first = stage.fixed(*UNVALIDATED, "--no-apply")
    asked = len(stage.llm.completions)
    _, without = stage.fixed(*UNVALIDATED, "--no-apply")
    assert len(stage.llm.completions) == 2 * asked
    assert without.report["usage"]["replayed"] == 0
    cached = {"RLM_CI_MODELS_CACHE": "true"}
    ended, run = stage.fixed(*UNVALIDATED, "--no-apply", env=cached)
    assert (ended.code, len(stage.llm.completions)) == (0, 2 * asked), ended
    usage = run.report["usage"]
    assert (usage["calls"], usage["replayed"], usage["prompt_tokens"]) == (0, asked, 0)
    assert run.text("rlm/result.patch") == first.text("rlm/result.patch")
    for one in (first, without):
        (one.folder / "calls.jsonl").unlink()
    replayed = stage.cli("replay", run.id, "--check", env={"OPENAI_API_KEY": None})
    assert replayed.code == 0, replayed


#: Dollars for a million tokens, read and written.
PRICES = """
[models.prices."m-1"]
input_per_million = 3
output_per_million = 15
"""


def test_five_cents_do_a_small_task(stage: Stage) -> None:
    stage.repo.write("rlm-ci.toml", PRICES).commit("Name the prices")
    stage.llm.script(TWO_TURNS)
    ended, run = stage.fixed("--model", "m-1", "--budget-usd", "0.05")
    assert ended.code == 0, ended
    caps = [one.body["max_tokens"] for one in stage.llm.completions]
    assert 256 <= caps[0] < 4096, "all that the budget leaves beside the prompt"
    assert caps[-1] > caps[0], "once the endpoint has counted a prompt"
    assert 0 < run.report["usage"]["cost_usd"] < 0.05
    assert stage.cli("replay", run.id, "--check", env={"OPENAI_API_KEY": None}).code == 0


def test_a_budget_too_small_for_the_first_prompt_names_the_flag(stage: Stage) -> None:
    stage.repo.write("rlm-ci.toml", PRICES).commit("Name the prices")
    ended, _ = stage.fixed("--model", "m-1", "--budget-usd", "0.01", "--no-apply")
    assert (ended.code, stage.llm.completions) == (3, []), ended
    assert "has no room for another call" in " ".join(ended.stdout.split())
    assert "--budget-usd" in ended.stdout + ended.stderr


# -- agents whose calls rlm-ci does not see --------------------------------------------------------

TOLD = '{"type":"turn.completed","usage":{"input_tokens":240,"output_tokens":60}}'


@pytest.mark.parametrize(
    ("program", "tokens"),
    [(f"echo '{TOLD}'", (240, 60)), ("echo done", (None, None))],
)
def test_what_another_agent_used_is_told_or_unknown(
    stage: Stage, tmp_path: Path, program: str, tokens: tuple[int | None, int | None]
) -> None:
    codex = tmp_path / "bin" / "codex"
    codex.parent.mkdir()
    mends = "sed -i 's/a - b/a + b/' calc.py"
    codex.write_text(f'#!/bin/sh\n{mends}\necho "$@" > asked\n{program}\n')
    codex.chmod(0o755)
    stage.repo.write("rlm-ci.toml", '[loop]\nagent_env = ["CODEX_API_KEY"]\n').commit()
    path = os.pathsep.join([str(codex.parent), str(stage.environment()["PATH"])])
    env = {"PATH": path, "CODEX_API_KEY": "k"}
    ended, run = stage.fixed("--agent", "codex", "--model", "own-3", "--no-apply", env=env)
    assert ended.code == 0, ended
    usage = run.report["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == tokens
    assert (usage["calls"], usage["cost_usd"]) == (None, None)
    assert ("Models: 300 tokens" in ended.stderr) is (tokens[0] is not None)
    assert "--model own-3" in run.text("rlm/result.patch")
    replayed = stage.cli("replay", run.id, "--check", env=env)
    assert replayed.code == 0, replayed


def test_a_command_is_asked_for_no_model(stage: Stage) -> None:
    ended = stage.rlm("--agent", "sh -c true", "--model", "own-3")
    assert ended.code == 5
    assert "nothing would ask this model: the agent is a command (--model)" in ended.stderr
