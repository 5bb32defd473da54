"""Sessions of the real programs, with the hooks that ``rlm-ci init`` writes for them.

Each asks a model on loopback in its own dialect. Cursor has no program that runs without its
service: what it says and takes is tested by its documented JSON alone, in test_dialects.py,
test_stop.py and test_subagents.py.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from testing.agent_programs import headless, is_subagent, on_terminal, search_path, shell, spawn

if TYPE_CHECKING:
    from pathlib import Path

    from testing.agent_endpoint import Request, Use
    from testing.program import Cli
    from testing.repositories.git_repo import GitRepo

pytestmark = pytest.mark.full

AGENTS = ("claude", "codex", "gemini", "copilot")
#: Those whose hooks hear of subagents: Gemini CLI has no event for them.
WITH_SUBAGENTS = ("claude", "codex", "copilot")
TEST = "test_calc.py"
FILES = {
    "calc.py": "def add(a, b):\n    return a + b\n",
    TEST: (
        "import unittest\n\nfrom calc import add\n\n\nclass Adds(unittest.TestCase):\n"
        "    def test_add(self):\n        self.assertEqual(add(1, 2), 3)\n"
        "        self.assertEqual(add(2, 2), 4)\n"
    ),
}
WEAKENS = f"sed -i '/add(2, 2)/d' {TEST}"
WORKS = "printf '\\n\\ndef sub(a, b):\\n    return a - b\\n' >> calc.py"
HELD = "rlm-ci found 1 problem in what this session changed"
TASK = "shop-1"
INDEX = {"items": [{"id": TASK, "title": "the shop", "status": "in_progress"}]}


@pytest.fixture
def repository(repo: GitRepo) -> GitRepo:
    repo.write_all(FILES).commit()
    return repo


def with_hooks(repository: GitRepo, cli: Cli, agent: str) -> Path:
    ended = cli("init", "--agents", agent, cwd=repository.path)
    assert ended.code == 0, ended
    repository.commit()
    return repository.path


@pytest.mark.parametrize("agent", AGENTS)
def test_one_that_weakens_a_test_is_held_mends_it_and_ends(
    repository: GitRepo, cli: Cli, agent: str
) -> None:
    def script(request: Request) -> str | Use:
        if not request.results:
            return shell(agent, WEAKENS)
        if HELD not in request.text:
            return "All is done."
        return "It is mended." if request.results > 1 else shell(agent, f"git checkout {TEST}")

    ended = headless(agent, with_hooks(repository, cli, agent), script)
    assert ended.code == 0, ended.printed
    assert "It is mended." in ended.printed
    prompt = ended.requests[-1].text
    assert prompt.count(HELD) == 1
    assert "test_calc.py:9 (as it was): Adds.test_add no longer says" in prompt, prompt[-2000:]
    assert "To mend it: bring the assertion back" in prompt
    assert (repository.path / TEST).read_text() == FILES[TEST]


@pytest.mark.parametrize("agent", AGENTS)
def test_one_that_does_nothing_wrong_is_not_held(repository: GitRepo, cli: Cli, agent: str) -> None:
    def script(request: Request) -> str | Use:
        return "All is done." if request.results else shell(agent, WORKS)

    ended = headless(agent, with_hooks(repository, cli, agent), script)
    assert ended.code == 0, ended.printed
    assert "def sub" in (repository.path / "calc.py").read_text()
    assert "All is done." in ended.printed
    assert "rlm-ci found" not in "".join(request.text for request in ended.requests)
    assert "rlm-ci judged nothing" not in ended.printed
    [record] = repository.path.glob(".git/rlm-ci/agent-sessions/*/session.json")
    assert json.loads(record.read_text())["unchanged"], "the stop was not judged"


@pytest.mark.parametrize("agent", AGENTS)
def test_one_that_mends_nothing_is_let_go(repository: GitRepo, cli: Cli, agent: str) -> None:
    def script(request: Request) -> str | Use:
        return "All is done." if request.results else shell(agent, WEAKENS)

    ended = headless(agent, with_hooks(repository, cli, agent), script)
    assert ended.code == 0, ended.printed
    assert ended.requests[-1].text.count(HELD) == 2
    if agent in ("gemini", "copilot"):  # the others say it on a terminal only, see below
        assert f"rlm-ci lets {agent} stop after 2 reminders, with 1 problem" in ended.printed
        assert "test_calc.py:9 (as it was)" in ended.printed


@pytest.mark.parametrize("agent", AGENTS)
def test_the_person_at_the_terminal_is_told(repository: GitRepo, cli: Cli, agent: str) -> None:
    def script(request: Request) -> str | Use:
        return "All is done." if request.results else shell(agent, WEAKENS)

    path = with_hooks(repository, cli, agent)
    let_go = f"rlm-cilets{agent}stopafter2reminders,with1problem"
    shown = on_terminal(agent, path, script, until=let_go)
    assert let_go in shown, shown[-3000:]


@pytest.mark.parametrize("agent", WITH_SUBAGENTS)
def test_a_subagent_satisfies_the_guard_and_becomes_a_receipt(
    repository: GitRepo, cli: Cli, agent: str
) -> None:
    def script(request: Request) -> str | Use:
        if is_subagent(request):
            return "It adds.\nNothing else."
        if not request.results:
            return spawn(agent)
        if request.results == 1:
            return shell(agent, f"{WORKS}; sleep 2")
        return "All is done."

    repository.write("tasks/index.json", json.dumps(INDEX))
    path = with_hooks(repository, cli, agent)
    guard = ("check", "delegation-guard", "--task", TASK)
    assert cli(*guard, cwd=path).code == 1
    ended = headless(agent, path, script, env={"MCP_RUNNER_TASK_ID": TASK})
    assert ended.code == 0, ended.printed
    assert "rlm-ci found" not in "".join(request.text for request in ended.requests)
    [manifest] = path.glob(f".runs/{TASK}-*/cli/*/manifest.json")
    assert json.loads(manifest.read_text())["status"] == "succeeded"
    assert cli(*guard, cwd=path).code == 0
    listed = cli("list", cwd=path)
    assert manifest.parent.name in listed.stdout, listed
    repository.commit()
    receipt = cli("receipt", "--task", TASK, cwd=path)
    assert receipt.code == 0, receipt
    assert manifest.parent.name in (path / f".delegation/{TASK}.json").read_text()


@pytest.mark.parametrize("agent", WITH_SUBAGENTS)
def test_one_without_the_subagent_that_its_task_wants_is_held(
    repository: GitRepo, cli: Cli, agent: str
) -> None:
    def script(request: Request) -> str | Use:
        return "All is done." if request.results else shell(agent, WORKS)

    repository.write("tasks/index.json", json.dumps(INDEX))
    path = with_hooks(repository, cli, agent)
    ended = headless(agent, path, script, env={"MCP_RUNNER_TASK_ID": TASK})
    assert ended.requests[-1].text.count(HELD) == 2


#: A program, and what a person reads of it where the agent shows that.
BROKEN = {
    "missing": ("", "rlm-ci: command not found"),
    "older": (
        "#!/bin/sh\necho \"error: unknown command 'agent-hook'\" >&2\nexit 2\n",
        "error: unknown command 'agent-hook'",
    ),
    "crashing": ("#!/bin/sh\necho 'MemoryError' >&2\nexit 1\n", "MemoryError"),
}
SAYS = {"claude": "Stop hook error occurred", "codex": "hook: Stop Failed"}


@pytest.mark.parametrize("how", BROKEN)
@pytest.mark.parametrize("agent", AGENTS)
def test_without_a_whole_rlm_ci_it_goes_on_and_says_so(
    repository: GitRepo, cli: Cli, tmp_path: Path, agent: str, how: str
) -> None:
    def script(request: Request) -> str | Use:
        return "All is done." if request.results else shell(agent, WEAKENS)

    path = with_hooks(repository, cli, agent)
    content, says = BROKEN[how]
    programs = tmp_path / "programs"
    programs.mkdir()
    if content:
        (programs / "rlm-ci").write_text(content)
        (programs / "rlm-ci").chmod(0o755)
    ended = headless(agent, path, script, env={"PATH": search_path(programs)})
    assert ended.code == 0, ended.printed
    assert "All is done." in ended.printed
    assert sum(request.results == 1 for request in ended.requests) == 1, "it was held"
    assert SAYS.get(agent, says) in ended.printed
