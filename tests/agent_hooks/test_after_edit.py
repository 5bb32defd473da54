"""After an edit an agent is advised once to split its work, if a setting asks for it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from testing.agent_session import begun

if TYPE_CHECKING:
    from testing.program import Cli
    from testing.repositories.git_repo import GitRepo

FORMS = {
    "claude": lambda answer: answer["hookSpecificOutput"]["additionalContext"],
    "codex": lambda answer: answer["hookSpecificOutput"]["additionalContext"],
    "copilot": lambda answer: answer["additionalContext"],
    "cursor": lambda answer: answer["additional_context"],
    "gemini": lambda answer: answer["hookSpecificOutput"]["additionalContext"],
}


@pytest.mark.parametrize("agent", FORMS)
def test_an_agent_is_advised_once(repo: GitRepo, cli: Cli, agent: str) -> None:
    repo.write("rlm-ci.toml", "[agent_hooks]\nafter_edit = true\n[diff_budget]\nmax_lines = 100\n")
    session = begun(repo, cli, agent=agent)
    assert session.event("after-edit").stdout == ""
    repo.write("big.txt", "a\n" * 79)
    assert session.event("after-edit").stdout == ""
    repo.write("big.txt", "a\n" * 80)
    advice = FORMS[agent](json.loads(session.event("after-edit").stdout))
    assert advice.startswith("rlm-ci: this session has changed 80 lines of the 100 that one")
    assert "Split here" in advice
    assert session.event("after-edit").stdout == ""


def test_it_is_off_by_default(repo: GitRepo, cli: Cli) -> None:
    session = begun(repo, cli)
    repo.write("big.txt", "a\n" * 2000)
    assert session.event("after-edit").stdout == ""
