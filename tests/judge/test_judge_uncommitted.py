"""Uncommitted work is named where it is not judged, once, and only where it might be meant."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from testing.program import Cli
    from testing.repositories.git_repo import GitRepo

NOTE = "with uncommitted changes"


@pytest.fixture
def work(repo: GitRepo) -> GitRepo:
    """A branch with one commit, and with four files that are not committed."""
    repo.write(".gitignore", ".runs/\nout/\n").write_all({"a.py": "1\n", "b.py": "1\n"}).commit()
    repo.checkout("topic", new=True).write("a.py", "2\n").commit()
    repo.write("a.py", "3\n").write("staged.py", "1\n").stage("staged.py")
    repo.write("new.py", "1\n").write(".venv/x.py", "1\n")
    repo.path.joinpath("b.py").unlink()
    return repo


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("command", "noted"),
    [
        ("check diff-budget --base main --format json", True),
        ("check --commit HEAD", False),
        ("check --base main~0 --head main", False),
        ("check --base main", True),
        ("check --base main --head HEAD", True),
        ("pr --base main --no-publish", True),
        ("pr --no-publish", True),
        ("review --base main", True),
        ("check", False),
        ("check --staged", False),
        ("check --base main --quiet", False),
        ("review --worktree", False),
    ],
)
def test_which_commands_say_so(cli: Cli, work: GitRepo, command: str, *, noted: bool) -> None:
    ended = cli(*command.split(), cwd=work)
    assert ended.code in (0, 5 if "review" in command else 0), ended
    said = "note: 4 files with uncommitted changes are not part of this; rlm-ci check checks them"
    assert ended.stderr.count(NOTE) == noted, ended
    assert (said in ended.stderr.splitlines()) is noted
    assert NOTE not in ended.stdout


@pytest.mark.full
def test_a_review_of_head_says_how_to_look_at_them(cli: Cli, work: GitRepo) -> None:
    ended = cli("review", cwd=work)
    assert "4 files with uncommitted changes are not part of this; --worktree" in ended.stderr


def test_of_a_clean_tree_nothing_is_said_and_one_file_is_one(cli: Cli, work: GitRepo) -> None:
    work.run("add", "-A", ":!.venv")
    work.run("commit", "-qm", "All")
    assert NOTE not in cli("check", "--base", "main", cwd=work).stderr
    work.write("one.py", "1\n")
    assert (
        "1 file with uncommitted changes is not part"
        in cli("check", "--base", "main", cwd=work).stderr
    )
    # The hook of a push says nothing of them.
    line = f"refs/heads/topic {work.sha()} refs/heads/topic {work.sha('main')}\n"
    assert NOTE not in cli("check", "--hook", "pre-push", cwd=work, stdin=line).stderr


def test_no_filter_runs_and_an_unfiltered_tree_is_clean(cli: Cli, work: GitRepo) -> None:
    work.write(".gitattributes", "*.py filter=upper\n")
    work.config("filter.upper.clean", "tr a-z A-Z; touch ran").config(
        "filter.upper.required", "true"
    )
    ended = cli("check", "--base", "main", cwd=work)
    assert "5 files with uncommitted changes" in ended.stderr
    assert not work.path.joinpath("ran").exists()


def test_what_cannot_be_listed_is_said(cli: Cli, work: GitRepo) -> None:
    work.path.joinpath(".git/index").write_bytes(b"damaged")
    ended = cli("check", "--base", "main", cwd=work)
    assert (
        "note: uncommitted changes are not part of this, and could not be listed:" in ended.stderr
    )
