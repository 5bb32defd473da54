"""``rlm-ci chat``: a conversation from the command line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from testing.fix_stage import Stage
from testing.loopback_model.fixture import llm
from testing.loopback_model.replies import Answer

if TYPE_CHECKING:
    from testing.loopback_model.server import ModelServer
    from testing.program import Cli
    from testing.repositories.git_repo import GitRepo

__all__ = ["llm"]


def test_a_turn_remembers_the_one_before_until_it_is_forgotten(
    repo: GitRepo, cli: Cli, llm: ModelServer
) -> None:
    stage = Stage(repo, cli, llm)
    llm.script(lambda _asked: json.dumps({"action": "final", "final_response": "Hello, Ada."}))
    words = ("--model", "m", "--session-id", "names", "--sandbox", "none")
    ended = stage.cli("chat", "I am Ada.", *words)
    assert ended.code == 0, ended
    assert ended.stdout.startswith("Hello, Ada.\n")
    assert "✓ run  answered in 1 step" in ended.stdout
    assert "✓ Answered" in ended.stdout
    assert stage.cli("chat", "Who am I?", *words, "--reset").code == 0
    assert "I am Ada." not in llm.completions[1].messages[-1]["content"]
    [kept] = repo.path.glob(".runs/*/sessions/names.json")
    assert [one["user"] for one in json.loads(kept.read_text())["histories"]] == ["Who am I?"]
    ended = stage.cli("chat")
    assert (ended.code, "there is no message" in ended.stderr) == (2, True)


def test_words_that_are_cut_off_each_time_are_shown_and_said_to_be_cut(
    repo: GitRepo, cli: Cli, llm: ModelServer
) -> None:
    stage = Stage(repo, cli, llm)
    words = ("Paris, Rome,", "Paris, Rome, Oslo,", "Paris,", "Paris, Bonn,")
    llm.script([Answer(text, finish_reason="length") for text in words])
    command = ("--model", "m", "--session-id", "towns", "--sandbox", "none")
    ended = stage.cli("chat", "Name towns.", *command)
    assert ended.code == 3, ended
    assert ended.stdout.startswith("Paris, Rome, Oslo,\n\n[the answer was cut off at the cap on")
    assert "raise models.max_completion_tokens" in " ".join(ended.stdout.split())
    assert "Answered" not in ended.stdout
    llm.script([Answer("Berlin.")])
    assert stage.cli("chat", "More.", *command).code == 0
    assert "Assistant: Paris, Rome, Oslo,\n" in llm.completions[-1].messages[-1]["content"]


def test_an_action_after_words_that_were_cut_off_leaves_them_no_answer(
    repo: GitRepo, cli: Cli, llm: ModelServer
) -> None:
    stage = Stage(repo, cli, llm)
    action = json.dumps({"action": "run_python", "code": "print(1)"})
    llm.script([Answer("Paris,", finish_reason="length"), *[action] * 2])
    ended = stage.cli("chat", "Go.", "--model", "m", "--max-steps", "3", "--sandbox", "none")
    assert ended.code == 3, ended
    assert "Paris" not in ended.stdout
