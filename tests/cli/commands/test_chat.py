"""``rlm-ci chat``: a conversation from the command line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from testing.fix_stage import Stage
from testing.loopback_model.fixture import llm

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
