"""Whose settings ruff reads: those of the base, in the folder of each file, and no others."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from rlm_ci.change.change_set import from_range
from rlm_ci.git.repository import Repository, discover
from rlm_ci.report.findings import Severity
from rlm_ci.review import objective
from rlm_ci.review.analyzers.ruff_settings import settings_at
from rlm_ci.review.change.base_comparison import changed_of
from testing.review_leaves import leaf, text

if TYPE_CHECKING:
    from testing.repositories.git_repo import GitRepo

SHELL = 'import subprocess\n\n\ndef f(a):\n    subprocess.call("x " + a, shell=True)\n'
SELECTED = "lint.select = ['S']\n"
SECRET = "hunter2value"


def judged(
    repo: GitRepo, base: str, sandbox: str = "auto", *, by_pipe: bool = False
) -> tuple[set[tuple[str, str]], list[str]]:
    """Rule and path of what is reported of the change, and the notes."""
    change = from_range(Repository(*discover(str(repo.path)), os.environ), base, "HEAD", "--base")
    chosen = objective.options(changed=changed_of(change), sandbox=sandbox)
    settings = settings_at(change.repository, change.names(), change.base)
    texts = [
        text(one.path, content)
        for one in change.files()
        if (content := change.repository.read(one.new_oid)[0]) is not None
    ]
    task = leaf(texts, {**chosen, "settings": settings, "by_pipe": by_pipe})
    done = objective.analyse(task)
    rules = {
        (one["rule"].removeprefix("review/ruff-"), one["evidence"][0]["path"])
        for one in done["findings"]
        if Severity.from_label(one["severity"]) >= Severity.LOW
    }
    return rules, done["notes"]


@pytest.mark.sample(8)
@pytest.mark.parametrize("by_pipe", [False, True])
@pytest.mark.parametrize(
    "path",
    [
        "pkg/hélper.py", "pkg/a b.py", "pkg/x+(1).py", "pkg/[x].py", "pkg/-x.py", "pkg/@x.py",
        "pkg/a\nb.py", "pkg/a%20b.py", f"pkg/{'deep/' * 60}x.py", f"pkg/{'n' * 200}.py",
        "pkg/ünder/a b/c.py", "pkg/.x.py",
    ],
)  # fmt: skip
def test_a_file_with_an_odd_name_stays_in_its_folder(
    repo: GitRepo, path: str, by_pipe: bool
) -> None:
    repo.write("ruff.toml", "lint.select = ['E9']\n").write("pkg/ruff.toml", SELECTED)
    base = repo.write("pkg/x.py", "").commit()
    repo.write(path, SHELL).write("top level.py", SHELL).commit()
    assert judged(repo, base, by_pipe=by_pipe) == ({("s602", path)}, [])


def test_settings_that_name_an_odd_file_hold(repo: GitRepo) -> None:
    ignored = "[lint.per-file-ignores]\n'pkg/a b.py' = ['S602']\n'pkg/hél*.py' = ['S']\n"
    base = repo.write("ruff.toml", f"{SELECTED}{ignored}").commit()
    for name in ("a b", "hélper", "other"):
        repo.write(f"pkg/{name}.py", SHELL)
    repo.commit()
    assert judged(repo, base) == ({("s602", "pkg/other.py")}, [])


def test_settings_in_a_folder_with_an_odd_name_are_found(repo: GitRepo) -> None:
    base = repo.write("ruff.toml", "lint.select = []\n").write("pk g/ruff.toml", SELECTED).commit()
    repo.write("pk g/a.py", SHELL).write("other/a.py", SHELL).commit()
    assert judged(repo, base) == ({("s602", "pk g/a.py")}, [])


@pytest.mark.parametrize("sandbox", ["auto", "none"])
def test_the_work_tree_and_what_lies_above_decide_nothing(
    repo: GitRepo, sandbox: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = repo.write("pkg/ruff.toml", SELECTED).commit()
    repo.write("pkg/a b.py", SHELL).write("b c.py", SHELL)
    repo.write("ruff.toml", "lint.select = []\nnothing-of-ruff = 1\n").commit()
    monkeypatch.chdir(repo.path)
    assert judged(repo, base, sandbox) == ({("s602", "pkg/a b.py"), ("s602", "b c.py")}, [])


@pytest.mark.parametrize("sandbox", ["auto", "none"])
@pytest.mark.parametrize(
    "target",
    [
        "/{outside}", "{up}{outside}", "a/${{NOPE:-..}}/${{NOPE:-..}}/{up}{outside}",
        "$OUTSIDE", "${{OUTSIDE}}", "~/{outside}", "link.toml", "folder/secret.toml",
        "inner.toml", "gone.toml", "pkg/../../{up}{outside}",
    ],
)  # fmt: skip
def test_nothing_is_read_that_is_no_file_of_the_repository(
    repo: GitRepo, target: str, sandbox: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = repo.path.parent / "outside"
    outside.mkdir()
    (outside / "secret.toml").write_text(f"lint.select = ['{SECRET}']\n")
    monkeypatch.setenv("OUTSIDE", str(outside / "secret.toml"))
    name = str(outside / "secret.toml").lstrip("/")
    target = target.format(outside=name, up="../" * 20)
    (repo.path / "link.toml").symlink_to(outside / "secret.toml")
    (repo.path / "folder").symlink_to(outside)
    repo.write("inner.toml", f"extend = '/{name}'\n").write("a.py", "")
    base = repo.write("ruff.toml", f"{SELECTED}extend = {target!r}\n").commit()
    repo.write("a.py", SHELL).commit()
    found, [note] = judged(repo, base, sandbox)
    assert found == {("s602", "a.py")}
    start = "the repository's own ruff settings cannot be used: "
    which = "inner.toml" if target == "inner.toml" else "ruff.toml"
    assert note == f"{start}{which}: it extends what is no file of the repository"


def test_only_files_below_settings_that_cannot_be_used_are_without_them(repo: GitRepo) -> None:
    repo.write("ruff.toml", "lint.select = ['E9']\n").write("pkg/ruff.toml", "extend = '/etc/x'\n")
    base = repo.write("a.py", "").commit()
    repo.write("a.py", SHELL).write("pkg/a.py", SHELL).commit()
    found, notes = judged(repo, base)
    assert found == {("s602", "pkg/a.py")}
    assert len(notes) == 1


def test_settings_that_extend_one_another_are_all_read(repo: GitRepo) -> None:
    repo.write("conf/base.toml", "extend = 'inner/most.toml'\n")
    repo.write("conf/inner/most.toml", SELECTED)
    base = repo.write("ruff.toml", "extend = 'conf/base.toml'\n").commit()
    repo.write("a.py", f"{SHELL}\n\ndef g(x=[]):\n    return x\n").commit()
    assert judged(repo, base) == ({("s602", "a.py")}, [])
