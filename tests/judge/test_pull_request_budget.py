"""What all runs on a pull request may spend, as our own comments say, and nobody else."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from rlm_ci.judge.pull_request_budget import PullRequestBudget
from rlm_ci.report.findings import INCOMPLETE, Part, Severity
from testing.comment_commands_stage import stage
from testing.loopback_model.fixture import llm
from testing.pushes_stage import Critic, Pushes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from testing.comment_commands_stage import Stage
    from testing.loopback_model.server import ModelServer

__all__ = ["llm", "stage"]

needs_locks = pytest.mark.skipif(sys.platform == "win32", reason="flock")
ROOF = {"RLM_CI_BUDGET_PULL_REQUEST_USD": "1"}
PRICES = "[models.prices.critic]\ninput_per_million = 1\noutput_per_million = 1\n"


@pytest.fixture
def pushes(stage: Stage, llm: ModelServer) -> Iterator[Pushes]:
    critic = Critic(llm)
    llm.script(critic)
    made = Pushes(stage, critic)
    made.push(a="one = 1  # FAULT one\n")
    yield made
    made.close()


def shown(pushes: Pushes) -> str:
    """The summary comment, without what keeps signs from being markup."""
    return pushes.stage.summary.replace("<span>$</span>", "$").replace("\\", "")


@pytest.mark.parametrize(
    ("budget", "words", "state"),
    [
        (PullRequestBudget(1.0, 0.25), "$0.25 of $1.00 spent", None),
        (PullRequestBudget(1.0, 1.02), "no model is asked: $1.02 of $1.00 spent", None),
        (PullRequestBudget(1.0, 1.02, stops=True), "no model is asked: $1.02", INCOMPLETE),
        (PullRequestBudget(1.0, 0.98, is_short=True), "no model is asked: $0.98 of $1.00", None),
        (PullRequestBudget(1.0, 1.02, has_findings=True), "no model is asked: $1.02", INCOMPLETE),
        (PullRequestBudget(1.0, 0.25, has_findings=True), "$0.25 of $1.00 spent", None),
        (PullRequestBudget(1.0, doubt="x\x1by"), "no model is asked: what earlier runs", None),
    ],
)
def test_what_the_report_says(budget: PullRequestBudget, words: str, state: str | None) -> None:
    part = budget.part()
    text = " ".join(one.message for one in part.findings) or part.summary
    assert text.startswith(words)
    assert "\x1b" not in text
    assert part.state == state
    assert [one.severity for one in part.findings] == [Severity.MEDIUM] * budget.is_reached


@needs_locks
@pytest.mark.full
def test_a_run_spends_what_is_left_and_then_no_model_is_asked(
    pushes: Pushes, tmp_path: Path
) -> None:
    config = tmp_path / "rlm-ci.toml"
    config.write_text(PRICES)
    asked = pushes.judge("--config", str(config), **ROOF)
    assert asked
    assert "$0.00 of $1.00 spent by earlier runs" in shown(pushes)
    assert 0 < pushes.stage.last.cost_usd < 1
    more = {"RLM_CI_BUDGET_PULL_REQUEST_USD": "1.5"}
    assert pushes.judge("--config", str(config), **more) == set(), "nothing is read again for it"
    pushes.forge(cost_usd=1.02)
    pushes.push(b="two = 2  # FAULT two\n")
    assert pushes.judge("--config", str(config), **ROOF) == set()
    assert "no model is asked: $1.02 of $1.00 spent" in shown(pushes)
    assert "budget.pull" in shown(pushes)
    assert pushes.stage.report["verdict"] == "clean"
    assert pushes.stage.last.cost_usd == 1.02, "what was spent stays"
    pushes.judge("--config", str(config), **ROOF, RLM_CI_BUDGET_REACHED="stop")
    assert pushes.stage.report["verdict"] == "incomplete"
    assert "review" not in {one["id"] for one in pushes.stage.report["parts"]}
    raised = {"RLM_CI_BUDGET_PULL_REQUEST_USD": "2"}
    assert pushes.judge("--config", str(config), **raised), "a raised budget is spent"


@pytest.mark.parametrize(
    ("metrics", "why", "lets_ask"),
    [
        ({"files": 2, "looked": 0}, "budget: no room in budget_usd", False),
        ({"files": 2, "looked": 1}, "budget: no room in budget_usd", True),  # it answered once
        ({"files": 2, "looked": 1, "asked": 1}, "budget: no room in budget_usd", False),
        ({"files": 2, "looked": 0}, "budget: no room in max_calls", True),
        ({"files": 2, "looked": 0}, "remote: the request was refused", True),
    ],
)
def test_a_review_that_had_no_room_for_any_question(
    metrics: dict[str, int], why: str, lets_ask: bool
) -> None:
    part = Part("review", f"0 findings; 2 files not looked at in full: {why}", metrics)
    assert PullRequestBudget(1.0).lets_ask(part) is lets_ask


@needs_locks
@pytest.mark.full
@pytest.mark.parametrize(("reached", "verdict"), [("checks", "clean"), ("stop", "incomplete")])
def test_what_is_left_and_too_little_for_a_question_is_nothing(
    pushes: Pushes, tmp_path: Path, reached: str, verdict: str
) -> None:
    config = tmp_path / "rlm-ci.toml"
    config.write_text(PRICES)
    pushes.judge("--config", str(config), **ROOF)
    spent = pushes.stage.last.cost_usd
    pushes.push(b="two = 2  # FAULT two\n")
    roof = {"RLM_CI_BUDGET_PULL_REQUEST_USD": f"{spent + 0.0001:.6f}"}
    more = {"RLM_CI_BUDGET_REACHED": reached}
    assert pushes.judge("--config", str(config), **roof, **more) == set()
    assert "less than the next question may cost" in shown(pushes)
    assert pushes.stage.report["verdict"] == verdict
    assert pushes.stage.last.cost_usd == spent


@needs_locks
@pytest.mark.full
@pytest.mark.parametrize("left", ["nothing", "too little"])
def test_what_a_model_found_stays_red_until_a_model_looks_again(
    pushes: Pushes, tmp_path: Path, left: str
) -> None:
    config = tmp_path / "rlm-ci.toml"
    config.write_text(PRICES)
    pushes.critic.severity, pushes.critic.proves = "high", True
    pushes.push(a="def one():  # FAULT one\n    return 1\n")
    pushes.judge("--config", str(config), **ROOF)
    assert pushes.stage.report["verdict"] == "findings"
    spent = pushes.stage.last.cost_usd
    room = 0.0001 if left == "too little" else 0
    limit = {"RLM_CI_BUDGET_PULL_REQUEST_USD": f"{spent + room:.6f}"}
    for number in range(2):  # the second run has only what the first one handed on
        pushes.push(**{f"more_{number}": "two = 2\n"})
        assert pushes.judge("--config", str(config), **limit) == set()
        assert pushes.stage.report["verdict"] == "incomplete"
        assert "the last review by a model has findings" in shown(pushes)
        assert pushes.stage.conclusions[-1] == "action_required"
    pushes.critic.overlooked.add("one")
    pushes.push(a="def one():\n    return 0\n")
    assert pushes.judge("--config", str(config), **ROOF), "a raised budget is spent"
    assert pushes.stage.report["verdict"] == "clean"


@needs_locks
@pytest.mark.full
def test_a_comment_that_somebody_edited_is_believed_nothing(pushes: Pushes, tmp_path: Path) -> None:
    config = tmp_path / "rlm-ci.toml"
    config.write_text(PRICES)
    pushes.judge("--config", str(config), **ROOF)
    pushes.comment.body = "<!-- rlm-ci:report xyz -->\nspent nothing"
    pushes.push(b="two = 2  # FAULT two\n")
    assert pushes.judge("--config", str(config), **ROOF) == set()
    assert "cannot be read" in shown(pushes)
    assert "delete the summary comment: the check runs are counted too" in shown(pushes)
