"""Tools of MCP servers, also of hostile ones: all that a server does is an answer."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.errors import ConfigError, UnavailableError
from rlm_ci.lab.mcp import connection, tools
from rlm_ci.lab.mcp.tools import McpEnvironment, McpServers
from testing import mcp_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def programs(folder: Path, mode: str = "", **env: str) -> tuple[connection.McpProgram, ...]:
    path = mcp_server.write(folder / "config", mode, **env)
    return connection.load(str(path), os.environ, root=str(folder / "repo"))


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[McpServers]:
    folder = tmp_path_factory.mktemp("mcp")
    with McpServers(programs(folder, SMALL_TOKEN="${PATH}")) as found:
        yield found


def test_tools_are_listed_in_plain_schemas(servers: McpServers) -> None:
    listed = {one["name"]: one for one in servers.listed()}
    echo = listed["mcp__small__echo"]
    assert (echo["server"], echo["tool"], echo["description"]) == (
        "small",
        "echo",
        "The tool echo.",
    )
    assert echo["schema"] == {"properties": {"text": {"type": "string"}}, "required": []}
    assert "pattern" not in json.dumps(listed["mcp__small__act"])


@pytest.mark.full
def test_whatever_a_server_does_is_an_answer(servers: McpServers) -> None:
    def call(name: str, seconds: float = 10, **given: Any) -> dict[str, Any]:
        return servers.call("small", name, given, seconds)

    assert call("echo", text="ä")["text"] == '{"text": "\\u00e4"}'
    assert call("fail") == {"text": "it is wrong", "failed": True, "timed_out": False}
    assert call("image")["text"] == "[image, left out]"
    began = time.monotonic()
    assert call("sleep", 0.5) == {
        "text": "no answer within 0.5 seconds", "failed": True, "timed_out": True
    }  # fmt: skip
    assert time.monotonic() - began < 30
    died = call("die")
    assert died["failed"]
    assert "killed by\\x1b[31m itself" in died["text"]
    assert call("echo", text="again")["text"] == '{"text": "again"}'
    assert "after garbage" in call("garbage")["text"]
    assert call("flood")["failed"]
    assert call("echo", text="and again")["text"] == '{"text": "and again"}'
    assert servers.call("other", "echo", {}, 1)["failed"]


def test_a_server_has_no_secrets_of_ours(servers: McpServers) -> None:
    told = json.loads(servers.call("small", "environment", {}, 10)["text"])
    assert set(told["env"]) <= {*connection._INHERITED, "SMALL_TOKEN", "LC_CTYPE"}
    assert told["env"]["SMALL_TOKEN"] == os.environ["PATH"]
    assert told["cwd"] == []


def test_names_of_tools_go_to_their_server() -> None:
    class Inner:
        def tools(self) -> tuple[dict[str, Any], ...]:
            return ()

    asked: list[Any] = []

    def call(server: str, tool: str, arguments: Any) -> tuple[str, bool]:
        asked.append((server, tool, dict(arguments)))
        return "done", False

    schema = {"properties": {"action": {"type": "string"}}, "required": ["action"]}
    tool = {"server": "s", "tool": "t", "name": "mcp__s__t", "description": "", "schema": schema}
    made = McpEnvironment(Inner(), [tool], call)  # type: ignore[arg-type]
    [shown] = made.tools()
    assert shown["function"]["parameters"]["required"] == ["action_"]
    assert "done" in made.act("mcp__s__t", {"action_": "go"}).text
    assert asked == [("s", "t", {"action": "go"})]


@pytest.mark.parametrize(
    "schema",
    [
        None, [], {"properties": 3}, {"properties": {"a": {"$ref": "#"}}}, {"required": "a"},
        {"properties": {"\x1b[1m": {}, "a": {"type": ["string"], "enum": [[]]}}, "required": ["b"]},
        {"properties": {f"n{number}": {"description": "d" * 900} for number in range(500)}},
    ],
)  # fmt: skip
def test_any_schema_becomes_a_small_plain_one(schema: Any) -> None:
    found = tools.plain(schema)
    assert set(found) == {"properties", "required"}
    assert len(json.dumps(found)) < 10_000
    assert tools.plain(found) == found


def test_a_server_that_does_not_start_is_one_clear_error(tmp_path: Path) -> None:
    told = "the MCP server small does not start: .*no database"
    dead = programs(tmp_path, "dead")
    with McpServers(dead) as made, pytest.raises(UnavailableError, match=told):
        made.listed()


def test_without_the_library_there_is_one_error_that_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "rlm_ci.lab.mcp.connection", None)
    with McpServers(programs(tmp_path)) as made, pytest.raises(UnavailableError) as caught:
        made.listed()
    assert str(caught.value) == "MCP servers need the library mcp"
    assert "[mcp]" in caught.value.hint


def test_what_is_wrong_in_the_file_is_said(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    for given, told in (
        ("{", "not valid JSON"),
        ("[]", "names no servers"),
        ({"a b": {"command": "x"}}, "is no name"),
        ({"a": {"url": "http://x"}}, "has no command"),
        ({"a": {"command": "x", "args": "y"}}, "it is not valid: args: expected a list"),
        ({"a": {"command": "x", "args": ["y", "a\0b"]}}, r"a text has a NUL"),
        ({"a": {"command": "x", "env": {"A": 3}}}, r"env\.A: expected a string"),
        ({"a": []}, "expected an object, got a list"),
        ({"a": {"command": "x", "env": {"A": "${NO_SUCH}"}}}, "NO_SUCH is not set"),
        ({"a": {"command": "x", "cwd": "y"}}, "cwd is no absolute path"),
        ({"b": {"command": "x"}}, "there is no server 'a'"),
    ):
        text = given if isinstance(given, str) else json.dumps({"mcpServers": given})
        path.write_text(text)
        wanted = "a b" if "a b" in text else "a"
        with pytest.raises(ConfigError, match=told):
            connection.load(str(path), {}, root=str(tmp_path / "repo"), server=wanted)
    with pytest.raises(ConfigError, match="in the repository"):
        connection.load(str(path), {}, root=str(tmp_path))
