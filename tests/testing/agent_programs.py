"""Claude Code, Codex, Gemini CLI and Copilot CLI, as npm installs them, in a session of their own.

Each asks a model on loopback, and runs the hooks of its repository.
"""

from __future__ import annotations

import json
import os
import pty
import re
import select
import subprocess
import sysconfig
import termios
import time
from typing import TYPE_CHECKING, NamedTuple

from testing.agent_endpoint import AgentEndpoint, Request, Use
from testing.node_packages import TOOLS
from testing.repositories.git_repo import closed_environment

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    Script = Callable[[Request], str | Use | int]

#: Where make test-full installs Aider, if there is a Python that is old enough for it.
AIDER = TOOLS / "aider/bin"
PROMPT = "Please do it."
_TASK = "Look at it, and say what you see"
_SPAWNS = {
    "claude": Use("Task", {"description": "look", "prompt": _TASK, "subagent_type": "Explore"}),
    "codex": Use(
        "collaboration.spawn_agent", {"task_name": "look", "message": _TASK, "fork_turns": "none"}
    ),
    "copilot": Use(
        "task", {"description": "look", "prompt": _TASK, "agent_type": "explore", "name": "look"}
    ),
}
_SHELLS = {
    "claude": ("Bash", "command"),
    "codex": ("exec_command", "cmd"),
    "gemini": ("run_shell_command", "command"),
    "copilot": ("bash", "command"),
}
#: How each runs a prompt without a person, and trusts the hooks of the repository.
_HEADLESS = {
    "claude": (
        "claude", "-p", "--output-format", "stream-json", "--verbose", "--permission-mode",
        "acceptEdits", "--allowedTools=Bash,Task",
    ),
    "codex": (
        "codex", "-c", "openai_base_url={origin}/v1", "exec", "--trust",
        "--dangerously-bypass-hook-trust", "--skip-git-repo-check", "--color", "never",
        "--sandbox", "danger-full-access",
    ),
    "gemini": ("gemini", "--approval-mode", "yolo", "-p"),
    "copilot": ("copilot", "--allow-all-tools", "--trust-folder", "--no-color", "-p"),
}  # fmt: skip
_TERMINAL = {
    "claude": ("claude", "--permission-mode", "acceptEdits", "--allowedTools=Bash"),
    "codex": (
        "codex", "--dangerously-bypass-hook-trust", "--sandbox", "danger-full-access",
        "--ask-for-approval", "never",
    ),
    "gemini": ("gemini", "--approval-mode", "yolo"),
    "copilot": ("copilot", "--allow-all-tools"),
}  # fmt: skip
#: What a terminal shows, without its spaces, that waits for a prompt.
_READY = {
    "claude": "shift+tabtocycle",
    "codex": "AskCodex",
    "gemini": "Typeyourmessage",
    "copilot": "/commands",
}
_ESCAPES = re.compile(
    r"\x1b(\[[0-9;?<>=]*[a-zA-Z]|\][^\x07\x1b]*(\x07|\x1b\\)|[()][A-Z0-9]|[=>78])"
)


class Ended(NamedTuple):
    """A session that is over; ``printed`` has what the program said to the person."""

    code: int
    printed: str
    requests: list[Request]


def shell(agent: str, command: str) -> Use:
    """The call by which a model has ``agent`` run a command."""
    tool, argument = _SHELLS[agent]
    more = {} if agent == "codex" else {"description": "work"}
    return Use(tool, {argument: command, **more})


def spawn(agent: str) -> Use:
    """The call by which a model has ``agent`` start a subagent."""
    return _SPAWNS[agent]


def is_subagent(request: Request) -> bool:
    """Whether a subagent asks, and not the session itself."""
    if "x-openai-subagent" in request.body.get("client_metadata", {}):
        return True
    messages = request.body.get("messages") or [None]
    return _TASK in json.dumps(messages[0])


