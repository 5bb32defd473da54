"""Subagents of an agent's program become runs: what is written, and what never is."""

from __future__ import annotations

import json
import os
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.agent_hooks import subagents
from rlm_ci.agent_hooks.dialects import parse
from rlm_ci.agent_hooks.subagents import RecordOptions
from rlm_ci.resources import loader
from rlm_ci.runs import manifest as manifests
from testing.agent_session import AgentSession
from testing.change_sets import repository
from testing.repositories.delegated_runs import registered, write_index

if TYPE_CHECKING:
    from pathlib import Path

    from rlm_ci.runs.manifest import Manifest
    from testing.program import Cli
    from testing.repositories.git_repo import GitRepo

TASK = "0142-ship-to-europe"
SECRET = "hunter2-hunter2-hunter2"
TYPE = "Explore"
#: The events of each program, as its own version sent them.
EVENTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "claude": (
        {"session_id": "s-1", "agent_id": "a9d7", "agent_type": TYPE, "transcript_path": "S"},
        {"agent_transcript_path": "T", "last_assistant_message": "\n Looked.\nLine 2"},
    ),
    "codex": (
        {"session_id": "s-1", "agent_id": "a9d7", "agent_type": TYPE, "transcript_path": "T"},
        {"transcript_path": "S", "agent_transcript_path": "T", "last_assistant_message": "Looked."},
    ),
    "copilot": (
        {"sessionId": "s-1", "agentId": "a9d7", "agentType": TYPE, "transcriptPath": "T"},
        {"response": "Looked.", "stopReason": "end_turn"},
    ),
    "cursor": (
        {"conversation_id": "s-1", "subagent_id": "a9d7", "subagent_type": TYPE},
        {"subagent_id": None, "agent_transcript_path": "T", "summary": "Looked.",
         "status": "completed"},
    ),
}  # fmt: skip


class Hooks:
    """A session in a repository where TASK is registered, in the home of a person."""

    def __init__(self, repo: GitRepo, home: Path) -> None:
        self.repo, self.home = repo, home
        self.environ = {"MCP_RUNNER_TASK_ID": TASK, "MY_TOKEN": SECRET}
        write_index(repo.path, registered(TASK))
        repo.commit("Index")

    def transcript(self, agent: str = "claude", text: str = "the transcript\n") -> Path:
        path = self.home / f".{agent}" / "sessions" / "one.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def send(self, name: str, agent: str = "claude", **fields: Any) -> str:
        start, stop = EVENTS[agent]
        record = {**start, **(stop if name == "subagent-stop" else {}), **fields}
        path = str(self.home / f".{agent}" / "sessions" / "one.jsonl")
        record = {key: path if value == "T" else value for key, value in record.items()}
        event = parse(agent, name, json.dumps(record).encode())
        return subagents.record(event, repository(self.repo), self.options)

    @property
    def options(self) -> RecordOptions:
        return RecordOptions(self.environ.get("MCP_RUNNER_TASK_ID"), ".runs", self.environ)

    def start(self, agent: str = "claude", **fields: Any) -> str:
        return self.send("subagent-start", agent, **fields)

    def stop(self, agent: str = "claude", **fields: Any) -> str:
        return self.send("subagent-stop", agent, **fields)

    def runs(self) -> list[Manifest]:
        runs = []
        for path in sorted(self.repo.path.glob(".runs/*/cli/*/manifest.json")):
            schema = loader.misfit(json.loads(path.read_text()), "manifest.schema.json")
            assert schema == ""
            runs.append(manifests.read(str(path.parent)))
        return runs

    def run(self) -> Manifest:
        (run,) = self.runs()
        return run


@pytest.fixture
def hooks(repo: GitRepo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hooks:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("USERPROFILE", str(home))
    for variable in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "COPILOT_HOME", "CURSOR_CONFIG_DIR"):
        monkeypatch.delenv(variable, raising=False)
    return Hooks(repo, home)


