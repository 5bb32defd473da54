"""``rlm-ci fix``: what it takes, and what it refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from testing.fix_stage import MENDED, QUICK
from testing.fix_stage_fixture import llm, stage

if TYPE_CHECKING:
    from testing.fix_stage import Stage
    from testing.program import Cli
    from testing.repositories.git_repo import GitRepo

__all__ = ["llm", "stage"]


def test_a_goal_is_reached_and_applied(stage: Stage) -> None:
    ended = stage.cli("fix", "make the tests pass", "--validator", QUICK)
    assert ended.code == 0, ended
    assert stage.source() == MENDED
    (run,) = stage.runs()
    assert run.state["mode"] == "iterative"
    assert run.state["modeReason"] == "rlm-ci fix says so"


def test_a_short_goal_of_a_delegated_run_is_no_question(stage: Stage) -> None:
    """Where ``rlm`` takes a question, by a context or a parent, this is a fix all the same."""
    ended = stage.cli(
        "fix", "make the tests pass", "--validator", QUICK, env={"RLM_CI_CONTEXT_SOURCE": "calc.py"}
    )
    assert ended.code == 0, ended
    assert stage.source() == MENDED


@pytest.mark.parametrize(
    ("words", "what", "hint"),
    [
        ([], "there is no goal", 'rlm-ci fix "GOAL" [OPTION...]'),
        (["x", "y"], "fix takes one goal", 'rlm-ci fix "GOAL" [OPTION...]'),
        (["x", "--context", "a"], "unknown option '--context'", "rlm-ci fix"),
        (["x", "--mode", "symbolic"], "unknown option '--mode'", "did you mean --model?"),
    ],
)
def test_wrong_use(cli: Cli, repo: GitRepo, words: list[str], what: str, hint: str) -> None:
    ended = cli("fix", *words, cwd=repo)
    assert (ended.code, ended.stdout) == (2, "")
    error, advice = ended.stderr.splitlines()
    assert what in error
    assert hint in advice
