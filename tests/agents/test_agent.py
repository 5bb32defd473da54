"""What an agent is, which there are, and what cannot be bounded."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from rlm_ci.agents import agent
from rlm_ci.agents.agent import Assignment
from rlm_ci.agents.autofix import AutofixAgent
from rlm_ci.agents.external import PROGRAMS, ExternalAgent, summary
from rlm_ci.errors import ConfigError, DamagedError, UsageError
from rlm_ci.fix.participants import RecordedAgent
from testing.agent_workspaces import Folder

if TYPE_CHECKING:
    from pathlib import Path

    from rlm_ci.agents.agent import Agent
    from rlm_ci.workspace.workspace import Workspace


def external(name: str = "codex") -> Agent:
    return ExternalAgent(name, env={}, find=lambda _name: None, redact=str)


def autofix() -> Agent:
    return AutofixAgent(find=lambda _name: None, redact=str)


def test_the_known_agents() -> None:
    assert tuple(agent.AGENTS) == ("openai", "codex", "claude", "gemini", "aider", "autofix")
    assert set(PROGRAMS) < set(agent.AGENTS)
    for name in agent.AGENTS:
        assert agent.command_of(name) is None


@pytest.mark.parametrize("name", ["cortex", "", "Codex", "a\u202eb", "openai\n"])
def test_an_unknown_name_lists_the_known(name: str) -> None:
    with pytest.raises(ConfigError) as raised:
        agent.command_of(name)
    assert raised.value.code == 5
    assert "openai, codex, claude, gemini, aider, autofix" in raised.value.hint
    assert raised.value.what.isprintable()


def test_anything_with_a_space_or_a_path_is_a_command() -> None:
    for text, argv in (
        ("./fix.sh", ("./fix.sh",)),
        ("/opt/agent --prompt {prompt_file}", ("/opt/agent", "--prompt", "{prompt_file}")),
        ('my-agent --note "a b"', ("my-agent", "--note", "a b")),
    ):
        command = agent.command_of(text)
        assert command is not None
        assert command.argv == argv
        assert not command.in_shell
    piped = agent.command_of("cat | tee /dev/null")
    assert piped is not None
    assert piped.in_shell
    with pytest.raises(UsageError):
        agent.command_of('agent "unclosed')


def test_budgets_need_a_ledger_that_sees_the_calls() -> None:
    nothing: dict[str, object] = {"max_calls": None, "max_tokens": None, "budget_usd": None}
    agent.require_metered(external(), nothing)
    agent.require_metered(autofix(), {**nothing, "budget_usd": 1})
    for name in nothing:
        with pytest.raises(ConfigError) as raised:
            agent.require_metered(external("aider"), {**nothing, name: 0})
        assert raised.value.code == 5
        assert name in raised.value.what
        assert "aider" in raised.value.what
        assert "--max-minutes" in raised.value.hint


@pytest.mark.parametrize(
    ("output", "told"),
    [
        ("thinking\nSummary: mended a.py\n", "mended a.py"),
        ("Summary: first\nmore\n**Summary:** second\nand a line\n", "second\nand a line"),
        ("no such line\nat all", "no such line\nat all"),
        ("Summary:\n", "Summary:"),
        ("", ""),
    ],
)
def test_what_an_agent_says_of_its_work(output: str, told: str) -> None:
    assert summary(output) == told


def test_a_summary_is_bounded() -> None:
    assert len(summary("Summary: " + "x" * 100_000)) < 4200
    assert len(summary("x" * 100_000)) == 4000


class Restored(Folder):
    """A copy that must not be asked to hold what is no tree."""

    def restore(self, tree: str) -> None:
        raise AssertionError(tree)


@pytest.mark.parametrize("tree", ["--index-output=/tmp/x", "HEAD", "1" * 39, None, 7])
def test_a_tree_that_the_record_names_is_the_id_of_one(tree: object, tmp_path: Path) -> None:
    """It is put on the command lines of git, and the record may come from anywhere."""
    record = {"exit_code": 0, "summary": "", "output": "", "reason": "", "tree": tree}
    folder = Restored(tmp_path)
    taken = RecordedAgent(autofix(), lambda *_: record, cast("Workspace", folder))
    with pytest.raises(DamagedError, match="something that is not a tree") as raised:
        taken.act(Assignment("agent", 1, "go", folder, []))
    assert raised.value.code == 6
