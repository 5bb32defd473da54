"""Answers that come token by token, in the form of each provider: the same as whole ones."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.console.progress import ActiveAnswer
from rlm_ci.errors import LimitError, RemoteError
from rlm_ci.models import SpentError, TokenUsage
from rlm_ci.models.budget import BudgetUse, Ledger
from testing.call_records import lines, opened
from testing.leftovers import eventually
from testing.loopback_model.histories import HISTORIES, History
from testing.loopback_model.replies import Answer, Call, Raw, refusal
from testing.loopback_model.server import Asked, ModelServer
from testing.loopback_model.streams import FORMS, StreamForm
from testing.model_clients import SHORT, TOOL, Client, client_of, question

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TWO = Answer(
    "I look at « both »: first the one, then the other.",
    (Call("read", '{"path": "src/a.py"}', "c1"), Call("read", '{"path": "src/b.py"}', "c2")),
    usage=(17, 42),
)
#: What is the same whether an answer was streamed or not.
ENDPOINTS = [(name, HISTORIES.get(name)) for name in FORMS]


@pytest.mark.parametrize("answer", [TWO, Answer("Plain: « é ».", usage=(9, 4))])
@pytest.mark.parametrize(("form", "history"), ENDPOINTS, ids=list(FORMS))
def test_an_answer_is_recorded_the_same_streamed_or_not(
    tmp_path: Path, llm: ModelServer, form: str, history: Any, answer: Answer
) -> None:
    llm.script(lambda _request: answer)
    llm.history, llm.stream_form = history, FORMS[form]
    records = []
    for streams in (True, False):
        llm.streams = streams
        path = tmp_path / f"{streams}.jsonl"
        with opened(path) as record, client_of(llm) as model:
            record.complete(model, Ledger(), question(tools=(TOOL,)), "1/1")
        fact = lines(path)[-1]
        records.append({name: fact[name] for name in ("key", "value")})
    assert llm.completions[0].body["stream"] is True
    streamed, unstreamed = records
    if form == "bare gateway":  # which counts nothing in a stream
        assert streamed["value"]["usage"]["estimated"]
        unstreamed["value"]["usage"] = streamed["value"]["usage"]
    assert json.dumps(streamed) == json.dumps(unstreamed)
    assert streamed["value"]["text"] == answer.text


@pytest.mark.parametrize("name", ["gemini", "deepseek"])
def test_what_came_in_a_stream_goes_back_unchanged(
    client: Client, llm: ModelServer, name: str
) -> None:
    llm.history, llm.stream_form = HISTORIES[name], FORMS[name]
    llm.script([Answer(None, (Call("read"),)), "done"])
    model = client(llm)
    first = model.complete(question(tools=(TOOL,)))
    (call,) = first.tool_calls
    sent = {
        "id": call["id"], "type": "function",
        "function": {"name": call["name"], "arguments": call["arguments"]},
        **call.get("extra", {}),
    }  # fmt: skip
    answer = {**first.extra, "role": "assistant", "content": None, "tool_calls": [sent]}
    result = {"role": "tool", "tool_call_id": call["id"], "content": "text"}
    messages = (*question().messages, answer, result)
    request = question(tools=(TOOL,)).replace(messages=messages)
    assert model.complete(request).text == "done"


# -- endpoints that do not stream, or not all ----------------------------------------------------

REFUSALS = {
    "Azure, of an older version": (
        lambda request: "stream_options" in request.body,
        refusal(400, "Unrecognized request argument supplied: stream_options"),
    ),
    "Mistral": (
        lambda request: "stream_options" in request.body,
        Raw(422, {"detail": [{"type": "extra_forbidden", "loc": ["body", "stream_options"],
                              "msg": "Extra inputs are not permitted"}]}),
    ),
    "OpenAI, without a verified organization": (
        lambda _: True,
        refusal(400, "Your organization must be verified to stream this model.", param="stream",
                code="unsupported_value"),
    ),
    "Bedrock, with tools": (
        lambda request: "tools" in request.body,
        refusal(400, "This model doesn't support tool use in streaming mode."),
    ),
    "Groq, with a schema": (
        lambda request: "response_format" in request.body,
        refusal(400, "Streaming is not supported with response_format json_schema"),
    ),
    "none at all": (lambda _: True, refusal(501, "streaming is not implemented")),
}  # fmt: skip
SCHEMA = {"type": "json_schema", "json_schema": {"name": "s", "schema": {"type": "object"}}}


@pytest.mark.parametrize(("is_refused", "reply"), REFUSALS.values(), ids=list(REFUSALS))
def test_what_an_endpoint_does_not_stream_is_asked_for_whole_once_a_run(
    client: Client, llm: ModelServer, is_refused: Any, reply: Raw
) -> None:
    llm.refuses_stream = lambda request: reply if is_refused(request) else None
    llm.script(lambda _: Answer("hi", usage=(9, 4)))
    model = client(llm)
    request = question(tools=(TOOL,), response_format=SCHEMA)
    for _ in range(3):
        assert model.complete(request).text == "hi"
    assert model.complete(request).usage == TokenUsage(9, 4), "streamed or not, it is counted"
    assert sum(request.status != 200 for request in llm.completions) == 1


def test_a_kind_of_question_that_is_streamed_still_is(client: Client, llm: ModelServer) -> None:
    _, reply = REFUSALS["Bedrock, with tools"]
    llm.refuses_stream = lambda request: reply if "tools" in request.body else None
    llm.script(lambda _: "hi")
    model = client(llm)
    model.complete(question(tools=(TOOL,)))
    model.complete(question())
    assert [bool(row.body.get("stream")) for row in llm.completions] == [True, False, True]


def test_an_error_of_another_kind_is_not_about_streams(client: Client, llm: ModelServer) -> None:
    llm.script([refusal(400, "the upstream model does not know temperature")])
    with pytest.raises(RemoteError, match="the request was refused"):
        client(llm).complete(question())
    assert len(llm.completions) == 1


# -- streams that break off ----------------------------------------------------------------------

TEXT = "word " * 40
LONG = Answer(TEXT, usage=(17, 42))


@pytest.mark.parametrize(
    ("form", "words", "usage"),
    [
        (StreamForm(cut=7, usage="none"), "broke before .* whole, after about 6 tokens", None),
        (StreamForm(cut=7, usage="each"), "after about 6 tokens", TokenUsage(17, 15)),
        (StreamForm(error=(4, {"error": {"message": "overloaded", "code": 502}})),
         "reported an error: overloaded, after about 3 tokens", None),
        (StreamForm(error=(4, {"error": {"message": "out"}, "choices": [
            {"index": 0, "delta": {"content": ""}, "finish_reason": "error"}]})),
         "reported an error: out, after about 3 tokens", None),
        (StreamForm(error=(4, {"x_groq": {"error": "over capacity"}})), "over capacity", None),
    ],
)  # fmt: skip
def test_a_stream_that_breaks_off_says_how_much_came(
    client: Client, llm: ModelServer, form: StreamForm, words: str, usage: TokenUsage | None
) -> None:
    llm.stream_form = form
    llm.script([LONG])
    with pytest.raises(SpentError, match=words) as caught:
        client(llm).complete(question())
    assert caught.value.again
    assert caught.value.usage == usage
    assert 0 < (caught.value.size or 0) < 100


def test_an_error_as_the_only_event_is_a_refusal_and_costs_nothing(
    path: Path, client: Client, llm: ModelServer
) -> None:
    error = {"error": {"message": "Rate limit reached, please try again in 1s", "code": 429}}
    llm.stream_form = StreamForm(error=(0, error))
    slept: list[float] = []

    def reply(_request: Asked) -> Answer:
        if len(llm.completions) > 1:
            llm.stream_form = StreamForm()
        return Answer("hi", usage=(9, 4))

    llm.script(reply)
    ledger = Ledger()
    with opened(path) as record:
        model = client(llm, sleep=slept.append)
        assert record.complete(model, ledger, question(), "p").text == "hi"
    assert slept == [1.0]
    assert ledger.spent == BudgetUse(1, 9, 4)


def test_what_came_before_a_break_is_charged_once_and_asked_for_again(
    path: Path, client: Client, llm: ModelServer
) -> None:
    llm.stream_form = StreamForm(cut=7, usage="none")

    def reply(_request: Asked) -> Answer:
        if len(llm.completions) > 1:
            llm.stream_form = StreamForm()
        return LONG

    llm.script(reply)
    ledger = Ledger()
    with opened(path) as record:
        request = question(max_tokens=4096)
        assert record.complete(client(llm), ledger, request, "p").text == LONG.text
        assert record.spent == ledger.spent
    lost = lines(path)[1]
    assert lost["type"] == "failed"
    written = lost["charge"]["usage"]["completion_tokens"]
    assert written == 72, "bytes: no tokenizer makes more tokens"
    assert ledger.spent == BudgetUse(2, question().prompt_bytes() + 17, written + 42)
    with opened(path) as record:
        assert record.spent == ledger.spent


def broken(
    llm: ModelServer, reply: Callable[[Asked], Any], first: Answer = LONG
) -> Callable[[Asked], Any]:
    """A script whose first answer breaks off after six pieces; ``reply`` says the others."""

    def answer(asked: Asked) -> Any:
        asked_before = len(llm.completions) > 1
        llm.stream_form = StreamForm() if asked_before else StreamForm(cut=7, usage="none")
        return reply(asked) if asked_before else first

    return answer


PART = TEXT[:72].rstrip()


def goes_on(asked: Asked) -> Answer:
    """As an endpoint that writes an answer on."""
    last = asked.messages[-1]
    is_part = last["role"] == "assistant"
    return Answer(TEXT[len(last["content"]) :] if is_part else TEXT, usage=(90, 30))


def test_an_answer_goes_on_from_what_came_before_it_broke_off(
    path: Path, client: Client, llm: ModelServer
) -> None:
    llm.script(broken(llm, goes_on))
    ledger = Ledger()
    with opened(path) as record:
        said = record.complete(client(llm), ledger, question(max_tokens=4096), "p")
        assert (said.text, said.resumed_tokens, said.lost_tokens) == (LONG.text, 6, 0)
        assert record.losses() == []
        assert "lost_tokens" not in record.usage()
    first, second = llm.completions
    assert second.messages == [*first.messages, {"role": "assistant", "content": PART}]
    assert (first.cap, second.cap) == (4096, 4090)
    assert ledger.spent == BudgetUse(2, question().prompt_bytes() + 90, 72 + 30)
    with opened(path, replay_only=True) as record:
        again = record.complete(client(llm), Ledger(), question(max_tokens=4096), "p")
    assert again == said
    assert len(llm.completions) == 2


def mistral(asked: Asked) -> Any:
    """Goes on from a part that is marked, and says it again; refuses any other."""
    last = asked.messages[-1]
    if last["role"] != "assistant":
        return LONG
    if last.get("prefix") is not True:
        words = "Expected last role User or Tool (or Assistant with prefix True) for serving"
        return Raw(400, {"object": "error", "message": f"{words} but got assistant", "code": "1"})
    return Answer(TEXT, usage=(90, 30))


def vllm(asked: Asked) -> Any:
    """Goes on where it is told to; else it begins a second answer behind the first."""
    is_told = (asked.body.get("continue_final_message"), asked.body.get("add_generation_prompt"))
    return goes_on(asked) if is_told == (True, False) else Answer("And now for something else.")


def strict(asked: Asked) -> Any:
    """Goes on, and knows no parameter that OpenAI has not."""
    for name in ("add_generation_prompt", "continue_final_message"):
        if name in asked.body:
            return refusal(400, f"Unrecognized request argument supplied: {name}")
    return goes_on(asked)


@pytest.mark.parametrize(("endpoint", "asked_times"), [(mistral, 3), (vllm, 2), (strict, 3)])
def test_an_endpoint_goes_on_in_the_way_that_it_wants(
    path: Path, client: Client, llm: ModelServer, endpoint: Any, asked_times: int
) -> None:
    llm.history = History(lambda _: None)  # "prefix" is a member of theirs
    llm.script(broken(llm, endpoint))
    ledger = Ledger()
    with opened(path) as record:
        said = record.complete(client(llm), ledger, question(max_tokens=4096), "p")
        assert (said.text, said.resumed_tokens, said.lost_tokens) == (LONG.text, 6, 0)
        assert record.losses() == []
    assert len(llm.completions) == asked_times
    assert ledger.spent == BudgetUse(2, question().prompt_bytes() + 90, 72 + 30)
    with opened(path, replay_only=True) as record:
        assert (
            record.complete(client(llm), Ledger(), question(max_tokens=4096), "p").text == said.text
        )


NO_PREFILL = refusal(400, "This model does not support assistant message prefill. The conversation "
                     "must end with a user message.")  # fmt: skip
ANEW: dict[str, tuple[Any, Answer, int]] = {
    "with tools": ({"tools": (TOOL,)}, LONG, 2),
    "with a schema": ({"response_format": SCHEMA}, LONG, 2),
    "refused": ({}, LONG, 3),
    "begun anew": ({}, LONG, 2),
    "nothing more": ({}, LONG, 3),
    "within its reasoning": ({}, Answer("<think>" + "word " * 40), 2),
    "hardly begun": ({}, Answer("word", (Call("read"), Call("read"), Call("read"))), 2),
}


@pytest.mark.parametrize("case", ANEW)
def test_what_cannot_go_on_is_asked_for_again_and_said(
    path: Path, client: Client, llm: ModelServer, case: str
) -> None:
    more, first, asked_times = ANEW[case]

    def reply(asked: Asked) -> Any:
        if asked.messages[-1]["role"] != "assistant" or case == "begun anew":
            return LONG
        return NO_PREFILL if case == "refused" else Answer(None)

    llm.script(broken(llm, reply, first))
    ledger = Ledger()
    with opened(path) as record:
        said = record.complete(client(llm), ledger, question(max_tokens=4096, **more), "p")
        assert (said.text, said.resumed_tokens) == (LONG.text, 0)
        (told,) = record.losses()
        lost = f"{said.lost_tokens} tokens of 1 answer that broke off"
        assert told == f"asked again, and paid for again: about {lost}"
        assert record.usage()["lost_tokens"] == said.lost_tokens > 0
        usage = record.usage()
    assert len(llm.completions) == asked_times
    assert ledger.spent.calls == sum(asked.status == 200 for asked in llm.completions)
    with opened(path, replay_only=True) as record:
        assert (
            record.complete(client(llm), Ledger(), question(max_tokens=4096, **more), "p") == said
        )
        assert record.usage() == {**usage, "replayed": 1}


def test_a_model_that_does_not_go_on_is_not_asked_to_twice(
    tmp_path: Path, client: Client, llm: ModelServer
) -> None:
    def reply(asked: Asked) -> Any:
        is_first = asked.messages[-1]["content"] in ("one", "two")
        cut = is_first and sum(one.messages == asked.messages for one in llm.completions) == 1
        llm.stream_form = StreamForm(cut=7, usage="none") if cut else StreamForm()
        return LONG if asked.messages[-1]["role"] == "user" else NO_PREFILL

    llm.script(reply)
    with opened(tmp_path / "calls.jsonl") as record:
        model = client(llm)
        for text in ("one", "two"):
            assert record.complete(model, Ledger(), question(text), text).text == LONG.text
        assert "12 tokens of 2 answers" in record.losses()[0]
    assert [one.messages[-1]["role"][0] for one in llm.completions] == ["u", "a", "u", "u", "u"]


def test_under_a_budget_an_answer_that_broke_off_is_charged_whole(
    path: Path, client: Client, llm: ModelServer
) -> None:
    """Reasoning that is not shown may have used the rest of what it could."""
    llm.stream_form = StreamForm(cut=7, usage="none")
    llm.script([LONG, LONG])
    ledger = Ledger(max_tokens=100_000)
    with opened(path) as record, pytest.raises(SpentError):
        record.complete(client(llm), ledger, question(max_tokens=4096), "p")
    assert ledger.spent.completion_tokens == 4096 + 4090, "the second may have fewer"


def test_a_stream_may_end_without_the_end_of_its_connection(
    client: Client, llm: ModelServer
) -> None:
    llm.stream_form = StreamForm(linger=30)
    llm.script([LONG])
    assert client(llm).complete(question()).text == LONG.text


# -- time ----------------------------------------------------------------------------------------


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_time_out_is_between_tokens_and_not_of_the_whole(client: Client) -> None:
    clock, active = Clock(), ActiveAnswer()

    def pass_time(number: int) -> None:
        assert eventually(lambda: active.tokens == number, 20)
        clock.now += 60

    pieces = [delta(content=f"{number} ") for number in range(10)]
    url, thread = raw_stream([*pieces, end()], pass_time)
    model = client(ModelServer(), base_url=url, clock=clock, patience=SHORT.replace(answer=100))
    request = question().replace(active=active)
    assert model.complete(request).text == "".join(f"{number} " for number in range(10))
    assert clock.now == 600
    thread.join(5)


def test_a_stream_that_stands_still_ends_with_what_came(client: Client, llm: ModelServer) -> None:
    llm.script([Answer("word " * 20, drip=1.5)])
    patience = SHORT.replace(answer=0.3)
    with pytest.raises(SpentError, match=r"not whole after 0\.3 seconds"):
        client(llm, patience=patience).complete(question())


def raw_stream(
    pieces: list[bytes], between: Callable[[int], None] | None = None, *, endless: bool = False
) -> tuple[str, threading.Thread]:
    """The URL of a server that sends ``pieces``, and the last one again and again if ``endless``.

    ``between`` is called with the number of those that were sent, before each other one.
    """
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with listener, suppress(OSError):
            connection, _ = listener.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
                for number, piece in enumerate(pieces):
                    if number and between is not None:
                        between(number)
                    connection.sendall(piece)
                while endless:
                    connection.sendall(pieces[-1])

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    return f"http://127.0.0.1:{listener.getsockname()[1]}/v1", thread


def delta(**members: Any) -> bytes:
    return b"data: " + json.dumps({"choices": [{"index": 0, "delta": members}]}).encode() + b"\n\n"


def end() -> bytes:
    choice = {"index": 0, "delta": {}, "finish_reason": "stop"}
    return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\ndata: [DONE]\n\n"


@pytest.mark.parametrize("last", [b": keep-alive\n\n", delta(content=""), delta()])
def test_what_is_no_token_does_not_prolong_an_answer(client: Client, last: bytes) -> None:
    clock, active = Clock(), ActiveAnswer()

    def pass_time(number: int) -> None:
        assert eventually(lambda: active.tokens == 1, 20)
        clock.now += 60 if number == 1 else 0

    url, thread = raw_stream([delta(content="hi"), last, last], pass_time, endless=True)
    model = client(ModelServer(), base_url=url, clock=clock, patience=SHORT.replace(answer=50))
    with pytest.raises(SpentError, match=r"no token .* 50 seconds, after about 1 token") as caught:
        model.complete(question().replace(active=active))
    assert caught.value.again
    thread.join(5)


def test_tokens_without_end_end_with_the_time_of_the_run(client: Client) -> None:
    url, thread = raw_stream([delta(content="hi ")], endless=True)
    model = client(ModelServer(), base_url=url)
    request = question().replace(active=ActiveAnswer(limit=0.5))
    with pytest.raises(SpentError, match=r"not whole after 0\.\d+ seconds") as caught:
        model.complete(request)
    assert not caught.value.again
    thread.join(5)


@pytest.mark.parametrize("size", [4096, 0])
def test_tokens_without_end_are_too_long_at_last(client: Client, size: int) -> None:
    """What is said counts, and with more room what is around it."""
    url, thread = raw_stream([delta(content="x" * size)], endless=True)
    model = client(ModelServer(), base_url=url, answer_limit=100_000)
    with pytest.raises(SpentError, match="larger than 100,000 bytes"):
        model.complete(question())
    thread.join(5)


def test_the_minutes_of_a_run_bound_a_stream(path: Path, client: Client, llm: ModelServer) -> None:
    llm.script([Answer("word " * 200, drip=0.05)])
    with opened(path) as record, pytest.raises(LimitError, match="minutes is used up"):
        record.complete(client(llm), Ledger(max_minutes=0.5 / 60), question(), "p")


def test_an_answer_is_seen_while_it_comes(path: Path, client: Client) -> None:
    seen: list[str] = []

    def look(number: int) -> None:
        tokens = f"{number} tokens so far"
        assert eventually(lambda: record.active.shown().startswith(tokens), 20)
        seen.append(record.active.shown())

    url, thread = raw_stream([*(delta(content="two words ") for _ in range(5)), end()], look)
    with opened(path) as record:
        model = client(ModelServer(), base_url=url)
        assert record.complete(model, Ledger(), question(), "p").text == "two words " * 5
        assert record.active.shown() == ""
    assert [text.split()[0] for text in seen] == ["1", "2", "3", "4", "5"]
    assert all(text.endswith(" words a second") for text in seen)
    thread.join(5)
