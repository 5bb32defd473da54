"""What a session changed: its own work alone, as the work tree is."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from testing.agent_session import TESTS, WEAKER, AgentSession, begun

if TYPE_CHECKING:
    from pathlib import Path

    from testing.program import Cli
    from testing.repositories.git_repo import GitRepo

TEST = "tests/test_sum.py"
OTHER = "tests/test_other.py"


@pytest.fixture
def session(repo: GitRepo, cli: Cli, tmp_path: Path) -> AgentSession:
    """A session on a branch, while others weakened a test on the remote's default branch."""
    repo.write(OTHER, TESTS).write(TEST, TESTS).commit()
    repo.run("clone", "-q", "--bare", str(repo.path), str(tmp_path / "remote"))
    repo.run("remote", "add", "origin", str(tmp_path / "remote"))
    repo.run("checkout", "-q", "-b", "theirs")
    repo.write(OTHER, WEAKER).write("big.txt", "a\n" * 2000).commit()
    repo.run("push", "-q", "origin", "theirs:main")
    repo.run("checkout", "-q", "-b", "work", "main")
    repo.run("update-ref", "refs/remotes/origin/main", "main")
    session = begun(repo, cli)
    repo.write("mine.txt", "a\n").commit()
    repo.run("fetch", "-q", "origin")
    return session


@pytest.mark.parametrize("how", ["merge", "rebase"])
def test_the_work_of_others_is_not_judged(repo: GitRepo, session: AgentSession, how: str) -> None:
    repo.run(how, "-q", "origin/main")
    taken = repo.run("rev-parse", "origin/main").decode()[:12]
    assert (
        f"what the remote's default branch has up to {taken} is not judged"
        in session.stop()["systemMessage"]
    )
    repo.write(TEST, WEAKER)
    reason = session.stop()["reason"]
    assert "found 1 problem" in reason
    assert f"{TEST}:3" in reason
    repo.write(TEST, TESTS).write(OTHER, "def test_sum():\n    pass\n")
    assert OTHER in session.stop()["reason"]


def test_a_branch_that_the_agent_pushed_is_its_own(repo: GitRepo, session: AgentSession) -> None:
    repo.write(TEST, WEAKER).commit()
    repo.run("push", "-q", "origin", "work")
    assert TEST in session.stop()["reason"]


def test_a_large_file_is_named_and_the_rest_is_judged(repo: GitRepo, cli: Cli) -> None:
    session = begun(repo, cli)
    with open(repo.path / "dump.sql", "wb") as stream:
        stream.truncate(10 << 30)
    note = "dump.sql has more than 16 MiB: it counts as removed, and nothing in it is judged"
    assert note in session.stop()["systemMessage"]
    assert session.stop() == {}
    repo.write("tests/test_sum.py", WEAKER)
    assert "tests/test_sum.py" in session.stop()["reason"]


def test_a_test_file_that_became_large_is_a_removed_one(repo: GitRepo, cli: Cli) -> None:
    session = begun(repo, cli)
    with open(repo.path / "tests" / "test_sum.py", "ab") as stream:
        stream.truncate(10 << 30)
    reason = session.stop()["reason"]
    assert "tests/test_sum.py" in reason
    assert "keep the file below 16 MiB" in reason


def test_tests_that_began_with_a_conflict_are_named_once(repo: GitRepo, cli: Cli) -> None:
    repo.write("tests/test_sum.py", TESTS).write("shop.py", "PRICE = 1\n").commit()
    repo.run("checkout", "-q", "-b", "other")
    repo.write("tests/test_sum.py", TESTS.replace("2 > 1", "3 > 1")).commit()
    repo.run("checkout", "-q", "-")
    repo.write("tests/test_sum.py", TESTS.replace("2 > 1", "4 > 1")).commit()
    subprocess.run(["git", "merge", "-q", "other"], cwd=repo.path, check=False, capture_output=True)
    session = AgentSession(repo, cli)
    assert session.start() == ""
    assert session.stop() == {}
    repo.write("tests/test_sum.py", WEAKER).write("shop.py", "PRICE = 2\n")
    note = "tests/test_sum.py began with a conflict in it: its tests are not compared"
    assert note in session.stop()["systemMessage"]
    assert session.stop() == {}
