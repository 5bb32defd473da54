"""``rlm-ci pr --publish`` and ``rlm-ci publish``: as processes, against GitHub on loopback."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from rlm_ci.report.findings import Finding, Location, Severity, Usage
from testing.loopback_github.fixture import github
from testing.loopback_github.scene import BOT, NAME, NUMBER, READER
from testing.posting_stage import stage
from testing.program import Ended
from testing.publish_job import MANY, Job, job

__all__ = ["github", "job", "stage"]


# -- pr -----------------------------------------------------------------------------------------


def test_pr_posts_what_it_found(job: Job) -> None:
    ended = job.pr()
    assert ended.code == 1, ended
    publication = job.written["publication"]
    assert publication["summary"] == "posted"
    assert publication["check_run"] == "posted"
    assert publication["reason"] is None
    assert "diff-budget" in job.stage.summary
    assert job.stage.home.checks[0].conclusion == "failure"
    assert publication["url"] in (job.folder / "outputs").read_text()
    again = job.pr()
    assert (again.code, job.written["publication"]["summary"]) == (1, "updated")


@pytest.mark.parametrize("args", [("--no-publish",), ()], ids=["refused", "no token"])
def test_pr_asks_nothing_where_nothing_is_wished_for(job: Job, args: tuple[str, ...]) -> None:
    ended = job.pr(*args, token=BOT if args else None)
    assert (ended.code, job.written["publication"]) == (1, None)
    assert job.stage.github.log == []


@pytest.mark.full
def test_pr_without_permission_is_as_it_was_and_says_what_is_missing(job: Job) -> None:
    without = job.pr("--no-publish")
    summary = (job.folder / "step-summary.md").read_text()
    ended = job.pr(token=READER)
    assert ended.code == without.code == 1
    assert ended.stdout == without.stdout
    assert (job.folder / "step-summary.md").read_text() == summary * 2
    publication = job.written["publication"]
    assert publication["summary"] == publication["check_run"] == "failed"
    for name in ("checks: write", "issues: write"):
        assert name in publication["reason"]
        assert name in ended.stderr
    assert "warning: not all is posted" in ended.stderr
    assert "(acme/shop#12)" in ended.stderr
    assert sorted(os.listdir(job.folder / "out")) == [
        "comment.md", "report.html", "report.json", "report.sarif",
    ]  # fmt: skip


@pytest.mark.sample(2)
@pytest.mark.parametrize("status", [401, 403, 404, 422])
def test_pr_keeps_its_exit_code_whatever_github_says(job: Job, status: int) -> None:
    job.stage.github.fault("*", "*", times=None, status=status)
    ended = job.pr()
    assert (ended.code, job.written["publication"]["summary"]) == (1, "failed")
    assert str(status) in ended.stderr


@pytest.mark.full
def test_github_is_down(job: Job) -> None:
    other = replace(job, folder=job.folder / "other")
    other.folder.mkdir()
    path = other.report(10)
    with job.stage.github.down(), ThreadPoolExecutor() as beside:  # each tries for some time
        posting = beside.submit(other.publish, path, timeout=200)
        before = time.monotonic()
        ended = job.pr(timeout=200)
        took = time.monotonic() - before
        posted = posting.result()
    assert (ended.code, job.written["publication"]["summary"]) == (1, "failed")
    assert took < 130
    assert posted.code == 8
    assert "cannot be reached" in posted.stderr


#: The program where PyGithub cannot be imported.
BARE = "import sys; sys.modules['github'] = None; from rlm_ci.__main__ import main; main()"


@pytest.mark.full
def test_without_the_extra_pr_warns_and_publish_ends(job: Job) -> None:
    def bare(*args: str) -> subprocess.CompletedProcess[str]:
        env = {k: v for k, v in {**os.environ, **job.environment()}.items() if v is not None}
        return subprocess.run(
            [sys.executable, "-I", "-c", BARE, *args], cwd=job.stage.git, env=env,
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip

    ended = bare("pr", "--out", str(job.folder / "out"), MANY)
    assert ended.returncode == 1, ended
    assert "warning" in ended.stderr
    assert "[github]'" in ended.stderr
    assert job.written["publication"]["summary"] == "failed"
    posted = bare("publish", str(job.report(10)))
    assert posted.returncode == 4, posted
    assert "[github]'" in posted.stderr
    assert job.stage.github.log == []


# -- publish, on the event of the pull request --------------------------------------------------


def test_a_stored_report_is_posted(job: Job) -> None:
    ended = job.publish(job.report(10, 40), "--format", "json")
    assert ended.code == 0, ended
    assert ended.json()["summary"] == "posted"
    assert job.stage.beside == [("src/a.py", 10), ("src/a.py", 40)]
    again = job.publish(job.report(10, 40))
    assert (again.code, again.stdout.strip()) == (0, ended.json()["url"])
    assert len(job.stage.beside) == 2
    assert len(job.stage.summaries) == 1


@pytest.mark.full
def test_what_cannot_be_posted_is_exit_8(job: Job) -> None:
    ended = job.publish(job.report(10), token=READER)
    assert ended.code == 8, ended
    assert "pull-requests: write" in ended.stderr
    assert "could not be posted" in ended.stderr


def test_without_a_token_publish_has_nothing_to_do_it_with(job: Job) -> None:
    ended = job.publish(job.report(10), token=None)
    assert ended.code == 5
    assert "GITHUB_TOKEN" in ended.stderr


@pytest.mark.full
@pytest.mark.parametrize("lie", [{"repository": "victim/shop"}, {"pull_request": 13}], ids=str)
def test_a_report_decides_nothing_that_the_event_tells(job: Job, lie: dict[str, Any]) -> None:
    """With a person's token it would reach whatever that person may write to."""
    hub = job.stage.github
    hub.repository("victim/shop", job.stage.git, collaborators={"ada": "write"})
    hub.pull("victim/shop", NUMBER, head="feature")
    hub.pull(NAME, 13, head="feature")
    ended = job.publish(job.report(10, subject=lie))
    assert not hub.world.repositories["victim/shop"].pulls[NUMBER].comments
    assert not hub.world.repositories["victim/shop"].checks
    assert not job.stage.home.pulls[13].comments
    assert all("victim" not in one.path for one in hub.log)
    assert (ended.code, len(job.stage.summaries)) == (0, 1), ended
    assert "victim" not in job.stage.summary


