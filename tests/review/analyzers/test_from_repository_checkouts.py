"""A tree as files, with the base's settings over it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from rlm_ci.git.repository import Repository, discover
from rlm_ci.review.analyzers.from_repository import TOOLS, lay
from rlm_ci.workspace.tree import Tree

if TYPE_CHECKING:
    from pathlib import Path

    from testing.repositories.git_repo import GitRepo


def listed(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_the_base_has_its_settings_and_the_head_its_code(repo: GitRepo, tmp_path: Path) -> None:
    repo.write("pyproject.toml", "old").write("src/a.py", "old").write("src/.eslintrc", "old")
    base = repo.write("Cargo.toml", "old").write("gone.py", "old").write("b.py", "old").commit()
    repo.write("pyproject.toml", "new").write("src/a.py", "new").write("mypy.ini", "new")
    repo.write("src/.eslintrc", "new").write("Cargo.toml", "new").write("b.py", "new")
    repo.run("rm", "-q", "gone.py")
    head = repo.commit()
    found = Repository(*discover(os.fspath(repo)), os.environ)
    trees = [Tree.at(found, one) for one in (base, head)]
    whole, part = tmp_path / "whole", tmp_path / "part"
    lay(trees[1], trees[0], str(whole))
    same = {"pyproject.toml": "old", "src/.eslintrc": "old", "Cargo.toml": "new"}
    assert listed(whole) == {**same, "src/a.py": "new", "b.py": "new"}
    lay(trees[1], trees[0], str(part), {"b.py"}, trees[0])
    assert listed(part) == {**same, "src/a.py": "new", "b.py": "old"}


def test_a_head_sets_up_no_tool(repo: GitRepo, tmp_path: Path) -> None:
    """Whatever is known to set one up is a setting, wherever it lies, and in any base."""
    plain = ("rust-toolchain", "rust-toolchain.toml", ".cargo/config", ".cargo/config.toml")
    names = {
        name.replace("y*ml", "yml").replace("config.*", "config.mjs").replace("*", "")
        for tool in TOOLS
        if tool.is_whole
        for name in (*tool.configs, *(path for path, _ in tool.sections), *plain)
    } - {"Cargo.toml"}
    base = repo.write("a.py", "old").commit()
    for name in names:
        repo.write(name, "new").write(f"inner/{name}", "new")
    head = repo.write("a.py", "new").commit()
    found = Repository(*discover(os.fspath(repo)), os.environ)
    lay(Tree.at(found, head), Tree.at(found, base), str(tmp_path / "tree"))
    assert listed(tmp_path / "tree") == {"a.py": "new"}
