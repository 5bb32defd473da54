"""`make demo` shows what it promises, and fails when rlm-ci does not behave."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from docs import picture

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

#: Changes the example's work tree after rlm-ci has ended.
_MEDDLER = """\
def undo(name):
    subprocess.call(["git", "-C", out, "checkout", "--quiet", "HEAD", "--", name])

def take(name):
    (out / name).write_text("")

{lie}
"""


#: What to do where a picture is older than what it shows.
RENEW = "docs/*.png is stale: make demo && python docs/picture.py"


@pytest.fixture
def demo(tmp_path: Path) -> Path:
    """A copy of examples/ outside any repository, so that nothing is written to this one."""
    examples = tmp_path / "a checkout" / "examples"
    shutil.copytree(Path(__file__).parents[1] / "examples", examples)
    return examples


def shown_hashes() -> dict[str, str]:
    """The hashes of what the pictures of docs/ show."""
    hashes: dict[str, str] = json.loads(picture.SHOWN.read_text("utf-8"))
    return hashes


def test_the_pictures_show_the_templates_of_today() -> None:
    hashes = shown_hashes()
    assert re.fullmatch(r"[0-9a-f]{64}", hashes.pop("comment"))
    assert picture.template_hashes() == hashes, RENEW


def run(demo: Path, programs: Path, *acts: str) -> subprocess.CompletedProcess[str]:
    """The demo with the programs of that folder; all of its acts, where none is named."""
    argv = ["sh", str(demo / "demo.sh"), str(programs), *acts]
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.full
def test_it_shows_every_rule_and_ends_well(demo: Path) -> None:
    ended = run(demo, Path(sys.executable).parent)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "There is no commit here to look at" in ended.stdout
    for rule in ("no-subagent-manifest", "diff-budget/path-budget", "doc-archive/payload-is-stub"):
        assert rule in ended.stdout
    assert "+    return round(float(price) * 100)" in ended.stdout
    assert "tamper/disarmed  high" in ended.stdout
    page = demo.parent / "build" / "demo" / "example" / "report.html"
    assert f"As a page:  {page}" in ended.stdout
    assert page.is_file()
    comment = (page.parent / "comment.md").read_text("utf-8")
    assert picture.comment_hash(comment) == shown_hashes().pop("comment"), RENEW
    again = run(demo, Path(sys.executable).parent, "example")
    assert again.returncode == 0
    assert again.stdout.partition("\nWhat you saw")[0] in ended.stdout


def test_it_judges_the_last_change_of_its_own_checkout(demo: Path) -> None:
    def git(*args: str) -> None:
        subprocess.run(["git", *args], cwd=demo.parent, check=True, capture_output=True)

    git("init")
    git("add", "-A")
    git("commit", "-m", "First")
    programs = Path(sys.executable).parent
    assert "has no parent to compare with: skipped" in run(demo, programs, "own").stdout
    git("commit", "--allow-empty", "-m", "Second")
    ended = run(demo, programs, "own")
    assert ended.returncode == 0
    assert "0 files (limit 25), 0 lines (limit 1,200)" in ended.stdout
    git("clone", "--depth=1", demo.parent.as_uri(), "shallow")
    ended = run(demo.parent / "shallow" / "examples", programs, "own")
    assert ended.returncode == 0
    assert "This clone is shallow" in ended.stdout


@pytest.mark.full
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
    ended = run(demo, programs, "example")
    assert ended.returncode == 1
    assert told in ended.stdout


@pytest.mark.full
@pytest.mark.parametrize(
    ("lie", "told"),
    [
        (
            "undo('prices.py')",
            ("the tests fail in the work tree", "result.patch is not what is in the work tree"),
        ),
        ("take('test_prices.py')", ("the work tree was changed: test_prices.py",)),
    ],
    ids=("taken back", "taken over"),
)
def test_it_notices_when_a_fix_is_not_what_it_seems(
    demo: Path, tmp_path: Path, lie: str, told: tuple[str, ...]
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "python").symlink_to(Path(sys.executable).resolve())  # the sandbox sees that
    shop = demo.parent / "build" / "demo" / "prices"
    text = _LIAR.format(python=sys.executable, out=shop, lie=_MEDDLER.format(lie=lie))
    (programs / "rlm-ci").write_text(text)
    (programs / "rlm-ci").chmod(0o755)
    ended = run(demo, programs, "fix")
    assert ended.returncode == 1
    assert all(line in ended.stdout for line in told), ended.stdout


@pytest.mark.full
def test_without_a_sandbox_it_says_so_and_goes_on(demo: Path, tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    needed = ("cat", "dirname", "env", "git", "grep", "ln", "mkdir", "rm", "sed", "sh", "uname")
    for name in needed:
        found = shutil.which(name)
        if found:
            (programs / name).symlink_to(found)
    for name in ("python", "rlm-ci"):
        (programs / name).symlink_to(Path(sys.executable).parent / name)
    argv = ["sh", str(demo / "demo.sh"), str(programs), "fix"]
    env = {**os.environ, "PATH": str(programs)}
    ended = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120, env=env)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "error: there is no sandbox" in ended.stdout
    assert "continues with --sandbox none" in ended.stdout
    assert "its commands ran without a sandbox" in ended.stdout