# -- publish, in the job that may write ---------------------------------------------------------


@pytest.mark.full
def test_the_second_job_posts_what_the_first_one_found(job: Job) -> None:
    job.stage.state.head_repository = "mallory/shop"
    ended = job.publish(job.report(10, 40), event=job.after())
    assert ended.code == 0, ended
    assert job.stage.beside == [("src/a.py", 10), ("src/a.py", 40)]
    assert "problem 10" in job.stage.summary


@pytest.mark.full
@pytest.mark.parametrize(
    "lie",
    [
        {"subject": {"repository": "victim/shop", "pull_request": 1}},
        {"subject": {"base": "0" * 40, "merge_base": "1" * 40}},
        {"usage": {"calls": 99, "prompt_tokens": 10**9, "cost_usd": 1e6}},
        {"run_id": "20261120T124500Z-0123abcd"},
    ],
    ids=["place", "commits", "usage", "run id"],
)
def test_nothing_that_the_report_says_of_itself_is_believed(job: Job, lie: dict[str, Any]) -> None:
    job.stage.github.repository("victim/shop", job.stage.git)
    ended = job.publish(job.report(10, **lie), event=job.after())
    assert ended.code == 0, ended
    assert all(one.path == "/graphql" or NAME in one.path for one in job.stage.github.log)
    last = job.stage.last
    assert (last.calls, last.tokens, last.cost_usd) == (0, 0, 0.0)
    assert last.run != "20261120T124500Z-0123abcd"
    assert last.base == job.stage.git.sha("main")


def refused(job: Job, ended: Ended, code: int, word: str) -> None:
    assert ended.code == code, ended
    assert word in ended.stderr
    assert job.stage.github.writes == []


@pytest.mark.full
def test_a_report_about_another_commit(job: Job) -> None:
    path = job.report(10, subject={"head": job.stage.git.sha("main")})
    refused(job, job.publish(path, event=job.after()), 5, "another commit")


def test_the_pull_request_has_moved_on(job: Job) -> None:
    path, event = job.report(10), job.after()
    job.stage.git.checkout("feature")
    job.stage.git.write("new.py", "x")
    job.stage.commit()
    job.stage.git.checkout("main")
    refused(job, job.publish(path, event=event), 8, "new commits")


def test_the_pull_request_is_closed(job: Job) -> None:
    path, event = job.report(10), job.after()
    job.stage.state.state = "closed"
    refused(job, job.publish(path, event=event), 8, "closed")


