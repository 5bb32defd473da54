"""A context of a commit: what is read, what is left out, and that nothing is checked out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rlm_ci.context.builder import sources
from rlm_ci.context.builder.build import build
from rlm_ci.context.builder.sources import CommitFiles
from rlm_ci.errors import ConfigError
from rlm_ci.git.repository import Repository

if TYPE_CHECKING:
    from pathlib import Path

    from testing.repositories.git_repo import GitRepo


@pytest.fixture
def files(repo: GitRepo) -> CommitFiles:
    repo.write("a.txt", "one\n").write("b.txt", "no end").write("c.txt", "").write("d.bin", b"\0x")
    repo.write("sub/\n-x.txt", "odd\n").write("large.txt", "x" * 100).symlink("out", "/etc/passwd")
    commit = repo.commit("All")
    repo.remove("a.txt").write("b.txt", "of the work tree")
    return CommitFiles(Repository(str(repo.path), str(repo.path / ".git"), {}), commit)


def test_the_texts_of_the_commit_are_joined(
    files: CommitFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "_FILE", 99)
    monkeypatch.setattr(sources, "_AT_ONCE", 5)
    with build(files, str(tmp_path / "context")) as context:
        assert context.raw(0, context.byte_length) == b"one\nno end\nodd\n"
        tree = files.repository.tree(files.commit)
        found = {one.path: (one.start, one.end, one.blob) for one in context.files}
        assert found == {
            "a.txt": (0, 4, tree["a.txt"].oid), "b.txt": (4, 10, tree["b.txt"].oid),
            "c.txt": (10, 10, tree["c.txt"].oid),
            "sub/\n-x.txt": (11, 15, tree["sub/\n-x.txt"].oid),
        }  # fmt: skip
        assert context.omitted == {"binary": 1, "large": 1, "link": 1}


def test_a_commit_that_is_too_large_is_refused(
    files: CommitFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "_ALL", 100)
    with pytest.raises(ConfigError, match="more than 300,000 or 100"):
        build(files, str(tmp_path / "context"))
    assert not (tmp_path / "context").exists()
