"""What a history tells of files and people."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from rlm_ci.errors import DamagedError
from rlm_ci.git.history import GitHistory, of_lines
from rlm_ci.git.repository import Repository, discover

if TYPE_CHECKING:
    from pathlib import Path

    from testing.repositories.git_repo import GitRepo


def repository(repo: GitRepo) -> Repository:
    root, git_dir = discover(os.fspath(repo.path))
    return Repository(root, git_dir, os.environ)


def chronicle(repo: GitRepo, limit: int = 1000) -> GitHistory:
    return GitHistory.of(repository(repo), repo.sha(), limit)


def commit_as(repo: GitRepo, name: str, **more: str) -> None:
    repo.stage()
    who = {"GIT_AUTHOR_NAME": name, "GIT_AUTHOR_EMAIL": "x@secret.example"}
    repo.run("commit", "-q", "-m", "x", env={**repo.clock(), **who, **more})


def test_what_is_changed_often_and_much_comes_first(repo: GitRepo) -> None:
    repo.write("calm.py", "a\n" * 30).write("gone.py", "a\n")
    repo.write("hot.py", "a\n").write("bild.png", b"\0\1")
    commit_as(repo, "Ada")
    for number in range(5):
        repo.write("hot.py", f"{number}\n" * 20)
        commit_as(repo, "Grace")
    repo.remove("gone.py").commit()
    found = chronicle(repo)
    assert [(one.path, one.commits, one.lines) for one in found.hot] == [
        ("hot.py", 6, 1 + 21 + 4 * 40), ("calm.py", 1, 30), ("bild.png", 1, 0),
    ]  # fmt: skip
    assert found.hot[0].last == "2026-01-05"
    assert (found.commits, found.note) == (7, "")
    names = [name for name, _ in found.owners("hot.py")]
    assert names == ["Grace", "Ada"]
    assert sum(share for _, share in found.owners("hot.py")) == 1
    assert found.owners("none") == ()


def test_a_file_that_moves_keeps_its_history(repo: GitRepo) -> None:
    rows = "".join(f"row {number}\n" for number in range(40))
    repo.write("pkg/a.py", rows).write("b.py", "b\n")
    commit_as(repo, "Ann")
    repo.write("pkg/a.py", f"{rows}bob\n")
    commit_as(repo, "Bob")
    repo.remove("pkg/a.py").write("src/pkg/a.py", f"{rows}bob\n")
    commit_as(repo, "Cy")
    repo.write("pkg/a.py", "another\n" * 9)  # where it was, is something else
    commit_as(repo, "Dee")
    repo.remove("src/pkg/a.py").write("src/pkg/\tz.py", f"{rows}bob and cy\n")
    commit_as(repo, "Cy")
    found = chronicle(repo)
    hot = {one.path: (one.commits, one.lines) for one in found.hot}
    assert hot == {"src/pkg/\tz.py": (4, 43), "pkg/a.py": (1, 9), "b.py": (1, 1)}
    assert found.owners("src/pkg/\tz.py")[0][0] == "Ann"
    assert {name for name, _ in found.owners("src/pkg/\tz.py")} == {"Ann", "Bob", "Cy"}
    assert found.owners("pkg/a.py") == (("Dee", 1.0),)


def test_long_ago_counts_less(repo: GitRepo) -> None:
    long_ago = {"GIT_COMMITTER_DATE": "1500000000 +0000"}
    repo.write("a.py", "a\n" * 10)
    commit_as(repo, "Ada", **long_ago)
    repo.write("a.py", "b\n" * 3)
    commit_as(repo, "Grace")
    assert chronicle(repo).owners("a.py")[0][0] == "Grace"


def test_names_carry_no_address_and_nothing_that_cannot_be_seen(repo: GitRepo) -> None:
    repo.write("a.py", "1\n")
    commit_as(repo, "ada@secret.example")
    repo.write("a.py", "1\n2\n")
    commit_as(repo, "Eve \u202e\x01 12\t3\t/etc")
    repo.write("a.py", "1\n2\n3\n")
    commit_as(repo, "@")
    found = chronicle(repo).owners("a.py")
    assert {name for name, _ in found} == {"ada", "Eve \\u202e\\x01 12 3 /etc", "somebody"}


def test_strange_paths_are_counted_as_they_are(repo: GitRepo) -> None:
    names: list[str | bytes] = [
        "a\nb.py",
        "\x01" + "0" * 40,
        "t\tab",
        "1\t2\tx",
        "é.py",
        b"\xff.py",
    ]
    for name in names:
        repo.write(name, "x\n")
    repo.commit()
    expected = {os.fsdecode(name) if isinstance(name, bytes) else name for name in names}
    assert {one.path for one in chronicle(repo).hot} == expected


def test_a_hostile_configuration_changes_nothing(repo: GitRepo, tmp_path: Path) -> None:
    repo.write("a.py", "1\n2\n").write(".mailmap", "Nobody <x@secret.example>\n")
    commit_as(repo, "Ada")
    plain = chronicle(repo)
    trap = tmp_path / "trap"
    repo.write(".gitattributes", "*.py diff=evil filter=evil\n").commit()
    for key, value in {
        "diff.evil.command": f"touch {trap}", "diff.evil.textconv": f"touch {trap}",
        "diff.external": f"touch {trap}", "log.mailmap": "true", "mailmap.file": ".mailmap",
        "log.showSignature": "true", "gpg.program": f"touch {trap}", "format.pretty": "evil",
        "log.follow": "true", "log.decorate": "full", "core.quotePath": "true",
        "diff.noprefix": "true", "diff.renames": "copies", "log.date": "human",
        "core.fsmonitor": f"touch {trap}", "alias.log": f"!touch {trap}", "log.diffMerges": "on",
        "diff.orderFile": "/nonexistent", "notes.displayRef": "*", "diff.relative": "true",
    }.items():  # fmt: skip
        repo.config(key, value)
    found = chronicle(repo)
    assert found.owners("a.py") == plain.owners("a.py") == (("Ada", 1.0),)
    assert not trap.exists()


def test_what_was_not_read_is_said(repo: GitRepo, tmp_path: Path) -> None:
    for number in range(4):
        repo.write("a.py", f"{number}\n").commit()
    assert chronicle(repo, 2).note == "only the last 2 commits were read"
    clone = repo.clone(tmp_path / "clone", depth=2)
    found = chronicle(clone)
    assert "shallow" in found.note
    assert [(one.commits, one.lines) for one in found.hot] == [(1, 2)]


def test_the_commits_of_some_lines_come_with_their_differences(repo: GitRepo) -> None:
    repo.write("a.py", "one\ntwo\nthree\n").commit("Begin")
    repo.write("a.py", "ONE\ntwo\nthree\n").commit("Shout")
    repo.write("a.py", "ONE\ntwo\n3\n").commit("Count")
    repo.run("config", "log.showSignature", "true")
    said = of_lines(repository(repo), repo.sha(), "a.py", 1, 2).decode()
    assert [line.rpartition(": ")[2] for line in said.splitlines() if line[:7] == "commit "] == [
        "Shout", "Begin",
    ]  # fmt: skip
    assert "-one\n+ONE\n" in said
    for path, line in (("a.py", 9), ("none.py", 1)):
        with pytest.raises(DamagedError):
            of_lines(repository(repo), repo.sha(), path, line, line)
