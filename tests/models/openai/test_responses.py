"""Answers of a service that are none: refused by name, and known whether they cost something."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm_ci.errors import RemoteError
from rlm_ci.models import SpentError, TokenUsage
from rlm_ci.models.openai import responses
from rlm_ci.models.openai.responses import EventStream
from testing.loopback_model.replies import Answer, Raw, Reply, deep_json, html
from testing.loopback_model.server import ModelServer
from testing.model_clients import Client, question

SPENT: list[tuple[str, Reply, str, bool]] = [
    ("cut JSON", Raw(200, b'{"choices": [{"message": {"content": "hi'), "incomplete JSON", True),
    ("nothing", Raw(200, b""), "an empty answer", True),
    ("deep JSON", deep_json(40_000), "nested too deeply", False),
    ("no choices", Answer("hi", more={"choices": []}), "no choices", True),
    ("choices null", Answer("hi", more={"choices": None}), "no choices", True),
    ("choices of texts", Answer("hi", more={"choices": ["hi"]}), "no choices", True),
    ("no message", Answer("hi", more={"choices": [{}]}), "no message", True),
    ("length", Answer(None, finish_reason="length"), "used up its tokens", False),
    ("null", Answer(None), "empty", True),
    ("filter", Answer("part", finish_reason="content_filter"), "content filter", False),
    *(
        (reason, Answer("part", finish_reason=reason), "broke off the answer", True)
        for reason in ("error", "abort", "network_error", "insufficient_system_resource")
    ),
    *(
        (reason, Answer("part", finish_reason=reason), "content filter", False)
        for reason in ("SAFETY", "RECITATION", "sensitive", "refusal")
    ),
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
    ("reason", "known"),
    [
        ("max_tokens", "length"), ("MAX_TOKENS", "length"), ("max_output_tokens", "length"),
        ("model_context_window_exceeded", "length"), ("end_turn", "stop"), ("STOP", "stop"),
        ("stop_sequence", "stop"), (None, "stop"), (7, "stop"),
    ],
)  # fmt: skip
def test_other_words_for_the_end_of_an_answer_are_known(
    client: Client, llm: ModelServer, reason: Any, known: str
) -> None:
    llm.script([Answer("hi", finish_reason=reason)])
    assert client(llm).complete(question()).finish_reason == known


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


@pytest.mark.parametrize(
    ("answer", "is_cut"),
    [
        (Answer("{}", usage=(1028, 5)), True),
        (Answer("{}", usage=(1028, 5), more={"truncated": False}), True),
        (Answer("{}", more={"truncated": True}), True),
        (Answer("{}", usage=(3000, 5)), False),
        (Answer("{}", usage=(100, 5)), False),  # less than any context: a count of nothing
        (Answer("{}", usage=None), False),
    ],
)
def test_an_endpoint_that_cuts_a_prompt_is_noticed(
    client: Client, llm: ModelServer, answer: Answer, *, is_cut: bool
) -> None:
    llm.script([answer])
    long = question("word " * 7000)
    if not is_cut:
        assert client(llm).complete(long).text == "{}"
        return
    with pytest.raises(SpentError, match="the endpoint cut the prompt") as caught:
        client(llm).complete(long)
    assert "num_ctx" in caught.value.what
    assert not caught.value.again


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
    assert caught.value.usage == TokenUsage(20, 100)


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
    {}, optional={"message": MESSAGE | ANYTHING, "finish_reason": st.just("stop") | ANYTHING}
)
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


@given(BODY)
def test_whatever_an_answer_holds_it_is_an_answer_or_named(body: Any) -> None:
    with suppress(RemoteError):
        completion = responses.completion_of(body, "m")
        assert completion.text or completion.tool_calls
        json.dumps(completion.to_dict())


@given(st.lists(BODY, max_size=4))
def test_whatever_the_events_of_a_stream_hold_they_are_an_answer_or_named(
    bodies: list[Any],
) -> None:
    stream = EventStream()
    text = "".join(f"data: {json.dumps(body)}\n\n" for body in bodies).replace("message", "delta")
    with suppress(RemoteError):
        added = stream.feed(text.encode())
        assert stream.size <= len(added.encode("utf-8", "surrogatepass")) + len(text)
        completion = responses.completion_of(responses.streamed(stream), "m")
        json.dumps(completion.to_dict())