@pytest.mark.parametrize("agent", EVENTS)
def test_a_subagent_is_recorded_from_its_start_to_its_stop(hooks: Hooks, agent: str) -> None:
    text = hooks.transcript(agent).read_bytes()
    assert hooks.start(agent) == ""
    run = hooks.run()
    assert run.recorded_by is not None
    assert (run.status, run.completed_at, run.summary) == ("in_progress", None, None)
    assert hooks.stop(agent) == ""
    ended = hooks.run()
    assert ended.recorded_by is not None
    assert (ended.run_id, ended.started_at) == (run.run_id, run.started_at)
    assert (ended.task_id, ended.pipeline_id) == (f"{TASK}-{TYPE}", "subagent")
    assert (ended.status, ended.summary, ended.status_detail) == ("succeeded", "Looked.", None)
    assert ended.recorded_by.transcript_sha256 == sha256(text).hexdigest()
    assert ended.recorded_by.transcript_bytes == len(text)
    written = "".join(path.read_text() for path in hooks.repo.path.glob(".runs/**/*.json"))
    assert "the transcript" not in written
    assert os.listdir(hooks.repo.path / ended.artifact_root) == ["manifest.json"]
    assert hooks.repo.text("status", "--porcelain") == ""


@pytest.mark.parametrize(
    ("fields", "status", "detail"),
    [
        ({"error": "authentication_failed"}, "failed", "authentication_failed"),
        ({"stopReason": "max_tokens"}, "failed", "max_tokens"),
        ({"status": "error"}, "failed", "error"),
        ({"status": "aborted"}, "cancelled", "aborted"),
        ({"last_assistant_message": ""}, "failed", "it stopped without a last message"),
        ({"last_assistant_message": None}, "failed", "it stopped without a last message"),
        ({"status": "completed"}, "succeeded", None),
    ],
)
def test_what_ended_in_an_error_or_was_cut_has_not_succeeded(
    hooks: Hooks, fields: dict[str, Any], status: str, detail: str | None
) -> None:
    hooks.start()
    hooks.transcript()
    hooks.stop(**fields)
    assert (hooks.run().status, hooks.run().status_detail) == (status, detail)
    assert not hooks.run().is_resumable


def test_the_last_stop_counts_and_a_resumed_subagent_works_again(hooks: Hooks) -> None:
    hooks.transcript()
    hooks.start()
    hooks.stop(last_assistant_message="First.")
    hooks.stop(last_assistant_message="Second.")
    assert hooks.run().summary == "Second."
    hooks.start()
    assert (hooks.run().status, hooks.run().summary) == ("in_progress", None)
    hooks.stop(error="rate_limit")
    assert (hooks.run().status, hooks.run().status_detail) == ("failed", "rate_limit")


def test_a_stop_without_a_start_says_so_and_stays_one_run(hooks: Hooks) -> None:
    hooks.transcript()
    for _ in range(2):
        hooks.stop()
        assert (hooks.run().status, hooks.run().status_detail) == (
            "succeeded",
            "its start was not recorded",
        )


def test_subagents_at_the_same_time_are_runs_of_their_own(hooks: Hooks) -> None:
    for number in range(3):
        hooks.start(agent_id=f"a{number}")
    hooks.stop(agent_id="a1")
    statuses = [run.status for run in hooks.runs()]
    assert sorted(statuses) == ["in_progress", "in_progress", "succeeded"]
    hooks.start(session_id="s-2", agent_id="a1")
    assert len(hooks.runs()) == 4


def test_a_stop_without_an_id_is_that_of_the_oldest_of_its_session(hooks: Hooks) -> None:
    hooks.transcript("cursor")
    hooks.start("cursor", conversation_id="other", subagent_id="x")
    for name in ("first", "second"):
        hooks.start("cursor", subagent_id=name)
    hooks.stop("cursor")
    ended = [run.recorded_by for run in hooks.runs() if run.has_ended]
    assert [recorder.session_id for recorder in ended if recorder] == ["s-1"]
    hooks.stop("cursor", agent_transcript_path="")
    hooks.stop("cursor", agent_transcript_path="")
    assert [run.has_ended for run in hooks.runs()].count(True) == 3
    assert len(hooks.runs()) == 4


