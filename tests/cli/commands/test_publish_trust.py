"""``rlm-ci publish`` and ``pr``: whom they believe, what they leave when GitHub is slow or odd."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from rlm_ci.github.posting.outcome import PostingOptions
from rlm_ci.report.findings import Finding, Part, Report, Severity
from testing.loopback_github.fixture import github
from testing.loopback_github.scene import BOT, NAME, NUMBER
from testing.posting_stage import Stage, stage
from testing.publish_job import MANY, Job, job

__all__ = ["github", "job", "stage"]


def test_the_head_of_a_report_is_the_one_of_its_event(job: Job) -> None:
    """Else the report of one pull request could turn another's commit green."""
    path = job.report(subject={"head": job.stage.git.sha("main")})
    ended = job.publish(path)
    assert ended.code == 5
    assert "is not the head of acme/shop#12" in ended.stderr
    assert job.stage.github.writes == []


def test_publish_has_no_switch_to_post_nothing(job: Job) -> None:
    ended = job.publish(job.report(10), "--no-publish")
    assert ended.code == 2
    assert job.stage.github.log == []


def test_what_publish_prints_is_no_report(job: Job) -> None:
    ended = job.publish(job.report(10), "--format", "sarif")
    assert ended.code == 2
    assert "publish has no form 'sarif'" in ended.stderr
    assert job.stage.github.log == []


@pytest.mark.full
def test_the_second_job_tells_where_it_posted(job: Job) -> None:
    ended = job.publish(job.report(10), event=job.after())
    assert ended.code == 0, ended
    outputs = (job.folder / "outputs").read_text()
    assert "comment-url<<" in outputs
    assert ended.stdout.strip() in outputs


@pytest.mark.full
def test_the_second_job_asks_no_more_than_it_must(job: Job) -> None:
    assert job.publish(job.report(10), event=job.after()).code == 0
    before = len(job.stage.github.log)
    assert job.publish(job.report(10, 40), event=job.after()).code == 0
    assert len(job.stage.github.log) - before <= 10


def test_who_asks_for_posting_by_name_hears_why_there_is_none(job: Job) -> None:
    ended = job.pr("--publish", token=None)
    assert ended.code == 1
    assert "nothing is posted: there is no token (--publish)" in ended.stderr


@pytest.mark.full
def test_a_failure_of_posting_is_an_annotation_too(job: Job) -> None:
    job.stage.github.fault("POST", "*comments", times=None, status=403)
    ended = job.publish(job.report(), event=job.after())
    assert ended.code == 8
    assert "::error title=rlm-ci::the report could not be posted completely" in ended.stderr
    assert "::warning title=rlm-ci::not all is posted" in ended.stderr


@pytest.mark.full
def test_an_address_that_is_a_command_is_not_printed(job: Job) -> None:
    record = {"id": 5, "body": "x", "html_url": "::error title=pwn::x\n::add-mask::a"}
    job.stage.github.fault("POST", "*/issues/*/comments", status=201, body=record)
    ended = job.publish(job.report(), event=job.after())
    assert "pwn" not in ended.stdout + ended.stderr
    assert (
        not (job.folder / "outputs").exists() or "pwn" not in (job.folder / "outputs").read_text()
    )


def test_what_is_known_is_written_before_github_is_asked(job: Job) -> None:
    job.stage.github.fault("*", "*", times=None, stall=30)
    argv = [sys.executable, "-m", "rlm_ci", "pr", "--out", str(job.folder / "out"), MANY]
    environment = {name: text for name, text in job.environment().items() if text is not None}
    with subprocess.Popen(
        argv, cwd=job.stage.git.path, env=environment, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        end = time.monotonic() + 30
        while not job.stage.github.log and time.monotonic() < end:
            time.sleep(0.05)
        assert job.written["verdict"] == "findings"
        process.send_signal(signal.SIGINT)
        began = time.monotonic()
        process.communicate(timeout=20)
        assert time.monotonic() - began < 20
    assert process.returncode == 130
    assert job.stage.github.writes == []


def test_a_secret_in_githubs_answer_is_in_no_report(job: Job) -> None:
    body = {"message": f"Bad token {BOT}-canary-canary"}
    job.stage.github.token(f"{BOT}-canary-canary")
    job.stage.github.fault("POST", "*", times=None, status=422, body=body)
    ended = job.pr(token=f"{BOT}-canary-canary")
    assert "canary" not in json.dumps(job.written["publication"])
    assert "canary" not in ended.stdout + ended.stderr


@pytest.mark.parametrize("same", [True, False], ids=["this head", "another"])
def test_an_older_run_does_not_write_over_a_later_one(stage: Stage, same: bool) -> None:
    older = stage.report(10)
    if not same:
        stage.git.run("commit", "--allow-empty", "-qm", "second")
    second = stage.report(40)
    stage.git.run("commit", "--allow-empty", "-qm", "third")
    stage.publisher(second, "second").publish()
    stage.github.push(NAME, NUMBER, "feature")
    result = stage.publisher(older, "older").publish()
    assert ("problem 40" in stage.summary) == (not same)
    assert result.summary == ("updated" if same else "skipped")


def test_a_review_that_failed_is_not_taken_for_an_old_thread(stage: Stage) -> None:
    """The finding was there, went away and comes back while GitHub fails."""
    stage.publish(stage.report(10))
    stage.publish(stage.report())
    assert stage.state.resolved
    stage.github.fault("POST", "*/reviews", status=502)
    result = stage.publish(stage.report(10, 40))
    assert result.review == "posted"
    assert len(stage.state.review_comments) == 3


def test_where_nothing_can_be_put_back_the_summary_says_that_it_is_old(stage: Stage) -> None:
    wishes = PostingOptions(check_run=False)
    old = stage.report(10)
    stage.git.run("commit", "--allow-empty", "-qm", "newer")
    new = stage.publisher(stage.report(40), "new", wishes=wishes)
    stage.publish(old, wishes=wishes)

    def meanwhile(_request: object) -> None:
        stage.github.push(NAME, NUMBER, "feature")
        new.publish()
        # What the comment said before is nobody's any more: such as on a server without it.
        (comment,) = stage.state.comments
        comment.edits[:] = [replace(one, editor="ghost") for one in comment.edits]

    stage.github.fault("PATCH", "*", before=meanwhile)
    result = stage.publisher(old, "old", wishes=wishes).publish()
    assert "This is about" in stage.summary
    assert "the pull request has moved on to" in stage.summary
    assert "moved on" in (result.reason or "")


def test_every_place_that_is_not_beside_a_line_is_counted(stage: Stage) -> None:
    lines = range(1, 60)
    stage.publish(stage.report(*lines))
    note = re.compile(r"^- (\d+) findings? (?:only here|on the file): ", re.MULTILINE)
    told = [int(number) for number in note.findall(stage.summary)]
    beside = sum(one.subject == "line" for one in stage.state.review_comments)
    assert sum(told) + beside == len(lines)


def test_a_finding_without_a_file_needs_no_words_about_lines(stage: Stage) -> None:
    report = stage.report()
    part = Part("x", "one", {}, (Finding("x/y", Severity.HIGH, "too much"),))
    stage.publish(Report(report.subject, Severity.HIGH, (part,)))
    assert "Where the findings are shown" not in stage.summary
