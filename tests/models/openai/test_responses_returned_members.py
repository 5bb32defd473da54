"""What an endpoint wants back: all that it added, unchanged, streamed or not, recorded or new."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.environments.conversation import Conversation
from rlm_ci.environments.tool_calls import from_tools
from rlm_ci.models import Completion
from rlm_ci.models.budget import Ledger
from rlm_ci.models.openai import responses
from testing.call_records import lines, opened
from testing.loopback_model.histories import HISTORIES, TEXT, History
from testing.loopback_model.replies import Answer, Call, Raw, refusal
from testing.loopback_model.server import ModelServer
from testing.loopback_model.streams import FORMS, StreamForm
from testing.model_clients import TOOL, Client, client_of, question

if TYPE_CHECKING:
    from pathlib import Path

    from rlm_ci.models import Message

READ = Answer("I look.", (Call("read", '{"path": "a"}', "abcdefghi"),), usage=(17, 42))
THINKING = {"type": "thinking", "thinking": [{"type": "text", "text": "hm, I look."}]}


def following(completion: Completion) -> tuple[Message, ...]:
    """The messages of the next question, as every conversation makes them."""
    talk = Conversation()
    talk.prompt(question().messages[0]["content"])
    calls = from_tools(completion.tool_calls, 1)
    talk.answer(completion.text, calls, completion.extra)
    for call in calls:
        talk.result(call, "text")
    return talk.messages(100_000)


#: Members of a message, of a call, inside its function; and what of them comes back, None for all.
MEMBERS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "nothing in it": ({"a": 0, "b": "", "c": False, "d": [], "e": {}}, {"f": 0}, {"g": ""}),
    "nested nothing": ({"a": {"b": None, "c": [0, ""]}}, {"d": [{}]}, {"e": {"f": None}}),
    "inside the function": ({}, {}, {"thought_signature": "c2ln", "strict": False}),
    "long": ({"a": "x" * 100_000}, {"b": ["y" * 9, {"c": 1.5}]}, {}),
    "names of ours": ({"name": "m", "text": "t"}, {"text": 1}, {"description": ""}),
}


@pytest.mark.parametrize("streams", [True, False])
@pytest.mark.parametrize("members", MEMBERS.values(), ids=MEMBERS)
def test_what_was_added_comes_back_unchanged(
    tmp_path: Path, llm: ModelServer, members: Any, *, streams: bool
) -> None:
    message, call, function = members
    llm.history = History(lambda _: None, message, call, function)
    llm.streams = streams
    llm.script([READ, "done"])
    path = tmp_path / "calls.jsonl"
    with opened(path) as record, client_of(llm) as model:
        first = record.complete(model, Ledger(), question(tools=(TOOL,)), "1/1")
        second = question(tools=(TOOL,)).replace(messages=following(first))
        assert record.complete(model, Ledger(), second, "1/2").text == "done"
    sent = llm.completions[1].messages[1]
    assert {name: sent[name] for name in message} == message
    (back,) = sent["tool_calls"]
    assert {name: back[name] for name in call} == call
    assert {name: back["function"][name] for name in function} == function
    assert len(lines(path)) == 4
    with opened(path, replay_only=True) as record, client_of(llm) as model:
        again = record.complete(model, Ledger(), question(tools=(TOOL,)), "1/1")
        second = question(tools=(TOOL,)).replace(messages=following(again))
        assert record.complete(model, Ledger(), second, "1/2").text == "done"
    assert len(llm.completions) == 2


def test_null_says_that_there_is_none() -> None:
    message: dict[str, Any] = {
        "content": "hi",
        "reasoning_content": None,
        "audio": None,
        "annotations": [],
    }
    assert whole(message).extra == {"annotations": []}


def whole(message: dict[str, Any]) -> Completion:
    return responses.completion_of({"choices": [{"message": message}]}, "m-1")


PARTS: dict[str, list[Any]] = {
    "Mistral": [THINKING, {"type": "text", "text": "I look."}],
    "thinking behind it": [{"type": "text", "text": "I look."}, THINKING],
    "thinking twice": [THINKING, {"type": "text", "text": "I "}, THINKING,
                       {"type": "text", "text": "look."}],
    "a reference": [{"type": "text", "text": "I look."}, {"type": "reference", "ids": [0]}],
    "members of a text": [{"type": "text", "text": "I look.", "annotations": [], "signature": ""}],
}  # fmt: skip


@pytest.mark.parametrize("form", ["whole", "mistral", "openai"])
@pytest.mark.parametrize("parts", PARTS.values(), ids=PARTS)
def test_parts_of_a_text_come_back_in_their_order(
    client: Client, llm: ModelServer, parts: list[Any], form: str
) -> None:
    llm.history = History(lambda _: None, {"content": parts})
    llm.streams = form != "whole"
    llm.stream_form = FORMS.get(form, StreamForm())
    llm.script([READ, "done"])
    model = client(llm)
    first = model.complete(question(tools=(TOOL,)))
    assert first.text == "I look."
    second = question(tools=(TOOL,)).replace(messages=following(first))
    model.complete(second)
    assert llm.completions[1].messages[1]["content"] == parts


def test_plain_parts_are_a_text() -> None:
    completion = whole(
        {"content": [{"type": "text", "text": "I "}, {"type": "text", "text": "go"}]}
    )
    assert (completion.text, completion.extra) == ("I go", {})


@pytest.mark.parametrize(
    ("message", "names"),
    [
        ({"kept": "k", "huge": "x" * (1 << 20)}, ["huge (1,048,578 bytes)"]),
        ({"kept": "k", "half": "\\ud800"}, ["half (no Unicode, or nested too deeply)"]),
        ({"kept": "k", "content": [THINKING, {"type": "x", "x": "x" * (1 << 20)}]}, ["content ("]),
    ],
)
def test_what_cannot_be_kept_is_said(message: dict[str, Any], names: list[str]) -> None:
    message = {"content": "hi", **json.loads(json.dumps(message).replace("\\\\ud", "\\ud"))}
    message |= {"tool_calls": [{"id": "a", "function": {"name": "read", "arguments": "{}"}}]}
    completion = whole(message)
    assert completion.extra == {"kept": "k"}
    assert all(name in completion.left_out for name in names), completion.left_out
    assert Completion.from_dict(completion.to_dict()) == completion


def test_what_is_nested_deeply_is_left_out() -> None:
    deep: list[Any] = []
    for _ in range(300):
        deep = [deep]
    assert whole({"content": "hi", "deep": deep}).left_out.startswith("deep (")
    flat = whole({"content": "hi", "flat": [[[[[]]]]]})
    assert (flat.extra, flat.left_out) == ({"flat": [[[[[]]]]]}, "")


@pytest.mark.parametrize("provider", HISTORIES)
def test_each_endpoint_takes_back_what_it_gave(
    client: Client, llm: ModelServer, provider: str
) -> None:
    llm.history = HISTORIES[provider]
    llm.stream_form = FORMS.get(provider, StreamForm())
    turns = [Answer("I look.", (Call("read", "{}"),)), Answer(None, (Call("read"), Call("read")))]
    llm.script([*turns, "done"])
    model = client(llm)
    talk = Conversation()
    talk.prompt("What is wrong?")
    texts = []
    asked = question(tools=(TOOL,)).replace(model=llm.history.model)
    for turn, _ in enumerate((*turns, "done")):
        said = model.complete(asked.replace(messages=talk.messages(100_000)))
        calls = from_tools(said.tool_calls, turn)
        talk.answer(said.text, calls, said.extra)
        texts.append(said.text)
        for call in calls:
            talk.result(call, "text")
    assert texts[-1] == "done"
    assert not llm.history.is_kind or len(llm.completions) == 3, "nothing had to be learned"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"reasoning": "hm"}, "'messages.1' : property 'reasoning' is unsupported"),
        ({"content": [THINKING, {"type": "text", "text": "I look."}]},
         "Input tag 'thinking' found using 'type' is not supported: expected 'text'"),
        ({"content": [{"type": "text", "text": "I look.", "signature": "s"}]},
         "messages.1.content.0.signature: Extra inputs are not permitted"),
    ],
)  # fmt: skip
def test_what_an_endpoint_does_not_take_back_it_does_not_get_twice(
    client: Client, llm: ModelServer, given: dict[str, Any], words: str
) -> None:
    def refuses(messages: Any) -> Raw | None:
        mine = [json.dumps(one) for one in messages if one["role"] == "assistant"]
        return (
            refusal(400, words) if any("hm" in one or "signature" in one for one in mine) else None
        )

    llm.history = History(refuses, given)
    llm.script([READ, "done", "done"])
    model = client(llm)
    first = model.complete(question(tools=(TOOL,)))
    second = question(tools=(TOOL,)).replace(messages=following(first))
    for _ in range(2):
        assert model.complete(second).text in ("done", "I look.")
    assert len(llm.completions) == 4
    assert llm.completions[-1].messages[1]["content"] == "I look."


def test_the_end_of_a_run_names_what_could_not_be_kept(tmp_path: Path, llm: ModelServer) -> None:
    llm.history = History(lambda _: None, {"huge": "x" * (1 << 20)})
    llm.script(["hi"])
    with opened(tmp_path / "calls.jsonl") as record, client_of(llm) as model:
        record.complete(model, Ledger(), question(), "1/1")
        (told,) = record.losses()
    assert told == "too large to give back to the endpoint: huge (1,048,578 bytes)"


THOUGHT = "<think>\nI could call it twice.\n</think>\n\n"


@pytest.mark.parametrize("streams", [True, False])
@pytest.mark.parametrize(
    ("model", "comes_back"),
    [("MiniMax-M2.5", True), ("minimax/minimax-m2", True), ("qwen-3", False)],
)
def test_reasoning_in_the_text_goes_back_to_a_model_that_wants_it_and_to_no_reader(
    llm: ModelServer, model: str, *, comes_back: bool, streams: bool
) -> None:
    llm.history = History(lambda _: None, {"content": THOUGHT + TEXT})
    llm.streams = streams
    llm.script([READ, "done"])
    asked = question(tools=(TOOL,)).replace(model=model)
    with client_of(llm) as client:
        first = client.complete(asked)
        assert (first.text, first.thoughts) == ("I look.", "I could call it twice.")
        client.complete(asked.replace(messages=following(first)))
    assert llm.completions[1].messages[1]["content"] == THOUGHT * comes_back + "I look."


def test_a_note_and_a_shortened_answer_have_no_reasoning() -> None:
    talk = Conversation()
    talk.prompt("goal")
    for number in range(2):
        text = f"Step {number}: " + "x" * 3_000
        extra = {"content": THOUGHT + text}
        calls = from_tools([{"id": f"call{number}", "name": "read", "arguments": "{}"}], number)
        talk.answer(text, calls, extra)
        talk.result(calls[0], "y" * 3_000)
    told = json.dumps(talk.messages(4_000))
    assert "Step 0" in told
    assert "Step 1" in told
    assert "think" not in told
    assert "twice" not in told
