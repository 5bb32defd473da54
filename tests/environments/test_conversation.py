"""A conversation stays within its bound, forgets no prompt, tears no call from its result."""

from __future__ import annotations

import json

import pytest

from rlm_ci.environments.conversation import Conversation
from rlm_ci.environments.quoting import quoted
from rlm_ci.environments.tool_calls import ToolCall
from testing.loopback_model.shapes import deviations


def long_talk(limit: int, exchanges: int, size: int, written: int | None = None) -> Conversation:
    history = Conversation(limit)
    history.prompt("system", "system")
    history.prompt("GOAL " + "g" * 500)
    for number in range(exchanges):
        call = ToolCall(
            f"c{number}",
            "write",
            json.dumps({"path": "a", "content": "w" * (size if written is None else written)}),
        )
        history.answer(f"answer {number}", [call])
        history.result(call, f"begin {number} " + "r" * size + f" end {number}")
        history.messages()
    return history


def size_of(history: Conversation) -> int:
    return len(json.dumps(history.messages()))


def test_short_talks_are_whole() -> None:
    history = long_talk(100_000, 5, 1000)
    assert "left out" not in json.dumps(history.messages())
    assert len(history.messages()) == 12


def test_old_exchanges_become_notes() -> None:
    history = long_talk(60_000, 40, 2000, 10)
    messages = history.messages()
    assert size_of(history) < 70_000
    assert messages[1]["content"].startswith("GOAL ")
    told = messages[2]["content"]
    assert told.startswith("What you did before, in short:\n```\nyou said: answer 0\nwrite {")
    assert ": begin 0 rrr" in told
    assert "begin 39 " in messages[-1]["content"]
    assert messages[-1]["content"].endswith(" end 39")


def test_exchanges_go_whole_and_the_oldest_notes_at_last() -> None:
    history = long_talk(20_000, 200, 3000)
    messages = history.messages()
    assert size_of(history) < 30_000
    assert [one["role"] for one in messages[:3]] == ["system", "user", "user"]
    assert messages[1]["content"].startswith("GOAL ")
    head = "What you did before, in short, without the first "
    assert messages[2]["content"].startswith(head)
    calls = [call["id"] for one in messages for call in one.get("tool_calls", ())]
    results = [one["tool_call_id"] for one in messages if one["role"] == "tool"]
    assert calls == results
    assert calls[-1] == "c199"
    noted = messages[2]["content"].count("you said: ")
    dropped = int(messages[2]["content"].removeprefix(head).split()[0])
    assert dropped + noted + len(calls) == 200


def test_the_newest_exchange_is_whole_unless_it_is_huge() -> None:
    whole = long_talk(20_000, 1, 150_000, 10)
    assert "left out" not in json.dumps(whole.messages())
    huge = long_talk(20_000, 1, 250_000, 10)
    assert "characters left out" in huge.messages()[-1]["content"]
    assert size_of(huge) < 10_000


@pytest.mark.parametrize(
    "value",
    [
        "x" * 300_000,
        ["x" * 150_000, {"a": "y" * 150_000}],
        list(range(60_000)),
        {"a": {"b": [None]}},
    ],
)
def test_long_arguments_of_any_form_lose_their_middle(value: object) -> None:
    history = Conversation()
    history.prompt("GOAL")
    call = ToolCall("c", "total", json.dumps({"value": value, "ids": [1, 2, 3]}))
    history.answer("", [call])
    history.result(call, "r" * 250_000)
    assert size_of(history) < 10_000
    [written] = history.messages()[1]["tool_calls"]
    assert json.loads(written["function"]["arguments"])["ids"] == [1, 2, 3]


def test_a_note_has_the_ends_of_a_result() -> None:
    history = Conversation()
    history.prompt("GOAL")
    call = ToolCall("c", "run", '{"command": "make"}')
    history.answer("", [call])
    history.result(call, quoted("The command ended: exit code 2", "first\nsecond\nError 2"))
    history.fold()
    note = 'run {"command": "make"}: The command ended: exit code 2:\n```\nfirst\nsecond\nError 2'
    assert note in history.messages()[1]["content"]


