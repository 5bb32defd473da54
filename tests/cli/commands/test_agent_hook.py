"""``rlm-ci agent-hook`` fails open: whatever happens, it ends with 0 and says so."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from rlm_ci.agent_hooks.dialects import EVENTS
from rlm_ci.system.lock import Lock
from testing.agent_session import TESTS, WEAKER, AgentSession, begun

if TYPE_CHECKING:
    from pathlib import Path

    from testing.program import Cli
    from testing.repositories.git_repo import GitRepo


@pytest.mark.parametrize(
    ("event", "stdin", "what"),
    [
        ("stop", "", "the event is not a JSON object"),
        ("stop", "{", "the event is not a JSON object"),
        ("session-start", "{}", "the event names no session"),
        ("stop", '{"session_id": ""}', "the event names no session"),
    ],
)
def test_an_event_that_cannot_be_read(
    repo: GitRepo, cli: Cli, event: str, stdin: str, what: str
) -> None:
    ended = cli("agent-hook", event, "--agent", "claude", cwd=repo.path, stdin=stdin)
    assert (ended.code, ended.stderr) == (0, "")
    assert f"rlm-ci judged nothing: {what}" in ended.json()["systemMessage"]
    ended = cli("agent-hook", event, "--agent", "cursor", cwd=repo.path, stdin=stdin)
    assert (ended.code, ended.stdout) == (0, "")
    assert what in ended.stderr


@pytest.mark.parametrize("words", [("stopp", "--agent", "claude"), ("stop", "--agent", "clawd")])
def test_unknown_words_hold_nobody(cli: Cli, words: tuple[str, ...]) -> None:
    ended = cli("agent-hook", *words, stdin="{}")
    assert (ended.code, ended.stdout) == (0, "")
    assert "error: unknown " in ended.stderr
    assert f"hint: did you mean {'stop' if words[0] == 'stopp' else 'claude'}?" in ended.stderr


@pytest.mark.parametrize("words", [("--bogus",), ("more",)])
def test_arguments_of_another_version_hold_nobody(cli: Cli, words: tuple[str, ...]) -> None:
    ended = cli("agent-hook", "stop", "--agent", "claude", *words, stdin="{}")
    assert (ended.code, ended.stderr) == (0, "")
    assert "rlm-ci judged nothing: " in ended.json()["systemMessage"]
    ended = cli(
        "agent-hook", "stop", "--agent=copilot", *words, stdin="{}", env={"COPILOT_CLI": "1"}
    )
    assert (ended.code, ended.stdout) == (2, "")
    assert "rlm-ci judged nothing: " in ended.stderr


@pytest.mark.parametrize(
    ("module", "code"), [("config.arguments", 0), ("agent_hooks.session", 1), ("judge.judge", 0)]
)
def test_a_damaged_installation_holds_nobody(
    repo: GitRepo, cli: Cli, module: str, code: int
) -> None:
    session = begun(repo, cli)
    repo.write("shop.py", "PRICE = 2\n")
    event = json.dumps({"session_id": session.name, "cwd": str(repo.path)})
    program = (
        f"import sys\nsys.modules['rlm_ci.{module}'] = None\nfrom rlm_ci import cli\n"
        "cli.end(cli.main(['agent-hook', 'stop', '--agent', 'claude']))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], input=event, capture_output=True, text=True, check=False,
        env={"PATH": os.environ["PATH"], "HOME": str(repo.path)},
    )  # fmt: skip
    assert ended.returncode == code
    output = ended.stderr if code else json.loads(ended.stdout)["systemMessage"]
    assert "internal error: ModuleNotFoundError" in output


@pytest.mark.parametrize("event", EVENTS)
def test_outside_of_a_repository(cli: Cli, tmp_path: Path, event: str) -> None:
    data = json.dumps({"session_id": "s", "cwd": str(tmp_path)})
    ended = cli("agent-hook", event, "--agent", "codex", cwd=tmp_path, stdin=data)
    assert ended.code == 0
    assert "this is no git repository" in ended.json()["systemMessage"]


def test_the_folder_is_the_project_of_the_program_else_that_of_the_event(
    repo: GitRepo, cli: Cli, tmp_path: Path
) -> None:
    session = begun(repo, cli)
    repo.write("tests/test_sum.py", WEAKER)
    data = json.dumps({"session_id": session.name, "cwd": str(tmp_path)})
    words = ("agent-hook", "stop", "--agent", "claude")
    ended = cli(*words, cwd=tmp_path, stdin=data, env={"CLAUDE_PROJECT_DIR": str(repo.path)})
    assert ended.json()["decision"] == "block"
    data = json.dumps({"session_id": session.name, "cwd": str(repo.path / "tests")})
    assert cli(*words, cwd=tmp_path, stdin=data).json()["decision"] == "block"


@pytest.mark.skipif(sys.platform == "win32", reason="no timer of the system")
def test_a_hook_whose_time_is_up_holds_nobody(repo: GitRepo, cli: Cli, tmp_path: Path) -> None:
    session = begun(repo, cli, env={"RLM_CI_AGENT_HOOKS_TIMEOUT": "1"})
    repo.write("tests/test_sum.py", WEAKER)
    slow = tmp_path / "git"
    slow.write_text("#!/bin/sh\nexec sleep 30\n")
    slow.chmod(0o755)
    session.env["PATH"] = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    answer = session.stop()
    assert answer.keys() == {"systemMessage"}
    assert "the time of the hook was up (agent_hooks.timeout)" in answer["systemMessage"]


def test_a_broken_git_holds_nobody(repo: GitRepo, cli: Cli, tmp_path: Path) -> None:
    session = begun(repo, cli)
    repo.write("tests/test_sum.py", WEAKER)
    session.env["PATH"] = str(tmp_path)
    assert "rlm-ci judged nothing: " in session.stop()["systemMessage"]


def test_copilot_cli_shows_only_what_a_hook_says_that_ends_with_2(repo: GitRepo, cli: Cli) -> None:
    words = ("agent-hook", "stop", "--agent", "copilot")
    data = json.dumps({"sessionId": "s", "cwd": str(repo.path)})
    ended = cli(*words, stdin=data, env={"COPILOT_CLI": "1"})
    assert (ended.code, ended.stdout) == (2, "")
    assert "rlm-ci has no record of how this session began" in ended.stderr
    assert cli(*words, stdin=data, env={"COPILOT_CLI": "1"}).code == 0


@pytest.mark.parametrize("name", ["session-1", "session-2", "session-3"])
def test_copilot_may_send_the_start_and_the_first_prompt_at_once(
    repo: GitRepo, cli: Cli, name: str
) -> None:
    repo.write("tests/test_sum.py", TESTS).commit()

    def output(event: str) -> bytes:
        argv = [sys.executable, "-m", "rlm_ci", "agent-hook", event, "--agent", "copilot"]
        data = json.dumps({"sessionId": name, "cwd": str(repo.path)}).encode()
        return subprocess.check_output(argv, input=data, stderr=subprocess.STDOUT)

    with ThreadPoolExecutor() as threads:
        assert [*threads.map(output, ("prompt", "session-start"))] == [b"", b""]
    repo.write("tests/test_sum.py", WEAKER)
    assert AgentSession(repo, cli, agent="copilot", name=name).stop()["decision"] == "block"


def test_a_session_whose_start_nobody_saw_says_so_at_its_prompt(repo: GitRepo, cli: Cli) -> None:
    repo.write("tests/test_sum.py", TESTS).commit()
    assert "no record" in AgentSession(repo, cli, agent="claude").event("prompt").stdout


def test_the_same_hook_twice_answers_once(repo: GitRepo, cli: Cli) -> None:
    """Of a plugin and a file of settings that both have it; different sessions go on."""
    session = begun(repo, cli)
    repo.write("tests/test_sum.py", WEAKER)
    (folder,) = session.records
    with Lock.take(str(folder / "stop.lock"), signs=False):
        assert session.stop() == {}
        other = AgentSession(repo, cli, name="session-2")
        assert other.start() == ""
    assert session.stop()["decision"] == "block"


def test_copilots_prompt_does_not_begin_a_session(repo: GitRepo, cli: Cli) -> None:
    """Copilot starts the hooks of the session's start and of its first prompt at once."""
    session = AgentSession(repo, cli, agent="copilot")
    ended = session.event("prompt", prompt="Go on")
    assert (ended.stdout, ended.stderr) == ("", "")
    assert session.start() == ""
    assert session.stop() == {}
