"""What goes wrong on order: what the client sees, and what GitHub has stored."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest
import requests
from github import GithubException

from testing.loopback_github import rate_limited, secondary_limited
from testing.loopback_github.operations import refused
from testing.loopback_github.scene import ADA, BOT, NAME, NUMBER, Scene

if TYPE_CHECKING:
    from testing.loopback_github import Request

COMMENTS = "/repos/*/issues/*/comments"


def _comment(scene: Scene, text: str = "x") -> None:
    scene.raw("POST", f"/issues/{NUMBER}/comments", {"body": text})


@pytest.mark.parametrize("status", [401, 403, 404, 406, 410, 422, 429, 500, 502, 503, 504])
def test_statuses(scene: Scene, status: int) -> None:
    fault = scene.github.fault("POST", COMMENTS, status=status, headers={"x-odd": "1"})
    error = refused(status, lambda: _comment(scene))
    assert (error.headers or {})["x-odd"] == "1"
    assert not scene.state.comments
    _comment(scene)
    assert (fault.hits, len(scene.state.comments)) == (1, 1)
    assert [request.status for request in scene.github.writes] == [status, 201]


@pytest.mark.parametrize("how", [{"status": 502}, {"drop": True}, {"cut": 9}])
def test_stored_and_then_failed(scene: Scene, how: dict[str, int]) -> None:
    scene.github.fault("POST", COMMENTS, store=True, **how)
    with pytest.raises((requests.exceptions.RequestException, GithubException)):
        _comment(scene)
    assert [comment.body for comment in scene.state.comments] == ["x"]


def test_dropped_before_it_was_stored(scene: Scene) -> None:
    scene.github.fault("POST", COMMENTS, drop=True)
    with pytest.raises(requests.exceptions.ConnectionError):
        _comment(scene)
    assert not scene.state.comments
    assert scene.github.writes[0].status == 0


def test_cut_in_the_middle_of_the_body(scene: Scene) -> None:
    scene.github.fault("GET", "/repos/acme/shop", cut=100)
    with pytest.raises(requests.exceptions.ChunkedEncodingError):
        scene.repo()
    assert scene.repo().full_name == NAME


def test_a_body_that_is_no_json(scene: Scene) -> None:
    scene.github.fault("GET", "/repos/acme/shop", status=200, body=b"<html>Unicorn!</html>")
    url = f"{scene.url}/repos/{NAME}"
    assert requests.get(url, timeout=5).content == b"<html>Unicorn!</html>"
    assert requests.get(url, timeout=5).json()["full_name"] == NAME


def test_stalled(scene: Scene) -> None:
    scene.github.fault("POST", COMMENTS, stall=0.3)
    start = time.monotonic()
    _comment(scene)
    assert time.monotonic() - start >= 0.3
    request = scene.github.writes[0]
    assert request.done - request.at >= 0.3


def test_refused_connections(scene: Scene) -> None:
    repo = scene.repo()
    with scene.github.down(), pytest.raises(requests.exceptions.ConnectionError):
        repo.get_pull(NUMBER)
    assert scene.pull().number == NUMBER  # the same port, the same state


def test_limits(scene: Scene) -> None:
    scene.github.faults.add(rate_limited(reset_in=5, method="POST"))
    headers = refused(403, _comment, scene).headers or {}
    assert headers["x-ratelimit-remaining"] == "0"
    assert 0 < int(headers["x-ratelimit-reset"]) - time.time() <= 6
    scene.github.faults.add(secondary_limited(7, status=429, method="POST"))
    error = refused(429, _comment, scene)
    assert (error.headers or {})["retry-after"] == "7"
    assert "secondary rate limit" in error.data["message"]
    scene.github.faults.add(secondary_limited(None, method="POST"))
    assert "retry-after" not in (refused(403, _comment, scene).headers or {})
    assert not scene.state.comments


def test_matching_skipping_counting(scene: Scene) -> None:
    fault = scene.github.fault("POST", COMMENTS, skip=1, times=2, status=500)
    for text in "abcd":
        if text in "ad":
            _comment(scene, text)
        else:
            refused(500, _comment, scene, text)
    assert [comment.body for comment in scene.state.comments] == ["a", "d"]
    assert fault.hits == 2
    assert scene.pull().number == NUMBER  # GET was never meant
    scene.github.fault("GET", times=None, status=500)
    for _ in range(3):
        refused(500, scene.repo)
    scene.github.faults.clear()
    assert scene.repo().full_name == NAME


def test_two_publishers_interleaved(scene: Scene) -> None:
    """A hook lets another client in between reading and writing of the first."""
    seen: list[str] = []

    def other(request: Request) -> None:
        seen.append(request.method)
        scene.pull(ADA).create_issue_comment("between")

    scene.github.fault("POST", COMMENTS, before=other)
    assert not list(scene.pull().get_issue_comments())
    _comment(scene, "mine")
    assert [comment.body for comment in scene.state.comments] == ["between", "mine"]
    scene.github.fault("POST", COMMENTS, after=lambda _request: _comment(scene, "later"))
    _comment(scene, "early")
    assert [comment.body for comment in scene.state.comments][2:] == ["early", "later"]
    assert seen == ["POST"]


def test_many_at_once(scene: Scene) -> None:
    def write(number: int) -> None:
        for step in range(5):
            _comment(scene, f"{number}-{step}")

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    made = scene.state.comments
    assert len({comment.id for comment in made}) == len(made) == 40
    for number in range(8):
        own = [c.body for c in made if c.body.startswith(f"{number}-")]
        assert own == [f"{number}-{step}" for step in range(5)]


def test_the_log(scene: Scene) -> None:
    scene.repo()
    _comment(scene, "x")
    read, write = scene.github.log
    assert (read.method, read.path, read.who, read.status, read.writes) == (
        "GET", f"/repos/{NAME}", "github-actions[bot]", 200, False,
    )  # fmt: skip
    assert (write.body, write.status, write.writes) == ({"body": "x"}, 201, True)
    assert read.at <= read.done <= write.at <= write.done
    assert write.headers["authorization"].endswith(BOT)
    assert scene.github.sent("POST", "/comments") == [write] == scene.github.writes