def test_a_prompt_is_never_cut() -> None:
    history = long_talk(5000, 3, 4000)
    history.prompt("SECOND " + "p" * 50_000)
    texts = [one["content"] for one in history.messages()]
    assert texts[-1] == "SECOND " + "p" * 50_000
    assert texts[1] == "GOAL " + "g" * 500


def test_between_two_cuts_a_request_only_grows() -> None:
    """An endpoint's prompt cache serves a request whose beginning it has seen."""
    history = Conversation(60_000)
    history.prompt("goal")
    before: list[object] = []
    cuts = 0
    for number in range(100):
        call = ToolCall(f"c{number}", "read", "{}")
        history.answer("", [call])
        history.result(call, "r" * 2000)
        now: list[object] = list(history.messages())
        cuts += now[: len(before)] != before
        before = now
    assert 1 <= cuts <= 12


def test_messages_that_were_handed_out_do_not_change() -> None:
    history = long_talk(50_000, 10, 2000)
    handed_out = history.messages()
    written = json.dumps(handed_out)
    for number in range(100):
        history.answer("x" * 5000)
        history.correct(f"no {number}")
        history.messages()
    assert json.dumps(handed_out) == written


def test_a_fold_leaves_a_line_for_each_call_and_grows_by_no_more() -> None:
    history = long_talk(100_000, 2, 1000)
    first = history.messages()[:2]
    history.prompt("ITERATION 2 and all that the validator said")
    history.fold()
    history.prompt("ITERATION 2")
    messages = history.messages()
    assert messages[:2] == first
    assert [one["role"] for one in messages] == ["system", "user", "user", "user"]
    told = messages[2]["content"].split("\n")
    assert [line[:30] for line in told if not line.startswith(("[…", "www", "rrr"))] == [
        "What you did before, in short:",
        "```",
        "you said: answer 0",
        'write {"path": "a", "content":',
        "you said: answer 1",
        'write {"path": "a", "content":',
        "```",
    ]
    for end in (": begin 0 ", " end 0", ": begin 1 ", " end 1"):
        assert end in messages[2]["content"]
    assert len(messages[2]["content"]) < 5000
    assert "validator said" not in messages[2]["content"]
    history.answer("third", [])
    history.fold()
    assert history.messages()[2]["content"].split("\n") == [*told[:-1], "you said: third", "```"]


def test_a_fold_of_a_talk_without_tools_keeps_what_was_said() -> None:
    history = Conversation()
    history.prompt("GOAL")
    history.answer('{"tool": "read", "arguments": {}}')
    history.say_result("read", "text\nof a file")
    history.fold()
    assert [one["content"] for one in history.messages()] == [
        "GOAL",
        quoted(
            "What you did before, in short",
            'you said: {"tool": "read", "arguments": {}}\nResult of read:\ntext\nof a file',
        ),
    ]


def a_talk(form: str, steps: int, size: int) -> Conversation:
    """Steps whose code sets a variable between long comments."""
    history = Conversation()
    history.prompt("GOAL")
    filler = "#" * size
    for step in range(steps):
        middle = f"value_{step} = open('data_{step}.csv')"
        code = f"# step {step}\n{filler}\n{middle}\n{filler}\nend()"
        call = ToolCall(f"c{step}", "run_python", json.dumps({"code": code}))
        result = f"first-{step}- {'.' * size} last-{step}-"
        if form == "tools":
            history.answer("", [call])
            history.result(call, result)
        else:
            actions = json.dumps({"action": "run_python", "code": code})
            history.answer(actions if form == "json" else f"I look.\n```repl\n{code}\n```")
            history.say_result("run_python", result)
        history.messages()
    return history


@pytest.mark.parametrize("form", ["tools", "json", "blocks"])
@pytest.mark.parametrize("size", [0, 1000, 9000])
def test_a_fold_keeps_what_was_done_and_what_came_back(form: str, size: int) -> None:
    text = json.dumps(a_talk(form, 18, size).messages())
    assert len(text) < 48_000
    for step in range(18) if size == 0 else range(10, 18):
        assert f"first-{step}-" in text
        assert f"last-{step}-" in text
        assert f"step {step}" in text
        assert f"data_{step}.csv" in text
        assert f"value_{step}" in text


