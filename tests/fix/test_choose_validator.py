"""``--validator auto``: what is found is tried before it is taken, and the next one is said."""

from __future__ import annotations

import os
import sys
import sysconfig
from typing import TYPE_CHECKING

import pytest

from testing.fix_stage import MENDED

if TYPE_CHECKING:
    from pathlib import Path

    from testing.fix_stage import Stage

AUTO = ("--agent", "sed -i s/-/+/ calc.py", "--validator", "auto")


@pytest.mark.full
@pytest.mark.parametrize(
    ("files", "said", "chosen"),
    [
        (
            {"uv.lock": "version = 1\n", "pyproject.toml": "[project]\nname='a'\nversion='1'\n"},
            "uv run pytest cannot run here: error: ",
            "python -m pytest",
        ),
        ({"tox.ini": "[tox]\n"}, "tox is not installed; using ", "python -m pytest"),
        ({"noxfile.py": ""}, "nox is not installed; using ", "python -m pytest"),
        ({"pytest.ini": "[pytest]\n"}, "", "pytest"),
        ({"pyproject.toml": ""}, "", "python -m pytest"),
    ],
)
def test_the_first_that_can_run_is_taken(
    files: dict[str, str], said: str, chosen: str, stage: Stage
) -> None:
    for name, text in files.items():
        stage.repo.write(name, text)
    stage.repo.commit()
    ended, run = stage.fixed(*AUTO)
    assert (ended.code, run.state["validator"], stage.source()) == (0, chosen, MENDED), ended
    assert said in ended.stderr
    assert ("; using " in ended.stderr) == bool(said)
    assert said.removesuffix("; using ") in run.state["validatorReason"]
    assert stage.repo.text("status", "--porcelain") == "M calc.py"
    replayed = stage.cli("replay", run.id, "--check")
    assert replayed.code == 0, replayed


@pytest.mark.full
def test_the_repositorys_own_python_is_said_by_its_path(stage: Stage) -> None:
    environment = stage.repo.path / ".venv"
    (environment / "bin").mkdir(parents=True)
    os.symlink(os.path.realpath(sys.executable), environment / "bin" / "python")
    home = os.path.dirname(os.path.realpath(sys.executable))
    (environment / "pyvenv.cfg").write_text(f"home = {home}\n")
    packages = sysconfig.get_path("purelib")
    ours = environment / os.path.relpath(packages, sys.prefix)
    ours.mkdir(parents=True)
    (ours / "ours.pth").write_text(f"{packages}\n")
    stage.repo.write(".gitignore", ".venv/\n.runs/\nout/\n").write("tox.ini", "[tox]\n").commit()
    ended, run = stage.fixed(*AUTO)
    assert "tox is not installed; using .venv/bin/python -m pytest" in ended.stderr
    assert (ended.code, run.state["validator"]) == (0, "python -m pytest"), ended


@pytest.mark.full
def test_where_none_can_run_all_are_named(stage: Stage, tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("git", "bwrap", "sed", "sh", "env"):
        place = next(one for one in ("/usr/bin", "/bin") if os.path.exists(f"{one}/{name}"))
        os.symlink(f"{place}/{name}", programs / name)
    stage.repo.write("tox.ini", "[tox]\n").commit()
    ended, run = stage.fixed(*AUTO, env={"PATH": str(programs)})
    assert (ended.code, run.final) == (4, "error"), ended
    assert "no validator that was found can run: tox is not installed; python" in ended.stderr
    assert "hint: install one where the sandbox can see it" in ended.stderr
