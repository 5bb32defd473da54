"""Dependencies that lead out of the repository: mounted at their target, or named with a reason."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from rlm_ci.workspace.dependencies.outside import OutsideReach, outside
from testing.workspaces import workspace

if TYPE_CHECKING:
    from pathlib import Path

    from testing.repositories.git_repo import GitRepo


class Machine:
    """A home folder with a repository and what lies beside it."""

    def __init__(self, top: Path) -> None:
        self.home = top / "home"
        self.root = self.home / "work" / "shop"
        self.root.mkdir(parents=True)

    def file(self, path: str, text: str = "1\n") -> Path:
        place = self.home / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        return place

    def link(self, path: str, target: str) -> None:
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(target)

    def reach(self, *names: str, environments: tuple[str, ...] = ()) -> OutsideReach:
        return outside(str(self.root), names, environments, {"HOME": str(self.home)})

    def shown(self, reach: OutsideReach) -> set[str]:
        assert all(mount.source == mount.target and not mount.writable for mount in reach.mounts)
        return {os.path.relpath(mount.target, self.home) for mount in reach.mounts}


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path.resolve())


@pytest.mark.parametrize("kind", ["absolute", "relative", "chain"])
def test_a_link_to_a_folder_elsewhere_is_mounted_at_its_target(machine: Machine, kind: str) -> None:
    machine.file("main/node_modules/jest/index.js")
    target = {
        "absolute": str(machine.home / "main/node_modules"),
        "relative": "../../../main/node_modules",
        "chain": str(machine.home / "current/node_modules"),
    }[kind]
    (machine.home / "current").symlink_to("main")
    machine.link("app/node_modules", target)
    reach = machine.reach("app/node_modules")
    assert machine.shown(reach) == {"main/node_modules"}
    assert reach.omitted == ()


@pytest.mark.parametrize(
    ("target", "reason"),
    [("gone", "not there"), (".ssh", "private"), (".", "private"), ("work", "private")],
)
def test_what_cannot_be_shown_is_named(machine: Machine, target: str, reason: str) -> None:
    (machine.home / ".ssh").mkdir()
    machine.link("node_modules", str(machine.home / target))
    reach = machine.reach("node_modules")
    assert reach.mounts == ()
    assert [one.path for one in reach.omitted] == ["node_modules"]
    assert reason in reach.omitted[0].reason


def test_packages_that_are_linked_from_elsewhere_are_shown(machine: Machine) -> None:
    store = ".local/share/pnpm/store/v10/links"
    machine.file(f"{store}/lodash/4/abc/node_modules/lodash/index.js")
    machine.file("libs/money/index.js")
    machine.file("work/shop/packages/own/index.js")
    machine.link("node_modules/lodash",
                 str(machine.home / store / "lodash/4/abc/node_modules/lodash"))  # fmt: skip
    machine.link("node_modules/@acme/money", str(machine.home / "libs/money"))
    machine.link("node_modules/@acme/own", "../../packages/own")
    assert machine.shown(machine.reach("node_modules")) == {store, "libs/money"}


def test_the_code_of_another_work_tree_is_never_shown_as_the_product(machine: Machine) -> None:
    machine.file("main/packages/own/index.js")
    (machine.home / "main/node_modules/@acme").mkdir(parents=True)
    (machine.home / "main/node_modules/@acme/own").symlink_to("../../packages/own")
    machine.link("node_modules", str(machine.home / "main/node_modules"))
    reach = machine.reach("node_modules")
    assert machine.shown(reach) == {"main/node_modules"}
    assert [one.path for one in reach.omitted] == ["node_modules/@acme/own"]


@pytest.mark.parametrize("kind", ["pth", "finder", "egg-link"])
def test_installed_code_elsewhere_is_shown_unless_it_is_this_project_again(
    machine: Machine, kind: str
) -> None:
    machine.file("work/shop/src/shop/__init__.py")
    machine.file("main/src/shop/__init__.py")
    machine.file("libs/money/src/money/__init__.py")
    machine.file("venv/pyvenv.cfg", "home = /usr/bin\n")
    for name, place in (("shop", "main/src"), ("money", "libs/money/src"), ("own", "work/shop")):
        site, path = "venv/lib/python3.11/site-packages", machine.home / place
        if kind == "finder":
            machine.file(f"{site}/__editable___{name}_finder.py", f"MAPPING = {{'x': '{path}'}}\n")
        else:
            machine.file(f"{site}/{name}.{kind}", f"{path}\n.\n")
    environment = str(machine.home / "venv")
    reach = machine.reach(environments=(environment,))
    assert machine.shown(reach) == {"venv", "libs/money/src"}
    assert len(reach.omitted) == 1
    assert "main/src, which is not this work tree" in reach.omitted[0].reason


def test_the_python_of_an_environment_deep_in_the_repository_is_shown(machine: Machine) -> None:
    machine.file("pythons/3.12/lib/python3.12/os.py")
    machine.file("pythons/3.12/bin/python3.12").chmod(0o755)
    for name in ("services/api/.venv", "services/web/.tox/py312"):
        machine.file(f"work/shop/{name}/pyvenv.cfg", f"home = {machine.home}/pythons/3.12/bin\n")
        reach = machine.reach(name.removesuffix("/py312"))
        assert machine.shown(reach) == {"pythons/3.12"}


def test_a_copy_has_the_link_itself(project: GitRepo, tmp_path: Path) -> None:
    (tmp_path / "main" / "node_modules").mkdir(parents=True)
    os.symlink(tmp_path / "main" / "node_modules", project.path / "node_modules")
    project.write("web/node_modules/x", "1\n")
    os.symlink("../web/node_modules", project.path / "docs" / "node_modules")
    space = workspace(project, tmp_path / "run")
    assert space.snapshot.dependencies == (
        "docs/node_modules", "node_modules", "web/node_modules",
    )  # fmt: skip
    for copy in (space.path, space.fresh(space.tree()).path):
        assert os.readlink(f"{copy}/node_modules") == str(tmp_path / "main" / "node_modules")
        assert os.readlink(f"{copy}/docs/node_modules") == "../web/node_modules"
    assert space.tree() == space.snapshot.tree