def test_the_oldest_notes_go_first_and_eight_stay_in_full() -> None:
    history = a_talk("blocks", 300, 1000)
    notes = next(
        one["content"]
        for one in history.messages()
        if one["content"].startswith("What you did before, in short, without the first ")
    )
    steps = [int(part.partition("-")[0]) for part in notes.split("first-")[1:]]
    assert steps == list(range(steps[0], steps[-1] + 1))
    assert len(steps) > 8
    assert len(notes.encode()) < 32_000 // 2
    assert all(f"value_{step}" in notes for step in steps[-8:])


def test_a_fold_of_nothing_is_nothing() -> None:
    for history in (Conversation(), long_talk(1000, 0, 0)):
        before = history.messages()
        history.fold()
        assert history.messages() == before


def test_an_empty_answer_is_a_text_that_endpoints_take() -> None:
    history = Conversation()
    history.prompt("GOAL")
    history.answer("")
    history.correct("Answer.")
    body = {"model": "m", "messages": list(history.messages()), "max_tokens": 1}
    assert deviations(body) == []


@pytest.mark.parametrize("calls", [1, 5, 10])
def test_the_last_eight_notes_stay_with_many_calls_in_each_answer(calls: int) -> None:
    history = Conversation()
    history.prompt("GOAL")
    for step in range(30):
        made = [ToolCall(f"c{step}x{at}", "read", '{"path": "a.py"}', at) for at in range(calls)]
        history.answer("", made)
        for call in made:
            history.result(call, f"begin {call.id} " + "r" * 600 + f" end {call.id}")
        history.messages()
    text = json.dumps(history.messages())
    assert len(text) < 64_000
    lost = [step for step in range(22, 30) if f"end c{step}x{calls - 1}" not in text]
    assert lost == []


# ── with the room that a model has for it ──


@pytest.mark.parametrize("room", [3_000, 8_000, 40_000])
def test_with_room_it_is_never_larger(room: int) -> None:
    """Old exchanges become notes first; long texts of the newest lose their middle then."""
    history = Conversation()
    history.prompt("system", "system")
    history.prompt("GOAL " + "g" * 500)
    messages = history.messages(room)
    for number in range(30):
        call = ToolCall(f"c{number}", "read", json.dumps({"path": f"part_{number}.py"}))
        history.answer(f"answer {number}", [call])
        history.result(call, f"begin {number} " + "r\n" * 1500 + f" end {number}")
        messages = history.messages(room)
        assert len(json.dumps(messages, ensure_ascii=False).encode()) <= room
        assert messages[0]["content"] == "system"
        assert messages[1]["content"] == "GOAL " + "g" * 500
        assert messages[-1]["content"].startswith(f"begin {number} ")
        assert messages[-1]["content"].endswith(f" end {number}")
        assert deviations({"model": "m", "messages": list(messages), "max_tokens": 5}) == []
    if room > 3_000:
        assert all(f"part_{number}.py" in json.dumps(messages) for number in range(22, 30))


def test_a_large_room_keeps_more_whole_and_not_all() -> None:
    """Each request has all of it again: a third of what the model reads, and 96,000 bytes."""
    sizes = []
    for room in (40_000, 200_000, 2_000_000):
        history = long_talk(0, 0, 0)
        for number in range(300):
            call = ToolCall(f"c{number}", "read", "{}")
            history.answer("", [call])
            history.result(call, "r" * 1000)
            history.messages(room)
        sizes.append(max(len(json.dumps(history.messages(room))), 0))
    assert sizes[0] < 40_000
    assert sizes[0] < sizes[1] <= sizes[2] < 150_000


def test_without_room_even_prompts_lose_their_middle_but_no_rules() -> None:
    history = Conversation()
    history.prompt("RULES " + "r" * 1000, "system")
    history.prompt("GOAL " + "g" * 20_000 + " END")
    rules, goal = history.messages(3_000)
    assert rules["content"] == "RULES " + "r" * 1000
    assert goal["content"].startswith("GOAL g")
    assert goal["content"].endswith("g END")
    assert "characters left out" in goal["content"]
    assert history.messages()[1]["content"] == "GOAL " + "g" * 20_000 + " END"
