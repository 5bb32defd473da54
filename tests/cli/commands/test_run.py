"""``rlm-ci run`` from the command line to its files, in the real sandbox."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from testing.fix_stage import Stage
from testing.loopback_model.fixture import llm

if TYPE_CHECKING:
    from testing.loopback_model.server import Asked, ModelServer
    from testing.program import Cli
    from testing.repositories.git_repo import GitRepo

__all__ = ["llm"]


def action(name: str, **arguments: Any) -> str:
    return json.dumps({"action": name, **arguments})


def story(asked: Asked) -> str:
    """Compute it, then answer with what was printed."""
    said = asked.messages[-1]["content"]
    if "5050" in said:
        return action("final", final_response="It is 5050.")
    return action("run_python", code="print(sum(range(101)))")


@pytest.fixture
def stage(repo: GitRepo, cli: Cli, llm: ModelServer) -> Stage:
    llm.script(story)
    return Stage(repo, cli, llm)


def test_a_task_is_solved_and_its_run_is_one_like_any_other(stage: Stage) -> None:
    ended = stage.cli("run", "Sum 1 to 100", "--model", "m", "--max-steps", "1")
    assert ended.code == 3, ended
    assert "not done after 1 turn" in ended.stdout
    run = stage.only()
    resumed = stage.cli("resume", run.id, "--max-iterations", "3")
    assert resumed.code == 0, resumed
    assert resumed.stdout.startswith("It is 5050.\n"), resumed
    assert len(stage.llm.completions) == 2
    assert run.json("run.json")["final_reward"] == 1.8
    assert run.manifest["sandbox"] == "bubblewrap"
    assert run.report["parts"][0]["summary"] == "solved in 2 steps, reward 1.8"
    verified = stage.cli("verify", run.id)
    assert verified.code == 0, verified
    assert "rebuilt from its record" in verified.stdout
    replayed = stage.cli("replay", run.id, "--check", env={"OPENAI_BASE_URL": None})
    assert replayed.code == 0, replayed


def test_a_wrong_environment_is_an_error_that_lists_the_known_ones(stage: Stage) -> None:
    ended = stage.cli("run", "Sum", "--model", "m", "--environment", "nowhere")
    assert ended.code == 5, ended
    assert "pure_rlm" in ended.stderr
