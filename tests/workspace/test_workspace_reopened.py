"""A copy whose own folder is closed, gone, or another thing: what it holds is told all the same."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rlm_ci.workspace.workspace import Workspace
from testing.unprivileged_user import closed_copy, holds_for_nobody, needs_root
from testing.workspaces import held, workspace

if TYPE_CHECKING:
    from rlm_ci.git.repository import Repository
    from testing.repositories.git_repo import GitRepo


@needs_root
@pytest.mark.parametrize("mode", [0, 0o500])
def test_a_closed_one_is_opened(project: GitRepo, mode: int) -> None:
    with closed_copy(project) as place:

        def claim(repository: Repository) -> bool:
            folder = os.path.join(os.path.dirname(place), "run")
            environ = {"PATH": os.environ["PATH"], "HOME": place}
            space = Workspace(folder, repository, environ, isolated=False)
            os.chmod(space.path, mode)
            return space.tree() == space.snapshot.tree

        assert holds_for_nobody(place, claim)


@pytest.mark.parametrize("what", ["nothing", "link", "file"])
def test_one_that_is_no_folder_any_more_is_an_empty_one(
    project: GitRepo, tmp_path: Path, what: str
) -> None:
    space = workspace(project, tmp_path / "run")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "kept.txt").write_text("not ours\n")
    shutil.rmtree(space.path)
    if what == "link":
        os.symlink(elsewhere, space.path)
    elif what == "file":
        Path(space.path).write_text("no folder\n")
    assert not space.entries(space.tree())
    assert (elsewhere / "kept.txt").read_text() == "not ours\n"
    space.restore(space.snapshot.tree)
    assert held(space.path) == set(space.entries(space.snapshot.tree))
