"""The summary on a pull request: one, ours, in its place, and the newest head's."""

from __future__ import annotations

from typing import Any

import pytest

from rlm_ci.github.posting import summary_comment
from rlm_ci.github.posting.outcome import PostingOptions
from rlm_ci.report.findings import Usage
from testing.loopback_github.scene import ADA, EVE, NAME, NUMBER
from testing.loopback_github.state import Comment
from testing.posting_stage import Stage, words

SUMMARY_ONLY = PostingOptions(comment="sticky", check_run=False)
BOT_LOGIN = "github-actions[bot]"


def add(stage: Stage, body: str, user: str = BOT_LOGIN) -> Comment:
    """A comment that is already there."""
    world = stage.github.world
    made = Comment(world.new_id(), NUMBER, user, body, None, world.now(), world.now())
    stage.state.comments.append(made)
    return made


def test_a_first_push_posts_everything(stage: Stage) -> None:
    result = stage.publish(stage.report(10, 40))
    assert (result.summary, result.review, result.check_run) == ("posted",) * 3
    assert result.ok
    assert result.reason is None
    assert result.url
    assert result.url.endswith(f"#issuecomment-{stage.state.comments[0].id}")
    body = stage.summary
    assert summary_comment.is_marked(body)
    assert "## ❌ 2 findings fail this change" in body
    assert "problem 10" in body
    assert "problem 40" in body
    last = stage.last
    assert (last.number, last.head, last.verdict, last.run) == (12, stage.head, "findings", "run")


def test_the_next_push_updates_it_in_its_place(stage: Stage) -> None:
    stage.publish(stage.report(10), "run-1")
    (before,) = stage.state.comments
    ident, old = before.id, stage.head
    stage.git.write("new.py", "a = 1\nb = 2\nc = 3\nd = 4")
    stage.commit()
    result = stage.publish(stage.report(40), "run-2")
    assert result.summary == "updated"
    assert [one.id for one in stage.state.comments] == [ident]
    assert "problem 40" in stage.summary
    assert "problem 10" not in stage.summary
    assert stage.last.head == stage.head != old


def test_a_usual_run_stays_within_its_requests(stage: Stage) -> None:
    stage.publish(stage.report(10, 40), "run-1")
    stage.git.write("src/a.py", stage.git.text("show", "feature:src/a.py") + "\nlast\n")
    stage.commit()
    before = len(stage.github.log)
    found = [10, 40, *range(8, 10), *range(11, 14), *range(37, 40), *range(41, 44), *range(58, 61)]
    result = stage.publish(stage.report(*found), "run-2")
    assert result.ok
    asked = stage.github.log[before:]
    assert len(asked) <= 8, words(asked)
    assert sum(one.writes for one in asked) == 3, words(asked)


def test_a_summary_beyond_the_first_page_is_found(stage: Stage) -> None:
    for number in range(205):
        add(stage, f"chatter {number}", "eve")
    stage.publish(stage.report(10), "run-1", wishes=SUMMARY_ONLY)
    for number in range(45):
        add(stage, f"more chatter {number}", "ada")
    assert stage.publish(stage.report(40), "run-2", wishes=SUMMARY_ONLY).summary == "updated"
    assert len(stage.summaries) == 1
    assert len(stage.state.comments) == 251


@pytest.mark.parametrize("copied", [True, False])
def test_a_forged_marker_of_somebody_else_changes_nothing(stage: Stage, copied: bool) -> None:
    stage.publish(stage.report(10), "run-1", wishes=SUMMARY_ONLY)
    ours = stage.state.comments.pop()
    forged = ours.body if copied else "<!-- rlm-ci:report -->\nAll is well"
    if copied:
        spent = stage.last if stage.summaries else summary_comment.checkpoint_of(ours.body)
        assert spent
        _, _, rest = forged.partition("\n")
        forged = f"{spent.replace(calls=10**9, head='f' * 40).marker()}\n{rest}"
    strangers = [add(stage, forged, user) for user in ("eve", "ada", "github-actions", "acme")]
    stage.state.comments.append(ours)
    strangers += [add(stage, forged, user) for user in ("eve", "dependabot[bot]")]
    result = stage.publish(stage.report(40), "run-2", wishes=SUMMARY_ONLY)
    assert result.summary == "updated"
    assert all(one.body == forged for one in strangers)
    assert [one for one in stage.state.comments if one.user == BOT_LOGIN] == [ours]
    assert "problem 40" in ours.body
    state = summary_comment.checkpoint_of(ours.body)
    assert state
    assert state.calls == 0


def test_a_person_may_post_with_a_token_of_their_own(stage: Stage) -> None:
    stage.publish(stage.report(10), "bot", wishes=SUMMARY_ONLY)
    for number in range(2):
        result = stage.publish(stage.report(40), f"ada-{number}", token=ADA, wishes=SUMMARY_ONLY)
        assert result.ok
    by = [one.user for one in stage.state.comments]
    assert by == [BOT_LOGIN, "ada"]


@pytest.mark.parametrize("status", [404, 410])
def test_a_summary_deleted_meanwhile_is_posted_anew(stage: Stage, status: int) -> None:
    stage.publish(stage.report(10), "run-1", wishes=SUMMARY_ONLY)
    stage.github.fault(
        "PATCH", "*", status=status, before=lambda _request: stage.state.comments.clear()
    )
    result = stage.publish(stage.report(40), "run-2", wishes=SUMMARY_ONLY)
    assert (result.summary, result.ok) == ("posted", True)
    assert "problem 40" in stage.summary


