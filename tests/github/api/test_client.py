"""Our way to GitHub: what is asked again and what never is, how fast, and within which bounds."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable
from typing import Any

import pytest

from rlm_ci.github.api.client import GitHubClient, RequestLimits
from rlm_ci.github.api.errors import GitHubRefusedError, UnreachableError
from testing.loopback_github import rate_limited, secondary_limited
from testing.loopback_github.scene import BOT, NAME, NUMBER, READER
from testing.posting_stage import Clock, Stage, words

PULL = f"/repos/{NAME}/pulls/{NUMBER}"
COMMENTS = f"/repos/{NAME}/issues/{NUMBER}/comments"
LIST, ONE = f"*/issues/{NUMBER}/comments", f"*/pulls/{NUMBER}"


def client(stage: Stage, clock: Clock, token: str = BOT, **limits: Any) -> GitHubClient:
    return stage.client_of(token, RequestLimits(**limits), clock)


def found(stage: Stage, text: str) -> Any:
    """What a caller's ``done`` looks up: the comment of that text."""
    return lambda: next(({"id": c.id} for c in stage.state.comments if c.body == text), None)


# -- reading ------------------------------------------------------------------------------------


@pytest.mark.sample(8)
@pytest.mark.parametrize(
    "wrong",
    [
        {"status": 500}, {"status": 502}, {"status": 503}, {"status": 504}, {"status": 408},
        {"cut": 10}, {"drop": True}, {"status": 502, "body": b"<html>Bad gateway</html>"},
        {"status": 200, "body": b"<html>Please log in</html>"}, {"status": 200, "body": "text"},
        {"status": 200, "body": b""}, {"status": 200, "body": b"{"}, {"status": 200, "body": 7},
        {"status": 200, "body": b"\xff\xfe{"}, {"status": 200, "body": b"null"},
    ],
    ids=str,
)  # fmt: skip
def test_a_read_that_went_wrong_is_repeated(
    stage: Stage, clock: Clock, wrong: dict[str, Any]
) -> None:
    fault = stage.github.fault("GET", ONE, times=2, **wrong)
    made = client(stage, clock)
    assert made.get(PULL)["number"] == NUMBER
    assert (fault.hits, made.requests, made.writes) == (2, 3, 0)
    assert clock.slept == sorted(clock.slept)
    assert all(seconds > 0 for seconds in clock.slept)


def test_a_query_is_repeated_as_a_read_is(stage: Stage, clock: Clock) -> None:
    stage.github.fault("POST", "/graphql", times=2, status=502)
    made = client(stage, clock)
    login = made.query("query { viewer { login } }")["viewer"]["login"]
    assert (login, made.requests, made.writes) == ("github-actions[bot]", 3, 0)


@pytest.mark.full
def test_an_answer_that_takes_too_long_is_given_up(stage: Stage, clock: Clock) -> None:
    stage.github.fault("GET", ONE, stall=8.0)
    before = time.monotonic()
    assert client(stage, clock, timeout=1.0).get(PULL)["number"] == NUMBER
    assert 0.9 < time.monotonic() - before < 7.9


def test_a_github_that_is_away_costs_bounded_time(stage: Stage, clock: Clock) -> None:
    made = client(stage, clock)
    with stage.github.down(), pytest.raises(UnreachableError) as told:
        made.get(PULL)
    assert sum(clock.slept) <= 120
    assert made.requests <= 15
    assert str(told.value).startswith("GitHub cannot be reached: [Errno "), "and not by whom"
    assert "Pool" not in str(told.value)
    assert "rlm-ci publish" in told.value.hint


def test_the_budget_of_time_is_one_for_all_requests(stage: Stage, clock: Clock) -> None:
    stage.github.fault("GET", "*", times=None, status=502)
    made = client(stage, clock, seconds=10.0)
    for _ in range(3):
        with pytest.raises(GitHubRefusedError):
            made.get(PULL)
    assert sum(clock.slept) <= 10


def test_a_second_lies_between_two_writes(stage: Stage, clock: Clock) -> None:
    made = client(stage, clock)
    for _ in range(3):
        made.write("POST", COMMENTS, {"body": "x"})
    assert [round(seconds) for seconds in clock.slept] == [1, 1]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 418, 422])