@pytest.mark.parametrize(
    ("kind", "folder"),
    [
        ("general-purpose", f"{TASK}-general-purpose"),
        ("../../../etc/x", f"{TASK}-etc-x"),
        ("my plugin:reviewer\n", f"{TASK}-my-plugin-reviewer"),
        ("\x00\u202e", f"{TASK}-subagent"),
        ("..", f"{TASK}-subagent"),
        ("x" * 5000, f"{TASK}-{'x' * 40}"),
        ("extra", f"{TASK}-subagent"),  # else it were a run of the other task
    ],
)
def test_a_type_may_be_anything(hooks: Hooks, kind: str, folder: str) -> None:
    write_index(hooks.repo.path, registered(TASK, f"{TASK}-extra"))
    hooks.start(agent_type=kind)
    assert hooks.run().task_id == folder
    assert sorted(os.listdir(hooks.repo.path / ".runs")) == [".gitignore", folder]


def test_a_hostile_id_and_message_are_kept_short_and_without_secrets(hooks: Hooks) -> None:
    hooks.transcript()
    hooks.stop(
        agent_id="../../x\x1b[2J" * 999, last_assistant_message=f"see {SECRET}\x1b[2J" + "y" * 9999
    )
    run = hooks.run()
    assert run.recorded_by is not None
    assert len(run.recorded_by.subagent_id) == 200
    assert len(run.summary or "") == 400
    texts = (hooks.repo.path / run.artifact_root / "manifest.json").read_text()
    assert SECRET not in texts
    assert "u001b" not in texts


def _link(path: Path) -> None:
    outside = path.parent.parent.parent / "secret"
    outside.write_text("key")
    path.symlink_to(outside)


def _large(path: Path) -> None:
    with path.open("wb") as stream:
        stream.truncate(10 << 30)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (_link, "it is not in the folder of Claude Code"),
        (os.mkfifo, "not a regular file"),
        (os.mkdir, "not a regular file"),
        (_large, "more than"),
        (lambda _: None, "it does not exist"),
    ],
)
def test_a_transcript_that_is_none_is_not_read(hooks: Hooks, make: Any, why: str) -> None:
    path = hooks.transcript()
    path.unlink()
    make(path)
    message = hooks.stop()
    assert message.startswith("rlm-ci has not hashed the subagent's transcript: ")
    assert why in message
    run = hooks.run()
    assert run.recorded_by is not None
    assert (run.status, run.recorded_by.transcript_sha256) == ("succeeded", None)


def test_a_transcript_elsewhere_is_not_read(hooks: Hooks) -> None:
    hooks.transcript()
    for path in ("/etc/passwd", "../../etc/passwd", "\0", str(hooks.home / ".claude")):
        assert "has not hashed" in hooks.stop(agent_transcript_path=path)
        recorder = hooks.run().recorded_by
        assert recorder is not None
        assert recorder.transcript_sha256 is None
    hooks.environ["CLAUDE_CONFIG_DIR"] = str(hooks.home / "elsewhere")
    assert "it is not in the folder of Claude Code" in hooks.stop()


@pytest.mark.parametrize(
    ("agent", "variable", "value", "name"),
    [
        ("claude", "AI_AGENT", "claude-code_2-1-197_harness", "Claude Code 2.1.197"),
        ("claude", "AI_AGENT", "something", "Claude Code"),
        ("copilot", "COPILOT_CLI_BINARY_VERSION", "1.0.102", "GitHub Copilot 1.0.102"),
        ("cursor", "CURSOR_VERSION", "3.2.1", "Cursor 3.2.1"),
        ("codex", "X", "", "Codex"),
    ],
)
def test_it_is_marked_with_the_program_and_its_version(
    hooks: Hooks, agent: str, variable: str, value: str, name: str
) -> None:
    hooks.environ[variable] = value
    hooks.start(agent)
    recorder = hooks.run().recorded_by
    assert recorder is not None
    assert recorder.name == name


