"""The client against a service that does what services do; on loopback, by real HTTP."""

from __future__ import annotations

import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llm.replies import (
    Answer,
    Call,
    Raw,
    Reply,
    busy,
    continues,
    deep_json,
    html,
    no_credit,
    redirect,
    refusal,
    slow_headers,
)
from llm.server import ModelServer
from models.asking import SHORT, TOOL, client_of, question

from rlm_ci.errors import ConfigError, RemoteError, UnavailableError
from rlm_ci.models import SpentError, Usage, answers
from rlm_ci.models.openai_api import OpenAIModel, Patience
from rlm_ci.models.wire import Wire

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Client = Callable[..., OpenAIModel]

#: Whole, and as a stream.
WAYS: list[Any] = [None, lambda _count: None]


# -- what is asked, and what is understood -------------------------------------------------------


@pytest.mark.parametrize("progress", WAYS, ids=["whole", "stream"])
def test_an_answer_with_its_usage(client: Client, llm: ModelServer, progress: Any) -> None:
    llm.script([Answer("The test is wrong: « é »\n" * 5, usage=(17, 42))])
    with_it = client(llm, progress=progress)
    completion = with_it.complete(question(temperature=0.5))
    assert completion.text == "The test is wrong: « é »\n" * 5
    assert completion.usage == Usage(17, 42)
    assert (completion.finish_reason, completion.model, completion.tool_calls) == (
        "stop",
        "m-1",
        (),
    )
    (asked,) = llm.asked
    assert asked.headers["authorization"] == f"Bearer {llm.key}"
    assert asked.body["messages"] == [{"role": "user", "content": "What is wrong?"}]
    assert (asked.body["max_tokens"], asked.body["temperature"]) == (100, 0.5)
    assert "tools" not in asked.body


@pytest.mark.parametrize("progress", WAYS, ids=["whole", "stream"])
def test_calls_of_tools_keep_their_arguments_as_they_were_written(
    client: Client, llm: ModelServer, progress: Any
) -> None:
    written = '{ "path" : "src/a.py", "note": "two\\nlines" }'
    broken = '{"path": "src/'
    llm.script([Answer(None, (Call("read", written, "c1"), Call("read", broken, "c2")))])
    completion = client(llm, progress=progress).complete(question(tools=(TOOL,)))
    assert completion.tool_calls == (
        {"id": "c1", "name": "read", "arguments": written},
        {"id": "c2", "name": "read", "arguments": broken},
    )
    assert (completion.text, completion.finish_reason) == ("", "tool_calls")
    assert llm.asked[0].body["tools"] == [TOOL]


def test_the_history_goes_back_as_the_service_wants_it(client: Client, llm: ModelServer) -> None:
    llm.script([Answer(None, (Call("read"),)), "done"])
    model = client(llm)
    first = model.complete(question(tools=(TOOL,)))
    (made,) = first.tool_calls
    function = {"name": made["name"], "arguments": made["arguments"]}
    call = {"id": made["id"], "type": "function", "function": function}
    answer = {"role": "assistant", "content": None, "tool_calls": [call]}
    result = {"role": "tool", "tool_call_id": made["id"], "content": "text"}
    messages = (*question().messages, answer, result)
    request = question(tools=(TOOL,), response_format={"type": "json_object"})
    assert model.complete(request.replace(messages=messages)).text == "done"
    assert llm.asked[1].body["response_format"] == {"type": "json_object"}


def test_progress_is_told_how_much_has_come(client: Client, llm: ModelServer) -> None:
    llm.script([Answer("x" * 30)])
    told: list[int] = []
    client(llm, progress=told.append).complete(question())
    assert told == sorted(told)
    assert told[-1] == 30


