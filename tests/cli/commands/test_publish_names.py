"""``rlm-ci publish`` for several jobs, and for a merge group: each report in its own place."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest

from rlm_ci.github.posting import review_threads, summary_comment
from testing.loopback_github.fixture import github
from testing.posting_stage import clock, stage
from testing.publish_job import Job, job

__all__ = ["clock", "github", "job", "stage"]


def names(job: Job) -> set[str]:
    found = [summary_comment.checkpoint_of(one) for one in job.stage.summaries]
    return {one.name for one in found if one}


def conclusions(job: Job) -> dict[str, str]:
    return {one.name: str(one.conclusion) for one in job.stage.home.checks}


def test_each_report_of_a_folder_is_posted_under_its_name(job: Job) -> None:
    folder = job.folder / "reports"
    folder.mkdir()
    for name, found in {"api": (10,), "web": ()}.items():
        shutil.copy(job.report(*found, name=name), folder / f"{name}.json")
    (folder / "other.txt").write_text("no report")
    for _ in range(2):
        ended = job.publish(folder, event=job.after())
        assert ended.code == 0, ended
        assert names(job) == {"api", "web"}
        assert conclusions(job) == {"rlm-ci / api": "failure", "rlm-ci / web": "success"}
    assert job.stage.beside == [("src/a.py", 10)]
    assert not job.stage.state.resolved, "what api found is not web's to close"


def test_a_folder_without_a_report_is_an_error(job: Job) -> None:
    (folder := job.folder / "reports").mkdir()
    ended = job.publish(folder, event=job.after())
    assert ended.code == 5
    assert "the folder has no report" in ended.stderr


def test_the_posting_job_can_fix_the_name(job: Job) -> None:
    env = {**job.environment(job.after()), "RLM_CI_PUBLISH_NAME": "mine"}
    path = job.report(10, name="another job's")
    ended = job.cli("publish", str(path), cwd=job.stage.git, env=env)
    assert ended.code == 5, "such a name is none"
    path = job.report(10, name="gate")
    ended = job.cli("publish", str(path), cwd=job.stage.git, env=env)
    assert ended.code == 0, ended
    assert (names(job), set(conclusions(job))) == ({"mine"}, {"rlm-ci / mine"})


@pytest.mark.parametrize("odd", ["a --> b", "a\nb", "x" * 81, "", 7, "\u202ea"])
def test_a_report_with_a_hostile_name_is_refused(job: Job, odd: Any) -> None:
    ended = job.publish(job.report(10, name=odd), event=job.after())
    assert ended.code == 5, ended
    assert not job.stage.github.writes


def test_a_merge_group_gets_a_check_run_alone(job: Job) -> None:
    event = job.after(event="merge_group", head_branch="gh-readonly-queue/main/pr-12-" + "a" * 40)
    ended = job.publish(job.report(10, name="judge"), event=event)
    assert ended.code == 0, ended
    (made,) = job.stage.home.checks
    assert (made.head_sha, made.name) == (job.stage.head, "rlm-ci / judge")
    assert made.conclusion == "failure"
    assert not job.stage.state.comments
    assert not job.stage.state.review_comments
    lie = job.report(10, subject={"head": "0" * 40})
    assert job.publish(lie, event=event).code == 5, "a report of another commit"
    assert len(job.stage.home.checks) == 1


def test_github_says_what_the_head_is_compared_with(job: Job) -> None:
    path = job.report(10, subject={"merge_base": "0" * 40})
    assert job.publish(path, event=job.after()).code == 0
    merge_base = job.stage.change().merge_base
    last = job.stage.last
    assert (last.merge_base, last.target) == (merge_base, "main")
    first = review_threads.read_origin(job.stage.state.review_comments[0].body)
    repo = job.stage.git
    repo.run("branch", "dev", "main")
    job.stage.state.base = "dev"
    assert job.publish(path, event=job.after()).code == 0
    assert job.stage.last.target == "dev"
    second = review_threads.read_origin(job.stage.state.review_comments[0].body)
    assert first.base != second.base
    assert json.loads(path.read_text())["subject"]["merge_base"] == "0" * 40