def test_a_no_is_a_no(stage: Stage, clock: Clock, status: int) -> None:
    stage.github.fault("*", "*", times=None, status=status)
    made = client(stage, clock)
    for call in (lambda: made.get(PULL), lambda: made.write("POST", COMMENTS, {"body": "x"})):
        with pytest.raises(GitHubRefusedError) as told:
            call()
        assert told.value.status == status
        assert told.value.reasons
    assert (clock.slept, made.requests) == ([1.0], 2) or (clock.slept, made.requests) == ([], 2)
    assert len(stage.github.log) == 2


def test_the_missing_permission_is_named(stage: Stage, clock: Clock) -> None:
    with pytest.raises(GitHubRefusedError) as told:
        client(stage, clock, READER).write("POST", COMMENTS, {"body": "x"})
    assert told.value.permission == "issues: write or pull-requests: write"
    assert "issues: write or pull-requests: write" in told.value.hint
    assert told.value.denied


def test_a_bad_token_is_told_as_such(stage: Stage, clock: Clock) -> None:
    with pytest.raises(GitHubRefusedError, match="401") as told:
        client(stage, clock, "nobody").get(PULL)
    assert "GITHUB_TOKEN" in told.value.hint


@pytest.mark.parametrize(
    "token", ["c4nary-t0ken\n", " c4nary-t0ken", "c4nary\r\nX: t0ken", "ü-c4nary"]
)
def test_a_token_that_is_no_header_is_not_repeated_in_words(
    stage: Stage, clock: Clock, token: str
) -> None:
    try:
        client(stage, clock, token).get(PULL)
    except (GitHubRefusedError, UnreachableError) as error:
        told = f"{error} {error.hint}"
    else:
        raise AssertionError("nobody knows this token")
    assert "c4nary" not in told
    assert not clock.slept, "it would be as wrong again"


@pytest.mark.parametrize(
    "proxy", ["http://u:c4nary@127.0.0.1:1", "foo://u:c4nary@x", "http://u:c4nary@127.0.0.1:abc"]
)
def test_a_proxy_is_used_and_its_password_is_not_repeated_in_words(
    clock: Clock, proxy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", proxy)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    with (
        GitHubClient(BOT, "http://github.test", clock=clock, sleep=clock.sleep) as made,
        pytest.raises(UnreachableError, match=r"proxy|refused") as told,
    ):
        made.get(PULL)
    assert "c4nary" not in str(told.value)


@pytest.mark.parametrize("status", [301, 302, 307, 308])
@pytest.mark.parametrize("place", ["https://evil.example/api", "http://evil.example/api", "{same}"])
def test_a_redirect_is_no_answer_and_takes_the_token_nowhere(
    stage: Stage, clock: Clock, status: int, place: str
) -> None:
    headers = {"Location": place.replace("{same}", f"{stage.url}{PULL}")}
    stage.github.fault("*", ONE, times=None, status=status, headers=headers)
    for call in ("get", "write"):
        made = client(stage, clock, seconds=2.0)
        with pytest.raises(UnreachableError, match=r"redirect|elsewhere"):
            made.get(PULL) if call == "get" else made.write("PATCH", PULL, {"title": "x"})
    assert {one.path for one in stage.github.log} == {PULL}


def test_all_pages_are_read_and_cost_one_request_of_the_budget(stage: Stage, clock: Clock) -> None:
    for number in range(1, 1760):
        stage.github.world.repositories[NAME].pulls[NUMBER].comments.append(
            _comment(stage, f"comment {number}")
        )
    made = client(stage, clock)
    bodies = [one["body"] for one in made.pages(COMMENTS)]
    assert bodies == [f"comment {number}" for number in range(1, 1760)]
    assert made.requests == 18


def _comment(stage: Stage, body: str, user: str = "eve") -> Any:
    from testing.loopback_github.state import Comment

    world = stage.github.world
    return Comment(world.new_id(), NUMBER, user, body, None, world.now(), world.now())


def test_a_review_in_between_takes_none_of_the_time_and_frees_no_request(
    stage: Stage, clock: Clock
) -> None:
    client = stage.client_of(limits=RequestLimits(requests=2, seconds=60), clock=clock)
    path = f"/repos/{NAME}/pulls/{NUMBER}"
    client.get(path)
    clock.now += 600
    with pytest.raises(UnreachableError, match="60 seconds were not enough"):
        client.get(path)
    client.go_on()
    client.get(path)
    with pytest.raises(UnreachableError, match="2 requests were not enough"):
        client.get(path)


