"""Every tool has schemas, and two SDKs list and call it."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator

from rlm_ci.delegation import catalogue
from testing.node_packages import TOOLS
from testing.run_store import Place
from testing.tool_calls import ended, served

if TYPE_CHECKING:
    from testing.repositories.git_repo import GitRepo

SCHEMAS = Path(__file__).parents[2] / "schemas" / "mcp"
NAMES = [tool.name for tool in catalogue.TOOLS]
SERVER = ["-I", "-m", "rlm_ci", "mcp", "--mode", "full"]
#: What a tool may answer when a run has ended before, or where no run delegates.
LATE = {"run_not_resumable", "run_ended", "not_delegated"}


def calls(ended: str) -> list[tuple[str, dict[str, Any]]]:
    """A call of each tool, in an order in which each can succeed; ``ended`` is a manifest."""
    return [
        ("repo_rlm_start", {"objective": "wiki", "prose": False}),
        ("repo_rlm_wiki", {"prose": False}),
        ("delegate.spawn", {"pipeline": "review", "task_id": "t1-review", "start_only": True}),
        ("repo_rlm_review", {"path": "src", "max_calls": 0}),
        ("repo_rlm_status", {"run_id": "latest"}),
        ("repo_rlm_cancel", {"run_id": "latest"}),
        ("repo_rlm_resume", {"run_id": "latest"}),
        ("repo_rlm_export", {"run_id": "latest"}),
        ("delegate.status", {"run_id": "latest"}),
        ("delegate.pause", {"manifest_path": ended, "paused": True}),
        ("delegate.cancel", {"manifest_path": ended}),
        ("delegate.question.enqueue", {"parent_manifest_path": ended, "prompt": "Which one?"}),
        ("delegate.question.poll", {"parent_manifest_path": ended}),
    ]


def test_every_tool_has_its_schemas() -> None:
    """Self-contained, as a client gets them; only what is named is taken."""
    assert {path.name for path in SCHEMAS.iterdir()} == {f"{name}.schema.json" for name in NAMES}
    for tool in catalogue.TOOLS:
        for part in ("input", "output"):
            schema = tool.schema(part)
            Draft202012Validator.check_schema(schema)
            assert schema["type"] == "object"
            assert "$ref" not in json.dumps(schema)
        assert tool.schema("input")["additionalProperties"] is False
        # A model's service may refuse all tools over one of these.
        assert not {"oneOf", "anyOf", "allOf"} & tool.schema("input").keys()
        assert all(one.get("description") for one in tool.schema("input")["properties"].values())


Calls = list[tuple[str, dict[str, Any]]]


def by_python(repo: GitRepo, planned: Calls) -> tuple[list[str], list[Any]]:
    from mcp import Client, StdioServerParameters

    async def run() -> tuple[list[str], list[Any]]:
        server = StdioServerParameters(
            command=sys.executable, args=SERVER, cwd=repo.path, env=dict(os.environ)
        )
        async with Client(server) as client:
            tools = [tool.name for tool in (await client.list_tools()).tools]
            results = [await client.call_tool(name, given) for name, given in planned]
            return tools, [one.structured_content for one in results]

    return asyncio.run(run())


def by_typescript(repo: GitRepo, planned: Calls) -> tuple[list[str], list[Any]]:
    if not (TOOLS / "node_modules/@modelcontextprotocol/sdk").is_dir():
        pytest.skip("@modelcontextprotocol/sdk is not in tests/tools/full/node_modules")
    told = {"command": sys.executable, "args": SERVER, "cwd": str(repo.path), "calls": planned}
    ended = subprocess.run(
        ["node", TOOLS / "mcp_client.mjs"],
        input=json.dumps({**told, "env": dict(os.environ)}).encode(),
        stdout=subprocess.PIPE,
        check=True,
        timeout=120,
    )
    found = json.loads(ended.stdout)
    return found["tools"], [one["structuredContent"] for one in found["results"]]


@pytest.mark.full
@pytest.mark.parametrize("ask", [by_python, by_typescript])
def test_an_sdk_lists_and_calls_every_tool(repo: GitRepo, ask: Any) -> None:
    repo.write("src/a.py", "def f() -> int:\n    return 1\n").commit()
    place = Place(repo.path, seconds=1.6e9).finished(task="t1").path
    planned = calls(f"{place}/manifest.json")
    tools, results = ask(repo, planned)
    assert tools == NAMES
    assert {name for name, _ in planned} == set(NAMES)
    for (name, _), result in zip(planned, results, strict=True):
        assert "error" not in result or result["error"]["code"] in LATE, (name, result)
    for run in {one["run_id"] for one in results if "run_id" in one}:
        assert ended(served(repo.path), run)["status"] == "succeeded"
