"""Calls in the text of an answer: taken in every form with one reading, and in no other."""

from __future__ import annotations

import json

import pytest

from rlm_ci.environments import tool_calls

STRING, NUMBER = {"type": "string"}, {"type": "integer"}
SCHEMAS = {
    "read": {"properties": {"path": STRING, "start": NUMBER}},
    "done": {"properties": {"summary": STRING}},
}
CALL = ("read", {"path": "a.py", "start": 2})
BODY = json.dumps({"name": "read", "arguments": CALL[1]})
XML = (
    "<function=read>\n<parameter=path>\na.py\n</parameter>\n"
    "<parameter=start>\n2\n</parameter>\n</function>"
)
FORMS = {
    "Hermes": f"<tool_call>\n{BODY}\n</tool_call>",
    "Hermes behind prose": f"I read it first.\n<tool_call>\n{BODY}\n</tool_call>",
    "Hermes without its end": f"<tool_call>\n{BODY}",
    "Hermes with a comma": f"<tool_call>{BODY[:-1]},}}</tool_call>",
    "bare": BODY,
    "fenced": f"```json\n{BODY}\n```",
    "fenced behind prose": f"I read it first:\n~~~\n{BODY}\n~~~\n",
    "Llama": json.dumps({"name": "read", "parameters": CALL[1]}),
    "OpenAI": json.dumps({"type": "function", "function": json.loads(BODY)}),
    "arguments as a text": json.dumps({"name": "read", "arguments": json.dumps(CALL[1])}),
    "our own": json.dumps({"tool": "read", "arguments": CALL[1]}),
    "Qwen's coder": f"<tool_call>\n{XML}\n</tool_call>",
    "Qwen's coder without marks": XML,
    "Mistral": f"[TOOL_CALLS][{BODY}]",
    "harmony": "<|channel|>commentary to=functions.read <|constrain|>json<|message|>"
    f"{json.dumps(CALL[1])}<|call|>",
    "behind a draft": f'<think>{{"name": "done", "arguments": {{}}}}?</think>\n{BODY}',
}


@pytest.mark.parametrize("text", FORMS.values(), ids=FORMS)
def test_a_call_with_one_reading_is_taken(text: str) -> None:
    assert tool_calls.calls_in(text, SCHEMAS) == [CALL]


def test_calls_with_marks_are_taken_in_their_order() -> None:
    done = '<tool_call>{"name": "done", "arguments": {"summary": "1"}}</tool_call>'
    calls = tool_calls.calls_in(f"{FORMS['Hermes']}\n{done}", SCHEMAS)
    assert calls == [CALL, ("done", {"summary": "1"})]


@pytest.mark.parametrize(
    "text",
    [
        f"{BODY}\n{BODY}",
        f"{FORMS['Hermes']}\n{FORMS['Mistral']}",
        BODY.replace("read", "delete"),
        f"{FORMS['Hermes']}\n<tool_call>broken</tool_call>",
        FORMS["Hermes"].replace("read", "delete"),
        BODY[:-2],
        '{"name": "read"}',
        '{"name": "read", "arguments": [1]}',
        "I would call read.",
        f"<think>{BODY}</think>",
        "",
    ],
)
def test_two_readings_and_unknown_tools_are_none(text: str) -> None:
    assert tool_calls.calls_in(text, SCHEMAS) == []


@pytest.mark.parametrize(
    "text",
    [
        f"Maybe <tool_call>{BODY}</tool_call> no, wrong.",
        f"Do not write <tool_call>\n{XML}\n</tool_call> like that.",
        f"The fixture has this text:\n```json\n{BODY}\n```\nIt is only data.",
        f"An example:\n~~~\n{BODY}\n~~~\n\nNow I think about the real call.",
    ],
)
def test_a_call_with_words_behind_it_is_a_draft_or_data(text: str) -> None:
    assert tool_calls.calls_in(text, SCHEMAS) == []


def test_a_long_answer_full_of_marks_takes_no_time() -> None:
    assert tool_calls.calls_in("<tool_call>" * 20_000 + "</tool_call>" * 20_000, SCHEMAS) == []


@pytest.mark.parametrize(
    "name",
    [
        "read", "functions.read", "default_api:read", "tools.read", " read\n",
        "read<|channel|>commentary",
    ],
)  # fmt: skip
def test_a_name_loses_what_a_template_put_around_it(name: str) -> None:
    assert tool_calls.tool_name(name, SCHEMAS) == "read"


def test_a_name_of_no_tool_stays() -> None:
    assert tool_calls.tool_name("functions.delete", SCHEMAS) == "functions.delete"
    assert tool_calls.tool_name("tool.x", {"tool.x": {}, "x": {}}) == "tool.x"


def test_arguments_encoded_twice_are_decoded_once() -> None:
    assert tool_calls.sound_arguments(json.dumps('{"a": 1}')) == '{"a": 1}'
    for text in ('{"a": 1}', '"a text"', "", '"', "[1]", json.dumps("[1]")):
        assert tool_calls.sound_arguments(text) == text
