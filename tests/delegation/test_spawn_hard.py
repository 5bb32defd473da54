"""Starts that fail, crash, race and pile up."""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.delegation import tokens
from rlm_ci.errors import StorageError
from testing.leftovers import Belongings, eventually, mentioning, processes_of
from testing.mcp_client import McpClient
from testing.pipelines_stage import Stage
from testing.tool_calls import called, refused, served

if TYPE_CHECKING:
    from collections.abc import Iterator

    from testing.program import Cli
    from testing.repositories.git_repo import GitRepo

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="runs in the background")
_PROGRAM = f"{sys.executable} -I -m rlm_ci"


@pytest.fixture
def stage(repo: GitRepo, cli: Cli) -> Iterator[Stage]:
    found = Stage(repo, cli)
    found.pipelines([
        {"id": "long", "stages": [{"command": "sleep 70"}]},
        {"id": "quick", "stages": [{"command": "echo done"}]},
    ])  # fmt: skip
    yield found
    found.clean()


def test_a_start_that_fails_ends_at_once_and_never_takes_an_older_run(stage: Stage) -> None:
    token = "ghp_" + "a" * 36
    broken = stage.repo.path / ".runs" / "t-x" / "cli" / "older"
    broken.mkdir(parents=True)
    (broken / "manifest.json").write_text('{"task_id": "t-x", "run_')
    answer = called(
        served(stage.repo.path), "delegate.spawn", pipeline=f"no-{token}",
        task_id="t-x", start_only=True, goal="\ud800", env={"RLM_MODE": "\udc00"},
    )  # fmt: skip
    assert answer == {
        "status": "spawn_failed",
        "runs_root": str(stage.repo.path / ".runs"),
        "task_id": "t-x",
        "timeout_ms": 10_000,
        "expected_manifest_glob": str(broken.parent / "*" / "manifest.json"),
        "candidates": [{"path": str(broken / "manifest.json"), "reason": "it was there before"}],
        "error": answer["error"],
    }
    assert "there is no pipeline" in answer["error"]
    assert token not in answer["error"]


