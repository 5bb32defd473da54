"""Review comments: each finding once, closed when it is gone, never against a person's word."""

from __future__ import annotations

from typing import Any

import pytest

from rlm_ci.github.posting import review_threads
from rlm_ci.github.posting.outcome import PostingOptions
from rlm_ci.report.findings import Finding, Location, Severity
from rlm_ci.report.proof import ARGUED, PROVEN, Proof
from testing.loopback_github.scene import ADA, BOT, NAME, NUMBER, lines
from testing.loopback_github.state import Reaction
from testing.markup_judges import github_html
from testing.posting_stage import Stage, words
from testing.reports import HOSTILE_CODE

NO_CONTENTS = {
    "contents": "read", "pull_requests": "write", "issues": "write", "checks": "write",
}  # fmt: skip


def push(stage: Stage, *changed: int) -> None:
    """The head moves: these lines of src/a.py are changed."""
    stage.git.write("src/a.py", lines(10, 40, *changed))
    stage.git.run("commit", "--allow-empty", "-qam", f"Push {changed}")
    stage.github.push(NAME, NUMBER, "feature")


def resolved(stage: Stage) -> dict[int | None, str]:
    """Line to who resolved it."""
    comments = {one.id: one.original_line for one in stage.state.review_comments}
    return {comments[ident]: who for ident, who in stage.state.resolved.items()}


def folded(stage: Stage) -> list[int | None]:
    return [one.original_line for one in stage.state.review_comments if one.minimized == "outdated"]


def reply(stage: Stage, text: str = "It is meant so.") -> None:
    first = stage.state.review_comments[0]
    stage.raw("POST", f"/pulls/{NUMBER}/comments/{first.id}/replies", {"body": text}, ADA)


def resolve(stage: Stage, token: str = ADA) -> None:
    ident = f"PRRT_{stage.state.review_comments[0].id}"
    document = "mutation($i:ID!){resolveReviewThread(input:{threadId:$i}){thread{id}}}"
    stage.graph(document, token, i=ident)


# -- over ten pushes ----------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.parametrize("contents", [True, False], ids=["resolving", "folding"])
def test_ten_pushes(stage: Stage, contents: bool) -> None:
    """A finding comes at push n and goes at push n + 3; another one stays all the time."""
    token = stage.github.token("t", permissions=None if contents else NO_CONTENTS)
    for number in range(10):
        push(stage, 25 + number % 3)
        found = [10, *(line for line in range(37, 44) if number - 3 < line - 37 <= number)]
        before = len(stage.github.log)
        result = stage.publish(stage.report(*found), f"run-{number}", token=token)
        assert result.ok, result
        asked = stage.github.log[before:]
        assert len(asked) <= 9 + (not contents), words(asked)
        assert stage.last.head == stage.head
        gone = {line for line in range(37, 44) if line not in found and line - 37 <= number}
        assert set(resolved(stage) if contents else folded(stage)) == gone
    assert len(stage.summaries) == 1
    posted = [line for _, line in stage.beside]
    assert sorted(one or 0 for one in posted) == [10, *range(37, 44)]
    assert len(stage.github.sent("POST", "/reviews")) == 7


@pytest.mark.parametrize("contents", [True, False], ids=["resolving", "folding"])
def test_what_was_gone_and_is_back_is_said_again(stage: Stage, contents: bool) -> None:
    token = stage.github.token("t", permissions=None if contents else NO_CONTENTS)
    for number, found in enumerate([[10, 40], [40], [40], [10, 40], [10, 40]]):
        stage.publish(stage.report(*found), f"run-{number}", token=token)
    assert stage.beside == [("src/a.py", 10), ("src/a.py", 40), ("src/a.py", 10)]
    assert (list(resolved(stage)) if contents else folded(stage)) == [10]
    closing = [one for one in stage.github.writes if one.path == "/graphql"]
    assert len(closing) == (1 if contents else 2), "what is closed is not closed again"


