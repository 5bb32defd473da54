"""The hooks that go into an agent's file, and what is ours of those that are there."""

from __future__ import annotations

import json
import re
import subprocess
from typing import TYPE_CHECKING

import pytest

from rlm_ci.agent_hooks import dialects, hook_files
from rlm_ci.agent_hooks.hook_files import AGENTS

if TYPE_CHECKING:
    from pathlib import Path

THEIRS = {
    "claude": '{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "say done"}]}]}}',
    "codex": '{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "say done"}]}]}}',
    "gemini": '{\n  // mine\n  "hooksConfig": {"enabled": true},\n  "mcpServers": {},\n}\n',
    "cursor": '{\n\t"version": 1,\n\t"hooks": {\n\t\t"stop": [{"command": "say done"}]\n\t}\n}',
    "copilot": '{"version": 1, "hooks": {"agentStop": [{"type": "command", "bash": "say done"}]}}',
}


def commands(text: str) -> list[str]:
    lines = re.findall(r'"(?:command|bash)": ("rlm-ci (?:[^"\\]|\\.)+")', text)
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("after_edit", [False, True])
def test_each_event_of_the_program_has_one_command_with_a_time_out(
    agent: str, *, after_edit: bool
) -> None:
    text = hook_files.added(agent, "", after_edit=after_edit)
    events = json.loads(text)["hooks"]
    names = AGENTS[agent].events.values()
    expected = [name for name in names if after_edit or name != "after-edit"]
    assert commands(text) == [hook_files.command(agent, name) for name in expected]
    assert all(line.startswith(f"rlm-ci agent-hook {name} --agent {agent} || ") for line, name in
               zip(commands(text), expected, strict=True))  # fmt: skip
    assert {*hook_files.installed(agent, text)} == {*expected}
    assert {"session-start", "stop"} <= {*expected}
    limits = {"gemini": (60_000, 600_000)}.get(agent, (60, 600))
    for (entry,) in events.values():
        hook = entry["hooks"][0] if "hooks" in entry else entry
        seconds = hook["timeoutSec" if agent == "copilot" else "timeout"]
        assert limits[0] <= seconds <= limits[1]
        assert hook["type"] == "command"


@pytest.mark.parametrize("agent", AGENTS)
def test_a_program_that_is_missing_or_older_holds_no_agent(agent: str, tmp_path: Path) -> None:
    """Some agents take 2, Gemini takes 127, for an order to go on."""
    for event in dialects.EVENTS:
        line = hook_files.command(agent, event)
        assert line.startswith(f"rlm-ci agent-hook {event} --agent {agent} ")
        for script in ("", "#!/bin/sh\necho unknown command >&2; exit 2\n"):
            program = tmp_path / "rlm-ci"
            program.write_text(script)
            program.chmod(0o755 if script else 0o644)
            ended = subprocess.run(["/bin/sh", "-c", line], env={"PATH": str(tmp_path)},
                                   capture_output=True, text=True, check=False)  # fmt: skip
            assert (ended.returncode, ended.stdout) == (1, "")
            assert ended.stderr
    line = hook_files.command("copilot", "stop")
    environ = {"PATH": "", "COPILOT_CLI": "1"}  # shows the errors of a hook that ends with 2
    assert subprocess.run(["/bin/sh", "-c", line], env=environ, check=False).returncode == 2


@pytest.mark.parametrize("agent", AGENTS)
def test_theirs_stay_and_ours_come_once_and_go(agent: str) -> None:
    text = THEIRS[agent]
    added = hook_files.added(agent, text)
    assert sorted(commands(added)) == sorted(commands(hook_files.added(agent, "")))
    assert added.count("say done") == text.count("say done")
    assert hook_files.added(agent, added) == added
    assert hook_files.without(added) == text
    assert not hook_files.is_empty(agent, text)
    alone = hook_files.added(agent, "")
    assert hook_files.is_empty(agent, hook_files.without(alone))


@pytest.mark.parametrize(
    "older",
    [
        "rlm-ci agent-hook stop",
        "/home/me/.venv/bin/rlm-ci agent-hook stop --agent claude --old",
        '"C:\\\\tools\\\\rlm-ci.exe" agent-hook stop',
        "PATH=$PATH:.venv/bin rlm-ci agent-hook end --agent claude",
    ],
)
def test_an_older_command_of_ours_is_replaced(older: str) -> None:
    hook = {"type": "command", "command": older}
    text = json.dumps({"hooks": {"Stop": [{"hooks": [hook]}], "PreToolUse": [{"hooks": [hook]}]}})
    added = hook_files.added("claude", text)
    assert json.loads(added) == json.loads(hook_files.added("claude", ""))
    assert json.loads(hook_files.without(text)) == {}


@pytest.mark.parametrize(
    "foreign", ["echo rlm-ci agent", "not-rlm-ci agent-hook stop", "rlm-ci check", "rlm-cis"]
)
def test_what_only_looks_like_ours_stays(foreign: str) -> None:
    text = json.dumps({"hooks": {"Stop": [{"hooks": [{"command": foreign}]}]}})
    assert hook_files.without(text) == text
    assert foreign in hook_files.added("claude", text)


def test_ours_in_a_group_of_theirs_goes_alone() -> None:
    mine = {"type": "command", "command": "mine"}
    hook = {"type": "command", "command": "rlm-ci agent-hook stop --agent claude"}
    text = json.dumps({"hooks": {"Stop": [{"hooks": [hook, mine, hook]}]}})
    assert json.loads(hook_files.without(text)) == {"hooks": {"Stop": [{"hooks": [mine]}]}}


def test_a_time_out_that_somebody_changed_stays() -> None:
    text = hook_files.added("claude", "").replace('"timeout": 600', '"timeout": 1200')
    assert hook_files.added("claude", text) == text
    after_edit = hook_files.added("claude", "", after_edit=True)
    assert hook_files.added("claude", after_edit) == after_edit


@pytest.mark.parametrize(
    "text", ["[]", '{"hooks": 1}', '{"hooks": {"Stop": [1, null, {"hooks": 2}, {"command": 3}]}}']
)
def test_what_is_no_hook_is_none_of_ours(text: str) -> None:
    assert hook_files.installed("claude", text) == []
    assert hook_files.without(text) == text


@pytest.mark.parametrize("agent", AGENTS)
def test_what_the_program_does_not_read_is_known(agent: str) -> None:
    """As seen with each program, but for Cursor, which is taken to be strict."""
    assert hook_files.unread(agent, '{"a": 1}\r\n') == ""
    comments = "" if agent == "gemini" else "comments or trailing commas"
    assert hook_files.unread(agent, '{"a": 1} // mine') == comments
    mark = "" if agent == "claude" else "a byte order mark"
    assert hook_files.unread(agent, "\ufeff{}") == mark
