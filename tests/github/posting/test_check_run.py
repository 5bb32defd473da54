"""The check run: the verdict where branch protection looks; annotations, all of them, once."""

from __future__ import annotations

from typing import Any

import pytest

from rlm_ci.errors import ConfigError
from rlm_ci.github.posting.outcome import PostingOptions
from rlm_ci.report.findings import Finding, Location, Part, Severity
from rlm_ci.report.proof import Proof
from rlm_ci.report.rules import address
from testing.loopback_github.scene import ADA, READER
from testing.loopback_github.state import CheckRun
from testing.posting_stage import Stage

CHECK_ONLY = PostingOptions(comment="none")
Annotations = list[dict[str, Any]]


def check(stage: Stage) -> CheckRun:
    (only,) = stage.home.checks
    return only


def many(number: int) -> list[Finding]:
    """Findings on as many lines of files of this repository, none of them twice."""
    return [
        Finding(f"x/r{n}", Severity.HIGH, f"problem {n}", "fix it",
                (Location("src/a.py", n % 60 + 1, n % 60 + 1),), subject=str(n))
        for n in range(number)
    ]  # fmt: skip


@pytest.mark.sample(6)
@pytest.mark.parametrize(
    ("part", "unfinished", "conclusion"),
    [
        ({}, "action_required", "success"),
        ({"findings": 1}, "action_required", "failure"),
        ({"findings": 1}, "failure", "failure"),
        ({"state": "incomplete"}, "action_required", "action_required"),
        ({"state": "incomplete"}, "failure", "failure"),
        ({"state": "not_run"}, "action_required", "action_required"),
        ({"state": "not_run"}, "failure", "failure"),
        ({"state": "incomplete", "findings": 1}, "action_required", "failure"),
        ({"medium": 1}, "action_required", "success"),
    ],
    ids=str,
)
def test_the_conclusion_is_the_verdicts(
    stage: Stage, part: dict[str, Any], unfinished: str, conclusion: str
) -> None:
    found = [stage.finding(10)] * part.pop("findings", 0)
    found += [stage.finding(10, severity=Severity.MEDIUM)] * part.pop("medium", 0)
    wishes = CHECK_ONLY.replace(unfinished=unfinished)
    result = stage.publish(stage.report(*found, **part), wishes=wishes)
    assert (result.check_run, result.summary, result.review) == ("posted", "skipped", "skipped")
    made = check(stage)
    assert (made.status, made.conclusion, made.head_sha) == ("completed", conclusion, stage.head)
    assert made.title
    assert made.summary


def test_a_report_of_nothing_lets_nobody_through(stage: Stage) -> None:
    error = ConfigError("no base", hint="fetch it")
    report = stage.report().replace(parts=(Part.from_error("x", error),))
    assert stage.publish(report, wishes=CHECK_ONLY).ok
    assert check(stage).conclusion == "action_required"
    empty = stage.report().replace(parts=())
    assert stage.publish(empty, "again", wishes=CHECK_ONLY).ok
    assert stage.home.checks[-1].conclusion == "action_required"