def test_a_comment_without_permission_to_close_stays_and_that_is_no_failure(stage: Stage) -> None:
    stage.publish(stage.report(10, 40), "run-1")
    stage.github.fault(
        "POST", "/graphql", times=None, skip=1, status=200,
        body={"data": {"mi0": None}, "errors": [{"type": "FORBIDDEN", "message": "no"}]},
    )  # fmt: skip
    result = stage.publish(stage.report(40), "run-2")
    assert (result.ok, result.review) == (True, "skipped")
    assert result.reason
    assert "old review comments stay as they are" in result.reason
    assert not stage.state.resolved


def test_what_another_check_found_is_not_closed(stage: Stage) -> None:
    stage.publish(stage.report(10, 40), "run-1")
    other = stage.report(stage.finding(58, rule="y/r"))
    (part,) = other.parts
    for changed in (part.replace(id="y"), part.replace(id="x", findings=(), enabled=False),
                    part.replace(id="x", findings=(), state="incomplete")):  # fmt: skip
        stage.publish(other.replace(parts=(changed,)), "run-2")
        assert list(resolved(stage)) == []
    # What is whole closes its own, whatever another part could not do.
    parts = (part.replace(id="y", state="not_run"), part.replace(id="x", findings=()))
    stage.publish(other.replace(parts=parts), "run-3")
    assert list(resolved(stage)) == [10, 40]


def test_what_a_run_of_another_name_found_is_not_closed(stage: Stage) -> None:
    stage.publish(stage.report(10), "run-1", name="one")
    stage.publish(stage.report(40), "run-2", name="two")
    assert list(resolved(stage)) == []
    stage.publish(stage.report(40), "run-3", name="one")
    assert list(resolved(stage)) == [10]
    assert len(stage.beside) == 2, "what both find has one comment"


def test_what_an_older_version_posted_is_closed(stage: Stage) -> None:
    stage.publish(stage.report(10, 40), "run-1")
    for one in stage.state.review_comments:
        mark = review_threads.read_marker(one.body) or ""
        one.body = f"{review_threads.marker(mark)}\n{one.body.partition(chr(10))[2]}"
    stage.publish(stage.report(40), "run-2", name="judge")
    assert list(resolved(stage)) == [10]
    assert len(stage.beside) == 2


# -- another base -------------------------------------------------------------------------------


def bases(stage: Stage) -> list[str]:
    return [review_threads.read_origin(one.body).base for one in stage.state.review_comments]


def test_on_another_base_open_comments_go_on_and_answers_do_not(stage: Stage) -> None:
    stage.publish(stage.report(10, 40), "run-1", target="dev")
    first, second = stage.state.review_comments
    stage.state.resolved[first.id] = "ada"
    dev = bases(stage)[0]
    push(stage, 58)
    result = stage.publish(stage.report(10, 40), "run-2", target="main")
    assert result.ok, result
    # That of 10 was an answer to what the pull request was then: it is asked again.
    assert [line for _, line in stage.beside] == [10, 40, 10]
    main = bases(stage)[2]
    assert (bases(stage), dev == main) == ([dev, main, main], False)
    assert second.body.partition("\n")[2], "its text stays"
    # The same base again: nothing is new, and nothing is edited.
    before = len(stage.github.writes)
    stage.publish(stage.report(10, 40), "run-3", target="main")
    assert not [one for one in stage.github.writes[before:] if "updatePull" in str(one.body)]
    assert len(stage.beside) == 3


def test_a_thumb_down_of_another_base_does_not_stay(stage: Stage) -> None:
    stage.publish(stage.report(10), "run-1", target="dev")
    world = stage.github.world
    stage.state.review_comments[0].reactions.append(
        Reaction(world.new_id(), "ada", "-1", world.now())
    )
    stage.publish(stage.report(10), "run-2", target="main")
    stage.publish(stage.report(10), "run-3", target="main")
    assert [line for _, line in stage.beside] == [10, 10]


# -- people -------------------------------------------------------------------------------------


def test_what_a_person_answered_is_not_closed(stage: Stage) -> None:
    stage.publish(stage.report(10, 40), "run-1")
    reply(stage)
    stage.publish(stage.report(), "run-2")
    assert list(resolved(stage)) == [40]
    assert folded(stage) == []


