"""`make demo` shows what it promises, and fails when rlm-ci does not behave."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(os.name != "posix", reason="a script for a POSIX shell")

_LIAR = """\
#!{python}
import pathlib, subprocess, sys

code = subprocess.call(["{python}", "-I", "-m", "rlm_ci", *sys.argv[1:]])
out = pathlib.Path("{out}")

def edit(old, new):
    text = (out / "report.json").read_text()
    assert old in text, old
    (out / "report.json").write_text(text.replace(old, new))

{lie}
sys.exit(code)
"""


@pytest.fixture
def demo(tmp_path: Path) -> Path:
    """A copy of examples/ outside any repository, so that nothing is written to this one."""
    examples = tmp_path / "a checkout" / "examples"
    shutil.copytree(Path(__file__).parents[1] / "examples", examples)
    return examples


def run(demo: Path, programs: Path) -> subprocess.CompletedProcess[str]:
    argv = ["sh", str(demo / "demo.sh"), str(programs)]
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)


def test_it_shows_every_rule_and_ends_well(demo: Path) -> None:
    ended = run(demo, Path(sys.executable).parent)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "There is no commit here to look at" in ended.stdout
    for rule in ("no-subagent-manifest", "diff-budget/path-budget", "doc-archive/payload-is-stub"):
        assert rule in ended.stdout
    page = demo.parent / "build" / "demo" / "example" / "report.html"
    assert f"As a page:  {page}" in ended.stdout
    assert page.is_file()
    again = run(demo, Path(sys.executable).parent)
    assert (again.returncode, again.stdout) == (0, ended.stdout)


def test_it_judges_the_last_change_of_its_own_checkout(demo: Path) -> None:
    def git(*args: str) -> None:
        subprocess.run(["git", *args], cwd=demo.parent, check=True, capture_output=True)

    git("init")
    git("add", "-A")
    git("commit", "-m", "First")
    assert "has no parent to compare with: skipped" in run(demo, Path(sys.executable).parent).stdout
    git("commit", "--allow-empty", "-m", "Second")
    ended = run(demo, Path(sys.executable).parent)
    assert ended.returncode == 0
    assert "0 of 25 files, 0 of 1,200 lines" in ended.stdout
    git("clone", "--depth=1", demo.parent.as_uri(), "shallow")
    ended = run(demo.parent / "shallow" / "examples", Path(sys.executable).parent)
    assert ended.returncode == 0
    assert "This clone is shallow" in ended.stdout


@pytest.mark.parametrize(
    ("lie", "told"),
    [
        ("code = 0", "the report says findings, the exit code was 0"),
        ("(out / 'report.html').unlink()", "did not write report.html"),
        ("edit('diff-budget/lines', 'diff-budget/files')", "diff-budget/lines was not found"),
        ("edit('doc-archive/dangling', 'doc-archive/x')", "doc-archive/x was found"),
        ("edit('\"max_files\": 25', '\"max_files\": 5000')", "the branch's own limits were used"),
        ("edit('\"files\": 45', '\"files\": 44')", "git counts (45, 1278)"),
    ],
)
def test_it_notices_when_rlm_ci_misbehaves(demo: Path, tmp_path: Path, lie: str, told: str) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "python").symlink_to(sys.executable)
    out = demo.parent / "build" / "demo" / "example"
    (programs / "rlm-ci").write_text(_LIAR.format(python=sys.executable, out=out, lie=lie))
    (programs / "rlm-ci").chmod(0o755)
    ended = run(demo, programs)
    assert ended.returncode == 1
    assert told in ended.stdout
