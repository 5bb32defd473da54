"""What was spent counts whatever another workflow under our login does to one of its sources."""

from __future__ import annotations

import dataclasses
import os
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.github.posting import check_run, summary_comment
from rlm_ci.github.posting.outcome import Destination, PostingOptions
from rlm_ci.github.session import Access, GitHubSession
from rlm_ci.judge import pull_request_budget
from rlm_ci.report.findings import Usage
from testing.loopback_github.scene import BOT, NAME, NUMBER
from testing.posting_stage import github, stage

if TYPE_CHECKING:
    from rlm_ci.judge.pull_request_budget import PullRequestBudget
    from testing.loopback_github.state import Comment
    from testing.posting_stage import Stage

__all__ = ["github", "stage"]

NO_CHECK_RUN = PostingOptions(comment="sticky", check_run=False)
STICKY = PostingOptions(comment="sticky")


def spend(stage: Stage, *usd: float, wishes: PostingOptions = STICKY, **more: Any) -> None:
    """A run for each amount, one after the other, each on a commit of its own."""
    for amount in usd:
        stage.git.run("commit", "--allow-empty", "-qm", "more")
        stage.github.push(NAME, NUMBER, "feature")
        report = stage.report(usage=Usage(calls=1, cost_usd=amount))
        assert stage.publish(report, os.urandom(8).hex(), wishes=wishes, **more).ok


def read(stage: Stage) -> PullRequestBudget:
    to = Destination(NAME, NUMBER, stage.head)
    session = GitHubSession(Access(BOT), stage.client_of(BOT))
    return pull_request_budget.read(10.0, to, session, stops=False)


def summary(stage: Stage) -> Comment:
    (only,) = stage.state.comments
    return only


def lower(stage: Stage, usd: float = 0.0) -> None:
    """What a workflow under our login can do to the comment: a figure of its choice."""
    comment = summary(stage)
    state = summary_comment.checkpoint_of(comment.body)
    assert state
    words = comment.body.partition("\n")[2]
    forged = state.replace(cost_usd=usd, run_usd=usd).marker()
    comment.edit(f"{forged}\n{words}", comment.user, stage.github.world.now())


def forge_check_runs(stage: Stage) -> None:
    """What it can do to check runs, with ``checks: write`` besides."""
    for made in stage.home.checks:
        state = summary_comment.checkpoint_of(made.summary or "")
        assert state
        made.summary = state.replace(cost_usd=0.0, run_usd=0.0).marker()


def test_a_first_run_says_that_none_has_left_a_figure(stage: Stage) -> None:
    budget = read(stage)
    assert (budget.left, budget.doubt) == (10.0, "")
    assert budget.part().summary.endswith("on this pull request: none has left a figure")


def test_sources_that_agree_are_not_spoken_of(stage: Stage) -> None:
    spend(stage, 0.5, 0.25)
    budget = read(stage)
    assert (budget.spent, budget.note, budget.doubt) == (0.75, "", "")


def test_a_lowered_comment_counts_by_its_history_and_the_check_runs(stage: Stage) -> None:
    spend(stage, 0.5, 0.25)
    lower(stage, 0.125)
    budget = read(stage)
    assert budget.spent == 0.75
    assert budget.part().summary.endswith(
        "the highest counts of summary comments $0.12, what they said before $0.75, "
        "check runs $0.75"
    )


@pytest.mark.parametrize("wishes", [STICKY, NO_CHECK_RUN], ids=["check runs", "comment alone"])
def test_a_comment_that_is_lowered_after_each_run_still_adds_up(
    stage: Stage, wishes: PostingOptions
) -> None:
    for amount in (0.5, 0.25, 1.0):
        spend(stage, amount, wishes=wishes)
        lower(stage)
    assert read(stage).spent == 1.75


def test_a_deleted_comment_counts_by_the_check_runs(stage: Stage) -> None:
    spend(stage, 0.5, 0.25)
    stage.state.comments.clear()
    budget = read(stage)
    assert budget.spent == 0.75
    assert "by their check runs, as there is no summary comment" in budget.part().summary
    spend(stage, 1.0)
    assert read(stage).spent == 1.75, "with a new comment that begins at nothing"


def test_forged_check_runs_count_by_the_comment(stage: Stage) -> None:
    spend(stage, 0.5, 0.25)
    forge_check_runs(stage)
    budget = read(stage)
    assert budget.spent == 0.75
    assert "summary comments $0.75, what they said before $0.75, check runs $0.00" in budget.note


def test_a_run_that_only_one_source_knows_is_added(stage: Stage) -> None:
    spend(stage, 0.5, wishes=NO_CHECK_RUN)
    spend(stage, 0.25)
    spend(stage, 1.0, wishes=PostingOptions(comment="none"))
    assert read(stage).spent == 1.75


def test_runs_of_other_names_are_added(stage: Stage) -> None:
    spend(stage, 0.5, name="judge")
    spend(stage, 0.25, name="docs")
    assert read(stage).spent == 0.75


def test_texts_and_check_runs_of_others_say_nothing(stage: Stage) -> None:
    spend(stage, 0.5)
    comment = summary(stage)
    state = summary_comment.checkpoint_of(comment.body)
    assert state
    comment.edit(state.replace(cost_usd=9.0).marker(), "ada", stage.github.world.now())
    for made in stage.home.checks:
        made.app = "another-app"
        made.summary = state.replace(cost_usd=9.0).marker()
    budget = read(stage)
    assert (budget.spent, budget.doubt) == (0.5, "")
    assert "summary comments $0.00, what they said before $0.50" in budget.note


