"""What doctor says of a repository's dependencies, and a run before it starts an agent."""

from __future__ import annotations

import os
import venv
from typing import TYPE_CHECKING

import pytest

from rlm_ci.workspace.dependencies import beside
from testing.workspaces import opened

if TYPE_CHECKING:
    from pathlib import Path

    from testing.repositories.git_repo import GitRepo


def environ(home: Path, **more: str) -> dict[str, str]:
    return {"HOME": str(home), "PATH": os.environ["PATH"], **more}


def test_what_is_seen_what_is_left_out_and_what_cannot_be_shown(
    project: GitRepo, tmp_path: Path
) -> None:
    project.write(".gitignore", "node_modules\n.runs\nout\nbuild\n").write(
        "app/a.js", "1\n"
    ).commit()
    for name in ("app/node_modules/x", "build/y", ".runs/z", "out/task/state.json"):
        project.write(name, "1\n")
    os.symlink(tmp_path / "gone", project.path / "node_modules")
    found = beside.of(opened(project.path), environ(tmp_path), isolated=True)
    assert found.dependencies == ("app/node_modules", "node_modules")
    assert found.ignored == ("build",)
    assert [doubt.where for doubt in found.doubts] == ["node_modules"]
    assert "which is not there" in found.doubts[0].what
    assert beside.of(opened(project.path), environ(tmp_path), isolated=False).doubts == ()


@pytest.mark.parametrize("isolated", [True, False])
def test_an_editable_install_elsewhere_is_a_doubt_without_a_sandbox(
    project: GitRepo, tmp_path: Path, *, isolated: bool
) -> None:
    place = tmp_path / "environment"
    venv.create(place, symlinks=True)
    library = next(place.glob("lib/python*/site-packages"))
    (library / "__editable__.shop.pth").write_text(f"{project.path}/src\n")
    given = environ(tmp_path, VIRTUAL_ENV=str(place))
    given["PATH"] = f"{place}/bin:{given['PATH']}"
    found = beside.of(opened(project.path), given, isolated=isolated)
    assert found.environment == str(place)
    assert [doubt.where for doubt in found.doubts] == (
        [] if isolated else [str(library / "__editable__.shop.pth")]
    )
