"""What git tracks and leaves out of the work tree is read from the index, by every reader."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from rlm_ci.git import tracked
from rlm_ci.git.repository import Repository, discover
from rlm_ci.system.files import UnreadableError
from testing.repositories.archives import POLICY_PATH, policy, stub
from testing.repositories.git_repo import SYMLINK, GitRepo

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from testing.program import Cli

STUB = "docs/plan.md"
CONFIG = "[diff_budget]\nmax_files = 7\n"
PATHS = ("rlm-ci.toml", "tasks/index.json", POLICY_PATH, STUB)


def skipped(repo: GitRepo) -> None:
    repo.run("update-index", "--skip-worktree", *PATHS)
    repo.remove(*PATHS)


def assumed(repo: GitRepo) -> None:
    repo.run("update-index", "--assume-unchanged", *PATHS)
    repo.remove(*PATHS)


def compressed(repo: GitRepo) -> None:
    repo.run("update-index", "--index-version", "4")
    skipped(repo)


def split(repo: GitRepo) -> None:
    skipped(repo)
    repo.run("update-index", "--split-index")


#: Ways to have a file tracked and not checked out; in a cone the top's own files always are.
WAYS: dict[str, Callable[[GitRepo], object]] = {
    "cone": lambda repo: repo.run("sparse-checkout", "set", "--cone", "src"),
    "sparse index": lambda repo: repo.run("sparse-checkout", "set", "--sparse-index", "src"),
    "patterns": lambda repo: repo.run("sparse-checkout", "set", "--no-cone", "/src/"),
    "skip-worktree": skipped,
    "assume-unchanged": assumed,
    "version 4": compressed,
    "split index": split,
}  # fmt: skip


def opened(repo: GitRepo) -> Repository:
    return Repository(*discover(os.fspath(repo)), os.environ)


def filled(repo: GitRepo) -> GitRepo:
    repo.write_all({
        "src/a.py": "a\n", "rlm-ci.toml": CONFIG, POLICY_PATH: policy(branch="old-texts"),
        "tasks/index.json": json.dumps({"items": [{"id": "0951", "slug": "guard"}]}),
        STUB: stub(STUB, branch="old-texts"), "docs/link.md": "# Link\n",
        ".rlm-ci/templates/comment.md.j2": "MINE\n",
    }).commit()  # fmt: skip
    return repo.branch("old-texts")


@pytest.mark.full
@pytest.mark.parametrize("way", WAYS)
def test_what_is_left_out_judges_and_is_judged(cli: Cli, repo: GitRepo, way: str) -> None:
    WAYS[way](filled(repo))
    gone = [path for path in PATHS if not os.path.exists(repo.place(path))]
    assert set(PATHS) - set(gone) <= {"rlm-ci.toml"}
    assert repo.text("status", "--porcelain") == ""
    ended = cli("check", "--format", "json", cwd=repo)
    parts = {part["id"]: part for part in ended.json()["parts"]}
    assert parts["diff-budget"]["metrics"]["max_files"] == 7
    assert parts["diff-budget"]["metrics"]["files"] == 0
    assert "no task id is given" in parts["delegation-guard"]["summary"]
    assert parts["delegation-guard"]["verdict"] == "findings"
    (found,) = [one for one in ended.json()["findings"] if one["rule"].startswith("doc-archive/")]
    assert (found["rule"], found["evidence"][0]["path"]) == ("doc-archive/payload-is-stub", STUB)
    assert f"old-texts:{STUB}" in found["message"]
    for named in (STUB, "docs"):
        assert cli("check", "doc-archive", "--", named, cwd=repo).code == 1


def test_what_is_deleted_is_not_left_out(cli: Cli, repo: GitRepo) -> None:
    filled(repo).remove(*PATHS)
    ended = cli("check", "--format", "json", cwd=repo)
    parts = {part["id"]: part for part in ended.json()["parts"]}
    assert parts["diff-budget"]["metrics"]["max_files"] == 25
    assert parts["diff-budget"]["metrics"]["files"] == 4
    assert parts["doc-archive"]["metrics"]["stubs"] == 0
    assert parts["delegation-guard"]["verdict"] != "findings"
    repo.write("new.md", "# New\n").run("add", "-N", "new.md")
    repo.remove("new.md")
    assert tracked.left_out(opened(repo), [*PATHS, "new.md"]) == {}


@pytest.mark.parametrize("way", ["cone", "patterns"])
def test_a_sparse_checkout_counts_what_was_written_outside_of_it(
    cli: Cli, repo: GitRepo, way: str
) -> None:
    filled(repo).write("docs/.gitattributes", "*.up filter=up\n").commit()
    repo.config("filter.up.clean", "head -n 2")
    WAYS[way](repo)
    repo.write("docs/new.up", "1\n2\n3\n4\n").write("docs/n.txt", "1\n").write(STUB, "# Full\n")
    part = cli("check", "diff-budget", "--format", "json", cwd=repo).json()["parts"][0]
    assert cli("check", "doc-archive", cwd=repo).code == 0
    repo.run("add", "--sparse", "-A")
    counted = repo.text("diff", "--cached", "--numstat").splitlines()
    assert part["metrics"]["files"] == len(counted) == 3
    assert part["metrics"]["added"] == sum(int(row.split()[0]) for row in counted)


def test_git_is_not_asked_of_what_its_index_cannot_hold(
    repo: GitRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(repo).remove("rlm-ci.toml").commit()
    here = opened(repo)
    monkeypatch.setenv("PATH", "")  # no git could be started
    monkeypatch.setattr(here, "_env", {})
    with pytest.raises(UnreadableError, match="does not exist"):
        tracked.read(here, "rlm-ci.toml", 100)


def test_templates_and_links_that_are_left_out(cli: Cli, repo: GitRepo) -> None:
    filled(repo)
    WAYS["cone"](repo)
    ended = cli("check", "diff-budget", "--format", "markdown", cwd=repo)
    assert ended.stdout.endswith("MINE\n")
    repo.run("sparse-checkout", "disable")
    blob = repo.text("hash-object", "src/a.py")
    repo.run("update-index", "--cacheinfo", f"{SYMLINK},{blob},rlm-ci.toml")
    repo.run("update-index", "--skip-worktree", "rlm-ci.toml")
    repo.remove("rlm-ci.toml")
    ended = cli("check", cwd=repo)
    assert ended.code == 5
    assert "it is a link, not a regular file (rlm-ci.toml)" in ended.stderr


def test_a_large_file_that_is_left_out_is_refused(repo: GitRepo) -> None:
    filled(repo)
    WAYS["cone"](repo)
    with pytest.raises(UnreadableError, match="more than 9"):
        tracked.read(opened(repo), "tasks/index.json", 9)


def test_many_missing_paths_are_asked_for_at_once(repo: GitRepo) -> None:
    paths = [f"docs/{number}.md" for number in range(300)]
    repo.write_all({**dict.fromkeys(paths, "# Text\n"), "src/a.py": "a\n"}).commit()
    WAYS["cone"](repo)
    found = tracked.left_out(opened(repo), [*paths[:250], "docs/none.md"])
    assert list(found) == sorted(paths[:250])


def test_init_keeps_what_is_left_out(cli: Cli, repo: GitRepo) -> None:
    filled(repo).write(".gitignore", "*.log\n").commit()
    WAYS["patterns"](repo)
    ended = cli("init", cwd=repo)
    assert "kept       rlm-ci.toml (your sparse checkout leaves it out)" in ended.stdout
    assert not os.path.exists(repo.place("rlm-ci.toml"))
    assert repo.read(".gitignore") == b"*.log\n.runs/\n"


@pytest.mark.full
def test_a_partial_clone_without_the_contents_is_not_clean(
    cli: Cli, repo: GitRepo, tmp_path: Path
) -> None:
    filled(repo).run("config", "uploadpack.allowFilter", "true")
    url = f"file://{repo.path}"
    repo.run("clone", "-q", "--filter=blob:none", "--sparse", url, str(tmp_path / "part"))
    part = GitRepo(tmp_path / "part")
    part.run("fetch", "-q", "origin", "old-texts:refs/remotes/origin/old-texts")
    ended = cli("check", "doc-archive", cwd=part)
    assert (ended.code, "does not have a file" in ended.stderr) == (5, True)
    ended = cli("check", "delegation-guard", cwd=part)
    hint = "hint: fetch it: git cat-file -p :tasks/index.json\n"
    assert (ended.code, hint in ended.stderr) == (5, True)
    part.run("cat-file", "-p", ":tasks/index.json")
    assert cli("check", "delegation-guard", cwd=part).code == 1
    # What the hint says fixes it.
    part.run("fetch", "-q", "--refetch", "--no-filter")
    assert cli("check", "doc-archive", cwd=part).code == 1
