"""The record of a session's start: outside the tree, with objects of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from rlm_ci.agent_hooks import session as sessions
from rlm_ci.agent_hooks.work_tree import SessionTree
from rlm_ci.errors import ConfigError
from rlm_ci.git.repository import Repository
from testing.agent_session import AgentSession, begun

if TYPE_CHECKING:
    from pathlib import Path

    from testing.program import Cli
    from testing.repositories.git_repo import GitRepo


def _loaded(folder: Path) -> sessions.AgentSession:
    session = sessions.load(str(folder))
    assert session is not None
    return session


def test_it_holds_uncommitted_work_and_changes_nothing_of_the_user(repo: GitRepo, cli: Cli) -> None:
    repo.write(".gitignore", "ignored.txt\n").write("shop.py", "PRICE = 1\n").commit()
    repo.write("shop.py", "PRICE = 2\n").write("new.txt", "new\n").write("ignored.txt", "x\n")
    before = repo.run("for-each-ref"), repo.run("count-objects"), repo.run("status", "--porcelain")
    index = (repo.path / ".git" / "index").read_bytes()
    session = AgentSession(repo, cli)
    assert session.start() == ""
    after = repo.run("for-each-ref"), repo.run("count-objects"), repo.run("status", "--porcelain")
    assert (after, (repo.path / ".git" / "index").read_bytes()) == (before, index)
    (folder,) = session.records
    record = _loaded(folder)
    repository = Repository(str(repo.path), str(repo.path / ".git"), os.environ)
    reader = SessionTree(repository, str(folder), os.environ).reader()
    assert reader.tree(record.tree).keys() == {".gitignore", "new.txt", "shop.py"}
    assert reader.read(f"{record.commit}:shop.py") == [b"PRICE = 2\n"]
    assert record.head == repo.run("rev-parse", "HEAD").decode().strip()
    assert (folder / "session.json").stat().st_mode & 0o077 == 0 or os.name != "posix"


def test_a_session_that_is_seen_again_keeps_its_record(repo: GitRepo, cli: Cli) -> None:
    session = begun(repo, cli)
    (folder,) = session.records
    first = _loaded(folder)
    repo.write("shop.py", "PRICE = 2\n")
    for source in ("resume", "compact", "clear"):
        assert session.start(source=source) == ""
    assert _loaded(folder) == first
    AgentSession(repo, cli, name="another").start(source="clear")
    AgentSession(repo, cli, agent="codex").start()
    assert len(session.records) == 3


def test_before_the_first_commit(repo: GitRepo, cli: Cli) -> None:
    session = AgentSession(repo, cli)
    assert session.start() == ""
    repo.write("big.txt", "a\n" * 2000)
    assert "diff-budget/lines" in session.stop()["reason"]


def test_each_work_tree_has_its_own_records(repo: GitRepo, cli: Cli, tmp_path: Path) -> None:
    begun(repo, cli)
    repo.run("worktree", "add", "-q", str(tmp_path / "other"))
    event = json.dumps({"session_id": "session-1", "cwd": str(tmp_path / "other")})
    ended = cli("agent-hook", "session-start", "--agent", "claude", stdin=event)
    assert (ended.code, ended.stdout) == (0, "")
    assert list(repo.path.glob(".git/worktrees/other/rlm-ci/agent-sessions/*/session.json"))


def test_old_records_go(repo: GitRepo, cli: Cli) -> None:
    session = begun(repo, cli)
    (old,) = session.records
    days = time.time() - 15 * 86_400
    os.utime(old / "session.json", (days, days))
    AgentSession(repo, cli, name="young").start()
    assert len(session.records) == 1
    assert old not in session.records


def test_variables_of_settings_are_those_of_the_start(repo: GitRepo, cli: Cli) -> None:
    session = begun(repo, cli, env={"DIFF_BUDGET_MAX_LINES": "7", "OPENAI_API_KEY": "sk-secret"})
    record = _loaded(session.records[0])
    assert record.environment["DIFF_BUDGET_MAX_LINES"] == "7"
    assert "sk-secret" not in (session.records[0] / "session.json").read_text()
    now = {"PATH": "/bin", "TEST_GUARD_OVERRIDE_REASON": "mine", "DIFF_BUDGET_MAX_LINES": "9"}
    seen = sessions.environment(record, now)
    assert (seen["PATH"], seen["DIFF_BUDGET_MAX_LINES"]) == ("/bin", "7")
    assert "TEST_GUARD_OVERRIDE_REASON" not in seen


@pytest.mark.parametrize("text", ["", "{}", "[]", "[" * 10_000, "null"])
def test_a_damaged_record_is_named(repo: GitRepo, cli: Cli, text: str) -> None:
    session = begun(repo, cli)
    (session.records[0] / "session.json").write_text(text)
    with pytest.raises(ConfigError, match="cannot be read"):
        sessions.load(str(session.records[0]))
    message = session.stop()["systemMessage"]
    assert "judged nothing: the record of the session's start cannot be read" in message


def test_a_record_with_other_values_is_damaged(repo: GitRepo, cli: Cli) -> None:
    session = begun(repo, cli)
    record = _loaded(session.records[0]).to_dict()
    settings = record["configuration"]
    for field, value in (
        ("commit", "--output=x"), ("blocks", "no"), ("blocks", -100), ("started", "now"),
        ("released", 3), ("configuration", {}), ("configuration", {**settings, "max_blocks": -1}),
        ("configuration", {**settings, "timeout": 0}),
        ("configuration", {**settings, "enabled": 0}),
    ):  # fmt: skip
        (session.records[0] / "session.json").write_text(json.dumps({**record, field: value}))
        with pytest.raises(ConfigError):
            sessions.load(str(session.records[0]))


def test_a_stop_that_has_nothing_to_say_loads_no_judge(repo: GitRepo, cli: Cli) -> None:
    session = begun(repo, cli)
    event = json.dumps({"session_id": session.name, "cwd": str(repo.path)}).encode()
    code = (
        "import sys\nfrom rlm_ci.cli import main\n"
        "main(['agent-hook', 'stop', '--agent', 'claude'])\nprint(*sys.modules)"
    )
    ended = subprocess.run(
        [sys.executable, "-I", "-c", code], cwd=repo.path, input=event, capture_output=True,
        check=True,
    )  # fmt: skip
    loaded = set(ended.stdout.decode().split())
    heavy = {"rlm_ci.judge.judge", "rlm_ci.checks", "rlm_ci.system.lock", "hashlib", "tempfile"}
    assert "rlm_ci.agent_hooks.session" in loaded
    assert not heavy & loaded


@pytest.mark.skipif(os.name != "posix", reason="links")
@pytest.mark.parametrize("name", ["rlm-ci", "rlm-ci/agent-sessions"])
def test_nothing_is_written_or_removed_behind_a_link(
    repo: GitRepo, cli: Cli, tmp_path: Path, name: str
) -> None:
    target = tmp_path / "of the user"
    for folder in (target / "old", target / "agent-sessions" / "old"):
        folder.mkdir(parents=True)
        os.utime(folder, (1, 1))
    repo.write("a.txt", "a\n").commit()
    link = repo.path / ".git" / name
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(target)
    assert "it is a link, not a folder" in AgentSession(repo, cli).start()
    assert {path.name for path in target.rglob("*")} == {"old", "agent-sessions"}
