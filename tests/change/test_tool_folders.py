"""Folders that tools fill: named, and no part of a change that nobody staged."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from rlm_ci.change import change_set, tool_folders
from rlm_ci.git.repository import Repository, discover
from testing.repositories.changes import numbered

if TYPE_CHECKING:
    from testing.repositories.git_repo import GitRepo


@pytest.mark.parametrize(
    ("path", "folder"),
    [
        (".venv/lib/x.py", ".venv/"),
        ("services/api/venv/bin/python", "services/api/venv/"),
        ("target/debug/target/x.o", "target/"),
        (".tox/py313/x", ".tox/"),
        ("env/lib/x.py", "env/"),
        ("cache/deep/x", "cache/"),
        ("a/node_modules/b/.venv/x", "a/node_modules/"),
        ("src/environment.py", ""),
        ("targets/x", ""),
        ("target", ""),
        ("other/xpyvenv.cfg", ""),
    ],
)
def test_what_is_such_a_folder(path: str, folder: str) -> None:
    marks = ["env/pyvenv.cfg", "cache/CACHEDIR.TAG", "CACHEDIR.TAG"]
    rest, inside = tool_folders.part([path, *marks])
    assert (path in rest) is not bool(folder)
    assert inside.get(folder, 0) == (1 if folder else 0) + (folder in ("env/", "cache/"))
    assert "CACHEDIR.TAG" in rest, "the top level is never left out"


def test_the_largest_are_listed() -> None:
    inside = {"a/": 1, "b/": 1200, "c\n/": 2, "d/": 1, "e/": 1}
    said = tool_folders.listed(inside)
    assert said == "b/ (1,200 files), c\\n/ (2 files), a/ (1 file) and 2 more folders"


def test_only_untracked_files_are_left_out(repo: GitRepo) -> None:
    repo.write("venv/tracked.py", "1\n").commit("Start")
    repo.write("venv/tracked.py", "2\n").write("app.py", "1\n")
    repo.write_all({f"venv/lib/{n}.py": numbered(9) for n in range(3)})
    repo.write("web/target/x.js", "1\n")
    change = change_set.from_local(Repository(*discover(os.fspath(repo)), os.environ), "worktree")
    assert sorted(one.path for one in change.files()) == ["app.py", "venv/tracked.py"]
    assert change.untracked.left_out == {"venv/": 3, "web/target/": 1}
    repo.run("add", "-A")
    assert len(change.replace(trigger="index").files()) == 6, "what is staged counts"