def test_what_a_person_resolved_is_not_raised_again(stage: Stage) -> None:
    stage.publish(stage.report(10, 40), "run-1")
    resolve(stage)
    push(stage, 58)
    result = stage.publish(stage.report(10, 40), "run-2")
    assert (result.ok, result.review) == (True, "skipped")
    assert len(stage.beside) == 2
    assert "problem 10" in stage.summary  # the verdict does not change by it


def test_what_a_person_hid_is_not_raised_again(stage: Stage) -> None:
    stage.publish(stage.report(10), "run-1")
    stage.state.review_comments[0].minimized = "off-topic"
    stage.publish(stage.report(10), "run-2")
    assert len(stage.beside) == 1


def test_a_marker_in_anybody_elses_comment_says_nothing(stage: Stage) -> None:
    stage.publish(stage.report(10), "run-1")
    (ours,) = stage.state.review_comments
    for token in (ADA, "t-person"):
        stage.github.token("t-person", "github-actions")  # the bot's name, but a person's account
        body = {
            "commit_id": stage.head, "path": "src/a.py", "line": 40, "side": "RIGHT",
            "body": ours.body.replace("problem 10", "fine"),
        }  # fmt: skip
        stage.raw("POST", f"/pulls/{NUMBER}/comments", body, token)
    stage.state.review_comments.remove(ours)
    result = stage.publish(stage.report(10), "run-2")
    assert result.review == "posted"
    assert [one.user for one in stage.state.review_comments].count("github-actions[bot]") == 1
    assert all(one.minimized is None for one in stage.state.review_comments)
    assert not stage.state.resolved


def test_an_incomplete_run_closes_nothing(stage: Stage) -> None:
    stage.publish(stage.report(10, 40), "run-1")
    stage.publish(stage.report(40, state="incomplete"), "run-2")
    assert not stage.state.resolved


def test_a_suppressed_finding_is_closed(stage: Stage) -> None:
    stage.publish(stage.report(10, 40), "run-1")
    stage.publish(stage.report(stage.finding(10, suppression="why not"), 40), "run-2")
    assert list(resolved(stage)) == [10]
    assert "why not" in stage.summary


@pytest.mark.full
def test_threads_beyond_the_first_page_are_known(stage: Stage) -> None:
    stage.publish(stage.report(10, 40), "run-1")
    ours = stage.state.review_comments[:]
    body = {
        "commit_id": stage.head, "path": "src/a.py", "line": 40, "side": "RIGHT", "body": "chatter",
    }  # fmt: skip
    stage.state.review_comments.clear()
    for _ in range(230):
        stage.raw("POST", f"/pulls/{NUMBER}/comments", body, ADA)
    stage.state.review_comments += ours
    result = stage.publish(stage.report(10), "run-2")
    assert (result.ok, result.review) == (True, "skipped")
    assert len(stage.beside) == 232
    assert list(stage.state.resolved) == [ours[1].id]


@pytest.mark.parametrize(
    "data",
    [
        {"viewer": {"login": "github-actions[bot]"}, "repository": None},
        {"viewer": {"login": "github-actions[bot]"}, "repository": {"pullRequest": None}},
        {"viewer": {"login": None}, "repository": {"pullRequest": {"headRefOid": "x"}}},
        {"viewer": {}},
        {"viewer": None, "repository": {"pullRequest": {"reviewThreads": {"nodes": []}}}},
    ],
    ids=range(5),
)
def test_an_answer_in_part_is_not_taken_for_no_threads(stage: Stage, data: Any) -> None:
    """Else everything would be posted once more."""
    stage.publish(stage.report(10), "run-1")
    errors = [{"type": "FORBIDDEN", "message": "Resource not accessible by integration"}]
    body = {"data": data, "errors": errors}
    stage.github.fault("POST", "/graphql", times=None, status=200, body=body)
    result = stage.publish(stage.report(10), "run-2")
    assert result.review == "failed"
    assert result.reason
    assert stage.beside == [("src/a.py", 10)]
    assert len(stage.summaries) == 1


# -- places -------------------------------------------------------------------------------------


