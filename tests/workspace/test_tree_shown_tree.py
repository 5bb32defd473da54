"""A command over a tree: what it sees, what it may change, and what it left."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from rlm_ci.sandbox import JobLimits, Mount, SandboxJob, choose, toolchain_mounts
from rlm_ci.workspace.tree import ShownTree, make_room, redirected

if TYPE_CHECKING:
    from pathlib import Path

    from rlm_ci.system.process import StreamResult


def shell(tree: ShownTree, line: str, *mounts: Mount) -> StreamResult:
    tools = toolchain_mounts({"PATH": "/usr/bin:/bin"}, tree.root)
    job = SandboxJob(("/bin/sh", "-c", line), mounts=mounts, limits=JobLimits(wall=20))
    return tree.replace(tools=tools).run(choose("auto", os.environ), job)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "tree"
    (path / "src").mkdir(parents=True)
    (path / "src/a.py").write_text("x\n")
    return path


def test_a_command_starts_at_the_root_and_writes_only_where_it_may(
    folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    line = "pwd; cat src/a.py; echo y > src/a.py; echo z > new; echo w > /out/w; true"
    ended = shell(ShownTree(str(folder), "/project"), line, Mount(str(out), "/out", writable=True))
    assert ended.output.text().startswith("/project\nx\n")
    assert (folder / "src/a.py").read_text() == "x\n"
    assert not (folder / "new").exists()
    assert (out / "w").read_text() == "w\n"
    shell(ShownTree(str(folder), "/project", writable=True), line)
    assert (folder / "src/a.py").read_text() == "y\n"
    assert (folder / "new").read_text() == "z\n"


def test_what_lies_beside_the_files_is_seen_and_stays_as_it_is(
    folder: Path, tmp_path: Path
) -> None:
    modules, settings = tmp_path / "modules", tmp_path / "settings"
    (modules / "inner").mkdir(parents=True)
    (modules / "inner/m").write_text("module\n")
    settings.write_text("setting\n")
    os.symlink("src", tmp_path / "link")
    beside = {
        "web/modules": str(modules), "settings": str(settings), "link": str(tmp_path / "link"),
    }  # fmt: skip
    make_room(str(folder), beside)
    tree = ShownTree(str(folder), "/project", writable=True).with_beside(beside)
    line = "cat web/modules/inner/m settings link/a.py; echo x > settings; echo x > web/modules/n"
    ended = shell(tree, line)
    assert ended.output.text().startswith("module\nsetting\nx\n")
    assert settings.read_text() == "setting\n"
    assert os.listdir(modules) == ["inner"]


def test_no_link_of_a_tree_leads_what_is_beside_it_elsewhere(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    os.symlink(tmp_path / "outside", folder / "web")
    os.symlink(tmp_path / "outside", folder / "modules")
    beside = {"web/modules": str(folder / "src"), "modules": str(folder / "src")}
    for isolated in (True, False):
        make_room(str(folder), beside, isolated=isolated)
        assert os.listdir(tmp_path / "outside") == []
    assert ShownTree(str(folder), "/project").with_beside(beside).on_top == ()


def test_without_a_sandbox_what_is_beside_the_files_is_a_link(folder: Path, tmp_path: Path) -> None:
    make_room(str(folder), {"web/modules": str(tmp_path)}, isolated=False)
    assert os.readlink(folder / "web/modules") == str(tmp_path)


def test_what_a_command_added_is_named_by_its_topmost_folder(folder: Path) -> None:
    line = "mkdir -p .venv/bin src/gen src/__pycache__; touch .venv/bin/x src/gen/y src/b.py"
    tree = ShownTree(str(folder), "/project", writable=True)
    shell(tree, line)
    os.symlink("/", folder / "up")
    assert list(tree.added({"src/a.py"})) == [".venv", "up", "src/b.py", "src/gen"]


def test_standard_output_goes_to_a_file_and_errors_do_not(folder: Path) -> None:
    argv = redirected(("/bin/sh", "-c", 'echo "$1"; echo err >&2', "sh", "a b"), "printed")
    tree = ShownTree(str(folder), "/project", writable=True)
    tools = toolchain_mounts({"PATH": "/usr/bin:/bin"}, tree.root)
    ended = tree.replace(tools=tools).run(choose("auto", os.environ), SandboxJob(argv))
    assert ended.output.text() == "err\n"
    assert (folder / "printed").read_text() == "a b\n"
