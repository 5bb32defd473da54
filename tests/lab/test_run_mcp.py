"""Episodes and benchmarks with the tools of MCP servers, as users have them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from rlm_ci.errors import CONFIG, OK, UNAVAILABLE
from testing import mcp_server
from testing.fix_stage import Outcome, Stage
from testing.loopback_model.fixture import llm
from testing.loopback_model.replies import Answer

if TYPE_CHECKING:
    from pathlib import Path

    from testing.loopback_model.server import Asked, ModelServer
    from testing.program import Cli
    from testing.repositories.git_repo import GitRepo

__all__ = ["llm"]

SECRET = "hunter2-hunter2-hunter2"


def say(asked: Asked) -> Answer:
    """Ask the server three times, once in vain, then answer with what it said."""
    turn = sum(one["role"] == "assistant" for one in asked.messages)
    calls = (
        {"action": "mcp__small__echo", "text": "PONG"},
        {"action": "mcp__small__die"},
        {"action": "mcp__small__environment"},
        {"action": "final", "final_response": "PONG"},
    )
    if "one JSON object" not in str(asked.messages[0]["content"]):
        return Answer("PONG")
    return Answer(json.dumps(calls[turn]))


@pytest.fixture
def stage(repo: GitRepo, cli: Cli, llm: ModelServer) -> Stage:
    llm.script(say)
    return Stage(repo, cli, llm)


@pytest.mark.full
def test_an_episode_has_the_tools_of_a_server(stage: Stage, tmp_path: Path) -> None:
    """Interrupted by its steps; resumed and replayed, where the server is asked nothing again."""
    path = mcp_server.write(tmp_path / "mcp", SMALL_TOKEN=SECRET)
    words = ("run", "Ping", "--model", "m", "--environment", "coding", "--validator", "none")
    ended = stage.cli(*words, "--mcp-config", str(path), "--max-steps", "2")
    assert ended.code == 3, ended
    run = stage.only()
    assert mcp_server.calls(path.parent) == ["echo", "die"]
    refused = stage.cli("resume", run.id, "--max-iterations", "9")
    assert (refused.code, f"--mcp-config {path}" in refused.stderr) == (CONFIG, True), refused
    resumed = stage.cli("resume", run.id, "--max-iterations", "9", "--mcp-config", str(path))
    assert (resumed.code, resumed.stdout.startswith("PONG")) == (OK, True), resumed
    assert mcp_server.calls(path.parent) == ["echo", "die", "environment"]
    path.unlink()
    assert stage.cli("replay", run.id, "--check").code == OK
    assert stage.cli("verify", run.id).code == OK
    assert stage.cli("view", run.id).code == OK
    assert mcp_server.calls(path.parent) == ["echo", "die", "environment"]
    [echo, died, variables] = [one["value"] for one in run.facts("mcp")]
    assert (echo["text"], died["failed"]) == ('{"text": "PONG"}', True)
    assert stage.llm.key not in variables["text"]
    everything = [one.read_bytes() for one in run.folder.rglob("*") if one.is_file()]
    assert SECRET.encode() not in b"".join(everything)


def test_servers_are_the_user_s_own(stage: Stage, tmp_path: Path) -> None:
    inside = mcp_server.write(stage.repo.path / "mcp")
    dead = mcp_server.write(tmp_path / "dead", "dead")
    for path, code, told in (
        (inside, CONFIG, "it is in the repository"),
        (tmp_path / "missing.json", CONFIG, "cannot be read"),
        (dead, UNAVAILABLE, "the MCP server small does not start"),
    ):
        words = ("run", "Ping", "--model", "m", "--mcp-config", str(path))
        ended = stage.cli(*words)
        assert (ended.code, told in ended.stderr) == (code, True), ended
    assert stage.llm.completions == []


def test_the_harness_counts_calls_of_servers(stage: Stage, tmp_path: Path) -> None:
    path = mcp_server.write(tmp_path / "mcp")
    case = {"id": "ping", "task": "Ping.", "expected_answer": "PONG", "max_steps": 6}
    stage.repo.write("ping.json", json.dumps([case]))
    words = ("bench", "run", "ping.json", "--model", "m", "--mode", "harness", "--format", "json")
    servers = ("--include-mcp", "--mcp-server", "small", "--mcp-config", str(path))
    ended = stage.cli(*words, *servers)
    assert ended.code == OK, ended
    [entry] = ended.json()["case_results"]
    assert (entry["mcp_enabled"], entry["mcp_tool_calls"], entry["completed"]) == (True, 3, True)
    assert entry["harness_tool_calls"] == 4
    assert entry["mcp_server"] == "small"
    ended = stage.cli(*words, *servers[:2], "big", *servers[3:])
    assert (ended.code, "there is no server 'big'" in ended.stderr) == (CONFIG, True), ended


@pytest.mark.full
def test_a_killed_episode_asks_its_servers_nothing_twice(
    stage: Stage, llm: ModelServer, tmp_path: Path
) -> None:
    path = mcp_server.write(tmp_path / "mcp")
    words = ("run", "Ping", "--model", "m", "--environment", "coding", "--validator", "none")
    child = stage.spawn(*words, "--mcp-config", str(path))
    assert child.kill_when(lambda: len(llm.completions) == 3)
    child.wait()
    run = stage.only()
    assert stage.cli("resume", run.id, "--mcp-config", str(path)).code == OK
    asked = mcp_server.calls(path.parent)
    assert asked[:2] == ["echo", "die"]
    assert set(asked[2:]) == {"environment"}
    assert Outcome(run.folder).json("run.json")["completed"]
    stage.clean()