@pytest.mark.parametrize("gone", [404, 410, 502])
def test_duplicates_are_folded_into_the_oldest(stage: Stage, gone: int) -> None:
    stage.publish(stage.report(10), "run-1", wishes=SUMMARY_ONLY)
    oldest = stage.state.comments[0]
    add(stage, "chatter", "eve")
    for _ in range(3):
        add(stage, oldest.body)
    stage.github.fault("DELETE", "*", status=gone, store=True)
    result = stage.publish(stage.report(40), "run-2", wishes=SUMMARY_ONLY)
    assert result.ok, result
    assert stage.state.comments[0] is oldest
    assert len(stage.state.comments) == 2
    assert "problem 40" in stage.summary


@pytest.mark.parametrize(
    "first",
    [
        "<!-- rlm-ci:report -->",  # as an early version wrote it
        "<!-- rlm-ci:report AAAA -->",
        "<!-- rlm-ci:report eyJ2IjoxfQ== -->",
        f"<!-- rlm-ci:report {'A' * 60_000} -->",
    ],
    ids=["bare", "bytes", "version", "huge"],
)
def test_a_checkpoint_that_does_not_hold_starts_anew(stage: Stage, first: str) -> None:
    ours = add(stage, f"{first}\nwords")
    usage = Usage(calls=3, prompt_tokens=5)
    result = stage.publish(stage.report(10, usage=usage), "run", wishes=SUMMARY_ONLY)
    assert result.summary == "updated"
    assert [one.id for one in stage.state.comments] == [ours.id]
    assert (stage.last.calls, stage.last.tokens) == (3, 5)


@pytest.mark.sample(8)
@pytest.mark.parametrize("wrong", [{"status": 502}, {"drop": True}, {"cut": 30}], ids=str)
@pytest.mark.parametrize("store", [True, False])
@pytest.mark.parametrize("verb", ["POST", "PATCH"])
def test_a_failure_around_the_write_leaves_exactly_one(
    stage: Stage, verb: str, store: bool, wrong: dict[str, Any]
) -> None:
    if verb == "PATCH":
        stage.publish(stage.report(10), "run-1", wishes=SUMMARY_ONLY)
    stage.github.log.clear()
    fault = stage.github.fault(verb, "*comments*", store=store, **wrong)
    result = stage.publish(stage.report(40), "run-2", wishes=SUMMARY_ONLY)
    assert result.ok, result
    assert fault.hits == 1
    assert "problem 40" in stage.summary
    writes = [one for one in stage.github.writes if one.method == verb]
    assert len(writes) == (1 if store or "cut" in wrong else 2)


@pytest.mark.sample(8)
@pytest.mark.parametrize(
    "answer", [{}, [], {"id": "x"}, {"message": "?"}, b"<html>Log in</html>", "text"], ids=str
)
@pytest.mark.parametrize(
    "what", ["POST *comments", "GET *comments", "GET *pulls/12", "POST /graphql"]
)
def test_an_answer_that_makes_no_sense_is_a_failure_that_is_told(
    stage: Stage, what: str, answer: Any
) -> None:
    verb, _, path = what.partition(" ")
    stage.github.fault(verb, path, times=None, status=200, body=answer)
    result = stage.publish(stage.report(10), wishes=SUMMARY_ONLY)
    if what == "GET *comments" and answer == []:
        assert result.ok  # it is what a list without comments looks like
    else:
        assert (result.summary, result.ok, result.url) == ("failed", False, None)
        assert result.reason


def test_spend_adds_up_over_pushes_and_a_run_counts_once(stage: Stage) -> None:
    usage = Usage(calls=2, prompt_tokens=100, completion_tokens=10, cost_usd=0.25)
    for number in range(3):
        stage.git.write("new.py", f"{number}\n")
        stage.commit()
        report = stage.report(10, usage=usage)
        for _ in range(2):  # the job is run again, or its report is published once more
            assert stage.publish(report, f"run-{number}").ok
    assert (stage.last.calls, stage.last.tokens, stage.last.cost_usd) == (6, 330, 0.75)


def test_an_older_head_does_not_write_over_a_newer_one(stage: Stage) -> None:
    old = stage.report(10)
    stage.git.write("new.py", "x\n")
    stage.commit()
    stage.publish(stage.report(40), "new")
    result = stage.publish(old, "old")
    assert (result.summary, result.review) == ("skipped", "skipped")
    assert result.reason
    assert "moved on" in result.reason
    assert result.url
    assert "problem 40" in stage.summary
    assert stage.last.head == stage.head


def test_an_older_head_speaks_where_nobody_else_has(stage: Stage) -> None:
    old = stage.report(10)
    stage.git.write("new.py", "x\n")
    stage.commit()
    result = stage.publish(old, "old")
    assert (result.summary, result.review, result.check_run) == ("posted", "skipped", "posted")
    assert "problem 10" in stage.summary
    assert stage.last.head == old.subject.head


def test_nobody_who_may_not_write_does(stage: Stage) -> None:
    result = stage.publish(stage.report(10), token=EVE)
    assert (result.summary, result.check_run) == ("posted", "failed")  # a public repository
    assert result.reason
    assert stage.state.comments[0].user == "eve"
    assert stage.github.world.repositories[NAME].checks == []