def test_state_of_another_pull_request_says_nothing(stage: Stage) -> None:
    spend(stage, 0.5)
    comment = summary(stage)
    state = summary_comment.checkpoint_of(comment.body)
    assert state
    comment.body = state.replace(number=NUMBER + 1, cost_usd=0.0).marker()
    budget = read(stage)
    assert "state of a summary comment cannot be read" in budget.doubt
    assert "delete the summary comment" in budget.way_on


def test_a_run_that_posts_nothing_is_told_to_post(stage: Stage) -> None:
    session = GitHubSession(Access(BOT), stage.client_of(BOT))
    (finding,) = pull_request_budget.read(10.0, None, session, stops=False).part().findings
    assert "posts nothing that could say it" in finding.message
    assert finding.hint == "let it post, with a token; or unset budget.pull_request_usd"


def test_a_history_of_many_edits_is_read_to_its_end(stage: Stage) -> None:
    spend(stage, 0.5, wishes=NO_CHECK_RUN)
    for _ in range(65):
        lower(stage)
    assert read(stage).spent == 0.5


def test_more_edits_than_are_read_let_no_model_be_asked(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(summary_comment, "_MOST_PAGES", 2)
    spend(stage, 0.5, wishes=NO_CHECK_RUN)
    for _ in range(65):
        lower(stage)
    budget = read(stage)
    assert budget.is_reached
    assert "more than 60 edits" in budget.part().findings[0].message


def test_unreadable_check_runs_are_spoken_of_and_the_comment_counts(stage: Stage) -> None:
    spend(stage, 0.5)
    unreadable(stage)
    budget = read(stage)
    assert (budget.spent, budget.doubt) == (0.5, "")
    assert "the check runs cannot all be read: " in budget.part().summary


def crowd(stage: Stage, *apps: str) -> None:
    """Check runs of the head before ours, one of each of the ``apps``."""
    first = stage.home.checks[0]
    stage.home.checks[:0] = [
        dataclasses.replace(first, id=number, app=app, summary="Theirs.")
        for number, app in enumerate(apps, 1)
    ]


OURS, OTHERS = ["github-actions"] * 130, [f"app-{number:02}" for number in range(40)]


@pytest.mark.parametrize("apps", [OURS, OTHERS], ids=["one suite", "many suites"])
def test_more_check_runs_than_one_query_lists_are_read(stage: Stage, apps: list[str]) -> None:
    spend(stage, 0.5)
    crowd(stage, *apps)
    budget = read(stage)
    assert (budget.spent, budget.note, budget.doubt) == (0.5, "", "")
    stage.state.comments.clear()
    budget = read(stage)
    assert (budget.spent, budget.doubt) == (0.5, "")
    assert budget.note == "by their check runs, as there is no summary comment"


def test_the_check_runs_of_our_app_alone_are_asked_for(stage: Stage) -> None:
    spend(stage, 0.5)
    crowd(stage, *OURS, *(f"z-{number}" for number in range(500)))
    read(stage)
    asked = [one.query for one in stage.github.log if one.path.endswith("/check-runs")]
    assert sum("page" in query and query.get("filter") == "all" for query in asked) == 2


def test_check_runs_beyond_the_last_page_are_a_lower_bound(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check_run, "_MOST_PAGES", 1)
    spend(stage, 0.5, 0.25)
    lower(stage)
    last = stage.home.checks[1]
    crowd = [dataclasses.replace(last, id=number, summary="Ours.") for number in range(1, 221)]
    stage.home.checks[:] = [stage.home.checks[0], *crowd[:110], last, *crowd[110:]]
    budget = read(stage)
    assert (budget.spent, budget.doubt) == (0.75, "")
    assert "the check runs cannot all be read: 1 pages were not enough" in budget.note
    assert "check runs $0.50" in budget.note
    stage.state.comments.clear()
    budget = read(stage)
    assert budget.is_reached
    [found] = budget.part().findings
    assert "there is no summary comment, and the check runs cannot all be read" in found.message
    assert (found.hint or "").startswith(
        "run it again later, or let a run post its summary comment; or"
    )


def unreadable(stage: Stage) -> None:
    stage.home.private = True
    stage.github.token(BOT, permissions={"pull_requests": "write", "contents": "read"})


def test_without_a_comment_and_check_runs_no_model_is_asked(stage: Stage) -> None:
    spend(stage, 0.5)
    stage.state.comments.clear()
    unreadable(stage)
    budget = read(stage)
    assert budget.is_reached
    [found] = budget.part().findings
    assert "is not known: there is no summary comment, and the check runs cannot" in found.message
    assert "this permission: checks: read, or let a run post its summary" in (found.hint or "")


def test_a_comment_is_not_deleted_where_the_check_runs_cannot_be_read(stage: Stage) -> None:
    spend(stage, 0.5)
    summary(stage).body = "<!-- rlm-ci:report xyz -->\nspent nothing"
    assert read(stage).way_on == "delete the summary comment: the check runs are counted too"
    unreadable(stage)
    budget = read(stage)
    assert "summary comment cannot be read, and the check runs cannot" in budget.doubt
    assert budget.way_on.endswith("checks: read; then delete the summary comment")


def test_suites_beyond_those_that_github_lists_are_spoken_of(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check_run, "_MOST_SUITES", 40)
    spend(stage, 0.5)
    crowd(stage, *OTHERS)
    budget = read(stage)
    assert budget.spent == 0.5
    assert "GitHub lists those of 40 suites alone" in budget.note
