"""Answers that come as events, asked for or not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rlm_ci.models import SpentError
from rlm_ci.models.openai import responses
from rlm_ci.models.openai.responses import EventStream
from testing.loopback_model.replies import Raw
from testing.loopback_model.server import ModelServer
from testing.model_clients import Client, question

CALL: dict[str, Any] = {
    "index": 0,
    "id": "c1",
    "type": "function",
    "function": {"name": "read", "arguments": ""},
}


def events(*deltas: dict[str, Any], reason: str | None = "stop", more: str = "") -> bytes:
    """A stream of ``deltas``, with ``more`` lines before them."""
    chunks: list[dict[str, Any]] = [
        {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas
    ]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
    lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
    return (more + "".join(lines) + "data: [DONE]\n\n").encode()


def test_an_answer_in_pieces_is_one_answer(client: Client, llm: ModelServer) -> None:
    body = events(
        {"role": "assistant", "content": ""},
        {"content": "he", "reasoning_content": "h"},
        {"content": "llo", "reasoning_content": "m"},
        {"tool_calls": [CALL]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"path": '}}]},
        {
            "tool_calls": [
                {"index": 0, "function": {"arguments": '"a"}'}, "extra_content": {"a": 1}}
            ]
        },
        {"tool_calls": [{**CALL, "index": 1, "id": "c2"}]},
        reason="tool_calls",
        more=": PROCESSING\n\n",
    )
    llm.script([Raw(200, body, kind="text/event-stream")])
    completion = client(llm).complete(question())
    assert (completion.text, completion.extra) == ("hello", {"reasoning_content": "hm"})
    assert completion.tool_calls == (
        {"id": "c1", "name": "read", "arguments": '{"path": "a"}',
         "extra": {"extra_content": {"a": 1}}},
        {"id": "c2", "name": "read", "arguments": ""},
    )  # fmt: skip
    assert completion.finish_reason == "tool_calls"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (events({"content": "half"}, reason=None)[: -len(b"data: [DONE]\n\n")],
         "ends before its end, after about 1 token "),
        (b'data: {"choices": [{"delta": {"content": "half"}\n\n', "not JSON"),
        (b'data: {"error": {"message": "overloaded"}}\n\n', "overloaded"),
        (b'data: {"error": {"message": "overloaded", "code": 504}}\n\n', "overloaded"),
        (b": nothing\n\n", "ends before its end"),
    ],
)  # fmt: skip
def test_a_stream_without_its_end_is_no_answer(
    client: Client, llm: ModelServer, body: bytes, words: str
) -> None:
    llm.script([Raw(200, body, kind="text/event-stream")])
    with pytest.raises(SpentError, match=words) as caught:
        client(llm).complete(question())
    assert caught.value.again


def assembled(*deltas: dict[str, Any], size: int = 1 << 20) -> dict[str, Any]:
    """The message of a stream of ``deltas`` that comes in pieces of ``size`` bytes."""
    stream, data = EventStream(), events(*deltas)
    for start in range(0, len(data), size):
        stream.feed(data[start : start + size])
    answer = stream.end()
    assert answer is not None
    message: dict[str, Any] = answer["choices"][0]["message"]
    return message


READ = {"id": "c1", "function": {"name": "read", "arguments": "{}"}}
LIST = {"id": "c2", "function": {"name": "list", "arguments": "{}"}}


@pytest.mark.parametrize(
    "deltas",
    [
        [{"tool_calls": [READ, LIST]}],
        [{"tool_calls": [READ]}, {"tool_calls": [LIST]}],
        [{"tool_calls": [{**READ, "index": 0}]}, {"tool_calls": [{**LIST, "index": 0}]}],
        [{"tool_calls": [{**READ, "index": 1}]}, {"tool_calls": [{**LIST, "index": 2}]}],
        [{"tool_calls": [{**READ, "id": ""}]}, {"tool_calls": [{**LIST, "id": None}]}],
        # Pieces without a number go on with the last call; a name that is repeated is one.
        [
            {"tool_calls": [{"id": "c1", "function": {"name": "read", "arguments": "{"}}]},
            {"tool_calls": [{"id": "c1", "function": {"name": "read", "arguments": "}"}}]},
            {"tool_calls": [{"id": "c2", "function": {"name": "list", "arguments": ""}}]},
            {"tool_calls": [{"function": {"arguments": "{"}}]},
            {"tool_calls": [{"function": {"name": None, "arguments": "}"}}]},
        ],
        [
            {"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "re"}}]},
            {"tool_calls": [{"index": 1, "id": "c2", "function": {"name": "list"}}]},
            {"tool_calls": [{"index": 0, "function": {"name": "ad", "arguments": "{}"}}]},
            {"tool_calls": [{"index": 1, "function": {"arguments": "{}"}}]},
        ],
    ],
)
def test_calls_are_told_apart_however_they_are_numbered(deltas: list[dict[str, Any]]) -> None:
    functions = [call["function"] for call in assembled(*deltas)["tool_calls"]]
    assert functions == [
        {"name": "read", "arguments": "{}"}, {"name": "list", "arguments": "{}"},
    ]  # fmt: skip


def test_a_list_that_comes_in_pieces_is_what_it_is_without_a_stream() -> None:
    thought = {"type": "reasoning.text", "index": 0, "format": "f-1"}
    message = assembled(
        {"reasoning_details": [{**thought, "text": "Let ", "signature": None}]},
        {"reasoning_details": [{**thought, "text": "me", "signature": None}]},
        {"reasoning_details": [{**thought, "signature": "c2ln"}]},
        {"reasoning_details": [{"type": "reasoning.encrypted", "index": 0, "data": "x"}]},
    )
    assert message["reasoning_details"] == [
        {**thought, "text": "Let me", "signature": "c2ln"},
        {"type": "reasoning.encrypted", "index": 0, "data": "x"},
    ]


def test_text_and_parts_of_content_may_follow_each_other() -> None:
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    message = assembled({"content": ""}, {"content": [thought]}, {"content": "he"},
                        {"content": "llo"})  # fmt: skip
    assert responses.completion_of({"choices": [{"message": message}]}, "m").text == "hello"
    message = assembled({"content": "he"}, {"content": [{"type": "text", "text": "llo"}]})
    assert responses.completion_of({"choices": [{"message": message}]}, "m").text == "hello"


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64])
def test_an_event_may_come_in_pieces_of_any_size(size: int) -> None:
    deltas = [{"content": "« é »\r\n"}, {"content": "\u2028 two", "reasoning": "🙂"}]
    assert assembled(*deltas, size=size) == assembled(*deltas)
    assert assembled(*deltas, size=size)["content"] == "« é »\r\n\u2028 two"


def test_what_was_added_is_told_as_it_comes() -> None:
    stream = EventStream()
    data = events({"role": "assistant", "content": ""}, {"content": "two "}, {"reasoning": "r"})
    assert stream.feed(data[:-20]) + stream.feed(data[-20:]) == "two r"
    assert (stream.tokens, stream.size) == (2, 5)
    assert (stream.reason, stream.is_done) == ("stop", True)
    assert stream.feed(events({"content": "more"})) == "", "nothing follows the end"


def test_a_stream_that_says_that_it_is_done_needs_no_reason() -> None:
    stream = EventStream()
    stream.feed(events({"content": "hi"}, reason=None))
    answer = stream.end()
    assert answer is not None
    assert responses.completion_of(answer, "m").text == "hi"


def test_the_parts_of_a_count_are_joined_and_none_is_lost() -> None:
    stream = EventStream()
    for usage in (
        {"prompt_tokens": 9, "completion_tokens": 0},
        None,
        {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 9},
    ):
        stream.feed(b"data: " + json.dumps({"choices": [], "usage": usage}).encode() + b"\n\n")
    assert stream.usage == {"prompt_tokens": 9, "completion_tokens": 0, "total_tokens": 9}