def test_there_are_at_most_fifteen_requests(stage: Stage, clock: Clock) -> None:
    made = client(stage, clock)
    for _ in range(15):
        made.get(PULL)
    with pytest.raises(UnreachableError, match="15 requests"):
        made.get(PULL)
    with pytest.raises(UnreachableError, match="15 requests"):
        made.write("POST", COMMENTS, {"body": "x"})
    assert len(stage.github.log) == 15


@pytest.mark.parametrize("body", [{"message": "hm"}, {}, 7, None])
def test_a_list_that_is_none_ends_in_an_error_of_ours(
    stage: Stage, clock: Clock, body: Any
) -> None:
    stage.github.fault(
        "GET", LIST, times=None, status=200, body=body if body is not None else b"null"
    )
    with pytest.raises(UnreachableError):
        list(client(stage, clock).pages(COMMENTS))


@pytest.mark.parametrize(
    "answer",
    [{"data": None}, {"errors": []}, {"data": {"viewer": None}}, {"data": []}, {"errors": ["x"]},
     {"data": None, "errors": [{"type": "FORBIDDEN", "message": "no"}]}],
    ids=str,
)  # fmt: skip
def test_a_query_without_data_is_refused(stage: Stage, clock: Clock, answer: Any) -> None:
    stage.github.fault("POST", "/graphql", times=None, status=200, body=answer)
    with pytest.raises(GitHubRefusedError):
        client(stage, clock).query("query { viewer { login } }")


BROKEN = "Something went wrong while executing your query."


@pytest.mark.parametrize(
    "answer",
    [{"data": None, "errors": [{"message": BROKEN}]}, {"errors": [{"message": BROKEN}]},
     {"data": {"viewer": None}, "errors": [{"message": BROKEN}]}, {"errors": ["x"]}],
    ids=str,
)  # fmt: skip
def test_a_query_that_broke_is_repeated_as_after_a_502(
    stage: Stage, clock: Clock, answer: Any
) -> None:
    fault = stage.github.fault("POST", "/graphql", times=2, status=200, body=answer)
    made = client(stage, clock)
    assert made.query("query { viewer { login } }")["viewer"]["login"] == "github-actions[bot]"
    assert (fault.hits, made.requests, clock.slept) == (2, 3, [1.0, 2.0])


@pytest.mark.parametrize(
    "error",
    [{"type": "FORBIDDEN"}, {"type": "NOT_FOUND"}, {"type": "UNPROCESSABLE"},
     {"extensions": {"code": "undefinedField"}}],
    ids=str,
)  # fmt: skip
def test_a_query_that_is_refused_is_not_repeated(stage: Stage, clock: Clock, error: Any) -> None:
    body = {"data": None, "errors": [{"message": "no", **error}]}
    fault = stage.github.fault("POST", "/graphql", times=None, status=200, body=body)
    with pytest.raises(GitHubRefusedError, match="no") as told:
        client(stage, clock).query("query { viewer { login } }")
    assert (fault.hits, clock.slept) == (1, [])
    assert told.value.denied == (error.get("type") == "FORBIDDEN")


def test_a_mutation_that_broke_is_repeated_as_a_write_is(stage: Stage, clock: Clock) -> None:
    body = {"data": None, "errors": [{"message": BROKEN}]}
    fault = stage.github.fault("POST", "/graphql", times=None, status=200, body=body)
    made = client(stage, clock)
    mutation = 'mutation { resolveReviewThread(input: {threadId: "x"}) { thread { id } } }'
    with pytest.raises(GitHubRefusedError, match="went wrong"):
        made.mutate(mutation)
    assert (fault.hits, made.writes) == (3, 3)


