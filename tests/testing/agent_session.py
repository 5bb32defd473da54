"""A session of a coding agent, as its program says it to the hooks."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from testing.program import Cli, Ended
    from testing.repositories.git_repo import GitRepo

TESTS = "def test_sum():\n    assert 1 + 1 == 2\n    assert 2 > 1\n"
WEAKER = "def test_sum():\n    assert 1 + 1 == 2\n"


@dataclass
class AgentSession:
    """Events of a session of ``agent`` in ``repo``; the person started it with ``env``."""

    repo: GitRepo
    cli: Cli
    agent: str = "claude"
    name: str = "session-1"
    env: dict[str, str] = field(default_factory=dict)

    def event(self, event: str, **fields: Any) -> Ended:
        """What the hook ends with; each one ends with 0."""
        told = {"session_id": self.name, "cwd": str(self.repo.path), **fields}
        ended = self.cli(
            "agent-hook", event, "--agent", self.agent, cwd=self.repo.path, env=self.env,
            stdin=json.dumps(told),
        )  # fmt: skip
        assert ended.code == 0, ended
        return ended

    def start(self, **fields: Any) -> str:
        """What a session's start prints."""
        return self.event("session-start", **fields).stdout

    def stop(self, **fields: Any) -> dict[str, Any]:
        """The answer to a stop; empty where nothing is printed."""
        ended = self.event("stop", **fields)
        answer: dict[str, Any] = json.loads(ended.stdout or "{}")
        return answer

    @property
    def records(self) -> list[Path]:
        """The folders of the recorded sessions."""
        return sorted(self.repo.path.glob(".git/rlm-ci/agent-sessions/*"))


def begun(repo: GitRepo, cli: Cli, **fields: Any) -> AgentSession:
    """A session that has begun in a repository with a test."""
    repo.write("tests/test_sum.py", TESTS).write("shop.py", "PRICE = 1\n").commit()
    session = AgentSession(repo, cli, **fields)
    assert session.start() == ""
    return session
