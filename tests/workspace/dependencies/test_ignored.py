"""Which ignored paths a validator is given, and which are left out and named."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from rlm_ci.workspace.dependencies.ignored import dependency_folders
from testing.workspaces import held, workspace

if TYPE_CHECKING:
    from pathlib import Path

    from testing.repositories.git_repo import GitRepo

RULES = """\
node_modules/
.venv
vendor
target/
deps
env
.env
.yarn/*
!.yarn/releases
"""


def test_dependencies_at_any_depth_are_seen_and_the_rest_is_named(
    project: GitRepo, tmp_path: Path
) -> None:
    project.write(".gitignore", RULES).write(".yarn/releases/yarn.cjs", "1\n")
    project.write("services/api/app.py", "1\n").write("src/vendor/kept.py", "1\n")
    project.run("add", "-f", "src/vendor/kept.py")
    project.commit()
    dependencies = {
        "packages/group/app/node_modules", "services/api/.venv", "services/api/vendor",
        "engine/deps", "tools/env", ".yarn/cache", ".yarn/install-state.gz",
    }  # fmt: skip
    for name in dependencies - {".yarn/install-state.gz"}:
        project.write(f"{name}/pkg/file", "1\n")
    project.write(".yarn/install-state.gz", "1\n").write("tools/env/pyvenv.cfg", "home = /\n")
    for name in ("services/api/target/classes/A.class", "services/api/.env", "a/__pycache__/b.pyc"):
        project.write(name, "1\n")
    space = workspace(project, tmp_path / "run")
    assert set(space.snapshot.dependencies) == dependencies
    assert set(space.snapshot.ignored) == {"services/api/target", "services/api/.env"}
    assert "src/vendor/kept.py" in held(space.path)
    shown = {os.path.relpath(mount.target, project.path) for mount in space.shown().mounts()}
    assert dependencies <= shown
    assert space.tree() == space.snapshot.tree
    again = workspace(project, tmp_path / "run")
    assert again.snapshot == space.snapshot


def test_a_new_folder_of_such_a_name_is_source_unless_it_is_ignored(
    project: GitRepo, tmp_path: Path
) -> None:
    project.write("shop/domain/vendor/models.py", "1\n").write("shop/domain/deps/a.py", "1\n")
    space = workspace(project, tmp_path / "run")
    assert space.snapshot.dependencies == ()
    assert {"shop/domain/vendor/models.py", "shop/domain/deps/a.py"} <= held(space.path)


def test_outside_git_the_rules_of_a_folder_hold(tmp_path: Path) -> None:
    for name in ("a/b/node_modules/x", "a/b/index.js", "a/b/build/x"):
        file = tmp_path / "plain" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("1\n")
    (tmp_path / "plain" / ".gitignore").write_text("build\n")
    space = workspace(tmp_path / "plain", tmp_path / "run")
    assert space.snapshot.dependencies == ("a/b/node_modules",)
    assert space.snapshot.ignored == ("a/b/build",)
    assert held(space.path) == {".gitignore", "a/b/index.js"}


def test_folders_are_found_without_git_too(tmp_path: Path) -> None:
    for name in ("a/b/node_modules/c/node_modules/d", ".git/vendor", "e/.venv/lib", "f/x.egg-info"):
        (tmp_path / name).mkdir(parents=True)
    found = set(dependency_folders(str(tmp_path)))
    assert found == {"a/b/node_modules", "e/.venv", "f/x.egg-info"}
