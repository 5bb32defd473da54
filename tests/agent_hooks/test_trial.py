"""What doctor says of agents' hooks: which are there, and whether they run."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from rlm_ci.agent_hooks import hook_files, trial
from rlm_ci.agent_hooks.hook_files import AGENTS
from rlm_ci.agent_hooks.trial import HookState
from rlm_ci.git.repository import Repository
from testing.node_packages import TOOLS
from testing.repositories.git_repo import GitRepo, closed_environment

OWN = Path(sys.executable).parent
PROGRAMS = TOOLS / "node_modules/.bin"


def states(repo: GitRepo, *folders: Path, **environ: str) -> dict[str, HookState]:
    path = os.pathsep.join([*map(str, folders), "/usr/bin", "/bin"])
    repository = Repository(str(repo.path), str(repo.path / ".git"), closed_environment())
    variables = {"HOME": str(repo.path.parent), **closed_environment(), "PATH": path, **environ}
    return {state.name: state for state in trial.states(repository, variables)}


def installed(repo: GitRepo, *agents: str) -> GitRepo:
    for agent in agents:
        repo.write(AGENTS[agent].path, hook_files.added(agent, ""))
    return repo


def program(folder: Path, name: str, script: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)
    return folder


def test_without_hooks_of_ours_nothing_is_said(repo: GitRepo) -> None:
    repo.write(".claude/settings.json", '{"hooks": {}} // mine')
    repo.write(".gemini/settings.json", "{")
    assert states(repo, OWN) == {}


def test_each_agents_hooks_are_named_and_tried(repo: GitRepo) -> None:
    installed(repo, *AGENTS)
    hooks = states(repo, OWN)
    assert {state.works for state in hooks.values()} == {True}
    for agent, file in AGENTS.items():
        assert hooks[agent].detail.startswith(f"{file.path}: session-start, ")
    assert hooks["rlm-ci"].detail == f"{OWN / 'rlm-ci'}, this one"
    assert hooks["start"].detail == "a session that begins here is recorded"
    assert list((repo.path / ".git/rlm-ci/agent-sessions").iterdir()) == []


def test_older_and_broken_files_say_what_mends_them(repo: GitRepo) -> None:
    text = hook_files.added("claude", "").replace("agent-hook stop --agent", "agent-hook end --a")
    repo.write(".claude/settings.json", text)
    repo.write(".codex/hooks.json", hook_files.added("codex", "") + "}")
    hooks = states(repo, OWN)
    assert hooks["claude"].works is None
    assert hooks["claude"].detail.endswith("writes them: rlm-ci init --agents claude")
    assert hooks["codex"].works is False
    assert "is not JSON: text after" in hooks["codex"].detail
    assert hooks["codex"].hint == "mend it, then: rlm-ci init --agents codex"


def test_a_file_that_its_program_does_not_read_is_a_problem(repo: GitRepo) -> None:
    repo.write(".claude/settings.json", hook_files.added("claude", "{} // mine"))
    state = states(repo, OWN)["claude"]
    assert (state.works, state.detail.endswith("commas: claude does not read it")) == (False, True)


def test_a_program_that_is_missing_is_a_problem(repo: GitRepo) -> None:
    hooks = states(installed(repo, "cursor"))
    assert hooks["rlm-ci"].works is False
    assert hooks["rlm-ci"].detail == "not on PATH: no hook can run"
    assert hooks["rlm-ci"].hint == f"put {OWN} on PATH, for the agents too"
    assert "start" not in hooks


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo error: unknown command >&2; exit 2", "exit code 2: error: unknown command"),
        ("exit 3", "exit code 3: it recorded nothing"),
        (":", "it recorded nothing"),
        ("""echo '{"systemMessage": "rlm-ci judged nothing"}'""", "rlm-ci judged nothing"),
        ("echo 1", "1"),
    ],
)
def test_another_program_of_that_name_is_said(
    repo: GitRepo, tmp_path: Path, script: str, why: str
) -> None:
    script = f'[ "$1" = --version ] && echo rlm-ci 0.0.9 && exit\n{script}'
    folder = program(tmp_path / "bin", "rlm-ci", script)
    hooks = states(installed(repo, "claude"), folder, OWN)
    assert hooks["rlm-ci"].works is None
    assert hooks["rlm-ci"].detail == f"{folder / 'rlm-ci'}, another one: rlm-ci 0.0.9"
    assert (hooks["start"].works, hooks["start"].detail) == (False, why)


def test_a_configuration_that_stops_the_judge_is_said(repo: GitRepo) -> None:
    installed(repo, "gemini").write("rlm-ci.toml", "fail_level = 3\n").commit()
    hooks = states(repo, OWN)
    assert hooks["start"].works is False
    assert "rlm-ci.toml" in hooks["start"].detail


def test_the_plugin_of_claude_code_counts(repo: GitRepo, tmp_path: Path) -> None:
    folder = tmp_path / "claude/plugins"
    folder.mkdir(parents=True)
    record = {"version": 2, "plugins": {"rlm-ci@rlm-ci": [{"scope": "user"}]}}
    (folder / "installed_plugins.json").write_text(json.dumps(record))
    hooks = states(repo, OWN, CLAUDE_CONFIG_DIR=str(folder.parent))
    assert [*hooks] == ["claude plugin", "rlm-ci", "start"]
    assert hooks["start"].works


@pytest.mark.sample(1)
@pytest.mark.parametrize("script", ["exit 1", "cat", 'echo \'{"id":2,"error":1}\'; cat', "echo ["])
def test_a_codex_that_does_not_say_is_not_taken_for_one_that_trusts(
    repo: GitRepo, tmp_path: Path, script: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "_SECONDS", 6)
    folder = program(tmp_path / "bin", "codex", script)
    hooks = states(installed(repo, "codex"), folder, OWN)
    assert hooks["codex trust"].works is None
    assert "not known" in hooks["codex trust"].detail


@pytest.mark.full
def test_codex_says_what_it_trusts(repo: GitRepo, tmp_path: Path) -> None:
    """The real one; its configuration is only read."""
    installed(repo, "codex")
    home = tmp_path / "codex-home"
    home.mkdir()
    environ = {"CODEX_HOME": str(home)}
    # Codex's start script needs node.
    folders = (PROGRAMS, OWN, *map(Path, os.environ["PATH"].split(os.pathsep)))
    state = states(repo, *folders, **environ)["codex trust"]
    assert (state.works, "it reads no hooks in this folder" in state.detail) == (False, True)
    trusted = f'[projects."{repo.path.resolve()}"]\ntrust_level = "trusted"\n'
    (home / "config.toml").write_text(trusted)
    state = states(repo, *folders, **environ)["codex trust"]
    assert state.works is False
    assert state.detail.startswith("it skips 5 hooks, ")
    assert [*home.iterdir()] == [home / "config.toml"]
    hooks = trial.listed(str(PROGRAMS / "codex"), str(repo.path), {**os.environ, **environ})
    for hook in hooks or ():
        trusted += f'[hooks.state."{hook["key"]}"]\ntrusted_hash = "{hook["currentHash"]}"\n'
    (home / "config.toml").write_text(trusted)
    state = states(repo, *folders, **environ)["codex trust"]
    assert (state.works, state.detail) == (True, "it runs 5 hooks")
    repo.write(".codex/hooks.json", repo.read(".codex/hooks.json").replace(b"600", b"601"))
    state = states(repo, *folders, **environ)["codex trust"]
    assert state.detail.startswith("it skips 1 hook, stop:")
