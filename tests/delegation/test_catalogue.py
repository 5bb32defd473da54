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
from testing.agent_endpoint import AgentEndpoint, Request, Use
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
        ("check", {}),
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


def test_what_a_client_may_call_without_asking() -> None:
    tools = catalogue.TOOLS
    assert {tool.name for tool in tools if tool.destroys} == {"delegate.cancel"}
    assert {tool.name for tool in tools if tool.reads} == {
        "check", "delegate.status", "delegate.question.poll", "repo_rlm_status",
    }  # fmt: skip
    assert not any(tool.reads and (tool.destroys or tool.repeats) for tool in tools)


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
    assert tools == [name.replace(".", "_") for name in NAMES]
    assert {name for name, _ in planned} == set(NAMES)
    for (name, _), result in zip(planned, results, strict=True):
        assert "error" not in result or result["error"]["code"] in LATE, (name, result)
    for run in {one["run_id"] for one in results if "run_id" in one}:
        assert ended(served(repo.path), run)["status"] == "succeeded"


@pytest.mark.full
def test_codex_calls_what_destroys_nothing_under_its_own_policy(
    repo: GitRepo, tmp_path: Path
) -> None:
    """Codex as npm installs it, which nobody can answer while ``exec`` runs."""
    home = tmp_path / "home"
    (home / ".codex").mkdir(parents=True)
    config = f'[mcp_servers.rlm-ci]\ncommand = "{sys.executable}"\nargs = {json.dumps(SERVER)}\n'
    (home / ".codex/config.toml").write_text(config)
    run = Place(repo.path, seconds=1.6e9).finished(task="t1")
    named = json.dumps({"manifest_path": f"{run.path}/manifest.json"})
    calls_it = (
        f"text(await tools.mcp__rlm_ci__delegate_status({named})); "
        "text(await tools.mcp__rlm_ci__check({})); "
        f"text(await tools.mcp__rlm_ci__delegate_cancel({named}));"
    )

    def script(request: Request) -> str | Use:
        if request.results == 0:  # the server starts meanwhile
            return Use("exec", {"input": "await new Promise(r => setTimeout(r, 6000));"})
        return Use("exec", {"input": calls_it}) if request.results == 1 else "done"

    with AgentEndpoint(script) as endpoint:
        words = ["codex", "-c", f"openai_base_url={endpoint.origin}/v1", "exec", "--json"]
        ended = subprocess.run(
            [TOOLS / "node_modules/.bin/codex", *words[1:], "--sandbox", "workspace-write", "-"],
            cwd=repo.path,
            env={"PATH": os.environ["PATH"], "HOME": str(home), "CODEX_API_KEY": "k"},
            input=b"Look.",
            capture_output=True,
            timeout=120,
            check=True,
        )
    events = [json.loads(line) for line in ended.stdout.splitlines()]
    items = [event["item"] for event in events if event["type"] == "item.completed"]
    results = {one["tool"]: one["status"] for one in items if one["type"] == "mcp_tool_call"}
    assert results == {
        "delegate_status": "completed", "check": "completed", "delegate_cancel": "failed",
    }  # fmt: skip