@pytest.mark.parametrize("verb", ["get", "query", "write"])
@pytest.mark.parametrize("away", ["down", "502"])
def test_a_github_that_was_away_is_asked_once_more_and_not_waited_for_again(
    stage: Stage, clock: Clock, verb: str, away: str
) -> None:
    made = client(stage, clock)
    calls: dict[str, Callable[[], Any]] = {
        "get": lambda: made.get(PULL), "query": lambda: made.query("query { viewer { login } }"),
        "write": lambda: made.write("POST", COMMENTS, {"body": "x"}),
    }  # fmt: skip
    stage.github.fault("*", "*", times=6 if away == "502" else 0, status=502)
    with stage.github.down() if away == "down" else contextlib.nullcontext():
        with pytest.raises((UnreachableError, GitHubRefusedError)):
            made.get(PULL)
        slept, asked = list(clock.slept), made.requests
        with pytest.raises((UnreachableError, GitHubRefusedError)):
            calls[verb]()
    assert (clock.slept, made.requests) == (slept, asked + 1)
    assert calls[verb](), "it is back"


# -- limits that GitHub sets --------------------------------------------------------------------


@pytest.mark.parametrize("status", [403, 429])
def test_retry_after_is_obeyed(stage: Stage, clock: Clock, status: int) -> None:
    stage.github.faults.add(secondary_limited(7, status=status, method="POST"))
    made = client(stage, clock)
    assert made.write("POST", COMMENTS, {"body": "x"}, done=found(stage, "x"))["body"] == "x"
    assert clock.slept[0] == 7
    assert [one.body for one in stage.state.comments] == ["x"]


def test_a_reset_is_waited_for(stage: Stage, clock: Clock) -> None:
    stage.github.faults.add(rate_limited(20, method="GET"))
    assert client(stage, clock).get(PULL)["number"] == NUMBER
    assert 14 < clock.slept[0] < 22


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [({"retry-after": "7"}, 7), ({}, 60),
     ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "{}"}, 20)],
    ids=str,
)  # fmt: skip
def test_a_limit_of_graphql_is_obeyed(
    stage: Stage, clock: Clock, headers: dict[str, str], seconds: int
) -> None:
    body = {"errors": [{"type": "RATE_LIMITED", "message": "API rate limit exceeded"}]}
    reset = str(int(time.time()) + 20)
    told = {name: value.format(reset) for name, value in headers.items()}
    stage.github.fault("POST", "/graphql", status=200, body=body, headers=told)
    assert client(stage, clock).query("query { viewer { login } }")
    (slept,) = clock.slept  # a little less where the clock of the reset went on meanwhile
    assert seconds - 6 < slept < seconds + 2


