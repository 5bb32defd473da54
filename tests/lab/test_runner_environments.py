"""The environments that a runner holds are objects, found by every name of the specification."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from rlm_ci.evaluation import RLMRunner

if TYPE_CHECKING:
    from pathlib import Path


class Answers:
    model = "m"

    def generate_response(self, _prompt: str) -> str:
        return json.dumps({"action": "final", "final_response": "42"})


def test_each_name_of_the_specification_has_its_environment(tmp_path: Path) -> None:
    runner = RLMRunner(Answers(), None, workdir=tmp_path)
    assert {name: type(one).__name__ for name, one in runner.environments.items()} == {
        **dict.fromkeys(("generic", "rlm"), "GenericRLMEnvironment"),
        **dict.fromkeys(("coding", "dspy", "dspy-coding", "framework"), "DSPyCodingRLMEnvironment"),
        **dict.fromkeys(("repl", "pure_rlm", "pure-rlm"), "PureRLMEnvironment"),
    }
    assert list(runner.environments) == runner.supported_environments()
    assert runner.environments["rlm"].name == "rlm"


def test_an_environment_runs_a_task_and_is_checked(tmp_path: Path) -> None:
    generic = RLMRunner(Answers(), None, workdir=tmp_path).environments["rlm"]
    result = generic.run_task("What is it?", max_steps=2)
    assert (result.environment, result.final_response) == ("rlm", "42")
    assert "model_connection" in {one.name for one in generic.doctor_checks()}


def test_an_unknown_name_lists_the_known_ones(tmp_path: Path) -> None:
    environments = RLMRunner(Answers(), None, workdir=tmp_path).environments
    with pytest.raises(KeyError, match=r"no environment 'dpsy': known: generic, rlm, coding, dspy"):
        environments["dpsy"]
    assert environments.get("dpsy") is None
