"""What a client learns from the refusals of an endpoint, each in the words of a real one."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from rlm_ci.errors import RemoteError
from rlm_ci.models import ModelRequest
from rlm_ci.models.providers import SCHEMAS
from testing.loopback_model.histories import History
from testing.loopback_model.replies import Answer, Raw, refusal
from testing.loopback_model.server import Asked, ModelServer
from testing.loopback_model.small_contexts import SmallContext, vllm
from testing.model_clients import TOOL, Client, question

TOO_MANY = {
    "OpenAI": "max_tokens is too large: 16384. This model supports at most 4096 completion tokens, "
    "whereas you provided 16384.",
    "DeepSeek": "Invalid max_tokens value, the valid range of max_tokens is [1, 4096]",
    "Groq": "`max_tokens` must be less than or equal to `4096`, the maximum value for `max_tokens` "
    "is less than the `context_window` for this model",
    "Anthropic": "max_tokens: 16384 > 4096, which is the maximum allowed number of output tokens",
    "Qwen": "Range of max_tokens should be [1, 4096]",
    "at most": "max_tokens must be at most 4096",
    "a limit": "max_tokens (16384) exceeds limit 4096",
    "Volcano": "The parameter max_tokens specified in the request is not valid: integer above "
    "maximum value, expected a value <= 4096, but got 16384 instead. Request id: 02173b4096",
    "Vertex": "it has a maxOutputTokens value of 16384 but the supported range is from 1 "
    "(inclusive) to 4097 (exclusive). Update the value and try again.",
    "less than": "max_new_tokens must be less than 4097",
    "a name with figures": "gpt-4-0613: max_completion_tokens is too large. Max allowed: 4,096",
}
SHARED = {
    "vLLM": "'max_tokens' or 'max_completion_tokens' is too large: 16384. This model's maximum "
    "context length is 4196 tokens and your request has 100 input tokens",
    "OpenAI": "This model's maximum context length is 4196 tokens. However, you requested 16484 "
    "tokens (100 in the messages, 16384 in the completion).",
    "Anthropic": "input length and `max_tokens` exceed context limit: 100 + 16384 > 4196",
    "TGI": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4196. Given: 100 "
    "`inputs` tokens and 16384 `max_new_tokens`",
    "vLLM since 0.18": "This model's maximum context length is 4196 tokens. However, you "
    "requested 16384 output tokens and your prompt contains 100 input tokens, for a total of 16484 "
    "tokens.",
    "SGLang": "Requested token count exceeds the model's maximum context length of 4196 tokens. "
    "You requested a total of 16484 tokens: 100 tokens from the input messages and 16384 tokens "
    "for the completion.",
}
#: Refusals that name the context, and no count of the prompt.
UNCOUNTED = {
    "above the context": "max_tokens=16384 cannot be greater than max_model_len={}. Please request "
    "fewer output tokens.",
    "above the context, twice": "max_completion_tokens=16384 cannot be greater than "
    "max_model_len=max_total_tokens={}. Please request fewer output tokens.",
    "stopped counting": "This model's maximum context length is {} tokens. However, you requested "
    "16384 output tokens and your prompt contains at least 1 input tokens, for a total of at least "
    "16385 tokens.",
}


def refusing(message: str, accepts: Callable[[Asked], bool], status: int = 400) -> Any:
    """An endpoint that answers what it ``accepts``, and refuses all else with ``message``."""
    return lambda asked: Answer("hi") if accepts(asked) else refusal(status, message)


@pytest.mark.parametrize("message", TOO_MANY.values(), ids=TOO_MANY)
def test_a_cap_above_the_models_is_lowered_once_and_remembered(
    client: Client, llm: ModelServer, message: str
) -> None:
    llm.script(refusing(message, lambda asked: (asked.cap or 0) <= 4096))
    model = client(llm)
    for _ in range(2):
        assert model.complete(question(max_tokens=16_384)).text == "hi"
    assert [asked.cap for asked in llm.completions] == [16_384, 4096, 4096]


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (402, "This requires fewer max_tokens. You requested 16384, but can only afford 5000."),
        (400, ("This model's maximum context length is 8192 tokens. However, you requested 16384 "
               "output tokens and your prompt contains 99000 characters (more than 61440).")),
    ],
    ids=["money", "the prompt"],
)  # fmt: skip
def test_a_refusal_for_something_else_lowers_no_cap(
    client: Client, llm: ModelServer, status: int, message: str
) -> None:
    llm.script(refusing(message, lambda _: False, status))
    with pytest.raises(RemoteError):
        client(llm).complete(question(max_tokens=16_384))
    assert [asked.cap for asked in llm.completions] == [16_384]


def test_a_cap_that_is_told_beside_the_message_is_lowered(client: Client, llm: ModelServer) -> None:
    told = Raw(400, {"error": {"message": "Param Incorrect", "param": TOO_MANY["OpenAI"]}})
    llm.script(lambda asked: Answer("hi") if (asked.cap or 0) <= 4096 else told)
    assert client(llm).complete(question(max_tokens=16_384)).text == "hi"
    assert [asked.cap for asked in llm.completions] == [16_384, 4096]


def test_the_context_is_shared_out_also_where_the_most_tokens_of_an_answer_are_known(
    client: Client, llm: ModelServer
) -> None:
    def answer(asked: Asked) -> Any:
        if (asked.cap or 0) > 8192:
            return refusal(400, "Range of max_tokens should be [1, 8192]")
        return Answer("hi") if (asked.cap or 0) <= 4096 else refusal(400, SHARED["vLLM"])

    llm.script(answer)
    model = client(llm)
    for _ in range(2):
        assert model.complete(question(max_tokens=16_384)).text == "hi"
    guessed = 4196 - int(question().prompt_bytes() / 2.5)
    assert [asked.cap for asked in llm.completions] == [16_384, 8192, 4096, guessed, 4096]


def test_later_requests_fit_into_a_shared_context_that_a_refusal_has_told(
    client: Client, llm: ModelServer
) -> None:
    llm.context = vllm(8192)
    llm.script(lambda _: Answer("hi"))
    model = client(llm)
    for size in (1_000, 6_000, 12_000):
        assert model.complete(question("word " * (size // 5), max_tokens=16_384)).text == "hi"
    assert [asked.status for asked in llm.completions] == [400, 200, 200, 200]
    assert all(asked.cap >= 3_000 for asked in llm.completions if asked.cap)


@pytest.mark.parametrize("message", SHARED.values(), ids=SHARED)
def test_an_answer_gets_what_the_context_has_beside_this_prompt(
    client: Client, llm: ModelServer, message: str
) -> None:
    llm.script(refusing(message, lambda asked: (asked.cap or 0) <= 4096))
    model = client(llm)
    assert model.complete(question(max_tokens=16_384)).text == "hi"
    assert [asked.cap for asked in llm.completions] == [16_384, 4096]


@pytest.mark.parametrize("message", UNCOUNTED.values(), ids=UNCOUNTED)
def test_an_answer_gets_what_the_context_has_beside_a_prompt_that_nobody_counted(
    client: Client, llm: ModelServer, message: str
) -> None:
    """The bytes of the prompt stand for its count."""
    llm.context = SmallContext(
        16_384, 3.0, lambda _, tokens: refusal(400, message.format(tokens)), is_shared=True
    )
    llm.script(lambda _asked: Answer("hi"))
    model = client(llm)
    asked = question("x" * 9_000, max_tokens=16_384)
    assert model.complete(asked).text == "hi"
    [cap] = [one.cap for one in llm.completions[1:]]
    assert cap is not None
    assert 16_384 - 9_000 // 2 < cap < 16_384 - 9_000 // 3


@pytest.mark.parametrize(
    "message",
    [
        "This model's maximum context length is 4096 tokens and your request has 4000 input tokens",
        "Invalid max_tokens value, the valid range of max_tokens is [1, 8]",
        "max_tokens is wrong",
    ],
)
def test_no_answer_of_no_use_is_asked_for(client: Client, llm: ModelServer, message: str) -> None:
    llm.script(refusing(message, lambda _: False))
    with pytest.raises(RemoteError) as caught:
        client(llm).complete(question(max_tokens=16_384))
    assert len(llm.completions) == 1
    assert "models.max_completion_tokens" in caught.value.hint


USER, SYSTEM = {"role": "user", "content": "u"}, {"role": "system", "content": "s"}
SAID = {"role": "assistant", "content": "a"}
CALL = {"id": "call00001", "type": "function", "function": {"name": "read", "arguments": "{}"}}
CALLED = {"role": "assistant", "content": None, "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": "call00001", "content": "r"}


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (500, "Jinja Exception: roles must alternate"),
        (400, "Conversation roles must alternate user/assistant/user/assistant/..."),
        (400, "Unexpected role 'user' after role 'tool'"),
    ],
)  # fmt: skip
def test_neighbours_of_one_role_are_joined_where_a_template_refuses_them(
    client: Client, llm: ModelServer, status: int, message: str
) -> None:
    def alternates(asked: Asked) -> bool:
        plain = [one["role"] for one in asked.messages if one["role"] in ("user", "assistant")]
        return ("user", "user") not in pairwise(plain)

    llm.script(refusing(message, alternates, status))
    model = client(llm)
    messages = (SYSTEM, USER, USER, CALLED, RESULT, USER, SAID, SYSTEM, USER)
    request = ModelRequest("m-1", messages, 100)
    assert model.complete(request).text == "hi"
    assert llm.completions[-1].messages == [
        SYSTEM,
        {"role": "user", "content": "u\n\nu"},
        CALLED,
        {**RESULT, "content": "r\n\nu"},
        SAID,
        {"role": "user", "content": "s\n\nu"},
    ]
    assert model.complete(request).text == "hi"
    assert len(llm.completions) == 3, "it is remembered"


def test_where_nothing_is_refused_the_messages_pass_as_they_are(
    client: Client, llm: ModelServer
) -> None:
    llm.script(["hi"])
    messages = (SYSTEM, USER, USER, SAID, USER)
    client(llm).complete(ModelRequest("m-1", messages, 100))
    assert llm.completions[0].messages == list(messages)


def test_a_member_that_the_endpoint_does_not_want_back_is_left_out(
    client: Client, llm: ModelServer
) -> None:
    llm.history = History(lambda _: None, of_message={"reasoning_content": "hm"})
    message = {**CALLED, "reasoning_content": "hm"}

    def reply(asked: Asked) -> Any:
        if any("reasoning_content" in one for one in asked.messages):
            return refusal(400, "property 'reasoning_content' is unsupported")
        return Answer("hi")

    llm.script(reply)
    request = ModelRequest("m-1", (USER, message, RESULT), 100)
    assert client(llm).complete(request).text == "hi"
    assert llm.completions[-1].messages == [USER, CALLED, RESULT]


def test_a_model_that_only_streams_is_asked_to(client: Client, llm: ModelServer) -> None:
    llm.script(
        refusing(
            "This model only support stream mode, please enable the stream parameter.",
            lambda asked: bool(asked.body.get("stream")),
        )
    )
    assert client(llm).complete(question()).text == "hi"


def test_what_came_with_a_call_can_be_sent_back(client: Client, llm: ModelServer) -> None:
    signature = {"google": {"thought_signature": "c2ln"}}
    message = {
        "role": "assistant", "content": None, "reasoning_content": "hm", "annotations": [],
        "tool_calls": [{**CALL, "index": 0, "extra_content": signature}],
    }  # fmt: skip
    llm.script([Raw(200, {"choices": [{"message": message, "finish_reason": "tool_calls"}]})])
    completion = client(llm).complete(question())
    assert completion.extra == {"reasoning_content": "hm", "annotations": []}
    assert completion.tool_calls[0]["extra"] == {"extra_content": signature}


def test_a_prompt_that_was_too_long_is_not_sent_again(client: Client, llm: ModelServer) -> None:
    """Nor is one that cannot fit, by the figure in the words; a shorter one is."""
    llm.context = SmallContext(1000)
    llm.script(lambda _asked: Answer("hi"))
    model = client(llm)
    for tools in ((), (TOOL,), ()):
        with pytest.raises(RemoteError, match=r"too long for the model: request \(\d+ tokens\)"):
            model.complete(question("x" * 3500, tools=tools))
    assert len(llm.asked) == 1
    with pytest.raises(RemoteError, match="too long for the model"):
        model.complete(question("y" * 4500))
    assert len(llm.asked) == 1
    assert model.complete(question("y" * 2500)).text == "hi"
    with pytest.raises(RemoteError, match="too long for the model") as caught:
        model.complete(question("y" * 3500))
    assert len(llm.asked) == 3, "another one of that size may have fewer tokens"
    assert "models.context_tokens" in caught.value.hint


def form(*, strict: bool) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"state": {"type": "string"}}}
    told = {"name": "answer", "strict": strict, "schema": schema}
    return {"type": "json_schema", "json_schema": told}


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "This response_format type is unavailable now"),  # DeepSeek
        (400, "This model does not support response format `json_schema`"),  # Groq
        (404, "No endpoints found that support structured outputs"),
        (400, "Invalid schema for response_format 'answer': 'additionalProperties' is required"),
        (500, "failed to parse grammar"),
    ],
)
def test_a_schema_that_is_a_wish_is_left_out_where_it_is_refused(
    client: Client, llm: ModelServer, status: int, message: str
) -> None:
    llm.script(refusing(message, lambda asked: "response_format" not in asked.body, status))
    model = client(llm)
    for _ in range(2):
        assert model.complete(question(response_format=form(strict=False))).text == "hi"
    assert ["response_format" in one.body for one in llm.completions] == [True, False, False]
    with pytest.raises(RemoteError):
        model.complete(question(response_format=form(strict=True)))


def test_an_endpoint_that_is_known_to_lack_schemas_is_not_asked_for_one(
    client: Client, llm: ModelServer
) -> None:
    llm.script(["hi"])
    model = client(llm, lacks=(SCHEMAS,))
    assert model.complete(question(response_format=form(strict=False))).text == "hi"
    assert "response_format" not in llm.completions[0].body
    with pytest.raises(RemoteError, match="does not support"):
        model.complete(question(response_format=form(strict=True)))


@pytest.mark.parametrize(
    "message",
    [
        "Your input exceeds the context window of this model. Please adjust your input.",
        "prompt has 9000 tokens, but the configured context size is 8192 tokens",
        "the prompt is longer than the context length currently available to the model",
        "input (5000 tokens) is larger than the max context size (4096 tokens). skipping",
        "Context Window exceeded for given call.",
        "Context size has been exceeded.",
        "invalid params, context window exceeds limit (2013)",
        "too many tokens: total number of tokens in the prompt exceeds the limit of 4081",
        "Prompt exceeds max length",
        "Your request exceeded model token limit: 131072 (requested: 140000)",
        "Range of input length should be [1, 129024]",
        "The input (5000 tokens) is longer than the model's context length (4096 tokens).",
        "Input length (5000 tokens) exceeds the maximum allowed length (4095 tokens).",
        "Input validation error: `inputs` must have less than 4095 tokens. Given: 5000",
        "You passed 8193 input tokens. Please reduce the length of the input prompt.",
    ],
)
def test_each_wording_of_a_prompt_that_is_too_long_is_known(
    client: Client, llm: ModelServer, message: str
) -> None:
    llm.script(refusing(message, lambda _: False))
    with pytest.raises(RemoteError, match="the prompt is too long for the model") as caught:
        client(llm).complete(question())
    assert "models.context_tokens" in caught.value.hint
    assert len(llm.completions) == 1