@pytest.mark.parametrize("local", [True, False], ids=["git's diff", "GitHub's diff"])
def test_every_place_that_a_diff_has(stage: Stage, local: bool) -> None:
    stage.local = local
    old = Finding("x/old", Severity.HIGH, "was so", evidence=(
        Location("src/a.py", 10, 10, side="old", quote="line 10"),))  # fmt: skip
    gone = Finding("x/gone", Severity.HIGH, "gone", evidence=(
        Location("gone.txt", 1, 2, side="old", quote="one\ntwo"),))  # fmt: skip
    ranged = stage.finding(9, rule="x/range", evidence=(stage.location(9, end=11),))
    renamed = stage.finding(5, "edited.txt")
    new = stage.finding(2, "new.py")
    whole = Finding("x/whole", Severity.HIGH, "all of it", evidence=(Location("logo.bin"),))
    pure = stage.finding(3, "renamed.txt")
    far = stage.finding(25)
    away = Finding("x/away", Severity.HIGH, "elsewhere", evidence=(Location("README.md", 1),))
    nowhere = Finding("x/nowhere", Severity.HIGH, "in general")
    found = [old, gone, ranged, renamed, new, whole, pure, far, away, nowhere]
    result = stage.publish(stage.report(*found))
    assert result.ok, result
    rows = {
        (one.path, one.original_start_line, one.original_line, one.side)
        for one in stage.state.review_comments
        if one.subject == "line"
    }
    assert rows == {
        ("src/a.py", None, 10, "LEFT"), ("gone.txt", 1, 2, "LEFT"), ("src/a.py", 9, 11, "RIGHT"),
        ("edited.txt", None, 5, "RIGHT"), ("new.py", None, 2, "RIGHT"),
    }  # fmt: skip
    on_file = {one.path for one in stage.state.review_comments if one.subject == "file"}
    assert on_file == {"logo.bin", "renamed.txt", "src/a.py"}
    for one in found:
        assert one.message in stage.summary
    assert "5 findings beside the lines" in stage.summary
    for reason in ("not part of the diff", "outside of the diff"):
        assert reason in stage.summary, reason


def test_a_suggestion_replaces_exactly_its_lines(stage: Stage) -> None:
    fix = "```suggestion\nbetter ``` 10\nmore\n```"
    offered = stage.finding(9, rule="x/fix", suggested_fix=fix)
    offered = offered.replace(evidence=(stage.location(9, end=10),))
    assert stage.publish(stage.report(offered)).ok
    (comment,) = stage.state.review_comments
    assert (comment.original_start_line, comment.original_line) == (9, 10)
    if "suggestion" in comment.body:
        assert "\n````suggestion\nbetter ``` 10\nmore\n````\n" in comment.body


def test_a_repair_that_was_run_is_offered_and_what_is_argued_is_beside_no_line(
    stage: Stage,
) -> None:
    head = stage.git.text("show", "feature:src/a.py").split("\n")
    hunk = f"@@ -10,2 +10,2 @@\n {head[9]}\n-{head[10]}\n+    @mended  # ::x"
    proof = Proof(
        PROVEN,
        "why",
        "run it",
        reproduction=HOSTILE_CODE,
        repair=f"--- a/src/a.py\n+++ b/src/a.py\n{hunk}\n",
    )
    proven = stage.finding(10, proof=proof)
    argued = stage.finding(40, severity=Severity.CRITICAL, proof=Proof(ARGUED, "no sandbox"))
    report = stage.report(proven, argued)
    assert report.failing() == (proven,)
    assert stage.publish(report).ok
    (comment,) = stage.state.review_comments
    assert (comment.original_start_line, comment.original_line) == (10, 11)
    assert f"\n```suggestion\n{head[9]}\n    @mended  # ::x\n```\n" in comment.body
    assert "Repair, which was run" in comment.body
    assert HOSTILE_CODE in [one.text() for one in github_html(comment.body).root.all("pre")]
    assert "1 finding argued only: nothing that ran shows it" in stage.summary
    assert "only here" not in stage.summary
    (check,) = stage.home.checks
    assert [one["start_line"] for one in check.annotations] == [10]
    assert check.title == "1 finding fails this change"


def test_the_same_words_on_two_lines_are_two_findings(stage: Stage) -> None:
    one, two = (stage.finding(line, rule="x/same", message="same") for line in (10, 40))
    for number in range(2):
        assert stage.publish(stage.report(one, two), f"run-{number}").ok
    assert len(stage.beside) == 2
    marks = {review_threads.read_marker(one.body) for one in stage.state.review_comments}
    assert len(marks) == 2


