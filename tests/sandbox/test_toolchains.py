"""Programs outside of the system's folders are shown; what may hold keys never is."""

from __future__ import annotations

import os
from base64 import urlsafe_b64encode
from hashlib import sha256
from pathlib import Path

import pytest

from rlm_ci.sandbox import HOME, Mount, SandboxJob, toolchain_mounts, toolchain_variables
from rlm_ci.sandbox.bubblewrap import Bubblewrap
from rlm_ci.sandbox.toolchains import PRIVATE, may_be_shown, project_environment, withheld


class Place:
    """A home folder with a repository, and programs put where people have them."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.root = home / "src" / "shop"
        self.root.mkdir(parents=True)
        for name in (".ssh", ".config/gh", ".aws", ".local/share/keyrings"):
            (home / name).mkdir(parents=True)

    def program(self, path: str, *, root: bool = False) -> Path:
        file = (self.root if root else self.home) / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("#!/bin/sh\necho ran\n")
        file.chmod(0o755)
        return file

    def link(self, path: str, target: Path) -> None:
        (self.home / path).parent.mkdir(parents=True, exist_ok=True)
        (self.home / path).symlink_to(target)

    def python(self, path: str) -> Path:
        prefix = self.home / path
        (prefix / "lib" / "python3.12").mkdir(parents=True)
        (prefix / "lib" / "python3.12" / "os.py").write_text("")
        self.program(f"{path}/bin/python3.12")
        return prefix

    def shown(self, *path: str, **environ: str) -> list[str]:
        folders = ":".join(str(self.home / one) if one[0] != "/" else one for one in path)
        given = {"HOME": str(self.home), "PATH": f"/usr/bin:{folders}", **environ}
        mounts = toolchain_mounts(given, str(self.root))
        assert not any(mount.writable for mount in mounts)
        return sorted(os.path.relpath(mount.target, self.home) for mount in mounts)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "home")


def test_the_system_and_what_is_not_there_need_nothing(place: Place) -> None:
    assert place.shown("/usr/bin", "/usr/local/bin", "gone/bin", "/bin") == []


def test_relative_folders_of_path_count_for_nothing(place: Place) -> None:
    given = {"HOME": str(place.home), "PATH": ".:bin:"}
    assert toolchain_mounts(given, str(place.root)) == ()


def test_cargo_brings_rustup_and_no_credentials(place: Place) -> None:
    place.program(".cargo/bin/cargo")
    for name in (".cargo/registry", ".rustup/toolchains"):
        (place.home / name).mkdir(parents=True)
    (place.home / ".cargo/credentials.toml").write_text("token")
    assert place.shown(".cargo/bin") == [".cargo/bin", ".cargo/registry", ".rustup"]


def test_go_brings_its_modules_wherever_it_lies(place: Place) -> None:
    (place.home / "go/pkg/mod").mkdir(parents=True)
    assert place.shown() == ["go/pkg/mod"]
    (place.home / "modules").mkdir()
    assert place.shown(GOMODCACHE=str(place.home / "modules")) == ["modules"]
    assert place.shown(GOMODCACHE=str(place.home)) == []


def test_node_of_nvm_and_pyenv_come_whole(place: Place) -> None:
    place.program(".nvm/versions/node/v22/bin/node")
    (place.home / ".nvm/versions/node/v22/lib").mkdir()
    place.program(".pyenv/shims/python")
    (place.home / ".pyenv/versions").mkdir()
    shown = place.shown(".nvm/versions/node/v22/bin", ".pyenv/shims")
    assert shown == [".nvm/versions/node/v22", ".pyenv"]


def test_programs_of_the_user_bring_what_they_are_links_to(place: Place) -> None:
    tool = place.program(".local/share/uv/tools/ruff/bin/ruff")
    (tool.parent.parent / "lib").mkdir()
    place.link(".local/bin/ruff", tool)
    place.program(".local/bin/own")
    assert place.shown(".local/bin") == [".local/bin", ".local/share/uv/tools/ruff"]


def test_the_python_of_a_virtual_environment_is_shown(place: Place) -> None:
    prefix = place.python("pythons/3.12")
    (place.root / ".venv").mkdir()
    (place.root / ".venv" / "pyvenv.cfg").write_text(f"version = 3\nhome = {prefix}/bin\n")
    assert place.shown() == ["pythons/3.12"]


@pytest.mark.parametrize("target", [".ssh", ".config/gh", ".", ".aws", "/", "secrets", ".local"])
def test_a_virtual_environment_cannot_point_at_secrets(place: Place, target: str) -> None:
    (place.home / "secrets" / "bin").mkdir(parents=True)
    folder = (place.home / target) if target != "/" else Path("/")
    (place.root / ".venv").mkdir()
    for home in (folder, folder / "bin"):
        (place.root / ".venv" / "pyvenv.cfg").write_text(f"home = {home}\n")
        assert place.shown() == []


def test_not_even_with_a_python_beside_them(place: Place) -> None:
    for path in (".ssh", ".config/gh", ".local"):
        prefix = place.python(path)
        (place.root / ".venv").mkdir(exist_ok=True)
        (place.root / ".venv" / "pyvenv.cfg").write_text(f"home = {prefix}/bin\n")
        assert place.shown() == []


@pytest.mark.parametrize(
    "path", [".", "..", ".ssh", ".config", ".local", ".cargo", "src", "src/shop"]
)
def test_no_folder_that_holds_secrets_or_the_repository(place: Place, path: str) -> None:
    place.program(".cargo/credentials.toml")
    assert place.shown(path) == []


@pytest.mark.parametrize("name", PRIVATE)
def test_nothing_private_nor_around_it_may_be_shown(name: str) -> None:
    path = f"/home/ada/{name}"
    while path != "/":
        assert not may_be_shown(path, "/home/ada")
        path = os.path.dirname(path)
    assert not may_be_shown(f"/home/ada/{name}/below", "/home/ada")


def test_a_link_out_of_path_into_a_private_folder_is_not_followed(place: Place) -> None:
    key = place.program(".ssh/id_rsa")
    place.link("bin/tool", key)
    assert place.shown("bin") == ["bin"]


@pytest.mark.parametrize(
    ("program", "shown"),
    [
        (".codex/packages/standalone/releases/1.2/bin/codex", ".codex/packages"),
        (".claude/local/node_modules/x/cli", ".claude/local"),
    ],
)
def test_an_agent_that_lies_beside_its_login_is_shown_without_it(
    place: Place, program: str, shown: str, bubblewrap: Bubblewrap
) -> None:
    real = place.program(program)
    login = real.parents[len(Path(program).parts) - 2] / "auth.json"
    login.write_text("{}")
    folder = place.home / shown / "current"
    folder.symlink_to(real.parent)
    place.link(".local/bin/agent", folder / real.name)
    environ = {"HOME": str(place.home), "PATH": f"{place.home}/.local/bin:/usr/bin:/bin"}
    assert place.shown(".local/bin") == sorted([".local/bin", shown])
    job = SandboxJob(
        ("sh", "-c", f"agent; cat {login}"),
        mounts=toolchain_mounts(environ, str(place.root)),
        env={"PATH": environ["PATH"]},
    )
    printed = bubblewrap.run(job).output.text()
    assert printed.startswith("ran\n")
    assert "No such file" in printed
    assert withheld(str(place.home / ".local/bin/agent"), environ) == ""


def test_a_program_in_a_private_folder_is_withheld_by_name(place: Place) -> None:
    place.link("bin/tool", place.program(".config/tool/bin/tool"))
    environ = {"HOME": str(place.home)}
    assert withheld(f"{place.home}/bin/tool", environ) == f"{place.home}/.config"
    assert withheld("/usr/bin/env", environ) == ""


def test_tools_are_told_where_they_are_and_nothing_else(place: Place) -> None:
    for name in (".rustup", ".pyenv"):
        (place.home / name).mkdir()
    environ = {
        "HOME": str(place.home),
        "PATH": "/usr/bin",
        "JAVA_HOME": "/opt/java",
        "PYENV_ROOT": "/opt/pyenv",
        "OPENAI_API_KEY": "secret",
        "CARGO_REGISTRY_TOKEN": "secret",
    }
    assert toolchain_variables(environ) == {
        "PATH": "/usr/bin",
        "JAVA_HOME": "/opt/java",
        "PYENV_ROOT": "/opt/pyenv",
        "RUSTUP_HOME": str(place.home / ".rustup"),
    }


def test_a_program_of_npm_comes_with_the_packages_beside_it(place: Place) -> None:
    program = place.program("tools/node_modules/pnpm/bin/pnpm.cjs")
    place.link("tools/node_modules/.bin/pnpm", program)
    assert place.shown("tools/node_modules/.bin") == ["tools/node_modules"]


def test_the_environment_that_a_tool_made_for_a_project_is_found(place: Place) -> None:
    def hashed(path: Path) -> str:
        return urlsafe_b64encode(sha256(os.fsencode(path)).digest()).decode()[:8]

    environ = {"HOME": str(place.home), "PATH": "/usr/bin"}
    assert project_environment(environ, str(place.root)) is None
    own, pipfile = hashed(place.root), hashed(place.root / "Pipfile")
    made = [
        f".local/share/hatch/env/virtual/shop/{own}/shop",
        f".local/share/virtualenvs/shop-{pipfile}",
        f".cache/pypoetry/virtualenvs/shop-{own}-py3.12",
    ]
    place.program(".cache/pypoetry/virtualenvs/other-AAAAAAAA-py3.12/bin/python")
    for name in made:  # the later one comes first
        place.program(f"{name}/bin/python")
        assert project_environment(environ, str(place.root)) == str(place.home / name)
    active = {**environ, "VIRTUAL_ENV": "/venv"}
    assert project_environment(active, str(place.root)) is None
    # One with a runner of tests is what tests are run in.
    place.program(f"{made[0]}/bin/pytest")
    assert project_environment(environ, str(place.root)) == str(place.home / made[0])
    place.program("uv/bin/python")
    place.program("uv/bin/pytest")
    named = {**environ, "UV_PROJECT_ENVIRONMENT": str(place.home / "uv")}
    assert project_environment(named, str(place.root)) == str(place.home / "uv")


def test_an_environment_of_hatch_is_where_hatch_looks_for_it_inside(place: Place) -> None:
    name = ".local/share/hatch/env/virtual/shop/abcdefgh"
    place.program(f"{name}/shop/bin/python")
    environ = {"HOME": str(place.home), "VIRTUAL_ENV": str(place.home / name / "shop")}
    mounts = toolchain_mounts(environ, str(place.root))
    assert {mount.target: mount.source for mount in mounts} == {
        f"{place.home}/{name}/shop": f"{place.home}/{name}/shop",
        f"{HOME}/{name}": f"{place.home}/{name}",
    }


def test_they_run_inside(place: Place, bubblewrap: Bubblewrap) -> None:
    tool = place.program(".local/share/tools/hello/hello")
    place.link(".local/bin/hello", tool)
    environ = {"HOME": str(place.home), "PATH": f"{place.home}/.local/bin:/usr/bin:/bin"}
    mounts = (*toolchain_mounts(environ, str(place.root)), Mount(str(place.root), str(place.root)))
    job = SandboxJob(("hello",), mounts=mounts, env={"PATH": environ["PATH"]})
    assert bubblewrap.run(job).output.text() == "ran\n"
    seen = bubblewrap.run(job.replace(argv=("ls", "-A", str(place.home)))).output.text()
    assert seen.split() == [".local", "src"]
