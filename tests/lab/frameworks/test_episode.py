"""What a framework gets of us: a metered model, checked tools, and one way out of any loop."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rlm_ci.environments.generic import Execution, GenericEnvironment, GenericServices
from rlm_ci.environments.tool_calls import IN_TEXT
from rlm_ci.environments.turn_loop import LoopAction, LoopEnd, LoopWatcher, Observation, TurnLimits
from rlm_ci.errors import ConfigError, LimitError
from rlm_ci.lab.frameworks import EpisodeEnded, FrameworkEpisode
from rlm_ci.models import Completion, ModelRequest
from testing.scripted_model import ScriptedModel


class Watcher(LoopWatcher):
    def __init__(self) -> None:
        self.seen: list[tuple[Any, ...]] = []
        self.origins: list[str] = []

    def after(self, action: LoopAction, observation: Observation) -> None:
        self.seen.append((action.turn, action.name, observation.failed))
        self.origins.append(action.origin)

    def answered(self, turn: int, completion: Any) -> None:
        self.seen.append((turn, completion.text))


def episode(
    *steps: Any,
    textual: bool = False,
    asked: list[Any] | None = None,
    watcher: Watcher | None = None,
    **bounds: int,
) -> tuple[FrameworkEpisode, Any]:
    model, watcher = ScriptedModel(steps), watcher or Watcher()
    services = GenericServices(execute=lambda code, _seconds: Execution(code))

    def complete(request: ModelRequest, _place: str) -> Completion:
        if asked is not None:
            asked.append(request)
        return model.complete(request)

    made = FrameworkEpisode(
        complete,
        GenericEnvironment(services),
        goal="goal",
        system="system",
        model="m",
        bounds=TurnLimits(**bounds),
        step="here",
        watcher=watcher,
        textual=textual,
    )
    return made, watcher.seen


MESSAGES = [{"role": "user", "content": "half a \ud800 pair"}]


def test_a_framework_asks_and_calls() -> None:
    one, seen = episode("first", {"text": "second", "finish_reason": "length"}, "third")
    empty = {"role": "assistant", "content": ""}
    assert one.ask([*MESSAGES, empty], tools=False).text == "first"
    assert one.call("run_python", {"code": "1"}) == "Output:\n```\n1\n```"
    assert "there is no tool 'shell'" in one.call("shell", {"command": object()})
    one.ask(MESSAGES, tools=True)
    assert one.turns == 2
    with pytest.raises(EpisodeEnded):
        one.answer(" 42 ")
    one.close()
    one.close()
    assert one.end == LoopEnd("42", "", 2)
    assert seen == [
        (1, "run_python", False), (1, "shell", True), (1, "first"), (2, "final", False),
        (2, "second"),
    ]  # fmt: skip


def test_an_answer_that_was_cut_off_is_none() -> None:
    one, _ = episode({"text": "Paris, Rome,", "finish_reason": "length"})
    one.ask(MESSAGES, tools=True)
    with pytest.raises(EpisodeEnded):
        one.answer(" Paris, Rome,")
    assert one.end == LoopEnd("", "the answer was cut off at the cap on its tokens", 1)


def test_a_call_in_the_text_of_an_answer_has_its_origin() -> None:
    written = '<tool_call>{"name": "run_python", "arguments": {"code": "1"}}</tool_call>'
    watcher = Watcher()
    one, _ = episode(written, "It is done.", watcher=watcher)
    for _ in range(2):
        answered = one.ask(MESSAGES, tools=True)
        for call in answered.tool_calls:
            one.call(call["name"], json.loads(call["arguments"]))
    with pytest.raises(EpisodeEnded):
        one.answer("It is done.")
    assert watcher.origins == [IN_TEXT, ""]


def test_once_it_has_ended_nothing_more_happens() -> None:
    one, seen = episode("first", "never asked")
    one.ask(MESSAGES, tools=True)
    with pytest.raises(EpisodeEnded):
        one.call("final", {"final_response": "42"})
    before = list(seen)
    for late in (
        lambda: one.ask(MESSAGES, tools=True),
        lambda: one.call("run_python", {"code": "1"}),
        lambda: one.give_up("why"),
    ):
        with pytest.raises(EpisodeEnded):
            late()
    assert one.end == LoopEnd("42", "", 1)
    assert seen == before


def test_an_empty_answer_is_none() -> None:
    one, _ = episode("first")
    one.ask(MESSAGES, tools=True)
    with pytest.raises(EpisodeEnded):
        one.answer("  ")
    assert one.end is not None
    assert one.end.text == ""
    assert "final_response is empty" in one.end.reason


def test_a_budget_is_kept_for_who_started_it() -> None:
    one, _ = episode("first", LimitError("spent", budget="budget_usd"), "never asked", turns=9)
    one.ask(MESSAGES, tools=True)
    for _ in range(2):
        with pytest.raises(EpisodeEnded):
            one.ask(MESSAGES, tools=True)
    assert isinstance(one.error, LimitError)
    assert one.end is None
    one, _ = episode("first", turns=1)
    one.ask(MESSAGES, tools=True)
    with pytest.raises(EpisodeEnded):
        one.ask(MESSAGES, tools=True)
    assert one.end == LoopEnd("", "not done after 1 turn", 1, exhausted=True)


def test_a_model_without_tools_gets_them_in_words() -> None:
    call = '{"tool": "run_python", "arguments": {"code": "1"}}'
    asked: list[Any] = []
    one, seen = episode("I think.", call, textual=True, asked=asked, turns=9)
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "goal"}]
    answered = one.ask(messages, tools=True)
    [made] = answered.tool_calls
    assert (answered.text, made["name"]) == ("", "run_python")
    assert asked[0].tools == ()
    assert asked[0].messages[0]["content"].startswith("Be brief.\n\nYou act by answering")
    assert asked[1].messages[-2] == {"role": "assistant", "content": "I think."}
    said = one.call("run_python", {"code": "1"})
    function = {"name": "run_python", "arguments": made["arguments"]}
    calls = [{"id": made["id"], "type": "function", "function": function}]
    more: list[dict[str, Any]] = [
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": made["id"], "content": said},
    ]
    with pytest.raises(EpisodeEnded):
        one.ask([*messages, *more], tools=True)
    assert isinstance(one.error, ConfigError), "the script has run out"
    assert [one["content"] for one in asked[2].messages[-2:]] == [
        '{"tool": "run_python", "arguments": {"code": "1"}}',
        "Result of run_python:\nOutput:\n```\n1\n```",
    ]
    assert seen == [(1, "I think."), (2, "run_python", False), (2, call)]


def test_a_model_without_tools_is_told_that_it_was_cut_off() -> None:
    asked: list[Any] = []
    cut = {"text": "I think that", "finish_reason": "length"}
    call = '{"tool": "run_python", "arguments": {"code": "1"}}'
    one, _ = episode(cut, call, textual=True, asked=asked)
    one.ask(MESSAGES, tools=True)
    assert "It was cut off: be shorter. Call one of:" in asked[1].messages[-1]["content"]
    assert asked[1].max_tokens > asked[0].max_tokens


def test_what_an_endpoint_wants_back_goes_back_behind_a_framework() -> None:
    """No framework keeps it: reasoning, parts of a text, members of a call and in its function."""
    parts = [{"type": "thinking", "thinking": []}, {"type": "text", "text": "I look."}]
    extra = {"reasoning_content": "", "content": parts}
    call = {
        "id": "abcdefghi", "name": "run_python", "arguments": '{"code": "1"}',
        "extra": {"extra_content": {"s": "c2ln"}, "function": {"thought_signature": "c2ln"}},
    }  # fmt: skip
    asked: list[ModelRequest] = []
    first = Completion("I look.", (call,), "tool_calls", "m", extra=extra)
    one, _ = episode(first, "It is done.", asked=asked)
    one.ask(MESSAGES, tools=True)
    function = {"name": "run_python", "arguments": '{"code": "1"}'}
    plain = {"id": "abcdefghi", "type": "function", "function": function}
    answer = {"role": "assistant", "content": "I look.", "tool_calls": [plain]}
    result = {"role": "tool", "tool_call_id": "abcdefghi", "content": "1"}
    one.ask([*MESSAGES, answer, result], tools=True)
    sent = asked[1].messages[-2]
    assert (sent["content"], sent["reasoning_content"]) == (parts, "")
    assert sent["tool_calls"] == [
        {
            **plain,
            "extra_content": {"s": "c2ln"},
            "function": {**function, "thought_signature": "c2ln"},
        }
    ]


def test_members_of_plain_answers_go_back_behind_a_framework() -> None:
    """Also of those whose calls stood in their text, which get none of an endpoint's ids."""
    asked: list[ModelRequest] = []
    written = '<tool_call>{"name": "run_python", "arguments": {"code": "1"}}</tool_call>'
    plain = Completion("I \ud800 look.", (), "stop", "m", extra={"reasoning_content": "why"})
    called = Completion(written, (), "stop", "m", extra={"signature": "c2ln"})
    one, _ = episode(plain, called, "It is done.", asked=asked)
    one.ask(MESSAGES, tools=True)
    said = {"role": "assistant", "content": "I \ud800 look."}
    answered = one.ask([*MESSAGES, said, *MESSAGES], tools=True)
    assert asked[1].messages[1]["reasoning_content"] == "why"
    [call] = answered.tool_calls
    function = {"name": call["name"], "arguments": call["arguments"]}
    calls = [{"id": call["id"], "type": "function", "function": function}]
    second = {"role": "assistant", "content": None, "tool_calls": calls}
    result = {"role": "tool", "tool_call_id": call["id"], "content": "1"}
    one.ask([*MESSAGES, said, *MESSAGES, second, result], tools=True)
    assert asked[2].messages[1]["reasoning_content"] == "why"
    assert asked[2].messages[3]["signature"] == "c2ln"
    assert "reasoning_content" not in asked[2].messages[3]
