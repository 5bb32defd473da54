"""Trees as files: in layers, and nothing written beside the folder."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from rlm_ci.errors import RlmCiError
from rlm_ci.git.repository import Repository, discover
from rlm_ci.workspace.tree import Tree, apply_patch, lay, make_folder
from testing.workspaces import held

if TYPE_CHECKING:
    from pathlib import Path

    from testing.repositories.git_repo import GitRepo


def repository_of(repo: GitRepo) -> Repository:
    return Repository(*discover(os.fspath(repo)), os.environ)


def test_no_link_of_a_tree_leads_out_of_the_folder(repo: GitRepo, tmp_path: Path) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "folder"
    outside.mkdir()
    folder.mkdir()
    os.symlink(outside, repo.path / "sub")
    head = repo.write("a.py", "x").commit()

    def made(*words: str, rows: str) -> str:
        return repo.run(*words, stdin=rows.encode()).decode().strip()

    blob = made("hash-object", "-w", "--stdin", rows=str(outside))
    inner = made("mktree", rows=f"120000 blob {blob}\tlink\n")
    # A tree that no git makes: a link, and a folder of the same name with a link in it.
    both = f"120000 blob {blob}\tsub\n040000 tree {inner}\tsub\n"
    odd = made("mktree", rows=both)
    found = Repository(*discover(os.fspath(repo)), os.environ)
    for tree in (Tree.at(found, head), Tree.at(found, odd)):
        lay(str(folder), tree)
    assert os.path.islink(folder / "sub")
    assert not make_folder(str(folder), "sub")
    assert not make_folder(str(folder), "sub/node_modules")
    assert list(outside.iterdir()) == []


def test_the_first_layer_holds_and_the_last_has_its_links(repo: GitRepo, tmp_path: Path) -> None:
    os.symlink("a.py", repo.path / "old-link")
    base = repo.write("a.py", "old").write("b.py", "old").commit()
    os.symlink("a.py", repo.path / "new-link")
    head = repo.write("a.py", "new").write("b.py", "new").commit()
    found = repository_of(repo)
    folder = tmp_path / "tree"
    folder.mkdir()
    only = Tree.at(found, base).only(lambda path: path != "b.py")
    lay(str(folder), only, Tree.at(found, head).only(lambda path: path != "old-link"))
    assert (folder / "a.py").read_text() == "old"
    assert (folder / "b.py").read_text() == "new"
    assert os.readlink(folder / "new-link") == "a.py"
    assert not os.path.lexists(folder / "old-link")


def test_attributes_and_filters_of_a_tree_are_nothing_to_it(repo: GitRepo, tmp_path: Path) -> None:
    repo.run("config", "filter.evil.smudge", f"touch {tmp_path}/ran; cat")
    repo.write(".gitattributes", "*.txt text eol=crlf ident filter=evil\n")
    head = repo.write("a.txt", "$Id$\nx\n").commit()
    (tmp_path / "ran").unlink(missing_ok=True)
    folder = tmp_path / "tree"
    folder.mkdir()
    lay(str(folder), Tree.at(repository_of(repo), head))
    assert (folder / "a.txt").read_bytes() == b"$Id$\nx\n"
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("name", [".git", ".GIT", "git~1", ".g\u200cit", ".."])
def test_what_may_be_gits_own_folder_is_not_written(
    repo: GitRepo, tmp_path: Path, name: str
) -> None:
    blob = repo.run("hash-object", "-w", "--stdin", stdin=b"[core]\n").decode().strip()
    inner = repo.run("mktree", stdin=f"100644 blob {blob}\tconfig\n".encode()).decode().strip()
    rows = f"040000 tree {inner}\t{name}\n100644 blob {blob}\tx.py\n"
    odd = repo.run("mktree", stdin=rows.encode()).decode().strip()
    folder = tmp_path / "tree"
    folder.mkdir()
    lay(str(folder), Tree.at(repository_of(repo), odd))
    assert held(str(folder)) == {"x.py"}
    assert not (tmp_path / "config").exists()


def test_a_patch_that_leads_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "tree"
    folder.mkdir()
    (folder / "a.py").write_text("x\n")
    os.symlink(tmp_path, folder / "up")
    edit = "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-x\n+y\n"
    apply_patch(edit.encode(), str(folder), os.environ)
    assert (folder / "a.py").read_text() == "y\n"
    for path in ("../made.py", "up/made.py", ".git/config"):
        patch = f"--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n"
        with pytest.raises(RlmCiError):
            apply_patch(patch.encode(), str(folder), os.environ)
    assert not (tmp_path / "made.py").exists()