# -- refusals -----------------------------------------------------------------------------------


def misled(stage: Stage, *found: Finding | int) -> Any:
    """A publisher whose own diff is that of another head than GitHub's: it has line 25."""
    report = stage.report(*found)
    stage.git.checkout("feature")
    stage.git.write("src/a.py", lines(10, 25, 40)).run("commit", "-qam", "not pushed")
    publisher = stage.publisher(report)
    publisher._local_diff = stage.change().diff
    return publisher


def test_one_bad_line_costs_only_itself(stage: Stage) -> None:
    bad = stage.finding(24)
    result = misled(stage, 10, bad, 40).publish()
    assert result.ok, result
    assert stage.beside == [("src/a.py", 10), ("src/a.py", 40)]
    assert words(stage.github.sent("POST", "/reviews")) == ["POST reviews 422", "POST reviews 200"]
    assert len(stage.state.reviews) == 1
    assert "problem 24" in stage.summary
    assert "its diff does not have this place" in stage.summary
    assert "2 findings beside the lines" in stage.summary


def test_only_bad_lines_leave_no_review(stage: Stage) -> None:
    result = misled(stage, 24).publish()
    assert (result.ok, result.review) == (True, "skipped")
    assert stage.state.reviews == []
    assert "problem 24" in stage.summary


def test_a_refusal_of_what_is_right_is_told(stage: Stage) -> None:
    body = {"message": "Unprocessable Entity", "errors": ["The moon is wrong"]}
    stage.github.fault("POST", "*/reviews", times=None, status=422, body=body)
    result = stage.publish(stage.report(10, 40))
    assert (result.ok, result.review, stage.beside) == (True, "skipped", [])
    assert "The moon is wrong" in stage.summary
    assert len(stage.github.sent("POST", "/reviews")) == 1, "the same would be refused again"
    assert "problem 10" in stage.summary


@pytest.mark.parametrize("store", [True, False])
@pytest.mark.parametrize("wrong", [{"status": 502}, {"drop": True}], ids=str)
def test_a_failure_around_the_review_leaves_one(
    stage: Stage, store: bool, wrong: dict[str, Any]
) -> None:
    stage.github.fault("POST", "*/reviews", store=store, **wrong)
    result = stage.publish(stage.report(10, 40))
    assert result.ok, result
    assert stage.beside == [("src/a.py", 10), ("src/a.py", 40)]
    assert len(stage.state.reviews) == 1


@pytest.mark.parametrize("store", [True, False])
def test_a_failure_around_a_comment_on_a_file_leaves_one(stage: Stage, store: bool) -> None:
    stage.github.fault("POST", "*/pulls/*/comments", store=store, status=502)
    result = stage.publish(stage.report(25))
    assert result.ok, result
    assert [one.subject for one in stage.state.review_comments] == ["file"]


def test_where_our_own_diff_cannot_be_read_github_has_one(stage: Stage) -> None:
    from rlm_ci.errors import DamagedError

    def diff() -> Any:
        raise DamagedError("an object is damaged", where=".git")

    publisher = stage.publisher(stage.report(10))
    publisher._local_diff = diff
    result = publisher.publish()
    assert (result.ok, stage.beside) == (True, [("src/a.py", 10)])
    assert result.reason
    assert "an object is damaged" in result.reason


def test_a_push_during_the_review(stage: Stage) -> None:
    """The comments stay with the commit that was judged, the newer run has the last word."""
    report = stage.report(10, 40)
    stage.github.fault("POST", "*/reviews", before=lambda _request: push(stage, 58))
    result = stage.publish(report)
    assert result.ok, result
    assert {one.commit for one in stage.state.review_comments} == {report.subject.head}
    assert result.reason
    assert "moved on" in result.reason


def test_no_review_comments_are_wished_for(stage: Stage) -> None:
    result = stage.publish(stage.report(10), wishes=PostingOptions(comment="sticky"))
    assert (result.ok, result.review, stage.beside) == (True, "skipped", [])
    assert not stage.github.sent("POST", "/reviews")
    assert stage.client_of(BOT).requests == 0
