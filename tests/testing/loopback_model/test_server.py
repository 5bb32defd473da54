"""The model service of the tests keeps to the shapes that it judges others by."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

import openai
import pytest

from testing.loopback_model import shapes
from testing.loopback_model.fixture import llm
from testing.loopback_model.replies import Answer, Call

if TYPE_CHECKING:
    from testing.loopback_model.server import ModelServer

__all__ = ["llm"]

USER = {"role": "user", "content": "hi"}
CALL = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
ASKS = {"role": "assistant", "content": None, "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "text"}
TOOLS: list[Any] = [{"type": "function", "function": {"name": "read", "parameters": {}}}]


def body(*messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"model": "m-1", "messages": list(messages or (USER,)), **more}


@pytest.mark.parametrize(
    "good",
    [
        body(),
        body({"role": "system", "content": "be brief"}, USER, max_tokens=5, temperature=0),
        body(USER, ASKS, RESULT, tools=TOOLS),
        body(USER, {**ASKS, "content": "I look"}, RESULT, {"role": "assistant", "content": "ok"}),
        body({"role": "user", "content": [{"type": "text", "text": "hi"}]}),
        body(stream=True, stream_options={"include_usage": True}),
        body(response_format={"type": "json_object"}),
    ],
)
def test_what_openai_takes(good: dict[str, Any]) -> None:
    assert shapes.deviations(good) == []


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (None, "not of type"),
        ({"model": "m-1"}, "messages"),
        ({"model": "m-1", "messages": []}, "messages"),
        (body({"role": "user"}), "messages/0"),
        (body({"role": "robot", "content": "x"}), "messages/0"),
        (body({"role": "user", "content": None}), "messages/0"),
        (body({**USER, "extra": 1}), "messages/0"),
        (body(max_tokens=0), "max_tokens"),
        (body(max_tokens="5"), "max_tokens"),
        (body(max_tokens=5, max_completion_tokens=5), "at once"),
        (body(temperature=None), "temperature"),
        (body(tools=[]), "tools"),
        (body(tools=[{"type": "function", "function": {"name": "no spaces"}}]), "tools"),
        (body(stream_options={"include_usage": True}), "without stream"),
        (body(tool_choice="auto"), "without tools"),
        (body(unknown=1), "unknown"),
        (body(USER, ASKS), "without a result at the end"),
        (body(USER, ASKS, USER), "without a result"),
        (body(USER, RESULT), "no call c1 before it"),
        (body(USER, {"role": "assistant", "content": ""}), "neither content nor tool_calls"),
    ],
)
def test_what_openai_refuses(bad: Any, words: str) -> None:
    assert words in "\n".join(shapes.deviations(bad))


def test_the_package_understands_every_answer(llm: ModelServer) -> None:
    """Its typed models, which validate nothing by themselves, are made to."""
    answer = Answer("two words", (Call("read", '{"path": 1}'),), usage=(3, 4))
    llm.script([answer, answer])
    messages: Any = [USER]
    with openai.OpenAI(base_url=llm.url, api_key=llm.key, max_retries=0) as client:
        whole = client.chat.completions.create(model="m-1", messages=messages, tools=TOOLS)
        type(whole).model_validate(whole.model_dump())
        stream = client.chat.completions.create(
            model="m-1", messages=messages, tools=TOOLS, stream=True,
            stream_options={"include_usage": True},
        )  # fmt: skip
        text, arguments = "", ""
        for chunk in stream:
            type(chunk).model_validate(chunk.model_dump())
            for choice in chunk.choices:
                text += choice.delta.content or ""
                for call in choice.delta.tool_calls or ():
                    arguments += (call.function.arguments or "") if call.function else ""
    assert whole.choices[0].message.content == text == "two words"
    assert arguments == '{"path": 1}'
    assert whole.usage
    assert (whole.usage.prompt_tokens, whole.usage.completion_tokens) == (3, 4)
    assert llm.bill.calls == 2


def test_a_wrong_request_is_refused_and_remembered(llm: ModelServer) -> None:
    llm.expect("messages")
    request = urllib.request.Request(
        f"{llm.url}/chat/completions",
        json.dumps({"model": "m-1"}).encode(),
        {"Authorization": f"Bearer {llm.key}"},
    )
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request, timeout=5)
    assert caught.value.code == 400
    caught.value.close()


def test_a_script_that_has_run_out_fails_the_test(llm: ModelServer) -> None:
    llm.expect("run out")
    with (
        openai.OpenAI(base_url=llm.url, api_key=llm.key, max_retries=0) as client,
        pytest.raises(openai.BadRequestError, match="run out"),
    ):
        client.chat.completions.create(model="m-1", messages=[{"role": "user", "content": "hi"}])