def test_an_endpoint_that_ignores_stream_is_understood(client: Client, llm: ModelServer) -> None:
    llm.script([Raw(200, {"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]})])
    completion = client(llm, progress=lambda _: None).complete(question())
    assert (completion.text, completion.usage) == ("hi", None)


@pytest.mark.parametrize("progress", WAYS, ids=["whole", "stream"])
def test_no_usage_is_no_zero(client: Client, llm: ModelServer, progress: Any) -> None:
    llm.script([Answer("hi", usage=None)])
    assert client(llm, progress=progress).complete(question()).usage is None


@pytest.mark.parametrize(
    ("told", "meant"),
    [
        # reasoning that only the total counts
        ({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 65}, Usage(10, 55)),
        (
            {"prompt_tokens": 10, "completion_tokens": 5,
             "prompt_tokens_details": {"cached_tokens": 8}},
            Usage(10, 5, 8),
        ),
        # more cached than there was
        (
            {"prompt_tokens": 10, "completion_tokens": 5,
             "prompt_tokens_details": {"cached_tokens": 800}},
            Usage(10, 5, 10),
        ),
        ({"prompt_tokens": -1, "completion_tokens": 5}, None),
        ({"prompt_tokens": 0, "completion_tokens": 0}, None),
        ({"prompt_tokens": True, "completion_tokens": 5}, None),
        ({"prompt_tokens": 10**30, "completion_tokens": 5}, None),
        ({"prompt_tokens": "10", "completion_tokens": 5}, None),
        ([], None),
    ],
)  # fmt: skip
def test_usage_is_believed_only_where_it_can_be(
    client: Client, llm: ModelServer, told: Any, meant: Any
) -> None:
    llm.script([Answer("hi", more={"usage": told})])
    assert client(llm).complete(question()).usage == meant


def test_content_in_parts_and_arguments_that_somebody_parsed(
    client: Client, llm: ModelServer
) -> None:
    message = {
        "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
        "tool_calls": [{"function": {"name": "read", "arguments": {"path": "x"}}}],
    }
    llm.script([Raw(200, {"choices": [{"message": message}]})])
    completion = client(llm).complete(question())
    assert completion.text == "ab"
    assert completion.tool_calls == (
        {"id": "call_0", "name": "read", "arguments": '{"path": "x"}'},
    )
    assert completion.finish_reason == "tool_calls"


def test_one_client_serves_all_threads(client: Client, llm: ModelServer) -> None:
    llm.script(lambda asked: Answer(asked.messages[0]["content"], delay=0.02))
    model = client(llm)
    with ThreadPoolExecutor(16) as pool:
        texts = list(pool.map(lambda n: model.complete(question(f"q{n}")).text, range(64)))
    assert texts == [f"q{n}" for n in range(64)]
    model.close()


def test_threads_take_turns_and_wait_for_their_answers_together(
    client: Client, llm: ModelServer
) -> None:
    together = threading.Barrier(8)

    def answer(_asked: object) -> Answer:
        together.wait(20)  # none is answered before all are asked
        return Answer("fine")

    llm.script(answer)
    model = client(llm, patience=Patience())
    with ThreadPoolExecutor(8) as pool:
        texts = list(pool.map(lambda n: model.complete(question(f"q{n}")).text, range(24)))
    assert texts == ["fine"] * 24


@pytest.mark.parametrize("azure", ["", "2024-10-21"], ids=["openai", "azure"])
def test_later_questions_are_sent_as_the_package_sent_the_first(
    client: Client, llm: ModelServer, azure: str
) -> None:
    """All but a question's own: its body, and the key that all attempts at it share."""
    cookie = Raw(429, {"error": {"message": "busy"}}, {"Set-Cookie": "node=7; Path=/"})
    llm.script(["one", "two", cookie, "three", "four"])
    model = client(llm, **({"base_url": llm.origin, "azure_api_version": azure} if azure else {}))
    texts = [model.complete(question("« 1 »", model="m-1")).text]
    texts.append(model.complete(question("« 22 »", model="m-1", temperature=0.5)).text)
    texts.append(model.complete(question("« 3 »", model="m-1")).text)
    texts.append(model.complete(question("« 4 »", model="m-2")).text)
    assert texts == ["one", "two", "three", "four"]
    first, second, refused, third, other = llm.asked
    own = {"content-length", "idempotency-key", "cookie"}
    for asked in (second, refused, third, other):
        assert asked.headers.keys() - {"cookie"} == first.headers.keys()
        same = {name: first.headers[name] for name in first.headers.keys() - own}
        assert same.items() <= asked.headers.items()
    assert [one.messages[-1]["content"] for one in llm.asked] == [
        "« 1 »", "« 22 »", "« 3 »", "« 3 »", "« 4 »",
    ]  # fmt: skip
    assert [one.path for one in (second, third)] == [first.path] * 2
    assert (first.path == other.path) is (not azure)
    assert second.body["temperature"] == 0.5
    keys = [one.headers["idempotency-key"] for one in llm.asked]
    assert keys[2] == keys[3]
    assert len(set(keys)) == 4
    assert third.headers["cookie"] == "node=7"
    assert "cookie" not in refused.headers


# -- a cap by another name -----------------------------------------------------------------------


def test_the_other_name_of_the_cap_is_found_and_kept(client: Client, llm: ModelServer) -> None:
    llm.unknown_parameter = "max_tokens"
    llm.script(["one", "two"])
    model = client(llm)
    assert [model.complete(question()).text for _ in range(2)] == ["one", "two"]
    assert [asked.status for asked in llm.asked] == [400, 200, 200]
    assert [asked.cap for asked in llm.asked] == [100, 100, 100]


def test_a_cap_that_is_too_large_is_told_not_renamed(client: Client, llm: ModelServer) -> None:
    llm.script([refusal(400, "max_tokens is too large: 100. This model supports at most 50")])
    with pytest.raises(RemoteError, match="too large"):
        client(llm).complete(question())
    assert len(llm.asked) == 1


# -- Azure ---------------------------------------------------------------------------------------


def test_azure_is_asked_in_its_own_way(client: Client, llm: ModelServer) -> None:
    llm.script(["from Azure"])
    model = client(llm, base_url=llm.origin, azure_api_version="2024-10-21")
    assert model.complete(question(model="my deployment")).text == "from Azure"
    (asked,) = llm.asked
    assert asked.path == "/openai/deployments/my%20deployment/chat/completions"
    assert asked.query == {"api-version": "2024-10-21"}
    assert asked.headers["api-key"] == llm.key
    assert asked.body["max_completion_tokens"] == 100
    assert model.name == "azure"


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
    assert caught.value.hint == "resume the run after 3600 seconds"
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


# -- answers that are none -----------------------------------------------------------------------

TALK = Answer("a longer answer, in several chunks of a stream")
SPENT: list[tuple[str, Reply, str, bool]] = [
    ("cut JSON", Raw(200, b'{"choices": [{"message": {"content": "hi'), "cut, or none", True),
    ("nothing", Raw(200, b""), "with nothing", True),
    ("deep JSON", deep_json(40_000), "nested too deeply", False),
    ("no choices", Answer("hi", more={"choices": []}), "no choices", True),
    ("choices null", Answer("hi", more={"choices": None}), "no choices", True),
    ("choices of texts", Answer("hi", more={"choices": ["hi"]}), "no choices", True),
    ("no message", Answer("hi", more={"choices": [{}]}), "no message", True),
    ("length", Answer(None, finish_reason="length"), "used up its tokens", False),
    ("null", Answer(None), "empty", True),
    ("filter", Answer("part", finish_reason="content_filter"), "content filter", False),
    (
        "refusal",
        Answer("", more={"choices": [{"message": {"content": None, "refusal": "I won't"}}]}),
        "refused: I won't",
        False,
    ),
    ("error with 200", Raw(200, {"error": {"message": "upstream"}}), "error: upstream", True),
    (
        "call without a name",
        Answer("", more={"choices": [{"message": {"tool_calls": [{"function": {}}]}}]}),
        "malformed",
        True,
    ),
    ("gateway timeout", html(504), "gave up waiting", True),
    ("cut body", Raw(200, b'{"choices": [', cut=5), "broke before", True),
    ("dropped", Raw(drop=True), "broke before", True),
    ("endless", Raw(200, b"[1, " * 4096, endless=True), "larger than 100,000 bytes", False),
]


@pytest.mark.parametrize(
    ("reply", "words", "again"), [case[1:] for case in SPENT], ids=[case[0] for case in SPENT]
)
def test_what_is_no_answer_says_so_and_may_have_been_paid(
    client: Client, llm: ModelServer, reply: Reply, words: str, again: bool
) -> None:
    llm.script([reply])
    with pytest.raises(SpentError, match=words) as caught:
        client(llm, answer_limit=100_000).complete(question())
    assert caught.value.again is again
    assert caught.value.hint
    assert caught.value.where == f"{llm.url}, model m-1"
    assert len(llm.asked) == 1, "what may have been paid for is not asked again behind one's back"


@pytest.mark.parametrize("reply", [html(), html(404), Raw(200, b"[]"), Raw(200, b'"hi"')])
def test_what_is_no_api_at_all_costs_nothing(
    client: Client, llm: ModelServer, reply: Reply
) -> None:
    llm.script([reply])
    with pytest.raises(RemoteError) as caught:
        client(llm).complete(question())
    assert not isinstance(caught.value, SpentError)
    assert "base URL" in caught.value.hint


def test_what_the_endpoint_counted_of_a_useless_answer_is_known(
    client: Client, llm: ModelServer
) -> None:
    llm.script([Answer(None, finish_reason="length", usage=(20, 100))])
    with pytest.raises(SpentError) as caught:
        client(llm).complete(question())
    assert caught.value.usage == Usage(20, 100)


STREAMS: list[tuple[str, Reply, str, bool]] = [
    ("closed as if at its end", Answer(TALK.text, cut_after=3), "cut before its end", True),
    ("closed before its first chunk", Answer(TALK.text, cut_after=0), "cut before", True),
    ("reset", Answer(TALK.text, cut_after=3, reset=True), "broke before", True),
    ("half a line", Raw(200, b'data: {"choices"', kind="text/event-stream"), "cut before", True),
    (
        "half JSON",
        Raw(200, b'data: {"choices": [\n\ndata: [DONE]\n\n', kind="text/event-stream"),
        "cut, or none",
        True,
    ),
    (
        "an error",
        Raw(200, b'data: {"error": {"message": "overloaded"}}\n\n', kind="text/event-stream"),
        "overloaded",
        True,
    ),
    ("too long a line", Raw(200, b"data: " + b"x" * 200_000, kind="text/event-stream"),
     "larger than 20,000 bytes", False),
    ("too long a text", Answer("x" * 24_000), "larger than 20,000 characters", False),
    ("a filter", Answer("part", finish_reason="content_filter"), "content filter", False),
    (
        "a call that is none",
        Raw(200, b'data: {"choices":[{"delta":{"tool_calls":[{"index":-1}]}}]}\n\n',
            kind="text/event-stream"),
        "malformed",
        True,
    ),
    (
        "calls that are no list",
        Raw(200, b'data: {"choices":[{"delta":{"tool_calls":5}}]}\n\n', kind="text/event-stream"),
        "malformed",
        True,
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("reply", "words", "again"), [case[1:] for case in STREAMS], ids=[case[0] for case in STREAMS]
)
def test_a_stream_counts_only_with_its_finish_reason(
    client: Client, llm: ModelServer, reply: Reply, words: str, again: bool
) -> None:
    llm.script([reply])
    with pytest.raises(SpentError, match=words) as caught:
        client(llm, progress=lambda _: None, answer_limit=20_000).complete(question())
    assert caught.value.again is again
    assert caught.value.hint
    assert len(llm.asked) == 1


def test_a_stream_without_done_is_whole_with_its_finish_reason(
    client: Client, llm: ModelServer
) -> None:
    whole = len(TALK.text or "") // 12 + 1 + 2  # the role, the text, the finish reason
    llm.script([Answer(TALK.text, cut_after=whole)])
    completion = client(llm, progress=lambda _: None).complete(question())
    assert (completion.text, completion.usage) == (TALK.text, None)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["index", "id", "name", "arguments", "function", "text", "content"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)
MESSAGE = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("content", "refusal", "tool_calls"), ANYTHING)
)
CHOICE = st.fixed_dictionaries(
    {}, optional={"message": MESSAGE | ANYTHING, "delta": MESSAGE | ANYTHING,
                  "finish_reason": st.just("stop") | ANYTHING},
)  # fmt: skip
BODY = st.fixed_dictionaries(
    {},
    optional={
        "choices": st.lists(CHOICE | ANYTHING, max_size=2) | ANYTHING,
        "usage": ANYTHING
        | st.fixed_dictionaries({"prompt_tokens": ANYTHING, "completion_tokens": ANYTHING}),
        "model": ANYTHING,
        "error": ANYTHING,
    },
)


@given(st.lists(BODY, min_size=1, max_size=4))
@settings(max_examples=80, deadline=None)
def test_whatever_an_answer_holds_it_is_an_answer_or_named(bodies: list[Any]) -> None:
    lines = [b"data: " + json.dumps(body).encode() + b"\n" for body in bodies]
    for read in (
        partial(answers.whole, bodies[0], "m"),
        partial(answers.streamed, lines, "m", lambda _count: None, 1000),
    ):
        with suppress(RemoteError):
            completion = read()
            assert completion.text or completion.tool_calls
            json.dumps(completion.to_dict())


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


@pytest.mark.sample(2)
@pytest.mark.parametrize("progress", WAYS, ids=["whole", "stream"])
@pytest.mark.parametrize("reply", ENDLESS.values(), ids=list(ENDLESS))
@pytest.mark.parametrize("bound", ["answer", "total", "seconds"])
def test_a_drip_does_not_outlast_the_patience(
    client: Client, llm: ModelServer, progress: Any, reply: Reply, bound: str
) -> None:
    """Explicit timeouts; total attempts and wall time bounded by us."""
    llm.script([reply] * 3)
    patience = SHORT.replace(attempts=1)
    request = question()
    if bound == "seconds":
        request = request.replace(seconds=0.8)
    else:
        patience = patience.replace(**{bound: 0.8})
    began = time.monotonic()
    with pytest.raises(RemoteError) as caught:
        client(llm, patience=patience, progress=progress).complete(request)
    assert time.monotonic() - began < 5
    assert len(llm.asked) == 1
    if not isinstance(reply, Raw) or reply.status == 200:
        assert isinstance(caught.value, SpentError)
        assert "not whole after 0." in caught.value.what  # what is left of the 0.8 seconds
        assert caught.value.again is (bound == "answer"), "there is time for one attempt more"


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
        Wire(time.monotonic).lay(object())
    assert caught.value.code == 4


# -- where the prompt goes, and who hears the key ------------------------------------------------


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_the_prompt_is_not_sent_to_where_a_redirect_leads(
    client: Client, llm: ModelServer, status: int
) -> None:
    with ModelServer(["stolen"]) as other:
        llm.script([redirect(f"{other.url}/chat/completions?token=x", status)])
        with pytest.raises(RemoteError, match="redirects to") as caught:
            client(llm).complete(question())
        assert other.asked == []
    assert not isinstance(caught.value, SpentError)
    assert "token" not in str(caught.value)


@pytest.mark.parametrize("echo", [lambda key: key, lambda key: key[::-1], lambda key: f"{key}\n"])
def test_an_error_that_echoes_the_key_does_not_tell_it(
    client: Client, llm: ModelServer, echo: Callable[[str], str]
) -> None:
    llm.script([refusal(400, f"bad: {echo(llm.key)}")])
    with pytest.raises(RemoteError, match=r"bad: \[redacted\]") as caught:
        client(llm).complete(question())
    assert llm.key not in repr(caught.value)


def test_a_key_that_is_refused_is_told_without_it(client: Client, llm: ModelServer) -> None:
    with pytest.raises(RemoteError, match=r"key was refused \(401\)") as caught:
        client(llm, api_key="wrong-key-0123456789").complete(question())
    assert "wrong-key" not in str(caught.value)
    assert caught.value.code == 8


def test_an_unknown_model_is_told_with_those_that_are_known(
    client: Client, llm: ModelServer
) -> None:
    llm.models = ["gpt-large", "gpt-small", "other"]
    with pytest.raises(RemoteError, match="does not know the model gpt-smal") as caught:
        client(llm).complete(question(model="gpt-smal"))
    assert caught.value.hint.startswith("3 are known there, such as gpt-small")


def test_a_hostile_message_cannot_move_the_terminal(client: Client, llm: ModelServer) -> None:
    llm.script([refusal(400, "\x1b[2J\x1b]0;owned\x07\u202e" + "x" * 5000)])
    with pytest.raises(RemoteError) as caught:
        client(llm).complete(question())
    assert caught.value.what.isprintable()
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize("body", [b"\xff\xfe\x00", b"<html>", b"[" * 5000, b'{"error": 5}', b""])
def test_errors_of_any_shape_are_told(client: Client, llm: ModelServer, body: bytes) -> None:
    llm.script([Raw(418, body)])
    with pytest.raises(RemoteError, match=r"refused \(418\)"):
        client(llm).complete(question())


@pytest.mark.parametrize("to", ["http://[::1", "http://[x]/", "http://a:b/c", "", "\x1b[2J"])
def test_a_redirect_to_nothing_is_refused_all_the_same(
    client: Client, llm: ModelServer, to: str
) -> None:
    llm.script([redirect(to)])
    with pytest.raises(RemoteError, match="redirects to") as caught:
        client(llm).complete(question())
    assert caught.value.what.isprintable()


def test_an_error_without_end_is_not_read_to_its_end(client: Client, llm: ModelServer) -> None:
    llm.script([Raw(400, b"x" * 4096, endless=True)])
    with pytest.raises(RemoteError, match=r"refused \(400\): xxx"):
        client(llm).complete(question())


def test_a_server_of_ones_own_needs_no_key(client: Client) -> None:
    with ModelServer(["hi"], key="") as served:
        assert client(served).complete(question()).text == "hi"
        assert "authorization" not in served.asked[0].headers


@pytest.mark.parametrize("more", [{}, {"base_url": "https://x.test", "azure_api_version": "v"}])
def test_no_key_is_an_error_of_the_configuration(more: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="no key") as caught:
        OpenAIModel(**more)
    assert "OPENAI_BASE_URL" in caught.value.hint


@pytest.mark.parametrize(
    "url", ["ftp://x.test", "x.test/v1", "https://u:p@x.test/v1", "https://x.test/v1?k=1",
            "https:///v1", "https://x.test/\n", "http://[::1", "http://localhost:abc/v1",
            "http://a..b/v1", f"http://{'a' * 64}.test/v1", "http://x.test:65536/v1",
            "http://x.test:0/v1", "http://[nonsense]/v1"],
)  # fmt: skip
def test_a_base_url_that_is_none(url: str) -> None:
    with pytest.raises(ConfigError, match="base URL") as caught:
        OpenAIModel(base_url=url, api_key="k")
    assert "u:p" not in str(caught.value)
    assert caught.value.where == "OPENAI_BASE_URL"


@pytest.mark.parametrize("url", ["http://256.1.1.1/v1", "http://\u2603.test/v1"])
def test_a_host_that_cannot_be_is_an_error_of_the_configuration(client: Client, url: str) -> None:
    with pytest.raises(ConfigError) as caught, ModelServer() as served:
        client(served, base_url=url).complete(question())
    assert caught.value.where == "OPENAI_BASE_URL"


@pytest.mark.parametrize("key", ["clé-0123456789", "two words", "sk-abc\n", "\x00"])
def test_a_key_that_is_none_is_told_without_it(key: str) -> None:
    with pytest.raises(ConfigError, match="characters that no key has") as caught:
        OpenAIModel(api_key=key)
    assert caught.value.where == "OPENAI_API_KEY"
    assert key not in str(caught.value)


@pytest.mark.parametrize(
    "proxy",
    ["socks5://127.0.0.1:1", "foo://u:hidden@x", "http://u:hidden@127.0.0.1:abc", "http://[::1",
     "http://a..b:80"],
)  # fmt: skip
def test_a_proxy_that_is_none_is_named(client: Client, llm: ModelServer, proxy: str,
                                       monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    monkeypatch.setenv("HTTP_PROXY", proxy)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    with pytest.raises(ConfigError, match="proxy") as caught:
        client(llm, base_url="http://model.test/v1").complete(question())
    assert "HTTP_PROXY" in caught.value.where
    assert "hidden" not in str(caught.value)
    assert llm.asked == []


@pytest.mark.parametrize("content", [None, "no certificate\n"])
def test_certificates_that_are_none_are_named(
    client: Client,
    llm: ModelServer,
    tmp_path: Path,
    content: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = tmp_path / "certificates.pem"
    if content is not None:
        file.write_text(content)
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    with pytest.raises(ConfigError, match="certificates cannot be read") as caught:
        client(llm).complete(question())
    assert "SSL_CERT_FILE" in caught.value.where


def test_text_that_is_no_unicode_is_told(client: Client, llm: ModelServer) -> None:
    with pytest.raises(ConfigError, match="no Unicode"):
        client(llm).complete(question("\udc80"))
    assert llm.asked == []


def test_closing_and_asking_again(client: Client, llm: ModelServer) -> None:
    llm.script(["one", "two"])
    model = client(llm)
    model.complete(question())
    model.close()
    assert model.complete(question()).text == "two"
    model.close()
    model.close()


def test_no_thread_is_left_behind(client: Client, llm: ModelServer) -> None:
    llm.script(["one"])
    before = {thread.ident for thread in threading.enumerate()}
    model = client(llm)
    model.complete(question())
    model.close()
    ours = [
        t
        for t in threading.enumerate()
        if t.ident not in before and "process_request" not in t.name
    ]
    assert ours == []
