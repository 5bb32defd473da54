"""What the client asks a service again, and how long it waits for it."""

from __future__ import annotations

import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from rlm_ci.errors import RemoteError, UnavailableError
from rlm_ci.models import SpentError
from rlm_ci.system.transport import Deadlines
from testing.loopback_model.replies import (
    Answer,
    Raw,
    Reply,
    busy,
    continues,
    no_credit,
    refusal,
    slow_headers,
)
from testing.loopback_model.server import ModelServer
from testing.model_clients import SHORT, Client, client_of, question

# -- what may be asked again ---------------------------------------------------------------------


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 529])
def test_a_refusal_that_cost_nothing_is_asked_again(
    client: Client, llm: ModelServer, status: int
) -> None:
    llm.script([refusal(status, "not now"), "then"])
    assert client(llm).complete(question()).text == "then"
    keys = {asked.headers["idempotency-key"] for asked in llm.asked}
    assert (len(llm.asked), len(keys)) == (2, 1)


def test_attempts_are_counted_once_by_us_and_not_by_the_package(
    client: Client, llm: ModelServer
) -> None:
    llm.script([refusal(503, "not now")] * 9)
    with pytest.raises(RemoteError, match=r"failed \(503\): not now \(asked 3 times\)"):
        client(llm).complete(question())
    assert len(llm.asked) == SHORT.attempts


def test_an_endpoint_that_says_at_once_and_stays_busy_is_asked_as_often(
    client: Client, llm: ModelServer
) -> None:
    llm.script([busy("0")] * 20)
    with pytest.raises(RemoteError, match="asked 3 times"):
        client(llm).complete(question())


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422, 501])
def test_what_will_not_change_is_asked_once(client: Client, llm: ModelServer, status: int) -> None:
    llm.script([refusal(status, "no")])
    with pytest.raises(RemoteError) as caught:
        client(llm).complete(question())
    assert not isinstance(caught.value, SpentError)
    assert len(llm.completions) == 1
    assert caught.value.hint
    assert caught.value.code == 8


def test_retry_after_is_obeyed(client: Client, llm: ModelServer) -> None:
    slept: list[float] = []
    llm.script([busy("2"), "then"])
    assert client(llm, sleep=slept.append).complete(question()).text == "then"
    assert slept == [2.0]


def test_retry_after_that_is_too_long_is_told(client: Client, llm: ModelServer) -> None:
    slept: list[float] = []
    llm.script([busy("3600")])
    with pytest.raises(RemoteError, match="too many requests") as caught:
        client(llm, sleep=slept.append, patience=SHORT.replace(total=10_000)).complete(question())
    assert caught.value.hint == "what was done is kept: resume the run in 1h 00m"
    assert (len(llm.asked), slept) == (1, [])


@pytest.mark.parametrize("nonsense", ["soon", "-5", "nan", "inf", "Mon, 99 Foo", "1e400"])
def test_retry_after_that_means_nothing_is_left_aside(
    client: Client, llm: ModelServer, nonsense: str
) -> None:
    llm.script([busy(nonsense), "then"])
    assert client(llm).complete(question()).text == "then"


def test_waits_end_with_the_patience(client: Client, llm: ModelServer) -> None:
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    llm.script([busy("4")] * 9)
    patience = SHORT.replace(attempts=9, total=10)
    with pytest.raises(RemoteError, match="asked 3 times"):
        client(llm, patience=patience, sleep=sleep, clock=lambda: now[0]).complete(question())
    assert now[0] == 8


def test_an_account_without_credit_is_never_asked_twice(client: Client, llm: ModelServer) -> None:
    llm.script([no_credit()])
    with pytest.raises(RemoteError, match="no credit left") as caught:
        client(llm).complete(question())
    assert "add credit" in caught.value.hint
    assert len(llm.asked) == 1


def test_payment_required_is_named_like_a_quota_error(client: Client, llm: ModelServer) -> None:
    llm.script([refusal(402, "Insufficient credits")])
    with pytest.raises(RemoteError, match="no credit left: Insufficient credits") as caught:
        client(llm).complete(question())
    assert "add credit" in caught.value.hint


