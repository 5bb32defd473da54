"""Answers that are none: that lead elsewhere, never end, are too long, or of the wrong shape."""

from __future__ import annotations

import contextlib
import gzip
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rlm_ci.github.api.client import AttemptError, GitHubClient, RequestLimits, graphql_data
from rlm_ci.github.api.errors import UnreachableError, record, rows, text
from rlm_ci.github.posting import check_run, review_threads
from rlm_ci.github.posting.outcome import Destination
from testing.loopback_github.scene import BOT, NAME, NUMBER
from testing.loopback_github.state import Comment
from testing.posting_stage import Clock, Stage

PULL = f"/repos/{NAME}/pulls/{NUMBER}"
COMMENTS = f"/repos/{NAME}/issues/{NUMBER}/comments"
LIST, ONE = f"*/issues/{NUMBER}/comments", f"*/pulls/{NUMBER}"
VIEWER = "query { viewer { login } }"
MIB = 1024 * 1024


def client(stage: Stage, clock: Clock, token: str = BOT, **limits: Any) -> GitHubClient:
    return stage.client_of(token, RequestLimits(**limits), clock)


def _add_comment(stage: Stage, body: str) -> None:
    world = stage.github.world
    made = Comment(world.new_id(), NUMBER, "eve", body, None, world.now(), world.now())
    stage.state.comments.append(made)


# -- elsewhere ----------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [301, 302, 307, 308])
@pytest.mark.parametrize("verb", ["GET", "POST", "PATCH", "query"])
def test_two_addresses_that_lead_to_each_other_end_at_once(
    stage: Stage, clock: Clock, status: int, verb: str, capfd: pytest.CaptureFixture[str]
) -> None:
    for here, there in ((ONE, "/repositories/1"), ("*/repositories/1", PULL), ("/graphql", PULL)):
        headers = {"Location": f"{stage.url}{there}?secret=1"}
        stage.github.fault("*", here, times=None, status=status, headers=headers)
    made = client(stage, clock)
    calls: dict[str, Callable[[], Any]] = {
        "GET": lambda: made.get(PULL), "query": lambda: made.query(VIEWER)
    }  # fmt: skip
    call = calls.get(verb) or (lambda: made.write(verb, PULL, {"title": "x"}))
    with pytest.raises(UnreachableError, match=rf"{status}.*leads.*127\.0\.0\.1") as told:
        call()
    assert len(stage.github.log) == made.requests == (2 if verb == "GET" else 1)
    assert "secret" not in str(told.value)
    assert not clock.slept
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("status", [301, 302, 307, 308])
@pytest.mark.parametrize("query", [True, False])
def test_a_renamed_repository_is_read_to_its_last_page(
    stage: Stage, clock: Clock, status: int, query: bool
) -> None:
    for number in range(250):
        _add_comment(stage, f"comment {number}")
    location = {"Location": f"{stage.url}{COMMENTS}{'?per_page=100&page=1' if query else ''}"}
    fault = stage.github.fault(
        "GET", "/repos/acme/old/*", times=None, status=status, headers=location
    )
    made = client(stage, clock)
    bodies = [one["body"] for one in made.pages(f"/repos/acme/old/issues/{NUMBER}/comments")]
    assert bodies == [f"comment {number}" for number in range(250)]
    assert fault.hits == 1, "where it leads is remembered"
    assert made.requests == len(stage.github.log) == 4
    assert {one.headers["authorization"] for one in stage.github.log} == {f"token {BOT}"}


@pytest.mark.parametrize(
    "place",
    ["https://evil.example/api", "http://evil.example/", "//evil.example/x", "http://[", "",
     "ftp://127.0.0.1/x", "http://127.0.0.1:1/x", "http://t0ken@evil.example/x?t0ken#t0ken"],
)  # fmt: skip
def test_another_host_is_never_asked(stage: Stage, clock: Clock, place: str) -> None:
    stage.github.fault("GET", ONE, times=None, status=301, headers={"Location": place})
    with pytest.raises(UnreachableError, match="301") as told:
        client(stage, clock).get(PULL)
    assert len(stage.github.log) == 1
    assert ("evil.example" in place) == ("evil.example" in str(told.value))
    assert "t0ken" not in str(told.value)