@pytest.mark.parametrize("limit", ["1", "60"])
def test_a_start_that_takes_too_long_leaves_nothing_that_runs(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setenv("CODEX_DELEGATION_SPAWN_START_TIMEOUT_MS", limit)
    server = served(stage.repo.path)
    answer = called(server, "delegate.spawn", pipeline="long", task_id="t-x", start_only=True)
    assert (answer["status"], answer["timeout_ms"]) == ("spawn_failed", int(limit))
    assert f"within {limit} ms" in answer["error"]
    assert not [run for run in stage.ids() if processes_of(run)]


def test_two_spawns_of_one_task_have_a_run_each(stage: Stage) -> None:
    server = served(stage.repo.path)

    def spawn(number: int) -> Any:
        pipeline = ("quick", "long")[number % 2]
        return called(server, "delegate.spawn", pipeline=pipeline, task_id="t-x", start_only=True)

    with ThreadPoolExecutor(4) as pool:
        runs = list(pool.map(spawn, range(4)))
    assert len({run["run_id"] for run in runs}) == 4
    for number, run in enumerate(runs):
        folder = Path(run["manifest_path"]).parent
        manifest = json.loads((folder / "manifest.json").read_text())
        assert (manifest["run_id"], manifest["pipeline_id"]) == (
            run["run_id"], ("quick", "long")[number % 2],
        )  # fmt: skip
        assert (
            json.loads((folder / "delegation_token.json").read_text())["child_run_id"]
            == (run["run_id"])
        )


@pytest.mark.full
def test_a_run_in_a_run_is_its_child_and_outlives_it(stage: Stage) -> None:
    """The server is a command of the parent, which is cancelled later."""
    stage.pipelines([
        {"id": "outer", "stages": [{"command": f"{_PROGRAM} mcp --mode full <asked >told"}]},
        {"id": "inner", "stages": [{"command": 'echo "$CODEX_DELEGATION_PARENT_MANIFEST_PATH" '
                                    '"$RLM_CI_DELEGATE_MODE" "$RLM_MAX_ITERATIONS" >said; '
                                    f"{_PROGRAM} mcp --mode full <deeper >nested; sleep 70"}]},
    ])  # fmt: skip
    for name in ("asked", "deeper"):
        os.mkfifo(stage.repo.path / name)
    outer = stage.start("outer", "--task", "0951-shop")["run_id"]
    with (stage.repo.path / "asked").open("wb") as asked:
        asked.write(lines("inner", env={"RLM_MAX_ITERATIONS": "7"}))
        asked.flush()
        with (stage.repo.path / "deeper").open("wb") as deeper:
            deeper.write(lines("inner"))
        assert eventually(lambda: b"manifest_path" in stage.read("told"))
        run = answered(stage.repo.path / "told")
        inner = run["run_id"]
        assert run["task_id"] == "0951-shop-inner"
        assert eventually(lambda: b"delegate_mode_forbidden" in stage.read("nested"))
        above = stage.folder(outer) / "manifest.json"
        assert stage.read("said").decode().split() == [str(above), "question_only", "7"]
        assert eventually(lambda: len(processes_of(inner)) > 0)
        [known] = json.loads((above.parent / "delegation_tokens.json").read_text())
        assert (known["child_run_id"], known["parent_run_id"]) == (inner, outer)
        secret = tokens.token_of(str(stage.folder(inner)))
        assert secret
        assert secret not in json.dumps(known)
        assert tokens.is_child(str(above.parent), inner, secret)
        assert not tokens.is_child(str(above.parent), outer, secret)
        assert not tokens.is_child(str(above.parent), inner, secret[:-1])
        assert stage.cli("cancel", outer).code == 0
    assert stage.manifest(outer)["child_runs"][0]["run_id"] == inner
    assert "child_started" in (above.parent / "events.jsonl").read_text()
    assert eventually(lambda: not processes_of(outer))
    assert processes_of(inner)
    assert stage.manifest(inner)["parent_run_id"] == outer
    assert stage.cli("cancel", inner).code == 0
    assert eventually(lambda: not processes_of(inner))


def lines(pipeline: str, **more: Any) -> bytes:
    """What a client says to spawn a run: written beforehand, as a pipe has no turns."""
    hello = {"protocolVersion": "2025-11-25", "capabilities": {},
             "clientInfo": {"name": "x", "version": "1"}}  # fmt: skip
    spawn = {"pipeline": pipeline, "start_only": True, "task_id": f"0951-shop-{pipeline}", **more}
    said: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call",
         "params": {"name": "delegate.spawn", "arguments": spawn}},
    ]  # fmt: skip
    return b"".join(json.dumps({"jsonrpc": "2.0", **one}).encode() + b"\n" for one in said)


def answered(path: Path) -> Any:
    [last] = [one for line in path.read_text().splitlines()
              if (one := json.loads(line)).get("id") == 2]  # fmt: skip
    return last["result"]["structuredContent"]


