"""Other spellings of ``.git``: ours is git's own judgement of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rlm_ci.workspace.lookalike_names import place_of_git, plain
from rlm_ci.workspace.snapshot import PrivateGit, is_inside

if TYPE_CHECKING:
    from pathlib import Path

ZWNJ, BOM, NO_BREAK = "\u200c", "\ufeff", "\u00a0"
NAMES = (
    ".git", ".GIT", f".g{ZWNJ}it", f"{BOM}.git", f".Gi{ZWNJ}{BOM}T", "git~1", "GIT~1", ".git.",
    ".git ", ".git . .", "git~1.", ".git::$INDEX_ALLOCATION", ".git:x", "git~1:x", ".git\\x",
    "a\\.git\\x", "a\\git~1", ".gitx", ".git~1", "git~2", "git~10", "git", ".gi", "x.git",
    ".git x", f".git{NO_BREAK}", ".github", f".g{ZWNJ}ithub", "git~1x", ".gıt",
    ".git.x", "...", "a:b", "a.", "\u206a.git", "\u202e.git", "\u2010.git",
)  # fmt: skip


@pytest.mark.sample(2)
@pytest.mark.parametrize("place", ["{}", "{}/hooks/x", "sub/{}", "sub/{}/hooks/x"])
def test_what_git_takes_for_its_own_folder_is_known(tmp_path: Path, place: str) -> None:
    private = PrivateGit(str(tmp_path / "git"), {"PATH": "/usr/bin:/bin"})
    private.make(())
    oid = private.write(str(tmp_path), "i", "hash-object", "-w", "--stdin", stdin=b"x")
    for name in NAMES:
        path = place.format(name)
        argv = ("update-index", "--add", "--cacheinfo", f"100644,{oid.decode().strip()},{path}")
        added = private.write(str(tmp_path), "i", *argv, ok=(0, 128, 1))
        listed = private.read(str(tmp_path), "i", "ls-files", "-z").decode().split("\0")
        assert (path in listed) == (place_of_git(path) is None), (path, added)
        assert is_inside(path) == (place_of_git(path) is None)
        private.write(str(tmp_path), "i", "read-tree", "--empty")


def test_a_name_is_read_as_other_systems_would() -> None:
    assert plain(f"a/.g{ZWNJ}it/x") == "a/.git/x"
    assert plain("a\\b/c. ./d:e/f~1") == "a/b/c/d/f~1"
    assert plain("Src/App.py") == "Src/App.py"
    assert plain("...") == "..."
    assert plain("src/é.py") == "src/é.py"


def test_both_at_once_is_refused_though_git_keeps_it() -> None:
    assert place_of_git(f"a/g{ZWNJ}it~1/x") == 1
