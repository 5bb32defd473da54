"""Answers that come as events, asked for or not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rlm_ci.models import SpentError
from rlm_ci.models.openai import event_stream
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
        (events({"content": "half"}, reason=None), "ends before its end"),
        (b'data: {"choices": [{"delta": {"content": "half"}\n\n', "not JSON"),
        (b'data: {"error": {"message": "overloaded"}}\n\n', "overloaded"),
        (b": nothing\n\n", "ends before its end"),
    ],
)
def test_a_stream_without_its_end_is_no_answer(
    client: Client, llm: ModelServer, body: bytes, words: str
) -> None:
    llm.script([Raw(200, body, kind="text/event-stream")])
    with pytest.raises(SpentError, match=words) as caught:
        client(llm).complete(question())
    assert caught.value.again


def test_calls_without_a_number_go_by_their_place() -> None:
    call = {"id": "c1", "function": {"name": "read", "arguments": "{}"}}
    other = {"id": "c2", "function": {"name": "list", "arguments": "{}"}}
    answer = event_stream.whole(events({"tool_calls": [call, other]}, reason="tool_calls"))
    assert answer is not None
    calls = answer["choices"][0]["message"]["tool_calls"]
    assert [one["function"]["name"] for one in calls] == ["read", "list"]
