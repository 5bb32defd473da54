"""Reviews of a pull request end: what a model finds late is not posted, unless a run shows it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from testing.comment_commands_stage import stage
from testing.loopback_model.fixture import llm
from testing.pushes_stage import Critic, Pushes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from testing.comment_commands_stage import Stage
    from testing.loopback_model.server import ModelServer

__all__ = ["llm", "stage"]

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(sys.platform == "win32", reason="flock"),
]


@pytest.fixture
def pushes(stage: Stage, llm: ModelServer) -> Iterator[Pushes]:
    critic = Critic(llm)
    llm.script(critic)
    made = Pushes(stage, critic)
    yield made
    made.close()


def counted(pushes: Pushes) -> dict[str, bool]:
    """Each fault that the report tells, with whether it counts."""
    found: list[dict[str, Any]] = pushes.stage.report["findings"]
    return {one["rule"].partition("fault-")[2]: one["suppression"] is None for one in found}


def test_what_is_found_late_on_other_lines_is_not_posted(pushes: Pushes) -> None:
    blind, pushes.critic.name = "one = 1\n", "fault"
    pushes.push(a=f"{blind}two = 2  # FAULT two\n")
    pushes.judge()
    assert counted(pushes) == {"two": True}
    assert pushes.stage.last.round == 1
    # The critic overlooks a line, and says it when it reads the file again.
    pushes.critic.overlooked = {"late"}
    pushes.push(a="one = 1  # FAULT late\ntwo = 2  # FAULT two\n", b="x = 1\n")
    pushes.judge()
    assert counted(pushes) == {"two": True}
    pushes.critic.overlooked = set()
    pushes.push(a="one = 1  # FAULT late\ntwo = 2  # FAULT two\n\n\n\n\nthree = 3  # FAULT three\n")
    pushes.judge()
    assert counted(pushes) == {"two": True, "three": True, "late": False}
    assert "round 3 of 3; 1 finding of this round on lines that" in pushes.part["summary"]
    assert (pushes.part["metrics"]["round"], pushes.part["metrics"]["late"]) == (3, 1)
    assert "round 3 of 3" in pushes.stage.summary
    pushes.push(a="one = 1  # FAULT late\ntwo = 2  # FAULT two\n\n\n\n\nthree = 3\n")
    pushes.judge()
    assert counted(pushes).get("late", False) is False


def test_after_the_last_round_only_what_is_proven_high_is_new(pushes: Pushes) -> None:
    env = {"RLM_CI_REVIEW_ROUNDS": "1", "RLM_CI_REVIEW_REPAIR_LEVEL": "off"}
    pushes.push(a="one = 1  # FAULT one\n")
    pushes.judge(**env)
    pushes.push(b="two = 2  # FAULT two\n")
    pushes.judge(**env)
    assert counted(pushes) == {"one": True, "two": False}
    assert "round 2 of 1, so only what is proven high is new" in pushes.part["summary"]
    pushes.critic.severity, pushes.critic.proves = "high", True
    pushes.push(c="def three():\n    return 3  # FAULT three\n")
    pushes.judge(**env)
    assert counted(pushes)["three"]
    pushes.push(d="four = 4  # FAULT four\n")
    pushes.judge(**{**env, "RLM_CI_REVIEW_ROUNDS": "0"})
    assert counted(pushes)["four"]


def test_a_person_who_asks_gets_all_of_it(pushes: Pushes) -> None:
    pushes.push(a="one = 1  # FAULT one\n")
    pushes.judge(RLM_CI_REVIEW_ROUNDS="1")
    pushes.push(b="two = 2  # FAULT two\n")
    code, _ = pushes.say("/rlm-ci review", RLM_CI_REVIEW_ROUNDS="1")
    assert code == 0
    assert counted(pushes) == {"one": True, "two": True}


def test_a_branch_that_was_rewritten_says_that_no_round_ends(pushes: Pushes) -> None:
    pushes.push(a="one = 1  # FAULT one\n")
    pushes.judge(RLM_CI_REVIEW_ROUNDS="1")
    pushes.forge(head="d" * 40)
    pushes.push(b="two = 2  # FAULT two\n")
    pushes.judge(RLM_CI_REVIEW_ROUNDS="1")
    assert counted(pushes) == {"one": True, "two": True}
    why = "in which each finding counts, because dddddddddddd is not in this clone"
    assert why in pushes.part["summary"]