@pytest.mark.full
def test_two_pull_requests_of_one_branch(job: Job) -> None:
    """The report says which of those that GitHub names, and nothing beyond these."""
    job.stage.git.run("branch", "stable", "main")
    other = job.stage.github.pull(NAME, 13, head="feature", base="stable")
    job.stage.github.pull(NAME, 14, head="main", base="stable")
    for lie in (None, 14, 1):
        path = job.report(10, subject={"pull_request": lie})
        ended = job.publish(path, event=job.after())
        refused(job, ended, 8, "2 open pull requests with the head")
        assert "hint: run rlm-ci for each pull request" in ended.stderr
    ended = job.publish(job.report(10, subject={"pull_request": 13}), event=job.after())
    assert ended.code == 0, ended
    assert (len(other.comments), len(job.stage.summaries)) == (1, 0)
    ended = job.publish(job.report(10), event=job.after())
    assert ended.code == 0, ended
    assert (len(other.comments), len(job.stage.summaries)) == (1, 1)


@pytest.mark.full
def test_another_pull_request_of_the_same_branch_that_is_closed(job: Job) -> None:
    job.stage.github.pull(NAME, 13, head="feature").state = "closed"
    assert job.publish(job.report(10), event=job.after()).code == 0
    assert len(job.stage.summaries) == 1


@pytest.mark.full
def test_a_fork_that_was_deleted(job: Job) -> None:
    job.stage.state.head_repository = None
    ended = job.publish(job.report(10), event=job.after(head_repository=None))
    assert ended.code == 0, ended
    assert len(job.stage.summaries) == 1


@pytest.mark.full
def test_the_list_of_the_event_is_not_believed(job: Job) -> None:
    """For a fork it is empty; whatever else stands there is not asked either."""
    job.stage.github.pull(NAME, 13, head="main")
    ended = job.publish(job.report(10), event=job.after(pull_requests=[{"number": 13}]))
    assert ended.code == 0, ended
    assert job.stage.home.pulls[13].comments == []


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "changed",
    [
        {"head_sha": "feature"}, {"head_sha": None}, {"head_sha": "f" * 41},
        {"head_branch": "x&state=closed&head=acme:main"}, {"head_branch": None},
        {"head_branch": "../../../victim/shop/pulls"},
    ],
    ids=str,
)  # fmt: skip
def test_an_event_that_names_nothing_posts_nothing(job: Job, changed: dict[str, Any]) -> None:
    event = job.after(**changed)
    ended = job.publish(job.report(10), event=event)
    if changed == {"head_branch": None}:  # then the commit is asked
        assert ended.code == 0
        return
    assert ended.code in (5, 8), ended
    assert job.stage.github.writes == []
    assert {one.path for one in job.stage.github.log} <= {f"/repos/{NAME}/pulls"}


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "data",
    [
        b"", b"{", b"[]", b"null", b"[" * 100_000, b'{"schema_version": 1}', b"\xff\xfe",
        b'{"a": ' + b"9" * 5000 + b"}",
    ],
    ids=range(8),
)  # fmt: skip
def test_what_is_no_report_is_not_posted(job: Job, data: bytes) -> None:
    path = job.folder / "report.json"
    path.write_bytes(data)
    refused(job, job.publish(path, event=job.after()), 5, "report")
    assert job.stage.github.log == []


def test_a_report_that_is_too_large_is_not_read(job: Job) -> None:
    path = job.report(10)
    with path.open("ab") as end:
        end.truncate(33 << 20)
    refused(job, job.publish(path, event=job.after()), 5, "34,603,008 bytes, more than")


@pytest.mark.full
def test_a_finding_of_another_part_or_place_is_harmless(job: Job) -> None:
    """Schema-valid and still absurd: no line, no file of the diff, no commit."""
    finding = Finding(
        "x/r", Severity.CRITICAL, "boo",
        evidence=(Location("../../etc/passwd", 10**15, 1, "old", "0" * 40, "q"),),
    )  # fmt: skip
    ended = job.publish(job.report(finding), event=job.after())
    assert ended.code == 0, ended
    assert job.stage.beside == []
    assert "boo" in job.stage.summary


# -- cancelled ----------------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.parametrize("stalled", ["GET *pulls/12", "POST */reviews", "POST *check-runs",
                                     "POST *issues/12/comments"])  # fmt: skip