def test_a_service_that_is_not_there(client: Client, llm: ModelServer) -> None:
    llm.stop()
    with pytest.raises(RemoteError, match="cannot be reached") as caught:
        client(llm).complete(question())
    assert not isinstance(caught.value, SpentError)
    assert llm.url in str(caught.value)


# -- time ----------------------------------------------------------------------------------------


def test_silence_ends_with_the_read_timeout_and_is_not_asked_again(
    client: Client, llm: ModelServer
) -> None:
    llm.script([Answer("late", delay=5)])
    began = time.monotonic()
    with pytest.raises(SpentError, match=r"not whole after 0\.2 seconds") as caught:
        client(llm, patience=SHORT.replace(answer=0.2)).complete(question())
    assert time.monotonic() - began < 3
    assert caught.value.again
    assert caught.value.where == f"{llm.url}, model m-1"
    assert len(llm.asked) == 1


#: Ways never to be done without ever being silent for long, or at all.
ENDLESS: dict[str, Reply] = {
    "body": Answer("x" * 5000, drip=0.05),
    "headers": slow_headers(0.05),
    "100 Continue": continues(0.05),
    "100 Continue, without a pause": continues(0),
    "an error's body": Raw(503, b"x" * 5000, drip=0.05),
}


@pytest.mark.full
@pytest.mark.parametrize("reply", ENDLESS.values(), ids=list(ENDLESS))
@pytest.mark.parametrize("bound", ["answer", "total", "seconds"])
def test_a_drip_does_not_outlast_the_patience(
    client: Client, llm: ModelServer, reply: Reply, bound: str
) -> None:
    """Explicit timeouts; total attempts and wall time bounded by us, where no token is seen."""
    llm.streams = False
    llm.script([reply] * 3)
    patience = SHORT.replace(attempts=1)
    request = question()
    if bound == "seconds":
        request = request.replace(seconds=0.8)
    else:
        patience = patience.replace(**{bound: 0.8})
    began = time.monotonic()
    with pytest.raises(RemoteError) as caught:
        client(llm, patience=patience).complete(request)
    assert time.monotonic() - began < 5
    assert len(llm.asked) == 1
    if not isinstance(reply, Raw) or reply.status == 200:
        assert isinstance(caught.value, SpentError)
        assert "not whole after 0." in caught.value.what  # what is left of the 0.8 seconds
        assert caught.value.again is (bound == "answer"), "there is time for one attempt more"


@pytest.mark.full
def test_a_reader_that_takes_the_prompt_slowly_does_not_outlast_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        held: list[socket.socket] = []

        def read() -> None:
            with suppress(OSError):
                connection, _ = listener.accept()
                held.append(connection)
                while connection.recv(2048):
                    time.sleep(0.02)

        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        with client_of(ModelServer(), base_url=url, patience=SHORT.replace(total=2)) as model:
            began = time.monotonic()
            with pytest.raises(SpentError, match="not whole after"):
                model.complete(question("x" * (16 << 20)))
            assert time.monotonic() - began < 8
        held[0].shutdown(socket.SHUT_RDWR)
        thread.join(10)
        held[0].close()


def test_the_time_of_one_thread_is_not_that_of_another(client: Client, llm: ModelServer) -> None:
    llm.script(lambda asked: Answer(asked.messages[0]["content"], delay=0.4))
    model = client(llm)

    def ask(number: int) -> str:
        seconds = 0.2 if number % 2 else None
        try:
            return model.complete(question(f"q{number}", seconds=seconds)).text
        except SpentError:
            return "late"

    with ThreadPoolExecutor(8) as pool:
        texts = list(pool.map(ask, range(16)))
    assert texts == ["late" if n % 2 else f"q{n}" for n in range(16)]


def test_a_client_that_cannot_be_bounded_is_not_used() -> None:
    with pytest.raises(UnavailableError, match="httpx2") as caught:
        Deadlines(time.monotonic).bind(object())
    assert caught.value.code == 4