def test_a_limit_is_no_denial(stage: Stage, clock: Clock) -> None:
    stage.github.faults.add(secondary_limited(3600, times=None, method="GET"))
    body = {"errors": [{"type": "RATE_LIMITED", "message": "API rate limit exceeded"}]}
    headers = {"retry-after": "3600"}
    stage.github.fault("POST", "/graphql", times=None, status=200, body=body, headers=headers)
    made = client(stage, clock)
    calls: list[Callable[[], Any]] = [
        lambda: made.get(PULL), lambda: made.query("query { viewer { login } }")
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(GitHubRefusedError, match="rate limit") as told:
            call()
        assert not told.value.denied
        assert "later" in told.value.hint
    assert not clock.slept


def test_a_limit_without_a_time_is_a_minute(stage: Stage, clock: Clock) -> None:
    stage.github.faults.add(secondary_limited(None, method="GET"))
    client(stage, clock).get(PULL)
    assert clock.slept == [60]


@pytest.mark.parametrize("wait", [61, 3600, 10**9])
def test_a_wait_that_is_too_long_is_told_and_not_slept(
    stage: Stage, clock: Clock, wait: int
) -> None:
    stage.github.faults.add(secondary_limited(wait, times=None))
    stage.github.faults.add(rate_limited(wait, times=None))
    with pytest.raises(GitHubRefusedError, match="rate limit") as told:
        client(stage, clock).get(PULL)
    assert not clock.slept
    assert not told.value.permission
    assert "permission" not in told.value.hint


@pytest.mark.parametrize(
    "after", ["-1", "0", "soon", "1e9", "9" * 400, "Fri, 20 Nov 2026 12:00:00 GMT"]
)
def test_a_hostile_retry_after_is_bounded(stage: Stage, clock: Clock, after: str) -> None:
    stage.github.fault("GET", ONE, times=None, status=429, headers={"retry-after": after})
    with pytest.raises(GitHubRefusedError):
        client(stage, clock).get(PULL)
    assert sum(clock.slept) <= 120


def test_a_permission_that_is_missing_is_no_rate_limit(stage: Stage, clock: Clock) -> None:
    stage.github.fault("GET", ONE, status=403, headers={"x-ratelimit-remaining": "4999"})
    with pytest.raises(GitHubRefusedError):
        client(stage, clock).get(PULL)
    assert (clock.slept, len(stage.github.log)) == ([], 1)


# -- writing ------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", [{"status": 502}, {"drop": True}, {"cut": 20}], ids=str)
def test_a_write_that_was_stored_is_not_repeated(
    stage: Stage, clock: Clock, wrong: dict[str, Any]
) -> None:
    stage.github.fault("POST", LIST, store=True, **wrong)
    made = client(stage, clock)
    made.write("POST", COMMENTS, {"body": "x"}, done=found(stage, "x"))
    assert [one.body for one in stage.state.comments] == ["x"]
    assert made.writes == 1


@pytest.mark.parametrize("wrong", [{"status": 502}, {"drop": True}], ids=str)
def test_a_write_that_was_not_stored_is_repeated(
    stage: Stage, clock: Clock, wrong: dict[str, Any]
) -> None:
    stage.github.fault("POST", LIST, times=2, **wrong)
    made = client(stage, clock)
    made.write("POST", COMMENTS, {"body": "x"}, done=found(stage, "x"))
    assert [one.body for one in stage.state.comments] == ["x"]
    assert made.writes == 3


def test_a_write_is_tried_three_times(stage: Stage, clock: Clock) -> None:
    fault = stage.github.fault("POST", LIST, times=None, status=502)
    made = client(stage, clock)
    with pytest.raises(GitHubRefusedError, match="502"):
        made.write("POST", COMMENTS, {"body": "x"}, done=found(stage, "x"))
    assert (fault.hits, made.writes, stage.state.comments) == (3, 3, [])


def test_a_last_write_that_was_stored_is_found(stage: Stage, clock: Clock) -> None:
    stage.github.fault("POST", LIST, times=2, status=502)
    stage.github.fault("POST", LIST, status=502, store=True)
    made = client(stage, clock)
    made.write("POST", COMMENTS, {"body": "x"}, done=found(stage, "x"))
    assert [one.body for one in stage.state.comments] == ["x"]


def test_writes_keep_a_second_between_them(stage: Stage, clock: Clock) -> None:
    made = client(stage, clock)
    for text in "abc":
        made.write("POST", COMMENTS, {"body": text})
    assert clock.slept == [1.0, 1.0]
    clock.now += 0.4
    made.write("POST", COMMENTS, {"body": "d"})
    assert clock.slept[-1] == pytest.approx(0.6)
    clock.now += 5
    made.write("POST", COMMENTS, {"body": "e"})
    assert len(clock.slept) == 3


def _real(stage: Stage, limits: RequestLimits) -> GitHubClient:
    """A client by the wall's clock."""
    made = GitHubClient(BOT, stage.url, limits)
    stage.made.append(made)
    return made


@pytest.mark.full
def test_the_second_is_one_of_the_wall_and_failures_count(stage: Stage) -> None:
    stage.github.fault("POST", LIST, skip=1, status=502, store=True)
    made = _real(stage, RequestLimits())
    for text in "abc":
        made.write("POST", COMMENTS, {"body": text}, done=found(stage, text))
    times = [(one.at, one.done) for one in stage.github.writes]
    gaps = [later - ended for (_, ended), (later, _) in itertools.pairwise(times)]
    assert len(gaps) == 2
    assert all(gap >= 0.99 for gap in gaps), gaps


def test_nothing_is_repeated_or_waited_for_beyond_the_limits(stage: Stage) -> None:
    stage.github.fault("POST", LIST, times=1, status=502)
    stage.github.faults.add(secondary_limited(30, method="GET"))
    made = _real(stage, RequestLimits(pause=0.0, wait=0.1, attempts=1))
    before = time.monotonic()
    with pytest.raises(GitHubRefusedError):
        made.write("POST", COMMENTS, {"body": "x"})
    with pytest.raises(GitHubRefusedError):
        made.get(PULL)
    assert words(stage.github.log) == ["POST comments 502", "GET 12 403"]
    assert time.monotonic() - before < 10
