"""How a run that cannot go on says so."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rlm_ci.cli import COMMANDS

if TYPE_CHECKING:
    from testing.program import Cli
    from testing.repositories.git_repo import GitRepo

TOP = Path(__file__).resolve().parents[2]


def test_in_actions_a_failure_is_an_annotation_too(cli: Cli, repo: GitRepo) -> None:
    ended = cli("check", "--base", "no:such\nref", cwd=repo)
    assert "::error" not in ended.stderr
    ended = cli("check", "--fail-level", "x::y,\n%", cwd=repo, env={"GITHUB_ACTIONS": "true"})
    assert ended.code == 5
    assert ended.stdout == ""
    annotations = [line for line in ended.stderr.splitlines() if line.startswith("::")]
    assert len(annotations) == 1
    assert annotations[0].startswith("::error title=rlm-ci::fail_level must be one of")
    assert "%25" in annotations[0]


def test_a_library_that_is_not_installed_is_named(repo: GitRepo) -> None:
    # The package alone, as `pip install --no-deps` leaves it.
    script = (
        f"import sys; sys.path.insert(0, {str(TOP)!r}); import rlm_ci.cli as c; sys.exit(c.main())"
    )
    alone = [sys.executable, "-I", "-S", "-c", script]
    repo.write("a.py", "a\n").commit()
    ended = subprocess.run([*alone, "check"], cwd=repo, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    argv = [*alone, "pr", "--out", os.fspath(repo.path / "out")]
    ended = subprocess.run(argv, cwd=repo, capture_output=True, text=True, check=False)
    assert ended.returncode == 4
    assert "error: the library jinja2 is not installed" in ended.stderr
    assert "hint: install what rlm-ci needs: " in ended.stderr
    assert str(TOP) in ended.stderr
    assert "Traceback" not in ended.stderr
    assert Path(repo, "out", "report.json").exists()


@pytest.mark.sample(5)
@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.sample(2)
def test_a_bug_is_told_in_one_line_whatever_the_command_is_called(
    repo: GitRepo, tmp_path: Path, name: str
) -> None:
    """``rlm_ci.cli.commands.list`` once hid the ``list`` that the report of a bug needs."""
    script = f"""\
import sys
import rlm_ci.cli as cli
def fail(*args):
    raise ZeroDivisionError("a bug")
for _ in range(2):
    cli.load({name!r}).rows = fail
    code = cli.main([{name!r}, "--quiet"])
sys.exit(code)
"""
    ended = subprocess.run(
        [sys.executable, "-c", script], cwd=repo, capture_output=True, text=True, check=False,
        env={**os.environ, "XDG_STATE_HOME": str(tmp_path), "PYTHONPATH": str(TOP)},
    )  # fmt: skip
    assert (ended.returncode, ended.stdout) == (10, "")
    told = ended.stderr.splitlines()
    assert len(told) == 4
    assert told[0].startswith("error: internal error: ZeroDivisionError: a bug")
    assert f"command: [{name!r}, '--quiet']" in next((tmp_path / "rlm-ci").iterdir()).read_text()
    assert "Traceback" in next((tmp_path / "rlm-ci").iterdir()).read_text()
