"""Chat sessions: turns that know what was said, compaction, damage."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.errors import ConfigError, DamagedError
from rlm_ci.evaluation import RLMRunner
from rlm_ci.lab.chat import ChatSession, CompactionRules

if TYPE_CHECKING:
    from pathlib import Path

HEAD = {"environment": "generic", "framework": "native"}


def turn(number: int) -> dict[str, Any]:
    said = {"user": f"message {number}", "assistant": f"answer {number}"}
    return {"timestamp": f"2026-01-01T00:00:0{number}.000Z", "run_id": f"run-{number}", **said}


def test_old_exchanges_become_a_summary_and_a_turn_is_added_once(tmp_path: Path) -> None:
    session = ChatSession(str(tmp_path), "s")
    asked: list[str] = []

    def summarize(prompt: str) -> str:
        asked.append(prompt)
        return "- the beginning" if len(asked) == 1 else ""

    for number in range(8):
        session.add(turn(number), HEAD, CompactionRules(), summarize)
    session.add({**turn(7), "assistant": "at last"}, HEAD, CompactionRules(), summarize)
    record = session.read()
    assert record is not None
    assert [one["user"] for one in record["histories"]] == [f"message {n}" for n in range(3, 8)]
    assert record["histories"][-1]["assistant"] == "at last"
    assert record["compacted_summaries"] == ["- the beginning"]
    assert "message 2" in asked[0]
    assert "message 3" not in asked[0]
    for number in range(8, 10):  # now the model cannot answer
        session.add(turn(number), HEAD, CompactionRules(), summarize)
    record = session.read()
    assert record is not None
    assert "User: message 3" in record["compacted_summaries"][1]
    for number in range(10, 13):
        session.add(turn(number), HEAD, CompactionRules(enabled=False), summarize)
    assert len(asked) == 2


def test_a_bad_id_and_a_damaged_session_are_errors(tmp_path: Path) -> None:
    for wrong in ("", "../x", "a/b", ".hidden", "x" * 129):
        with pytest.raises(ConfigError):
            ChatSession(str(tmp_path), wrong)
    session = ChatSession(str(tmp_path), "s")
    assert session.read() is None
    assert not session.forget()
    (tmp_path / "sessions").mkdir()
    wrong_turn = {"histories": [{**turn(1), "user": 5}], "contexts": [], "compacted_summaries": []}
    texts = {
        "[]": "expected an object, got a list",
        "{": "it is not JSON",
        '{"histories": [1]}': r"histories\[0\]: expected an object",
        "[" * 100_000: "it is not JSON",
        json.dumps(wrong_turn): r"histories\[0\]\.user: expected a string, got an integer: 5",
    }
    for text, why in texts.items():
        (tmp_path / "sessions" / "s.json").write_text(text)
        with pytest.raises(DamagedError, match=why):
            session.read()
    assert session.forget()


class Talker:
    """A connector that says each of its texts, and then that it is done."""

    def __init__(self, *texts: str) -> None:
        self.texts = list(texts)

    def generate_response(self, _prompt: str) -> str:
        done = {"action": "final", "final_response": "done"}
        return self.texts.pop(0) if self.texts else json.dumps(done)


class Engine:
    def execute_code(self, _code: str) -> str:
        return ""


@pytest.mark.parametrize("environment", ["generic", "pure_rlm"])
@pytest.mark.parametrize(
    "words", ["Your name is Ada.", "Like this:\n\n```sh\nprint(1)\n```\n\nor `{}`."]
)
def test_words_without_an_action_are_the_answer(
    tmp_path: Path, environment: str, words: str
) -> None:
    runner = RLMRunner(Talker(words), Engine(), workdir=tmp_path)
    result = runner.run_chat_turn("What is my name?", environment=environment)
    assert (result.completed, result.final_response) == (True, words)
    record = runner.get_chat_session()
    assert record is not None
    assert record["history_count"] == 1


@pytest.mark.parametrize(
    "attempt", ['{"action": "run_code", "code": "x', '<tool_call>{"name": "run"', ""]
)
def test_an_action_that_went_wrong_is_no_answer(tmp_path: Path, attempt: str) -> None:
    runner = RLMRunner(Talker(attempt), Engine(), workdir=tmp_path)
    assert runner.run_chat_turn("What is my name?").final_response == "done"


def test_words_are_no_answer_to_a_task(tmp_path: Path) -> None:
    runner = RLMRunner(Talker("I would rather talk."), Engine(), workdir=tmp_path)
    assert runner.run_task("Count the lines.").final_response == "done"


def test_a_turn_knows_what_was_said_before(tmp_path: Path) -> None:
    prompts: list[str] = []

    class Connector:
        def generate_response(self, prompt: str) -> str:
            prompts.append(prompt)
            return json.dumps({"action": "final", "final_response": f"answer {len(prompts)}"})

    runner = RLMRunner(Connector(), Engine(), workdir=tmp_path)
    runner.run_chat_turn("My name is Ada.")
    result = runner.run_chat_turn("What is my name?", max_depth=1)
    assert result.final_response == "answer 2"
    assert "User: My name is Ada.\nAssistant: answer 1" in prompts[1]
    told = runner.get_chat_session()
    assert told is not None
    assert (told["history_count"], told["last_run_id"]) == (2, result.run_id)
    with pytest.raises(TypeError, match="colour"):
        runner.run_chat_turn("And now?", colour="red")
    assert runner.reset_chat_session()
    assert runner.get_chat_session() is None