@pytest.mark.parametrize("place", ["moved", "a link", "a file"])
def test_where_the_runs_are(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    spawn: dict[str, Any] = {"pipeline": "quick", "task_id": "t-x", "start_only": True}
    if place == "moved":  # by the person who starts the server
        monkeypatch.setenv("CODEX_ORCHESTRATOR_RUNS_DIR", str(elsewhere / "runs"))
        server = served(stage.repo.path)
        run = called(server, "delegate.spawn", **spawn)
        assert run["manifest_path"].startswith(str(elsewhere / "runs" / "t-x"))
        found = called(server, "delegate.status", manifest_path=run["manifest_path"])
        assert found["run_id"] == run["run_id"]
        return
    if place == "a link":
        (stage.repo.path / ".runs").symlink_to(elsewhere)
        error = called(served(stage.repo.path), "delegate.spawn", **spawn)["error"]
        assert (error["code"], error["message"]) == ("io", "the folder of the runs is a link")
    else:
        (stage.repo.path / ".runs").write_text("")
        answer = called(served(stage.repo.path), "delegate.spawn", **spawn)
        assert (answer["status"], answer["candidates"]) == ("spawn_failed", [])
        assert "cannot be written: File exists" in answer["error"]
    assert not list(elsewhere.iterdir())


@pytest.mark.full
def test_a_full_disk_is_told_and_leaves_nothing_that_runs(stage: Stage) -> None:
    def fill() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    with McpClient(stage.repo.path, "--mode", "full", preexec_fn=fill) as client:
        client.hello()
        run = client.call("delegate.spawn", pipeline="quick", task_id="t-x", goal="g" * 8192)
    assert run["status"] == "spawn_failed"
    assert "File too large" in run["error"]
    assert not [one for one in stage.ids() if processes_of(one)]


def test_a_link_in_the_place_of_a_token_is_not_followed(tmp_path: Path) -> None:
    for name in ("child", "parent"):
        (tmp_path / name).mkdir()
    target = tmp_path / "target"
    target.write_text("mine")
    (tmp_path / "parent" / "delegation_tokens.json").symlink_to(target)
    tokens.issue(str(tmp_path / "child"), "c", str(tmp_path / "parent"), "p")  # it is replaced
    assert (tmp_path / "parent" / "delegation_tokens.json").stat().st_mode & 0o777 == 0o600
    token = tmp_path / "child" / "delegation_token.json"
    token.unlink()
    token.symlink_to(target)
    with pytest.raises(StorageError, match="File exists"):
        tokens.issue(str(tmp_path / "child"), "c", None, None)
    assert target.read_text() == "mine"


@pytest.mark.full
def test_many_spawns_leave_no_processes_and_no_open_files(stage: Stage) -> None:
    server = served(stage.repo.path)
    called(server, "delegate.spawn", pipeline="quick", task_id="t-x")  # starts the watcher
    before = Belongings()
    for _ in range(6):
        called(server, "delegate.spawn", pipeline="quick", task_id="t-x", start_only=True)
        called(server, "delegate.spawn", pipeline="nope", task_id="t-x", start_only=True)
        assert called(server, "delegate.spawn", pipeline="quick", task_id="t-x")["exit_code"] == 0
    assert before.are_all()
    server.attached.close()


@pytest.mark.full
def test_the_watcher_is_started_again_where_it_is_gone(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OF_THIS_TEST", str(tmp_path))
    server = served(stage.repo.path)

    def begun() -> str:
        run = called(server, "delegate.spawn", pipeline="long", task_id="t-x", timeout_ms=1)
        return str(run["run_id"])

    first = begun()
    [watcher] = [
        pid
        for pid in mentioning("rlm_ci.delegation.tool")
        if str(tmp_path).encode() in Path(f"/proc/{pid}/environ").read_bytes()
    ]
    os.kill(watcher, signal.SIGKILL)
    assert eventually(lambda: watcher not in mentioning("rlm_ci.delegation.tool"))
    runs = (first, begun())
    server.attached.close()
    for run in runs:
        stage.wait_for(run, "cancelled")
        assert stage.manifest(run)["status_detail"] == "interrupted"
        assert eventually(lambda: not processes_of(run))  # noqa: B023 - it is called at once


@pytest.mark.parametrize(("nested", "depth"), [("0", "1"), ("1", "3")])
def test_a_delegated_run_delegates_only_so_deep(
    repo: GitRepo, monkeypatch: pytest.MonkeyPatch, nested: str, depth: str
) -> None:
    monkeypatch.setenv("RLM_CI_DELEGATE_ALLOW_NESTED", nested)
    monkeypatch.setenv("RLM_CI_DELEGATE_DEPTH", depth)
    code = refused(served(repo.path), "delegate.spawn", pipeline="wiki")
    assert code == "nesting_not_permitted"
