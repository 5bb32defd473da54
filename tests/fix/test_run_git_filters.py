"""A result in files that git keeps in another form than they have in the work tree."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from rlm_ci.git.repository import Repository
from rlm_ci.workspace.git_filters import converted

if TYPE_CHECKING:
    from testing.fix_stage import Stage
    from testing.repositories.git_repo import GitRepo

ATTRIBUTES = (
    "*.f filter=foo\n*.l working-tree-encoding=latin1\n*.i ident\n*.c eol=crlf\n*.n filter=no\n"
)
NAMES = ("a.f", "b.l", "c.i", "d.c", "e.n", "g.txt")
MORE = ["sh", "-c", f"for name in {' '.join(NAMES)}; do echo MORE >> $name; done"]


@pytest.fixture
def filtered(repo: GitRepo) -> GitRepo:
    """Files of each kind, checked out as their attributes say."""
    repo.run("config", "filter.foo.clean", "tr A-Z a-z")
    repo.run("config", "filter.foo.smudge", "tr a-z A-Z")
    repo.write(".gitattributes", ATTRIBUTES)
    repo.write("a.f", "HELLO\nWORLD\n").write("b.l", b"h\xe9\nw\n").write("c.i", "$Id$\nx\n")
    repo.write("d.c", "x\r\ny\r\n").write("e.n", "x\n").write("g.txt", "x\n").commit()
    for name in ("c.i", "d.c"):
        (repo.path / name).unlink()
        repo.run("checkout", "--", name)
    return repo


def test_what_git_converts_is_told(filtered: GitRepo) -> None:
    """A filter without a program is a name; ends of lines take no part."""
    place = Repository(str(filtered.path), str(filtered.path / ".git"), {"PATH": "/usr/bin:/bin"})
    assert converted(place, (*NAMES, "new.f")) == ("a.f", "b.l", "c.i", "new.f")
    assert converted(Repository(str(filtered.path), None, {}), NAMES) == ()


@pytest.mark.full
def test_the_report_says_how_the_patch_goes_in(stage: Stage, filtered: GitRepo) -> None:
    agent = " ".join((*MORE[:2], f"'{MORE[2]}'"))
    asked = ("--agent", agent, "--validator", "true", "--max-iterations", "1")
    ended, run = stage.fixed(*asked, "--no-apply", goal="Edit all of them")
    assert ended.code == 0, ended
    patch = run.folder / "rlm" / "result.patch"
    assert (
        "patch -p1 puts the patch in, git apply does not: git converts a.f and 2 more files"
        in run.report["parts"][0]["summary"]
    )
    git = ("git", "-C", str(filtered.path), "apply", "--check", str(patch))
    refused = subprocess.run(git, capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert "a.f: patch does not apply" in refused.stderr
    other = stage.cli("replay", run.id, "--check")
    assert other.code == 0, other

    for program in (
        ("patch", "-p1", "--quiet", "--input", str(patch)),
        ("git", f"--git-dir={run.folder}/rlm/git/view", "--work-tree=.", "apply", str(patch)),
    ):
        subprocess.run(program, cwd=filtered.path, check=True)
        assert (filtered.path / "a.f").read_text() == "HELLO\nWORLD\nMORE\n"
        assert (filtered.path / "b.l").read_bytes() == b"h\xe9\nw\nMORE\n"
        assert filtered.run("show", ":a.f") == b"hello\nworld\n"
        filtered.run("checkout", "--", ".")

    done, run = stage.fixed(*asked, "--apply", goal="Edit all of them")
    assert done.code == 0, done
    assert "patch -p1" not in run.report["parts"][0]["summary"]
    assert (filtered.path / "a.f").read_text() == "HELLO\nWORLD\nMORE\n"
