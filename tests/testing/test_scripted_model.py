from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from rlm_ci.errors import ConfigError, RemoteError
from rlm_ci.models import Completion, TokenUsage
from testing.model_clients import question
from testing.scripted_model import ScriptedModel


def test_answers_come_in_order_and_run_out_with_a_word() -> None:
    model = ScriptedModel(["one", {"text": "two", "usage": [3, 4]}])
    assert model.complete(question("a")).text == "one"
    second = model.complete(question("b"))
    assert (second.text, second.usage, second.model) == ("two", TokenUsage(3, 4), "m-1")
    with pytest.raises(ConfigError, match="run out: it has 2 answers"):
        model.complete(question())
    assert [request.messages[0]["content"] for request in model.requests][:2] == ["a", "b"]


def test_calls_of_tools_and_failures() -> None:
    calls = [{"name": "read", "arguments": {"path": "a"}}, {"name": "done", "id": "x"}]
    model = ScriptedModel([{"tool_calls": calls}, RemoteError("away")])
    completion = model.complete(question())
    assert completion.tool_calls == (
        {"id": "call_0_0", "name": "read", "arguments": '{"path": "a"}'},
        {"id": "x", "name": "done", "arguments": "{}"},
    )
    assert completion.finish_reason == "tool_calls"
    with pytest.raises(RemoteError, match="away"):
        model.complete(question())


def test_a_callable_answers_what_it_is_asked() -> None:
    model = ScriptedModel(lambda request: request.messages[0]["content"].upper())
    with ThreadPoolExecutor(8) as pool:
        texts = list(pool.map(lambda n: model.complete(question(f"q{n}")).text, range(50)))
    assert texts == [f"Q{n}" for n in range(50)]


def test_every_thread_gets_an_answer_of_its_own() -> None:
    model = ScriptedModel([str(n) for n in range(100)])
    with ThreadPoolExecutor(8) as pool:
        texts = list(pool.map(lambda _: model.complete(question()).text, range(100)))
    assert sorted(texts, key=int) == [str(n) for n in range(100)]


def test_a_completion_is_what_it_is() -> None:
    whole = Completion("x", (), "length", "other", TokenUsage(1, 2))
    assert ScriptedModel([whole]).complete(question()) is whole
    assert Completion.from_dict(json.loads(json.dumps(whole.to_dict()))) == whole


def test_usage_of_a_script_is_made_up_but_not_zero() -> None:
    completion: Any = ScriptedModel(["x" * 4000]).complete(question(max_tokens=50))
    assert completion.usage.completion_tokens == 50
    assert completion.usage.prompt_tokens > 0