@pytest.mark.sample(6)
@pytest.mark.parametrize("number", [0, 1, 50, 51, 100, 101, 499, 500])
def test_annotations_go_in_batches_of_fifty(stage: Stage, number: int) -> None:
    found = many(number)
    result = stage.publish(stage.report(*found), wishes=CHECK_ONLY)
    assert result.ok, result
    made = check(stage)
    rows: Annotations = made.annotations
    told = sorted(f"{one.message}\nfix it\n{address(one.rule)}" for one in found)
    assert sorted(row["message"] for row in rows) == told
    sizes = [len(one.body["output"].get("annotations", [])) for one in stage.github.writes]
    assert max(sizes) <= 50
    assert len(sizes) == max(1, -(-number // 50))
    assert made.conclusion == ("failure" if number else "success")


def test_code_that_nobody_reviewed_is_neutral(stage: Stage) -> None:
    reach = {"change": True, "files": 2, "looked": 0, "others": {"Go": 2}}
    for others, conclusion in (({"Go": 2}, "neutral"), ({"Markdown": 2}, "success")):
        metrics = {"enabled": False, "reach": {**reach, "others": others}}
        part = Part("review", "nothing reads it", metrics, enabled=False)
        report = stage.report()
        stage.publish(report.replace(parts=(*report.parts, part)), wishes=CHECK_ONLY)
        assert stage.home.checks[-1].conclusion == conclusion


def test_weakened_tests_that_fail_nothing_are_neutral(stage: Stage) -> None:
    found = Finding("test-guard/test-removed", Severity.MEDIUM, "test_total is gone")
    for suppression, conclusion in ((None, "neutral"), ("agreed", "success")):
        part = Part("test-guard", "1 weakening", findings=(found.replace(suppression=suppression),))
        stage.publish(stage.report().replace(parts=(part,)), wishes=CHECK_ONLY)
        assert stage.home.checks[-1].conclusion == conclusion
    assert stage.home.checks[0].title == (
        "1 weakening reported only: 1 check, no finding fails (1 finding not annotated)"
    )


def test_a_claim_that_stands_is_named_in_the_title(stage: Stage) -> None:
    proof = Proof("argued", "nothing can run here")
    claim = Finding("review/odd", Severity.MEDIUM, "odd", source="model:m", proof=proof)
    report = stage.report()
    part = Part("review", "1 finding", findings=(claim,))
    stage.publish(report.replace(parts=(part,)), wishes=CHECK_ONLY)
    made = stage.home.checks[-1]
    assert made.conclusion == "success"
    assert made.title == "1 claim to read, not shown by a run"


def test_the_conclusion_stands_from_the_first_request_on(stage: Stage) -> None:
    """Whoever kills us between two batches leaves no check that spins for ever."""
    stage.github.fault("PATCH", "*/check-runs/*", times=None, status=502)
    result = stage.publish(stage.report(*many(120)), wishes=CHECK_ONLY)
    assert result.check_run == "failed"
    assert (check(stage).status, check(stage).conclusion) == ("completed", "failure")
    assert len(check(stage).annotations) == 50


@pytest.mark.sample(2)
@pytest.mark.parametrize("store", [True, False])
@pytest.mark.parametrize("wrong", [{"status": 502}, {"drop": True}], ids=str)
@pytest.mark.parametrize("skip", range(3))
def test_a_failure_in_any_batch_doubles_nothing(
    stage: Stage, skip: int, wrong: dict[str, Any], store: bool
) -> None:
    verb, skip = ("POST", 0) if skip == 0 else ("PATCH", skip - 1)
    stage.github.fault(verb, "*/check-runs*", skip=skip, store=store, **wrong)
    result = stage.publish(stage.report(*many(130)), wishes=CHECK_ONLY)
    assert result.ok, result
    assert len(check(stage).annotations) == 130
    assert len({row["message"] for row in check(stage).annotations}) == 130


@pytest.mark.parametrize("message", ["problem", "\u95ee\u9898" * 200], ids=["words", "Chinese"])
def test_the_text_is_counted_in_bytes_and_whole(stage: Stage, message: str) -> None:
    found = [one.replace(message=f"{message} {at}") for at, one in enumerate(many(1200))]
    result = stage.publish(stage.report(*found), wishes=CHECK_ONLY)
    assert result.ok, result
    text = check(stage).summary or ""
    assert 60_000 < len(text.encode()) <= 65_535
    assert "There was no room here for" in text
    assert text.rstrip().endswith("</sub>")


def test_what_is_not_annotated_is_counted(stage: Stage) -> None:
    found = many(30)
    found += [
        Finding("x/nowhere", Severity.HIGH, "in general"),
        Finding("x/old", Severity.HIGH, "was", evidence=(Location("src/a.py", 3, 3, "old"),)),
        Finding("x/bytes", Severity.HIGH, "bytes", evidence=(Location("\udcff.py", 3, 3),)),
        stage.finding(10, suppression="why"),
    ]
    wishes = CHECK_ONLY.replace(annotations=20)
    assert stage.publish(stage.report(*found), wishes=wishes).ok
    made = check(stage)
    assert len(made.annotations) == 20
    assert made.title
    assert "13 findings not annotated" in made.title
    assert "in general" in (made.summary or "")


def test_levels_and_places(stage: Stage) -> None:
    found = [
        Finding(f"x/{level.label}", level, f"of {level.label}",
                evidence=(Location("src/a.py", *place),))
        for level, place in zip(Severity, [(None, None), (3, None), (4, 6), (9, 2), (1, 1)],
                                strict=True)
    ]  # fmt: skip
    assert stage.publish(stage.report(*found), wishes=CHECK_ONLY).ok
    rows = {
        row["title"]: (row["annotation_level"], row["start_line"], row["end_line"])
        for row in check(stage).annotations
    }
    assert rows == {
        "x/info": ("notice", 1, 1), "x/low": ("notice", 3, 3), "x/medium": ("warning", 4, 6),
        "x/high": ("failure", 9, 9), "x/critical": ("failure", 1, 1),
    }  # fmt: skip


def test_without_permission_the_rest_is_posted(stage: Stage) -> None:
    rights = {"contents": "write", "pull_requests": "write", "issues": "write"}
    token = stage.github.token("t", permissions=rights)
    result = stage.publish(stage.report(10), token=token)
    assert (result.summary, result.review, result.check_run) == ("posted", "posted", "failed")
    assert result.denied == {"check_run"}
    assert result.reason
    assert "checks: write" in result.reason


@pytest.mark.parametrize(
    "said",
    [None, "You must authenticate via a GitHub App.",
     "Resource not accessible by personal access token"],
)  # fmt: skip
def test_a_persons_token_is_told_what_a_check_run_takes(stage: Stage, said: str | None) -> None:
    if said:
        headers = {"x-accepted-github-permissions": "checks=write"}
        stage.github.fault(
            "POST", "*/check-runs", status=403, body={"message": said}, headers=headers
        )
    result = stage.publish(stage.report(10), token=ADA)
    assert (result.summary, result.review, result.check_run) == ("posted", "posted", "failed")
    assert result.reason
    assert "github.token" in result.reason
    assert "publish.check_run = false" in result.reason


@pytest.mark.parametrize("said", ["Resource not accessible by integration", None])
@pytest.mark.parametrize(
    ("verb", "path", "permission"),
    [
        ("POST", "*/check-runs", "checks: write"),
        ("POST", "*/issues/*/comments", "issues: write or pull-requests: write"),
        ("POST", "*/pulls/*/reviews", "pull-requests: write"),
        ("GET", "*/issues/*/comments*", "issues: read or pull-requests: read"),
    ],
)
def test_without_githubs_header_the_missing_permission_is_named(
    stage: Stage, said: str | None, verb: str, path: str, permission: str
) -> None:
    body = {"message": said} if said else "<html>"
    stage.github.fault(verb, path, times=None, status=403, body=body)
    result = stage.publish(stage.report(10))
    assert f"give the job's token this permission: {permission}" in (result.reason or "")


def test_no_permission_is_named_where_another_reason_is_given(stage: Stage) -> None:
    body = {"message": "Repository was archived so is read-only."}
    stage.github.fault("POST", "*/check-runs", times=None, status=403, body=body)
    reason = stage.publish(stage.report(10)).reason or ""
    assert "archived" in reason
    assert "checks: write" not in reason


@pytest.mark.parametrize("odd", ["x", [1], {"annotations_count": "many"}], ids=str)
def test_a_check_run_of_odd_types_fails_alone(stage: Stage, odd: Any) -> None:
    stage.github.fault("PATCH", "*/check-runs/*", times=None, status=502)
    stage.github.fault("GET", "*/check-runs/*", times=None, status=200, body={"output": odd})
    result = stage.publish(stage.report(*many(60)))
    assert (result.summary, result.check_run) == ("posted", "failed")


@pytest.mark.parametrize("odd", [[], [1], {}, {"id": "x"}], ids=str)
def test_a_check_run_that_is_none_fails_alone(stage: Stage, odd: Any) -> None:
    stage.github.fault("POST", "*/check-runs", times=None, status=201, body=odd)
    result = stage.publish(stage.report(10))
    assert (result.summary, result.review, result.check_run) == ("posted", "posted", "failed")


def test_without_any_permission_each_is_named(stage: Stage) -> None:
    result = stage.publish(stage.report(10), token=READER)
    assert (result.summary, result.review, result.check_run) == ("failed",) * 3
    assert result.reason
    for permission in ("checks: write", "pull-requests: write", "issues: write"):
        assert permission in result.reason, result.reason
    assert not any((stage.state.comments, stage.state.review_comments, stage.home.checks))


def test_another_push_is_another_check_run(stage: Stage) -> None:
    stage.publish(stage.report(10), "run-1", wishes=CHECK_ONLY)
    stage.git.write("new.py", "x")
    stage.commit()
    stage.publish(stage.report(), "run-2", wishes=CHECK_ONLY)
    first, second = stage.home.checks
    assert (first.conclusion, second.conclusion) == ("failure", "success")
    assert first.head_sha != second.head_sha == stage.head
    assert {first.name, second.name} == {"rlm-ci"}
