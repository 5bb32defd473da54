"""``delegate.spawn``: real servers, real runs."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.runs import archive
from testing.leftovers import eventually, processes_of
from testing.mcp_client import McpClient
from testing.pipelines_stage import Stage
from testing.tool_calls import called, served

if TYPE_CHECKING:
    from collections.abc import Iterator

    from testing.program import Cli
    from testing.repositories.git_repo import GitRepo

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="runs in the background")
LONG = {"id": "long", "stages": [{"command": "sleep 70"}]}
QUICK = {"id": "quick", "stages": [{"command": "echo done"}]}
LOUD = {
    "id": "loud", "stages": [{"command": "yes LOUD | head -c 3000000 | tee /dev/stderr"}],
}  # fmt: skip


@pytest.fixture
def stage(repo: GitRepo, cli: Cli) -> Iterator[Stage]:
    found = Stage(repo, cli)
    found.pipelines([LONG, QUICK])
    yield found
    found.clean()


def server(stage: Stage, **env: str) -> McpClient:
    client = McpClient(stage.repo.path, "--mode", "full", env=env)
    client.hello()
    return client


def status(client: McpClient, run: dict[str, Any]) -> dict[str, Any]:
    return client.call("delegate.status", manifest_path=run["manifest_path"])


@pytest.mark.full
def test_what_a_run_prints_is_in_its_log_and_nowhere_else(stage: Stage) -> None:
    """The client reads each line of the server, and wants its answer in the next."""
    stage.pipelines([LOUD])
    with server(stage) as client:
        done = client.call("delegate.spawn", pipeline="loud", task_id="t-loud")
        assert (done["status"], done["exit_code"]) == ("succeeded", 0)
        assert done.pop("summary") == "LOUD", "its last line"
        assert "LOUD" not in json.dumps(done)
        assert client.close() == 0
        assert client.read() == {}
    logs = Path(done["manifest_path"]).parent.glob("commands/*.log")
    assert any("LOUD" in one.read_text() for one in logs)


@pytest.mark.full
def test_a_detached_run_outlives_its_server_and_satisfies_the_guard(stage: Stage) -> None:
    stage.repo.write("tasks/index.json", json.dumps({"items": [{"id": "0951", "slug": "shop"}]}))
    with server(stage, MCP_RUNNER_TASK_ID="0951-shop", CODEX_ORCHESTRATOR_RUN_ID="p-1") as client:
        wrong = client.call("delegate.spawn", pipeline="long", start_only=True)
        assert wrong["error"]["code"] == "task_id_required"
        assert "<parent task>-<stream>" in wrong["error"]["hint"]
        run = client.call("delegate.spawn", pipeline="long", start_only=True, task_id="0951-shop-x")
        assert run["status"] in ("queued", "in_progress"), run
        folder = Path(run["manifest_path"]).parent
        assert Path(run["events_path"]).parent == Path(run["log_path"]).parent == folder
        token = folder / "delegation_token.json"
        assert token.stat().st_mode & 0o777 == 0o600
        assert json.loads(token.read_text())["child_run_id"] == run["run_id"] == folder.name
        assert eventually(lambda: status(client, run)["status"] == "in_progress")
        client.process.kill()
    guard = stage.cli("check", "delegation-guard", env={"MCP_RUNNER_TASK_ID": "0951-shop"})
    assert guard.code == 0, guard
    assert eventually(lambda: len(processes_of(run["run_id"])) > 0)
    assert not processes_of("p-1")  # nothing that the end of the run above would end
    assert stage.cli("cancel", run["run_id"]).code == 0
    assert eventually(lambda: not processes_of(run["run_id"]))
    assert stage.cli("verify", run["run_id"]).code == 0  # the token came from another process
    exported = set(archive.names(str(folder)))
    assert exported >= {"manifest.json", "events.jsonl"}
    assert not [name for name in exported if "token" in name]


@pytest.mark.full
def test_a_run_that_is_waited_for(stage: Stage) -> None:
    with server(stage) as client:
        done = client.call("delegate.spawn", pipeline="quick", task_id="t-x")
        assert (done["status"], done["exit_code"], done["summary"]) == ("succeeded", 0, "done")
        late = client.call("delegate.spawn", pipeline="long", task_id="t-x", timeout_ms=1)
        assert late["status"] in ("queued", "in_progress")
        asked = {"name": "delegate.spawn", "arguments": {"pipeline": "long"}}
        number = client.send("tools/call", {**asked, "_meta": {"progressToken": "p"}})
        assert eventually(lambda: len(list(stage.repo.path.glob(".runs/*/cli/*/m*.json"))) == 3)
        taken = next(run for run in stage.ids() if run not in (done["run_id"], late["run_id"]))
        told = client.read()["params"]
        assert told["progressToken"] == "p"
        assert taken in told["message"]
        assert eventually(lambda: stage.manifest(taken)["status"] == "in_progress")
        client.notify("notifications/cancelled", {"requestId": number})
        stage.wait_for(taken, "cancelled")
        assert stage.manifest(taken)["status_detail"] == "interrupted"
        client.process.send_signal(signal.SIGKILL)
    stage.wait_for(late["run_id"], "cancelled")
    assert stage.manifest(late["run_id"])["status_detail"] == "interrupted"
    assert eventually(lambda: not processes_of(late["run_id"]))
    assert stage.manifest(done["run_id"])["status"] == "succeeded"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ({"pipeline": "rlm"}, "goal_required", "needs a goal"),
        ({"pipeline": "-q"}, "invalid_arguments", "no pipeline"),
        ({"pipeline": "quick", "task_id": "../x"}, "invalid_arguments", "not a task id"),
        ({"pipeline": "quick", "repo": "/"}, "path_not_permitted", "outside"),
        ({"pipeline": "quick", "env": {"LD_PRELOAD": "x"}}, "env_not_permitted", "LD_PRELOAD"),
        ({"pipeline": "quick", "env": {"GIT_DIR": "x"}}, "env_not_permitted", "GIT_DIR"),
        ({"pipeline": "quick", "env": {"RLM_CI_SANDBOX": "none"}}, "env_not_permitted", "SANDBOX"),
        ({"pipeline": "quick", "env": {"RLM_VALIDATOR": "x"}}, "env_not_permitted", "VALIDATOR"),
        ({"pipeline": "quick", "env": {"OPENAI_API_KEY": "x"}}, "secret_not_permitted", "secret"),
        ({"pipeline": "quick", "env": {"RLM_MAX_MINUTES": "1"}}, "env_not_permitted", "server"),
        (
            {"pipeline": "quick", "env": {"RLM_CI_LOOP_TRUST_EXIT_CODE": "1"}},
            "env_not_permitted",
            "TRUST",
        ),
        (
            {"pipeline": "quick", "env": {"RLM_CI_LOOP_MAX_MINUTES": "1"}},
            "env_not_permitted",
            "server",
        ),
        ({"pipeline": "quick", "env": {"RLM_CONTEXT_PATH": "/etc"}}, "path_not_permitted", "/etc"),
        ({"pipeline": "quick", "delegation_token": "x"}, "secret_not_permitted", "secret"),
        ({"pipeline": "quick", "parent_manifest_path": "x"}, "manifest_not_found", "'x'"),
    ],
)
def test_what_is_refused(
    repo: GitRepo, monkeypatch: pytest.MonkeyPatch, arguments: dict[str, Any], code: str, said: str
) -> None:
    monkeypatch.setenv("RLM_MAX_MINUTES", "5")
    error = called(served(repo.path), "delegate.spawn", **arguments)["error"]
    assert (error["code"], said in error["message"]) == (code, True), error
    assert not (repo.path / ".runs").exists()