def endpoint_variables(agent: str, origin: str) -> dict[str, str]:
    """What leads ``agent`` to an endpoint."""
    return {
        "aider": {"OPENAI_API_KEY": "k", "OPENAI_API_BASE": f"{origin}/v1"},
        "codex": {"CODEX_API_KEY": "k", "OPENAI_BASE_URL": f"{origin}/v1"},
        "claude": {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": origin},
        "gemini": {
            "GOOGLE_API_KEY": "k",
            "GOOGLE_GENAI_USE_VERTEXAI": "true",
            "GOOGLE_VERTEX_BASE_URL": origin,
        },
        "copilot": {
            "COPILOT_OFFLINE": "true",
            "COPILOT_PROVIDER_BASE_URL": origin,
            "COPILOT_PROVIDER_TYPE": "anthropic",
            "COPILOT_PROVIDER_API_KEY": "k",
            "COPILOT_MODEL": "claude-sonnet-4.5",
        },
    }[agent]


def search_path(first: Path | None = None) -> str:
    """Where programs are found; with ``first``, that is where ``rlm-ci`` is, or is not."""
    folders = [str(TOOLS / "node_modules/.bin"), *os.environ["PATH"].split(os.pathsep)]
    if first is None:
        return os.pathsep.join([sysconfig.get_path("scripts"), *folders])
    others = (one for one in folders if not os.path.exists(os.path.join(one, "rlm-ci")))
    return os.pathsep.join([str(first), *others])


def headless(
    agent: str, repository: Path, script: Script, *, env: Mapping[str, str] | None = None
) -> Ended:
    """A session that carries out one prompt. ``script`` is the model."""
    with AgentEndpoint(script) as endpoint:
        ended = subprocess.run(
            [*(word.format(origin=endpoint.origin) for word in _HEADLESS[agent]), PROMPT],
            cwd=repository,
            env={**_environment(agent, endpoint.origin, repository), **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    return Ended(ended.returncode, ended.stdout + ended.stderr, endpoint.requests)


def on_terminal(agent: str, repository: Path, script: Script, *, until: str) -> str:
    """What a person reads in whose terminal a session carries out a prompt.

    Ends when ``until`` is there: letters and signs without the spaces between them, as a program
    may move the cursor instead of writing a space. Without it, after a minute.
    """
    with AgentEndpoint(script) as endpoint:
        env = _environment(agent, endpoint.origin, repository)
        _set_up(agent, repository, env)
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(repository)
            os.execvpe(_TERMINAL[agent][0], _TERMINAL[agent], {**env, "TERM": "xterm-256color"})
        termios.tcsetwinsize(terminal, (50, 160))
        try:
            return _typed(terminal, _READY[agent], until)
        finally:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
            os.close(terminal)


def _typed(terminal: int, ready_sign: str, until: str) -> str:
    """Type the prompt once the program waits for one; what it shows."""
    shown, text = b"", ""
    end, asked, quiet_since = time.monotonic() + 60, False, time.monotonic()
    while time.monotonic() < end and until not in text:
        ready, _, _ = select.select([terminal], [], [], 0.2)
        if ready:
            try:
                data = os.read(terminal, 1 << 16)
            except OSError:
                break
            for question, answer in ((b"\x1b[6n", b"\x1b[1;1R"), (b"\x1b[c", b"\x1b[?62;c")):
                if question in data:
                    os.write(terminal, answer)
            shown, quiet_since = shown + data, time.monotonic()
            text = re.sub(r"\s", "", _ESCAPES.sub("", shown.decode(errors="replace")))
        elif ready_sign in text and not asked and time.monotonic() > quiet_since + 1:
            asked = True
            os.write(terminal, PROMPT.encode())
            time.sleep(0.5)  # what comes at once is pasted, where Enter is a new line
            os.write(terminal, b"\r")
    return text


def _environment(agent: str, origin: str, repository: Path) -> dict[str, str]:
    home = repository.parent / "home"
    home.mkdir(exist_ok=True)
    return {
        **closed_environment(),
        **endpoint_variables(agent, origin),
        "PATH": search_path(),
        "HOME": str(home),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
        "COPILOT_CACHE_HOME": str(repository.parents[1] / "copilot-cache"),
        "COPILOT_AUTO_UPDATE": "false",
    }


def _set_up(agent: str, repository: Path, env: dict[str, str]) -> None:
    """Answer beforehand what the program asks at its first start."""
    home = repository.parent / "home"
    if agent == "claude":
        state = {
            "hasCompletedOnboarding": True,
            "theme": "dark",
            "customApiKeyResponses": {"approved": ["k"], "rejected": []},
            "projects": {str(repository): {"hasTrustDialogAccepted": True}},
        }
        (home / ".claude.json").write_text(json.dumps(state))
    elif agent == "gemini":
        (home / ".gemini").mkdir(exist_ok=True)
        settings = {"security": {"auth": {"selectedType": "vertex-ai"}}}
        (home / ".gemini/settings.json").write_text(json.dumps(settings))
    elif agent == "copilot":
        env["COPILOT_ALLOW_ALL"] = "true"  # trusts the folder, too
    else:
        (home / ".codex").mkdir(exist_ok=True)
        base = json.dumps(env["OPENAI_BASE_URL"])
        project = f"[projects.{json.dumps(str(repository))}]\n"
        config = f'openai_base_url = {base}\n{project}trust_level = "trusted"\n'
        (home / ".codex/config.toml").write_text(config)
        login = ["codex", "login", "--with-api-key"]
        subprocess.run(login, env=env, input=b"k", capture_output=True, check=True)
