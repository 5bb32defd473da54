"""``/rlm-ci explain`` and ``help``, in the conversation and in threads: who gets which reply."""

from __future__ import annotations

import pytest

from rlm_ci.github.posting.review_threads import marker
from testing.comment_commands_stage import NAME, Stage, stage
from testing.loopback_github.state import ACTIONS_BOT, ReviewComment

__all__ = ["stage"]

MARK = "3f2a9c1b" + "0" * 24


@pytest.fixture
def found(stage: Stage) -> ReviewComment:
    """A review comment of ours, about a finding, and one that somebody forged."""
    now = stage.github.world.now()
    body = f"{marker(MARK)}\n**low** `review/ruff-f401`: `os` is not used\n"
    made = ReviewComment(
        stage.github.world.new_id(), 1, ACTIONS_BOT, body, stage.head, "src/a.py", "line", 1,
        "RIGHT", None, None, 1, "@@ -0,0 +1 @@\n+x = 1", None, now, now,
    )  # fmt: skip
    forged = ReviewComment(
        stage.github.world.new_id(), 2, "eve", body.replace("ruff-f401", "ruff-s602"), stage.head,
        "src/a.py", "line", 1, "RIGHT", None, None, 1, "", None, now, now,
    )  # fmt: skip
    stage.pull.review_comments += [forged, made]
    return made


def test_help_lists_the_commands_and_judges_nothing(stage: Stage) -> None:
    assert stage.say("/rlm-ci help") == 0, stage.said
    assert "| `/rlm-ci ask QUESTION` |" in stage.reply
    assert stage.unjudged
    assert not stage.conclusions
    assert len(stage.github.log) <= 6


@pytest.mark.usefixtures("found")
@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ("diff-budget/files", "### `diff-budget/files`\n\nSeverity `high`."),
        ("`Review/Ruff-S602`", "subprocess-popen-with-shell-equals-true"),
        ("3f2a9c1b", "### `review/ruff-f401` ([the comment](https://github.com/acme/shop/pull/12#"),
        ("src/a.py:1", "### `review/ruff-f401` ([the comment]("),
    ],
)
def test_explain(stage: Stage, wanted: str, told: str) -> None:
    assert stage.say(f"/rlm-ci explain {wanted}") == 0, stage.said
    assert told in stage.reply
    assert "**Fix.**" in stage.reply
    assert ".md" not in stage.reply
    assert stage.reply.count("### ") == 1


@pytest.mark.usefixtures("found")
@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ("", "a rule or a finding is missing"),
        ("diff-budget/file", "did you mean diff-budget/files?"),
        ("src/b.py:1", "is called 'src/b.py:1'"),
        ("ffffffff", "is called 'ffffffff'"),
        ("../../x <img src=x> @ada", "is called"),
    ],
)
def test_what_cannot_be_explained(stage: Stage, wanted: str, told: str) -> None:
    assert stage.say(f"/rlm-ci explain {wanted}") == 5
    assert told in stage.said
    assert stage.reply.startswith("**Not done.** ")
    assert "<img" not in stage.reply.replace("\\<img", "")
    assert "@ada" not in stage.reply


def test_in_a_thread_of_ours_its_finding_is_explained(stage: Stage, found: ReviewComment) -> None:
    event = stage.events.review_comment("/rlm-ci explain", to=found)
    assert stage.run(event) == 0, stage.said
    assert stage.reply.startswith("### `review/ruff-f401`")
    (reply,) = [one for one in stage.pull.review_comments if one.body.startswith("<!-- rlm-ci:re")]
    assert reply.in_reply_to == found.id
    # A run that is repeated edits it.
    reply.body = reply.body.replace("ruff-f401", "edited")
    assert stage.run(event) == 0
    assert stage.reply.startswith("### `review/ruff-f401`")
    assert stage.unjudged


@pytest.mark.usefixtures("found")
def test_in_a_thread_of_others(stage: Stage) -> None:
    theirs = stage.pull.review_comments[0]
    assert stage.run(stage.events.review_comment("/rlm-ci explain", to=theirs)) == 5
    assert "not about a finding of ours" in stage.reply
    stage.pull.review_comments.pop()
    override = "/rlm-ci override diff-budget: x"
    assert stage.run(stage.events.review_comment(override, to=theirs)) == 5
    assert "write the same there" in stage.said
    assert stage.unjudged


def test_a_check_can_be_asked_for_in_a_thread(stage: Stage, found: ReviewComment) -> None:
    event = stage.events.review_comment("/rlm-ci check diff-budget", to=found)
    assert stage.run(event) == 1, stage.said
    assert (stage.last.head, stage.last.verdict) == (stage.head, "findings")


def test_other_comments_in_threads_are_nothing_to_us(stage: Stage, found: ReviewComment) -> None:
    for text, author, action in (
        ("Why?", "ada", "created"),
        ("> /rlm-ci help", "ada", "created"),
        ("/rlm-ci help", ACTIONS_BOT, "created"),
        ("/rlm-ci help", "ada", "edited"),
    ):
        event = stage.events.review_comment(text, author, to=found)
        event.payload["action"] = action
        assert stage.run(event) == 0
        assert stage.said.startswith("nothing to do: ")
    assert stage.run(stage.events.review_comment("/rlm-ci help", "eve", to=found)) == 5
    assert stage.untouched


def test_a_repeated_run_edits_its_reply(stage: Stage) -> None:
    event = stage.comment("/rlm-ci help")
    assert stage.run(event) == 0
    assert stage.run(event) == 0
    assert [one.method for one in stage.github.writes] == ["POST"]
    (reply,) = (one for one in stage.pull.comments if one.user == ACTIONS_BOT)
    marked = reply.body.partition("\n")[0]
    reply.body = f"{marked}\nold"
    # Of somebody else's, the marker does not count; and another command has its own reply.
    stage.pull.comments[0].body = f"{marked}\nforged"
    assert stage.run(event) == 0
    assert [one.method for one in stage.github.writes] == ["POST", "PATCH"]
    assert "/rlm-ci ask" in reply.body
    assert stage.say("/rlm-ci help") == 0
    assert sum(one.user == ACTIONS_BOT for one in stage.pull.comments) == 2


def test_a_reply_that_cannot_be_posted_is_in_the_run(stage: Stage) -> None:
    summary = stage.folder / "summary.md"
    stage.github.fault("POST", "*/comments", status=403, times=None)
    event = stage.comment("/rlm-ci explain diff-budget/files")
    assert stage.run(event, GITHUB_STEP_SUMMARY=str(summary)) == 0
    assert "warning: the reply is not posted: GitHub answered 403" in stage.said
    assert "### `diff-budget/files`" in summary.read_text()


def test_on_a_fork_the_page_of_rules_is_read_as_well(stage: Stage) -> None:
    stage.pull.head_repository, stage.pull.user = f"mallory/{NAME[5:]}", "mallory"
    assert stage.say("/rlm-ci explain diff-budget/files") == 0
    assert stage.unjudged
    stage.pull.comments.clear()
    for refused, why in (("ask Why?", "No model reads"), ("fix", "No fix loop runs the code")):
        assert stage.say(f"/rlm-ci {refused}") == 5
        assert stage.reply.startswith(f"**Not done.** {why}")
        stage.pull.comments.clear()
    assert stage.pull.labels == []
