"""What the sandbox shows of the repository, and what stands alone without one."""

from __future__ import annotations

import os
import subprocess
import venv
from pathlib import Path

import pytest

from rlm_ci.sandbox.job import ordered
from rlm_ci.workspace.sandboxed_commands import tool_environment
from rlm_ci.workspace.workspace import Workspace
from testing.repositories.git_repo import GitRepo
from testing.workspaces import everything, held, workspace


def git_in(space: Workspace, *args: str) -> str:
    """Git as somebody inside would run it, with the folders put where the mounts say."""
    folders = {mount.target: mount.source for mount in space.shown().mounts()}
    root = space.shown().mounts()[0].target
    env = {**os.environ, "GIT_DIR": folders[f"{root}/.git"], "GIT_WORK_TREE": space.path,
           "GIT_OBJECT_DIRECTORY": folders[f"{root}/.git/objects"],
           "GIT_OPTIONAL_LOCKS": "0"}  # fmt: skip
    return subprocess.run(["git", *args], env=env, cwd=space.path, check=True,
                          capture_output=True, text=True).stdout  # fmt: skip


def test_the_shown_git_knows_the_history_and_no_credential(
    project: GitRepo, tmp_path: Path
) -> None:
    project.run("tag", "-a", "v1", "-m", "one")
    project.run("remote", "add", "origin", "https://user:hunter2@example.com/x.git")
    project.run("config", "http.extraHeader", "Authorization: hunter2")
    project.write("app.py", "x = 2\n")
    space = workspace(project, tmp_path / "run")
    assert git_in(space, "describe", "--tags").strip() == "v1"
    assert git_in(space, "rev-parse", "HEAD", "--abbrev-ref", "HEAD").split() == [
        project.sha(), "main",
    ]  # fmt: skip
    assert git_in(space, "status", "--porcelain") == " M app.py\n"
    for mount in space.shown().mounts():
        if mount.target.startswith(f"{project.path}/.git") and "objects" not in mount.target:
            assert not mount.writable
            for _, content, _ in everything(Path(mount.source)).values():
                assert b"hunter2" not in content


def test_dependencies_are_shown_read_only_and_are_no_part(project: GitRepo, tmp_path: Path) -> None:
    project.write("vendor/tracked.go", "1\n").write("web/index.js", "1\n").commit()
    for name in ("web/node_modules/x/i.js", ".venv/bin/python", "vendor/new.go", "a/b/.venv/x"):
        project.write(name, "1\n")
    os.symlink("/etc", project.path / "node_modules")
    space = workspace(project, tmp_path / "run")
    folders = (".venv", "a/b/.venv", "node_modules", "web/node_modules")
    assert space.snapshot.dependencies == folders
    assert "vendor/new.go" in held(space.path)
    shown = {mount.target: mount for mount in space.shown().mounts()}
    place = str(project.path / "web/node_modules")
    assert shown[place].source == place
    assert not shown[place].writable
    assert str(project.path / "node_modules") not in shown
    assert [mount.target for mount in shown.values() if mount.writable] == [str(project.path)]
    # A mount needs a folder to stand on, and it is no part of the tree.
    assert Path(space.path, "web/node_modules").is_dir()
    assert space.tree() == space.snapshot.tree


def test_without_a_sandbox_the_copy_stands_alone(project: GitRepo) -> None:
    project.write(".venv/bin/python", "1\n")
    space = workspace(project, project.path / ".runs" / "run", isolated=False)
    assert os.readlink(os.path.join(space.path, ".venv")) == str(project.path / ".venv")
    answer = subprocess.run(["git", "rev-parse", "--show-toplevel", "HEAD"], cwd=space.path,
                            check=True, capture_output=True, text=True).stdout  # fmt: skip
    assert answer.split() == [space.path, project.sha()]
    assert space.tree() == space.snapshot.tree
    # Whatever git the agent ran there, it was not that of the user.
    subprocess.run(["git", "-C", space.path, "add", "-A"], check=True)
    assert project.text("status", "--porcelain", "--ignored") == "?? .runs/\n?? .venv/"


def test_without_a_sandbox_submodules_are_links_and_nothing_is_mounted_on_links(
    project: GitRepo, tmp_path: Path
) -> None:
    inner = GitRepo(tmp_path / "inner").write("lib.py", "1\n")
    inner.commit()
    project.run("-c", "protocol.file.allow=always", "submodule", "add", "-q",
                str(inner.path), "sub")  # fmt: skip
    project.write(".gitignore", ".venv/\n").commit()
    project.write(".venv/bin/python", "1\n")
    space = workspace(project, tmp_path / "run", isolated=False)
    fresh = space.fresh(space.tree())
    for copy in (None, fresh):
        place = Path(copy.path if copy else space.path)
        assert (place / "sub" / "lib.py").read_text() == "1\n"
        assert (place / ".venv" / "bin" / "python").read_text() == "1\n"
        assert next(one.target for one in ordered(space.shown(copy).mounts())) == str(project.path)
    assert space.tree() == fresh.tree() == space.snapshot.tree
    (Path(space.path) / "sub").unlink()
    assert space.tree() == space.snapshot.tree
    assert (Path(space.path) / "sub" / "lib.py").is_file()
    assert space.discard() is None
    assert (project.path / "sub" / "lib.py").is_file()


def test_a_worktree_and_a_shallow_clone_are_shown_too(project: GitRepo, tmp_path: Path) -> None:
    project.write("app.py", "x = 3\n").commit()
    project.run("worktree", "add", "-q", str(tmp_path / "side"), "-b", "side")
    clone = tmp_path / "clone"
    project.run("clone", "-q", "--depth", "1", f"file://{project.path}", str(clone))
    for number, root in enumerate((tmp_path / "side", clone)):
        space = workspace(root, tmp_path / f"run{number}")
        assert git_in(space, "log", "--format=%H").split()[0] == project.sha()
        assert git_in(space, "status", "--porcelain") == ""


@pytest.mark.parametrize("place", [".venv", "elsewhere"])
def test_uv_runs_what_is_installed_and_installs_nothing(
    project: GitRepo, tmp_path: Path, place: str
) -> None:
    environ = {"HOME": str(tmp_path), "PATH": "/usr/bin"}
    env, _ = tool_environment(environ, str(project.path))
    assert "UV_NO_SYNC" not in env
    folder = project.path / ".venv" if place == ".venv" else tmp_path / place
    venv.create(folder, symlinks=True)
    if place == "elsewhere":
        environ["UV_PROJECT_ENVIRONMENT"] = str(folder)
    env, _ = tool_environment(environ, str(project.path))
    assert env["UV_NO_SYNC"] == "1"
    assert env["PATH"].split(":")[0] == str(folder / "bin")
    assert env.get("VIRTUAL_ENV") == (None if place == ".venv" else str(folder))
