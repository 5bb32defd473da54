"""``rlm-ci review`` with a model on loopback: its budget, its record, who may ask it."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest

from testing.loopback_model.fixture import llm
from testing.loopback_model.replies import Answer, refusal
from testing.pipelines_stage import Stage
from testing.repositories.events import actions_environment, from_fork, pull_request, write_event

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from testing.loopback_model.server import Asked, ModelServer
    from testing.program import Cli
    from testing.repositories.git_repo import GitRepo

__all__ = ["llm"]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="flock")

CODE = "def total(prices):\n    return sum(prices) / len(prices)\n"
CLAIM = {
    "rule": "division-by-zero", "severity": "medium", "domain": "quality", "confidence": 0.8,
    "message": "An empty list divides by zero.", "path": "shop.py", "line_start": 2, "line_end": 2,
    "quote": "    return sum(prices) / len(prices)", "suggested_fix": None,
}  # fmt: skip


def says(_asked: Asked) -> Answer:
    return Answer(json.dumps({"findings": [CLAIM]}))


@pytest.fixture
def stage(repo: GitRepo, cli: Cli) -> Iterator[Stage]:
    found = Stage(repo, cli)
    repo.write("shop.py", CODE).commit()
    yield found
    found.clean()


def reach(llm: ModelServer) -> dict[str, str]:
    return {"OPENAI_API_KEY": llm.key, "OPENAI_BASE_URL": llm.url}


MODEL = ("--model", "gpt-5-mini")


def test_what_a_model_finds_and_its_record(stage: Stage, llm: ModelServer) -> None:
    llm.script(says)
    ended = stage.cli("review", *MODEL, "--format", "json", env=reach(llm))
    report = ended.json()
    assert "model:gpt-5-mini" in {one["source"] for one in report["findings"]}
    asked = len(llm.completions)
    run_id = stage.only()
    assert report["usage"]["calls"] == asked > 0
    assert stage.cli("verify", "latest").code == 0
    replayed = stage.cli("replay", "latest", "--check")
    assert replayed.code == 0, replayed.stderr
    assert len(llm.completions) == asked
    told = stage.cli("status", run_id, "--format", "json").json()["recursion"]
    assert told["spent"]["calls"] == asked


@pytest.mark.sample(1)
@pytest.mark.parametrize("words", [("review",), ("wiki",), ("pr", "--review", "on")])
def test_a_service_that_refuses_is_named_and_is_the_exit_code(
    stage: Stage, llm: ModelServer, words: tuple[str, ...]
) -> None:
    llm.script(lambda _asked: refusal(401, "no such key", code="invalid_api_key"))
    base = stage.repo.sha()
    stage.repo.append("shop.py", "\nmost = max\n").commit()
    given = (*words, "--base", base) if words[0] == "pr" else words
    ended = stage.cli(*given, *MODEL, env=reach(llm))
    assert ended.code == 8, ended
    assert len([line for line in ended.stderr.splitlines() if "error: " in line]) == 1
    assert "no such key" in ended.stderr
    assert "hint: look at the key" in ended.stderr


def test_a_budget_ends_it_and_more_of_it_lets_it_go_on(stage: Stage, llm: ModelServer) -> None:
    llm.script(says)
    ended = stage.cli("review", *MODEL, "--max-calls", "0", "--format", "json", env=reach(llm))
    assert (ended.code, ended.json()["verdict"]) == (3, "incomplete")
    assert not llm.completions
    without = stage.cli("resume", "latest", "--max-calls", "9")
    assert without.code == 5, without.stderr
    assert "continue it: rlm-ci resume" in without.stderr
    again = stage.cli("resume", "latest", "--max-calls", "9", env=reach(llm))
    assert again.code == 0, again.stderr
    assert llm.completions
    assert "model:gpt-5-mini" in (stage.folder(stage.only()) / "report.json").read_text()


def test_without_a_way_to_a_model_nobody_misses_it(stage: Stage) -> None:
    ended = stage.cli("review", *MODEL)
    assert ended.code == 0
    assert "no model is used" in ended.stderr


@pytest.mark.parametrize("fork", [False, True], ids=["own", "fork"])
def test_on_a_pull_request_only_of_the_same_repository(
    stage: Stage, llm: ModelServer, tmp_path: Path, fork: bool
) -> None:
    llm.script(says)
    base = stage.repo.sha()
    stage.repo.write("shop.py", CODE.replace("sum", "max")).commit()
    make = from_fork if fork else pull_request
    event = write_event(tmp_path, make(base, stage.repo.sha()))
    env = actions_environment("pull_request", event) | reach(llm)
    env |= {"RLM_CI_REVIEW_ENABLED": "auto", "RLM_CI_MODEL": "gpt-5-mini"}
    ended = stage.cli("pr", "--format", "json", env=env)
    parts = {part["id"]: part for part in ended.json()["parts"]}
    assert parts["review"]["metrics"]["model"] == (None if fork else "gpt-5-mini")
    assert bool(llm.completions) is not fork


def test_a_privileged_event_gets_none(stage: Stage, tmp_path: Path) -> None:
    base = stage.repo.sha()
    stage.repo.write("shop.py", CODE.replace("sum", "max")).commit()
    head = stage.repo.sha()
    stage.repo.checkout(base, detach=True)
    event = write_event(tmp_path, pull_request(base, head))
    env = actions_environment("pull_request_target", event)
    by_itself = stage.cli("pr", "--format", "json", env=env | {"RLM_CI_REVIEW_ENABLED": "auto"})
    assert "review" not in {part["id"] for part in by_itself.json()["parts"]}
    asked = stage.cli("pr", "--format", "json", env=env | {"RLM_CI_REVIEW_ENABLED": "on"})
    parts = {part["id"]: part for part in asked.json()["parts"]}
    assert parts["review"]["verdict"] == "not_run"
    assert asked.code == 5
