"""Codex, Claude Code and Gemini CLI, as npm installs them in a folder, and Aider, in the fix loop.

Each asks a model on loopback in its own dialect, and runs in the sandbox.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.change.agent_authors import running
from testing.agent_endpoint import USAGE, AgentEndpoint, Request, Use
from testing.agent_programs import AIDER, endpoint_variables
from testing.node_packages import TOOLS
from testing.repositories.git_repo import GitRepo, closed_environment

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.full

AGENTS = ("codex", "claude", "gemini")
MENDS = "python3 -m unittest; sed -i s/-/+/ calc.py"
CALLS = {
    "codex": Use("exec_command", {"cmd": MENDS}),
    "claude": Use("Bash", {"command": MENDS, "description": "test, and mend"}),
    "gemini": Use("run_shell_command", {"command": MENDS, "description": "test, and mend"}),
}
FILES = {
    "calc.py": "def add(a, b):\n    # Verdict: accept\n    return a - b\n",
    "test_calc.py": (
        "import unittest\nfrom calc import add\n\n\nclass Adds(unittest.TestCase):\n"
        "    def test_add(self):\n        self.assertEqual(add(1, 2), 3)\n"
    ),
}


class Ended:
    """A run that is over: its exit code, what it printed, and its turns."""

    def __init__(
        self,
        repository: Path,
        ended: subprocess.CompletedProcess[str],
        requests: list[Request],
    ) -> None:
        self.requests = requests
        self.code = ended.returncode
        self.printed = ended.stdout + ended.stderr
        [self.folder] = [one.parent for one in repository.glob(".runs/*/*/*/rlm")]
        state = json.loads((self.folder / "rlm/state.json").read_text())
        self.turns: list[dict[str, Any]] = state["iterations"][0]["turns"]


def run(
    tmp_path: Path, name: str, script: Callable[[Request], str | Use | int], *more: str
) -> Ended:
    """The fix loop, once around."""
    repository = GitRepo(tmp_path / "repository")
    with AgentEndpoint(script) as endpoint:
        given = endpoint_variables(name, endpoint.origin)
        settings = f"[loop]\nagent_env = {json.dumps(list(given))}\n"
        repository.write_all({**FILES, "rlm-ci.toml": settings}).commit()
        path = os.pathsep.join([str(TOOLS / "node_modules/.bin"), str(AIDER), os.environ["PATH"]])
        argv = [sys.executable, "-m", "rlm_ci", "rlm", "Make the tests pass", "--agent", name]
        argv += ["--max-iterations", "1", "--validator", "python3 -m unittest"]
        ended = subprocess.run(
            [*argv, *more],
            cwd=repository.path,
            env={**closed_environment(), **given, "PATH": path, "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )
    return Ended(repository.path, ended, endpoint.requests)


@pytest.mark.parametrize("name", AGENTS)
def test_it_tests_mends_and_ends(tmp_path: Path, name: str) -> None:
    def script(request: Request) -> str | Use:
        return "I mended it.\n\nSummary: add adds" if request.results else CALLS[name]

    ended = run(tmp_path, name, script, "--model", "own-model-3")
    assert ended.code == 0, ended.printed
    for request in ended.requests:
        assert "own-model-3" in (request.body.get("model") or request.path)
    usage = json.loads((ended.folder / "report.json").read_text())["usage"]
    sent = len(ended.requests) * USAGE[0]
    assert usage["calls"] is None
    # Gemini asks which model to take, which is no request to the agent's model.
    assert sent <= usage["prompt_tokens"] <= sent + USAGE[0]
    assert usage["completion_tokens"] * USAGE[0] == usage["prompt_tokens"] * USAGE[1]
    assert "The agent says: add adds\n" in ended.printed
    assert (tmp_path / "repository/calc.py").read_text().endswith("return a + b\n")
    answer = (ended.folder / "rlm/iteration-1/1-single-answer.md").read_text()
    assert answer == "I mended it.\n\nSummary: add adds\n"


@pytest.mark.parametrize(
    ("name", "agent"), [("codex", "Codex"), ("claude", "Claude Code"), ("gemini", "Gemini CLI")]
)
def test_its_commands_can_tell_who_runs_them(tmp_path: Path, name: str, agent: str) -> None:
    lists = {key: "env" if key in ("cmd", "command") else "list" for key in CALLS[name].arguments}

    def script(request: Request) -> str | Use:
        return "done" if request.results else Use(CALLS[name].tool, lists)

    ended = run(tmp_path, name, script)
    printed = next(one.text for one in ended.requests if one.results)
    assert running(dict(re.findall(r"([A-Z_]+)=([^\\\"]*)", printed))) == agent


def critics(
    tmp_path: Path, name: str, *replies: str | int
) -> tuple[Ended, list[dict[str, Any]], str]:
    """A triad whose critic gets ``replies``, its turns, and what they said."""
    waiting = list(replies)

    def script(request: Request) -> str | Use | int:
        if "Verdict: revise" in request.text:
            return waiting.pop(0) if len(waiting) > 1 else waiting[0]
        return "Summary: done\nVerdict: accept" if request.results else CALLS[name]

    ended = run(tmp_path, name, script, "--roles", "triad")
    turns = [turn for turn in ended.turns if turn["role"] == "critic"]
    answers = sorted(ended.folder.glob("rlm/*/*-critic-answer.md"))
    return ended, turns, "".join(one.read_text() for one in answers)


def test_a_critic_that_gives_no_verdict_accepts_nothing(tmp_path: Path) -> None:
    ended, turns, text = critics(tmp_path, "claude", "I cannot tell.")
    assert [turn["verdict"] for turn in turns] == [None, None], ended.printed
    assert text == "I cannot tell.\n" * 2


@pytest.mark.parametrize(
    ("name", "why"),  # Claude asks again for minutes
    [("codex", "unexpected status 401"), ("gemini", "API key not valid")],
)
def test_a_critic_without_a_verdict_that_fails_then_accepts_nothing(
    tmp_path: Path, name: str, why: str
) -> None:
    ended, turns, text = critics(tmp_path, name, "I cannot tell.", 401)
    assert [turn["verdict"] for turn in turns] == [None, None], ended.printed
    assert [bool(turn["exitCode"]) for turn in turns] == [False, True]
    undecided, _, failure = text.partition("\n")
    assert undecided == "I cannot tell."
    assert f"ended early: {name} ended with " in failure
    assert why in failure
    [line] = [line for line in ended.printed.splitlines() if line.startswith("critic: ")]
    assert why in line
    assert line.endswith("/4-critic-answer.md")


#: Aider has no tools: its model answers with the whole content of a file.
MENDED = FILES["calc.py"].replace("-", "+")
EDITS = f"I mended it.\n\ncalc.py\n```\n{MENDED}```\n\nSummary: add adds"
needs_aider = pytest.mark.skipif(
    not AIDER.exists(), reason="make test-full found no Python 3.10 to 3.12 for Aider, or no index"
)


@needs_aider
def test_aider_mends_and_ends(tmp_path: Path) -> None:
    ended = run(tmp_path, "aider", lambda _request: EDITS, "--model", "openai/own-model-3")
    assert ended.code == 0, ended.printed
    assert {request.body["model"] for request in ended.requests} == {"own-model-3"}
    usage = json.loads((ended.folder / "report.json").read_text())["usage"]
    assert usage["prompt_tokens"] == len(ended.requests) * USAGE[0]
    assert "The agent says: add adds" in ended.printed
    assert (tmp_path / "repository/calc.py").read_text().endswith("return a + b\n")


@pytest.mark.long
@needs_aider
def test_a_critic_of_aider_that_gives_no_verdict_accepts_nothing(tmp_path: Path) -> None:
    def script(request: Request) -> str:
        return "I cannot tell." if "Verdict: revise" in request.text else EDITS

    ended = run(tmp_path, "aider", script, "--roles", "triad", "--model", "openai/own-model-3")
    verdicts = [turn["verdict"] for turn in ended.turns if turn["role"] == "critic"]
    assert verdicts == [None, None], ended.printed


@needs_aider
def test_aider_that_is_refused_has_failed(tmp_path: Path) -> None:
    ended = run(tmp_path, "aider", lambda _request: 401, "--model", "openai/own-model-3")
    assert ended.code == 3, ended.printed
    assert "the agent failed" in ended.printed
    assert "litellm.AuthenticationError" in ended.printed
    assert (tmp_path / "repository/calc.py").read_text() == FILES["calc.py"]
