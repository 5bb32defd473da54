"""Files that a change leaves alone, found by the names in them, or read after it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from rlm_ci.change import change_set
from rlm_ci.checks._test_guard import UnchangedFiles, text_of
from rlm_ci.git.repository import Repository, discover

if TYPE_CHECKING:
    from testing.repositories.git_repo import GitRepo

TEST = "def test_sum():\n    assert 1 + 1 == 2\n"


def rest(repo: GitRepo, kind: str, limit: int = 1000) -> UnchangedFiles:
    opened = Repository(*discover(os.fspath(repo)), os.environ)
    return UnchangedFiles(change_set.from_local(opened, kind), limit)


def test_tests_with_a_name_are_found_in_files_that_did_not_change(repo: GitRepo) -> None:
    repo.write_all({"tests/test_a.py": TEST, "tests/test_b.py": TEST, "b.py": TEST})
    repo.write("tests/test_c.py", TEST.replace("test_sum", "test_summary"))
    repo.write("tests/test_large.py", TEST + "#" * 1000).commit()
    repo.write("tests/test_a.py", "")
    for kind in ("worktree", "index"):
        found = list(rest(repo.stage(), kind).with_names({"test_sum", "", "x" * 1000}))
        assert found == [("tests/test_b.py", TEST)]
    assert list(rest(repo, "index").with_names({"--help", "$(id)\n-e"})) == []


def test_before_the_first_commit_there_is_nothing(repo: GitRepo) -> None:
    repo.write("tests/test_a.py", TEST).stage()
    assert list(rest(repo, "index").with_names({"test_sum"})) == []


def test_files_are_read_as_they_are_after_the_change(repo: GitRepo) -> None:
    repo.write_all({"a.sh": "old\n", "large.sh": "x" * 2000, "b.sh": "b\r\n"}).commit()
    repo.write("a.sh", "staged\n").stage().write("a.sh", "new\n")
    asked = ["a.sh", "b.sh", "large.sh", "none.sh", "../a.sh"]
    assert rest(repo, "index").read(asked) == {"a.sh": "staged\n", "b.sh": "b\n"}
    assert rest(repo, "worktree").read(asked) == {"a.sh": "new\n", "b.sh": "b\n"}


def test_of_a_partial_clone_nothing_is_known(repo: GitRepo) -> None:
    repo.write("tests/test_a.py", TEST).write("tests/test_b.py", TEST).commit()
    blob = repo.sha("HEAD:tests/test_b.py")
    repo.write("tests/test_a.py", "").stage()
    (repo.path / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    assert list(rest(repo, "index").with_names({"test_sum"})) == []
    assert text_of(None) is None


def test_the_paths_are_those_that_did_not_change(repo: GitRepo) -> None:
    repo.write_all({"a.py": "", "b.py": "", "tests/test_c.py": TEST}).commit()
    repo.write("a.py", "1").write("new.py", "").stage()
    assert rest(repo, "index").paths() == {"b.py", "tests/test_c.py"}