def test_an_answer_that_is_not_ready_is_counted_and_bounded(stage: Stage, clock: Clock) -> None:
    fault = stage.github.fault("GET", ONE, times=None, status=202, body={})
    made = client(stage, clock)
    before = time.monotonic()
    with pytest.raises(UnreachableError, match="202"):
        made.get(PULL)
    assert time.monotonic() - before < 5
    assert fault.hits == made.requests <= 5


def test_a_write_that_is_accepted_is_done(stage: Stage, clock: Clock) -> None:
    stage.github.fault("POST", LIST, status=202, body={"id": 1})
    assert client(stage, clock).write("POST", COMMENTS, {"body": "x"}) == {"id": 1}
    assert len(stage.github.log) == 1


# -- no end -------------------------------------------------------------------------------------


def _next(stage: Stage, body: Any, **more: Any) -> Any:
    headers = {"Link": f'<{stage.url}{COMMENTS}?page=2>; rel="next"'}
    return stage.github.fault("GET", LIST, times=None, status=200, headers=headers, body=body,
                              **more)  # fmt: skip


def test_a_list_without_an_end_ends(stage: Stage, clock: Clock) -> None:
    fault = _next(stage, None)
    fault.before = lambda _request: setattr(fault, "body", [{"id": fault.hits}])
    with pytest.raises(UnreachableError, match="100 pages"):
        list(client(stage, clock).pages(COMMENTS))
    assert fault.hits == 100


@pytest.mark.parametrize("page", [[{"id": 7}], [{"filename": "a"}], ["x"]], ids=str)
def test_a_page_that_comes_again_ends_the_list(stage: Stage, clock: Clock, page: Any) -> None:
    fault = _next(stage, page)
    with pytest.raises(UnreachableError, match="again"):
        list(client(stage, clock).pages(COMMENTS))
    assert fault.hits == 2


def test_after_the_deadline_nothing_is_asked(stage: Stage, clock: Clock) -> None:
    made = client(stage, clock, seconds=30.0)
    fault = _next(stage, None)

    def pass_time(_request: Any) -> None:
        clock.now += 10.0
        fault.body = [{"id": fault.hits}]

    fault.before = pass_time
    with pytest.raises(UnreachableError, match="30 seconds"):
        list(made.pages(COMMENTS))
    assert fault.hits == 3
    with pytest.raises(UnreachableError, match="30 seconds"):
        made.write("POST", COMMENTS, {"body": "x"})
    assert not stage.state.comments


def _look(**more: Any) -> dict[str, Any]:
    """An answer to the query for review threads, with ``more`` in place of its parts."""
    page = more.pop("page", {"hasNextPage": False, "endCursor": "c"})
    found = {"pageInfo": page, "nodes": more.pop("nodes", [])}
    pull = {"headRefOid": "a" * 40, "reviewThreads": more.pop("threads", found)}
    data = {"viewer": {"login": "eve"}, "repository": {"pullRequest": more.pop("pull", pull)}}
    return {"data": {**data, **more}}


@pytest.mark.parametrize(("cursor", "asked"), [("same", 2), (None, 2), ("{}", 50)])
def test_threads_without_an_end_end(
    stage: Stage, clock: Clock, cursor: str | None, asked: int
) -> None:
    fault = stage.github.fault("POST", "/graphql", times=None, status=200)

    def answer(_request: Any) -> None:
        end = cursor and cursor.format(fault.hits)
        fault.body = _look(page={"hasNextPage": True, "endCursor": end})

    fault.before = answer
    with pytest.raises(UnreachableError, match="threads"):
        review_threads.read(client(stage, clock), NAME, NUMBER)
    assert fault.hits <= asked


@contextlib.contextmanager
def _dripping(start: bytes, drip: bytes, every: float) -> Iterator[str]:
    """A server that begins every answer with ``start`` and then goes on byte by byte."""
    over = threading.Event()

    def serve(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            connection.recv(65536)
            connection.sendall(start)
            while not over.wait(every):
                connection.sendall(drip)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()

    server = socket.create_server(("127.0.0.1", 0))
    waiting = threading.Thread(target=accept, daemon=True)
    waiting.start()
    try:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
    finally:
        over.set()
        with contextlib.suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)
        server.close()
        waiting.join(2)