@pytest.mark.parametrize(("number", "code"), [
    (signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.full),
])  # fmt: skip
def test_cancelled_while_github_takes_its_time(
    job: Job, stalled: str, number: signal.Signals, code: int
) -> None:
    verb, _, path = stalled.partition(" ")
    fault = job.stage.github.fault(verb, path, stall=60.0, status=502)
    report = job.report(10, 40)
    env = {k: v for k, v in {**os.environ, **job.environment()}.items() if v is not None}
    process = subprocess.Popen(
        [sys.executable, "-I", "-m", "rlm_ci", "publish", str(report)], cwd=job.stage.git,
        env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    try:
        until = time.monotonic() + 30
        while not fault.hits:
            assert time.monotonic() < until
            assert process.poll() is None, process.communicate()
            time.sleep(0.02)
        before = time.monotonic()
        process.send_signal(number)  # to the entry process only
        _, stderr = process.communicate(timeout=40)
        assert time.monotonic() - before < 30
    finally:
        process.kill()
        process.wait()
    assert process.returncode == code, stderr
    assert b"Traceback" not in stderr
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)  # no child is left
    reviews = job.stage.state.reviews
    assert len(job.stage.beside) == 2 * len(reviews), "a review is there whole or not at all"
    job.stage.github.faults.clear()
    assert job.publish(report).code == 0  # the next run completes it, and repeats nothing
    assert len(job.stage.beside) == 2
    assert len(job.stage.summaries) == 1


@pytest.mark.full
def test_usage_is_counted_where_the_report_is_our_own(job: Job) -> None:
    report = job.stage.report(10, usage=Usage(calls=3, prompt_tokens=7, cost_usd=0.5))
    path = job.folder / "own.json"
    path.write_text(json.dumps(report.to_dict() | {"run_id": "20261120T124500Z-0123abcd"}))
    for _ in range(2):
        assert job.publish(path).code == 0
    assert (job.stage.last.calls, job.stage.last.cost_usd) == (3, 0.5)


# -- secrets ------------------------------------------------------------------------------------


def test_no_secret_reaches_anybody(job: Job) -> None:
    """Planted in the environment, in the repository, beside the change and in it."""
    planted = {
        "OPENAI_API_KEY": "sk-canary0123456789canary0123456789",
        "AWS_SECRET_ACCESS_KEY": "canary/wJalrXUtnFEMIK7MDENGbPxRfiCY",
        "NPM_TOKEN": "npm_canary0123456789canary0123456789",
        "DATABASE_URL": "postgres://u:canary-password@db/x",
        "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "canary-eyJhbGciOiJSUzI1NiJ9",
    }
    job.stage.github.token("ghs_canary0123456789canary0123456789ab")
    git = job.stage.git
    git.write(".env", "".join(f"{name}={value}\n" for name, value in planted.items()))
    git.run("add", "-A")
    git.run("commit", "-qm", "Secrets on main")
    git.checkout("feature")
    git.write("src/.env.prod", f"TOKEN={planted['NPM_TOKEN']}\n")
    job.stage.commit()
    git.checkout("main")
    env = job.environment(token="ghs_canary0123456789canary0123456789ab") | planted
    ended = job.cli("pr", "--out", str(job.folder / "out"), MANY, "--verbose", cwd=git, env=env)
    assert ended.code == 1, ended
    assert job.written["publication"]["summary"] == "posted"
    posted = job.cli("publish", str(job.folder / "out" / "report.json"), cwd=git, env=env)
    assert posted.code == 0, posted
    assert job.stage.github.writes
    sent = [one.raw.decode() + one.path + str(one.query) for one in job.stage.github.log]
    other = [
        str({name: value for name, value in one.headers.items() if name != "authorization"})
        for one in job.stage.github.log
    ]
    written = [path.read_text() for path in (job.folder / "out").iterdir()]
    written += [(job.folder / name).read_text() for name in ("step-summary.md", "outputs")]
    said = [ended.stdout, ended.stderr, posted.stdout, posted.stderr]
    for text in (*sent, *other, *written, *said):
        assert "canary" not in text


def test_it_says_that_the_settings_leave_nothing_to_post(job: Job) -> None:
    off = {"RLM_CI_PUBLISH_COMMENT": "none", "RLM_CI_PUBLISH_CHECK_RUN": "false"}
    env = job.environment(job.after()) | off
    ended = job.cli("publish", str(job.report(1)), cwd=job.stage.git, env=env)
    assert ended.code == 0, ended
    assert "nothing was posted: publish.comment is none, and publish.check_run is off" in (
        ended.stderr
    )
    assert not job.stage.github.writes
