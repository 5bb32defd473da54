"""The task of a session: a variable's, that of a line in a prompt, or the branch's."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from rlm_ci.agent_hooks import session as sessions
from rlm_ci.agent_hooks import subagents
from rlm_ci.agent_hooks.dialects import Event
from rlm_ci.config.options import AGENT_HOOKS
from rlm_ci.errors import ConfigError
from testing.agent_session import AgentSession
from testing.change_sets import repository
from testing.repositories.delegated_runs import guard_runs, registered, write_index

if TYPE_CHECKING:
    from testing.program import Cli
    from testing.repositories.git_repo import GitRepo

SHIP, TAX = "0142-ship", "0143-tax"
EVENT = Event("subagent-start", "claude", session_id="s-1")


@pytest.fixture
def shop(repo: GitRepo) -> GitRepo:
    """A repository in which two tasks are registered."""
    write_index(repo.path, registered(SHIP, TAX))
    repo.commit("Index")
    return repo


@pytest.mark.parametrize(
    ("prompt", "task"),
    [
        (f"Mend it.\n  Task: {SHIP}\n", SHIP),
        (f"Task: {SHIP}-docs", SHIP),
        (f"Task: {SHIP}\nTask: {TAX}", TAX),
        (f"Task: {SHIP}\nTask: nobody", SHIP),
        (f"do Task: {SHIP}", ""),
        ("Task: mend the tests", ""),
        ("Task:", ""),
        ("", ""),
    ],
)
def test_a_line_of_a_prompt_names_a_registered_task(shop: GitRepo, prompt: str, task: str) -> None:
    assert subagents.of_prompt(prompt, repository(shop)) == task


def test_a_variable_goes_before_a_line_and_a_line_before_the_branch(shop: GitRepo) -> None:
    opened = repository(shop)
    assert subagents.of_session(EVENT, opened, None) == ""
    for branch, task in ((f"me/{SHIP}-fix", SHIP), (f"{TAX}/nobody", TAX), ("nobody", "")):
        shop.checkout(branch, new=True)
        assert subagents.of_session(EVENT, opened, None) == task
    shop.run("checkout", "-q", f"me/{SHIP}-fix")
    folder = sessions.folder_of(opened, EVENT)
    os.makedirs(folder)
    for line, task in ((TAX, TAX), ("nobody", SHIP)):
        rows = (row for row in AGENT_HOOKS if row.file)
        configuration = {row.key.partition(".")[2]: row.default for row in rows}
        session = sessions.AgentSession("0" * 40, "0" * 40, None, 0.0, configuration=configuration)
        sessions.save(folder, session.replace(task=line))
        assert subagents.of_session(EVENT, opened, None) == task
    assert subagents.of_session(EVENT, opened, "any-task") == "any-task"
    with pytest.raises(ConfigError, match="is not a task id"):
        subagents.of_session(EVENT, opened, "no task")
    (shop.path / "tasks" / "index.json").write_text("{")
    assert subagents.of_session(EVENT, opened, None) == ""


@pytest.mark.parametrize("first", ["session-start", "prompt"])
def test_the_task_of_a_prompt_asks_for_a_subagent_at_the_stop(
    shop: GitRepo, cli: Cli, first: str
) -> None:
    session = AgentSession(shop, cli)
    session.event(first, prompt=f"Mend it.\nTask: {SHIP}")
    shop.write("shop.py", "PRICE = 2\n")
    reason = session.stop()["reason"]
    assert f"{SHIP} has no subagent run" in reason
    assert "To mend it: start a subagent for a part of this work" in reason
    guard_runs(shop.path / ".runs", SHIP)
    assert session.stop() == {}
    shop.write("shop.py", "PRICE = 3\n")
    session.event("prompt", prompt=f"Task: {TAX}")
    session.event("subagent-start", prompt=f"Task: {SHIP}", agent_id="a", agent_type="Explore")
    assert (shop.path / ".runs" / f"{TAX}-Explore").is_dir()
    assert session.stop() == {}


def test_the_prompt_of_a_subagent_is_no_session_s(shop: GitRepo, cli: Cli) -> None:
    session = AgentSession(shop, cli, agent="copilot")
    for event in ("session-start", "prompt", "stop"):
        assert session.event(event, agentId="a9d7", prompt=f"Task: {SHIP}").stdout == ""
    assert session.records == []