@pytest.mark.full
@pytest.mark.parametrize(
    ("rest", "drip"),
    [(b"Content-Length: 1000\r\n\r\n", b" "), (b"\r\n", b" "),
     (b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"), (b"X-Long: ", b"x"),
     (b"X: y\r\n", b"X: y\r\n"), (b"\r\n", b"")],
    ids=["length", "open", "chunked", "header", "headers", "silence"],
)  # fmt: skip
def test_an_answer_that_drips_is_given_up_in_time(rest: bytes, drip: bytes) -> None:
    with _dripping(b"HTTP/1.1 200 OK\r\n" + rest, drip, 0.2) as url:
        made = GitHubClient(BOT, url, RequestLimits(timeout=0.8, repeats=1))
        before = time.monotonic()
        with pytest.raises(UnreachableError, match="cannot be reached"):
            made.get(PULL)
        assert 0.7 < time.monotonic() - before < 10
        made.close()


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.full
def test_an_answer_that_is_too_long_is_given_up(stage: Stage, clock: Clock, packed: bool) -> None:
    body = b" " * (65 * MIB)
    headers = {"Content-Encoding": "gzip"} if packed else {}
    fault = stage.github.fault(
        "GET", ONE, times=None, status=200, body=gzip.compress(body) if packed else body,
        headers=headers,
    )  # fmt: skip
    with pytest.raises(UnreachableError, match="64 MiB"):
        client(stage, clock).get(PULL)
    assert fault.hits == 1, "it would be as long again"


@pytest.mark.sample(2)
@pytest.mark.parametrize("size", [0, 1, 63])
def test_an_answer_that_is_long_is_read(stage: Stage, clock: Clock, size: int) -> None:
    body = gzip.compress(json.dumps({"a": "ü" + " " * (size * MIB)}).encode())
    headers = {"Content-Encoding": "gzip"}
    stage.github.fault("GET", ONE, status=200, body=body, headers=headers)
    assert len(client(stage, clock).get(PULL)["a"]) == 1 + size * MIB


def test_an_answer_that_cannot_be_unpacked_is_none(stage: Stage, clock: Clock) -> None:
    headers = {"Content-Encoding": "gzip"}
    stage.github.fault("GET", ONE, status=200, body=b"this is no gzip", headers=headers)
    assert client(stage, clock).get(PULL)["number"] == NUMBER
    assert len(stage.github.log) == 2


@pytest.mark.parametrize("value", ["inf", "nan", "many"])
def test_headers_that_are_no_numbers_are_no_crash(stage: Stage, clock: Clock, value: str) -> None:
    headers = {"X-RateLimit-Remaining": value, "X-RateLimit-Reset": value}
    stage.github.fault("GET", ONE, times=None, status=200, headers=headers, body={"id": 1})
    with contextlib.suppress(UnreachableError):
        assert client(stage, clock).get(PULL) == {"id": 1}


# -- the wrong shape ----------------------------------------------------------------------------

NODE = {"id": "T", "isResolved": False, "resolvedBy": None}
COMMENT = {"id": "C", "body": "x", "author": {"__typename": "User", "login": "eve"}}
ODD_NODES: list[Any] = [None, "x", 7, {}, ["x"], [7], [[1]]]
ODD: list[Any] = [[], [1], "x", 7, True, {"nodes": "x"}, {"nodes": [1]}, {"nodes": {"a": 1}}]


def _thread(**more: Any) -> dict[str, Any]:
    return {**NODE, "comments": {"totalCount": 1, "nodes": [{**COMMENT, **more}]}}


@pytest.mark.sample(10)
@pytest.mark.parametrize(
    "answer",
    [
        *(_look(viewer=odd) for odd in (*ODD[1:], None, {}, {"login": ""}, {"login": 7})),
        *(_look(repository=odd) for odd in (*ODD[1:], None, {})),
        *(_look(pull=odd) for odd in (*ODD[1:], None, {})),
        *(_look(threads=odd) for odd in (*ODD[1:], None, {})),
        *(_look(page=odd) for odd in ODD[1:5]),
        _look(page={"hasNextPage": True, "endCursor": 7}),
        *(_look(nodes=odd) for odd in ODD_NODES),
        *(_look(nodes=[{**NODE, "comments": odd}]) for odd in ODD[1:]),
        _look(nodes=[_thread(author="eve")]), _look(nodes=[_thread(author=[1])]),
        _look(nodes=[_thread(author={"login": 7})]), _look(nodes=[_thread(body=7)]),
    ],
    ids=lambda answer: json.dumps(answer["data"])[-60:],
)  # fmt: skip
def test_threads_of_the_wrong_shape_are_no_answer(
    stage: Stage, clock: Clock, answer: dict[str, Any]
) -> None:
    stage.github.fault("POST", "/graphql", times=None, status=200, body=answer)
    with pytest.raises(UnreachableError):
        review_threads.read(client(stage, clock), NAME, NUMBER)


@pytest.mark.sample(8)
@pytest.mark.parametrize("part", ["id", "comment", "resolvedBy", "minimizedReason"])
@pytest.mark.parametrize("odd", ["", None, 7, [1]], ids=str)
def test_a_thread_of_ours_of_the_wrong_shape_is_no_answer(
    stage: Stage, clock: Clock, part: str, odd: Any
) -> None:
    node = _thread(
        body=review_threads.marker("a" * 32), isMinimized=True, minimizedReason="outdated"
    )
    stage.github.fault("POST", "/graphql", times=None, status=200, body=_look(nodes=[node]))
    made = client(stage, clock)
    (thread,) = review_threads.read(made, NAME, NUMBER).threads
    assert (thread.id, thread.comment, thread.closed) == ("T", "C", False)
    if part in ("id", "resolvedBy"):
        node[part] = odd
    else:
        node["comments"]["nodes"][0][part.replace("comment", "id")] = odd
    if (part, odd) in (("resolvedBy", None), ("minimizedReason", ""), ("minimizedReason", None)):
        assert review_threads.read(made, NAME, NUMBER).threads
        return
    with pytest.raises(UnreachableError):
        review_threads.read(made, NAME, NUMBER)


@pytest.mark.parametrize("viewer", ["eve", ["eve"], {"login": ""}, {"login": 7}, {"login": None}])
def test_a_viewer_without_a_name_is_no_answer(stage: Stage, clock: Clock, viewer: Any) -> None:
    body = {"data": {"viewer": viewer}}
    stage.github.fault("POST", "/graphql", times=None, status=200, body=body)
    with pytest.raises(UnreachableError):
        review_threads.viewer(client(stage, clock))


@pytest.mark.parametrize(
    "run", ["x", 7, [1], {"app": "x"}, {"app": [1]}, {"app": {"slug": 7}}, {"app": {"slug": [1]}}]
)
def test_a_check_run_of_the_wrong_shape_is_no_answer(stage: Stage, clock: Clock, run: Any) -> None:
    body = {"total_count": 1, "check_runs": [run]}
    stage.github.fault("GET", "*/check-runs", times=None, status=200, body=body)
    with pytest.raises(UnreachableError):
        check_run.find(client(stage, clock), Destination(NAME, 12, "a" * 40), author="x[bot]")


def test_an_accessor_gives_the_type_or_raises() -> None:
    assert (record({"a": 1}), record(None)) == ({"a": 1}, {})
    assert (text("a"), text(None)) == ("a", "")
    assert (rows([1]), rows(None)) == ([1], [])
    for accessor, odd in ((record, [{}]), (record, "x"), (text, 7), (text, []), (rows, {})):
        with pytest.raises(UnreachableError, match="not what it should be"):
            accessor(odd)


def test_graphql_names_the_permission_that_it_never_tells() -> None:
    said = {"type": "FORBIDDEN", "message": "Resource not accessible by integration"}
    with pytest.raises(AttemptError) as caught:
        graphql_data({"data": None, "errors": [said]}, {})
    assert caught.value.error.hint.endswith("permission: pull-requests: write")
