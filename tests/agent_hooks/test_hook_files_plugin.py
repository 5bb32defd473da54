"""The plugin of Claude Code: the hooks of its settings, our MCP server and a skill."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from rlm_ci import __version__
from rlm_ci.agent_hooks import hook_files
from rlm_ci.cli import COMMANDS
from testing.agent_endpoint import AgentEndpoint, Request, Use
from testing.agent_session import TESTS
from testing.node_packages import TOOLS
from testing.repositories.git_repo import GitRepo

TOP = Path(__file__).parents[2]
PLUGIN = TOP / ".claude-plugin/plugin"
CLAUDE = TOOLS / "node_modules/.bin/claude"


def test_its_hooks_are_those_of_init() -> None:
    hooks = json.loads((PLUGIN / "hooks/hooks.json").read_text())
    assert hooks == json.loads(hook_files.added("claude", ""))


def test_its_version_and_its_server_are_ours() -> None:
    manifest = json.loads((PLUGIN / ".claude-plugin/plugin.json").read_text())
    assert manifest["version"] == __version__
    (server,) = json.loads((PLUGIN / ".mcp.json").read_text())["mcpServers"].values()
    assert (server["command"], server["args"][0] in COMMANDS) == ("rlm-ci", True)
    (entry,) = json.loads((TOP / ".claude-plugin/marketplace.json").read_text())["plugins"]
    assert (TOP / entry["source"]).resolve() == PLUGIN
    assert entry["name"] == manifest["name"]


def claude(home: Path, *args: str) -> str:
    environ = {"HOME": str(home), "PATH": os.environ["PATH"]}
    ended = subprocess.run(
        [str(CLAUDE), *args], env=environ, cwd=home, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def install(home: Path) -> None:
    """As a person does from this repository."""
    repository = GitRepo(home / "rlm-ci")
    for path in (TOP / ".claude-plugin").rglob("*"):
        if path.is_file():
            repository.write(path.relative_to(TOP).as_posix(), path.read_bytes())
    repository.commit()
    claude(home, "plugin", "marketplace", "add", str(repository.path))
    claude(home, "plugin", "install", "rlm-ci@rlm-ci")


@pytest.mark.full
def test_claude_code_takes_it_from_the_repository(tmp_path: Path) -> None:
    for path in (TOP, PLUGIN):
        assert "Validation passed" in claude(tmp_path, "plugin", "validate", "--strict", str(path))
    install(tmp_path)
    assert "enabled" in claude(tmp_path, "plugin", "list")
    details = claude(tmp_path, "plugin", "details", "rlm-ci")
    assert re.search(r"Skills \(1\) +rlm-ci\n", details)
    assert re.search(r"MCP servers \(1\) +rlm-ci\b", details)
    hooks = json.loads(hook_files.plugin())["hooks"]
    assert re.search(rf"Hooks \({len(hooks)}\) +{', '.join(hooks)} ", details)


@pytest.mark.full
@pytest.mark.parametrize("is_twice", [False, True])
def test_it_holds_once_also_beside_the_hooks_of_init(tmp_path: Path, *, is_twice: bool) -> None:
    install(tmp_path)
    repo = GitRepo(tmp_path / "repo")
    repo.write("tests/test_sum.py", TESTS).write("README.md", "A shop.\n")
    if is_twice:
        repo.write(".claude/settings.json", hook_files.added("claude", ""))
    repo.commit()

    def script(request: Request) -> str | Use:
        weakens, mends = "sed -i '$d' tests/test_sum.py", "git checkout tests"
        if request.results == 0:
            return Use("Bash", {"command": weakens, "description": "edit"})
        if "Stop hook feedback" in request.text and request.results == 1:
            return Use("Bash", {"command": mends, "description": "mend"})
        return "done"

    with AgentEndpoint(script) as endpoint:
        environ = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": endpoint.origin}
        environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        argv = [str(CLAUDE), "-p", "hi", "--allowedTools", "Bash"]
        ended = subprocess.run(argv, cwd=repo.path, env={**environ, "HOME": str(tmp_path)},
                               capture_output=True, text=True, check=False)  # fmt: skip
    assert ended.returncode == 0, ended.stdout + ended.stderr
    last = endpoint.requests[-1]
    assert last.results == 2
    assert last.text.count("Stop hook feedback") == 1
    assert last.text.count("rlm-ci found 1 problem") == 1
    assert repo.read("tests/test_sum.py").decode() == TESTS
