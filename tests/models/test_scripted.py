from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.errors import ConfigError, RemoteError
from rlm_ci.models import Completion, TokenUsage
from rlm_ci.models.scripted import ScriptedModel
from testing.model_clients import question

if TYPE_CHECKING:
    from pathlib import Path


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


def test_a_script_from_a_file(tmp_path: Path) -> None:
    script = tmp_path / "answers.json"
    script.write_text(json.dumps(["one", {"text": "two"}]))
    model = ScriptedModel.from_file(str(script))
    assert [model.complete(question()).text for _ in range(2)] == ["one", "two"]
    with pytest.raises(ConfigError, match=r"answers\.json"):
        model.complete(question())


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "not a JSON list"),
        ('{"text": "x"}', "not a JSON list"),
        ("[1]", "not a JSON list"),
        ("[" * 10_000, "not a JSON list"),
        ('[{"txt": "x"}]', "unknown key 'txt'"),
        ('["a", {"text": 5}]', "text is not a string"),
        ('[{"tool_calls": [{"arguments": "{}"}]}]', "tool_calls is not a list"),
        ('[{"text": "x", "usage": [1]}]', "usage is not"),
        ('[{"text": "x", "usage": 5}]', "usage is not"),
        (None, "cannot be read"),
    ],
)
def test_a_script_that_is_none_is_told(tmp_path: Path, content: str | None, words: str) -> None:
    script = tmp_path / "answers.json"
    if content is not None:
        script.write_text(content)
    with pytest.raises(ConfigError, match=words) as caught:
        ScriptedModel.from_file(str(script))
    assert str(script) in caught.value.where


def test_usage_of_a_script_is_made_up_but_not_zero() -> None:
    completion: Any = ScriptedModel(["x" * 4000]).complete(question(max_tokens=50))
    assert completion.usage.completion_tokens == 50
    assert completion.usage.prompt_tokens > 0
