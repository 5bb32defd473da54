"""The validator judges what a session changed, if a setting asks for it, in the sandbox."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest

from testing.agent_session import TESTS, AgentSession

if TYPE_CHECKING:
    from testing.program import Cli
    from testing.repositories.git_repo import GitRepo

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap")

CONFIG = '[agent_hooks]\nvalidator = true\n[loop]\nvalidator = "sh check.sh"\n'
CHECK = 'grep -q "PRICE = 1" shop.py || { echo "shop.py:1: error: wrong price"; exit 1; }\n'


def _session(repo: GitRepo, cli: Cli, config: str = CONFIG, **env: str) -> AgentSession:
    repo.write("rlm-ci.toml", config).write("check.sh", CHECK).write("shop.py", "PRICE = 1\n")
    repo.write("tests/test_sum.py", TESTS).commit()
    return AgentSession(repo, cli, env=env)


def test_a_failure_holds_until_it_is_mended(repo: GitRepo, cli: Cli) -> None:
    session = _session(repo, cli)
    assert session.start() == ""
    repo.write("shop.py", "PRICE = 2\n")
    reason = session.stop()["reason"]
    assert "the validator fails: sh check.sh: exit code 1" in reason
    # The validator is that of the session's start.
    repo.write("rlm-ci.toml", CONFIG.replace("sh check.sh", "true"))
    assert "the validator fails" in session.stop()["reason"]
    repo.write("shop.py", "PRICE = 1\n")
    assert session.stop() == {}


@pytest.mark.full
def test_a_failure_from_before_holds_nobody(repo: GitRepo, cli: Cli) -> None:
    session = _session(repo, cli)
    repo.write("shop.py", "PRICE = 3\n")
    assert session.start() == ""
    repo.write("shop.py", "PRICE = 3\nNAME = 'a'\n")
    message = session.stop()["systemMessage"]
    assert "the validator failed before this session, too" in message
    assert session.stop() == {}


@pytest.mark.full
def test_one_that_does_not_end_holds_nobody(repo: GitRepo, cli: Cli) -> None:
    session = _session(repo, cli, RLM_CI_AGENT_HOOKS_TIMEOUT="6")
    repo.write("check.sh", "sleep 60\n").commit()
    assert session.start() == ""
    repo.write("shop.py", "PRICE = 2\n")
    message = session.stop()["systemMessage"]
    assert "could not run: the validator does not end within the time of a hook" in message


def test_where_there_is_none_the_person_is_told_at_the_start(repo: GitRepo, cli: Cli) -> None:
    session = _session(repo, cli, "[agent_hooks]\nvalidator = true\n")
    message = json.loads(session.start())["systemMessage"]
    assert "rlm-ci runs no validator in this session: no validator was found" in message
    repo.write("shop.py", "PRICE = 2\n")
    assert session.stop() == {}


@pytest.mark.full
def test_a_program_that_is_missing_holds_nobody(repo: GitRepo, cli: Cli) -> None:
    session = _session(repo, cli, CONFIG.replace("sh check.sh", "no-such-program"))
    session.start()
    repo.write("shop.py", "PRICE = 2\n")
    message = session.stop()["systemMessage"]
    assert "the validator could not run" in message
    assert "no-such-program" in message