def test_without_a_task_nothing_is_written(hooks: Hooks) -> None:
    del hooks.environ["MCP_RUNNER_TASK_ID"]
    assert hooks.start() == ""
    assert not (hooks.repo.path / ".runs").exists()
    hooks.repo.checkout(f"me/{TASK}-fix", new=True)
    hooks.start()
    assert hooks.run().task_id == f"{TASK}-{TYPE}"


@pytest.mark.parametrize("fields", [{"agent_type": ""}, {"agent_type": "", "agent_id": ""}])
def test_a_helper_of_the_program_itself_is_no_subagent(
    hooks: Hooks, fields: dict[str, Any]
) -> None:
    hooks.stop(**fields)
    assert hooks.runs() == []
    hooks.start()
    hooks.stop(agent_type="", agent_id="", error="rate_limit")  # the session's own failure
    assert hooks.run().status == "in_progress"


def test_a_broken_store_holds_nobody(hooks: Hooks) -> None:
    hooks.environ["MCP_RUNNER_TASK_ID"] = "no task"
    assert "has not recorded this subagent: 'no task' is not a task id" in hooks.start()
    hooks.environ["MCP_RUNNER_TASK_ID"] = TASK
    (hooks.repo.path / ".runs").symlink_to(hooks.home)
    assert "the folder of the runs is a link" in hooks.start()
    (hooks.repo.path / ".runs").unlink()
    hooks.start()
    run = hooks.run()
    path = hooks.repo.path / run.artifact_root / "manifest.json"
    path.write_text("{}")
    assert "has not recorded this subagent: the manifest is not valid: task_id: " in hooks.stop()
    manifests.write(str(path.parent), run.replace(recorded_by=None))
    assert "the run of that name is not a recorded one" in hooks.stop()


def test_such_a_run_satisfies_the_guard_and_becomes_a_receipt(hooks: Hooks, cli: Cli) -> None:
    environ = {"MCP_RUNNER_TASK_ID": TASK}
    guard = ("check", "delegation-guard", "--require", "succeeded")
    assert cli(*guard, cwd=hooks.repo, env=environ).code == 1
    hooks.environ["AI_AGENT"] = "claude-code_2-1-197_harness"
    hooks.transcript()
    hooks.start()
    assert cli(*guard, cwd=hooks.repo, env=environ).code == 1
    exists = cli(*guard[:2], cwd=hooks.repo, env=environ)
    assert "recorded by Claude Code 2.1.197 (in progress)" in " ".join(exists.stdout.split())
    hooks.stop()
    ended = cli(*guard, "--format", "json", cwd=hooks.repo, env=environ)
    assert ended.code == 0
    assert ended.json()["parts"][0]["summary"].endswith(", recorded by Claude Code 2.1.197")
    cli("receipt", cwd=hooks.repo, env=environ)
    receipt = json.loads((hooks.repo.path / f".delegation/{TASK}.json").read_text())
    assert [run["recorded_by"] for run in receipt["runs"]] == ["Claude Code 2.1.197"]


def test_the_hooks_record_also_without_a_record_of_the_session(hooks: Hooks, cli: Cli) -> None:
    session = AgentSession(hooks.repo, cli, env={"MCP_RUNNER_TASK_ID": TASK})
    fields = {"agent_id": "a9d7", "agent_type": TYPE}
    assert session.event("subagent-start", **fields).stdout == ""
    assert session.records == []
    transcript = {"agent_transcript_path": "/etc/passwd", "last_assistant_message": "Looked."}
    stop = session.event("subagent-stop", **fields, **transcript)
    assert "has not hashed the subagent's transcript" in json.loads(stop.stdout)["systemMessage"]
    assert hooks.run().status == "succeeded"
    hooks.repo.write("rlm-ci.toml", "[agent_hooks]\nenabled = false\n")
    assert session.start() == ""
    session.event("subagent-start", agent_id="another", agent_type=TYPE)
    assert len(hooks.runs()) == 1
