"""Where ``rlm-ci init --hooks`` writes: where the team's own hooks are, and where they stay."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from rlm_ci.cli.native_hooks import folder_of
from rlm_ci.git.repository import Repository, discover
from testing import node_packages

if TYPE_CHECKING:
    from pathlib import Path

    from testing.program import Cli
    from testing.repositories.git_repo import GitRepo

SHIM = '#!/usr/bin/env sh\n. "$(dirname "$0")/h"'
#: What husky 9 writes beside its shims.
RUNNER = """\
#!/usr/bin/env sh
s=$(dirname "$(dirname "$0")")/$(basename "$0")
[ ! -f "$s" ] && exit 0
sh -e "$s" "$@"
"""
TEAM = "echo the team >>team.log\n"


def hooked(repo: GitRepo, folder: str = ".husky") -> GitRepo:
    """A repository whose hooks husky has installed."""
    inner = f"{folder}/_"
    repo.write_all({f"{inner}/.gitignore": "*", f"{inner}/h": RUNNER})
    for name in ("pre-commit", "pre-push"):
        repo.write(f"{inner}/{name}", SHIM, mode=0o755)
    repo.write(f"{folder}/pre-commit", TEAM).commit()
    return repo.config("core.hooksPath", inner)


def refused(repo: GitRepo) -> bool:
    """Whether a commit that is too large is refused, by rlm-ci."""
    repo.write_all({f"f{n}": "x\n" for n in range(26)}).run("add", "-A")
    ended = repo.attempt("commit", "-q", "-m", "Too much", env=with_rlm_ci())
    assert (b"diff-budget/files" in ended.stdout + ended.stderr) == bool(ended.returncode)
    return bool(ended.returncode)


def with_rlm_ci() -> dict[str, str]:
    """An environment in which rlm-ci is on PATH, or is not."""
    import sys

    return {"PATH": f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"}


def test_native_hooks_run_this_rlm_ci(cli: Cli, repo: GitRepo) -> None:
    told = cli("init", "--hooks", cwd=repo)
    assert (told.code, told.stderr) == (0, "")
    assert "written    .git/hooks/pre-commit\nwritten    .git/hooks/pre-push\n" in told.stdout
    assert not (repo.path / ".pre-commit-config.yaml").exists()
    assert "unchanged  .git/hooks/pre-push" in cli("init", "--hooks", cwd=repo).stdout
    repo.run("add", "-A")
    without = {"PATH": "/usr/bin:/bin"}  # where no rlm-ci is: the hook knows its place
    assert repo.attempt("commit", "-q", "-m", "Set up", env=without).returncode == 0
    repo.write_all({f"f{n}": "x\n" for n in range(26)})
    repo.run("add", "-A")
    refused = repo.attempt("commit", "-q", "-m", "Too much", env=without)
    assert refused.returncode == 1
    assert b"diff-budget/files" in refused.stdout + refused.stderr


@pytest.mark.parametrize("folder", [".husky", "tools/husky"])
@pytest.mark.parametrize("flags", [(), ("--force",)])
def test_huskys_shims_stay(cli: Cli, repo: GitRepo, folder: str, flags: tuple[str, ...]) -> None:
    hooked(repo, folder)
    told = cli("init", "--hooks", *flags, cwd=repo).stdout
    assert repo.read(f"{folder}/_/pre-commit").decode() == SHIM
    assert f"written    {folder}/pre-commit" in told
    assert f"written    {folder}/pre-push\n" in told
    assert (TEAM.encode() in repo.read(f"{folder}/pre-commit")) == (not flags)
    assert refused(repo)
    assert "unchanged" in cli("init", "--hooks", cwd=repo).stdout
    cli("init", "--remove", cwd=repo)
    assert repo.read(f"{folder}/pre-commit").decode() == TEAM


def test_without_rlm_ci_a_hook_of_the_team_says_how_to_install_it(cli: Cli, repo: GitRepo) -> None:
    hooked(repo)
    cli("init", "--hooks", cwd=repo)
    repo.run("add", "-A")
    ended = repo.attempt("commit", "-q", "-m", "More", env={"PATH": "/usr/bin:/bin"})
    assert ended.returncode == 1
    assert b"hint: rlm-ci is not installed: pip install" in ended.stderr


def test_a_husky_that_is_not_installed_yet_gets_them_too(cli: Cli, repo: GitRepo) -> None:
    repo.write(".husky/pre-commit", TEAM)
    told = cli("init", "--hooks", cwd=repo).stdout
    assert "written    .husky/pre-commit (rlm-ci added)" in told
    assert "they run once husky is installed" in told
    assert "commits and pushes of this clone are checked" not in told
    assert not (repo.path / ".git/hooks/pre-commit").exists()


@pytest.mark.full
def test_real_husky_runs_them_and_leaves_them_at_its_next_start(cli: Cli, repo: GitRepo) -> None:
    node_packages.install(repo.path, "husky")
    repo.write_all({".gitignore": "node_modules\n", "package.json": "{}"})
    husky = ["node", "node_modules/husky/bin.js"]
    subprocess.run([*husky, "init"], cwd=repo, check=False, capture_output=True)
    repo.write(".husky/pre-commit", TEAM).run("add", "-A")
    repo.attempt("commit", "-q", "-m", "Husky", env=with_rlm_ci())
    shim = repo.read(".husky/_/pre-commit")
    assert cli("init", "--hooks", "--force", cwd=repo).code == 0
    assert repo.read(".husky/_/pre-commit") == shim
    subprocess.run(husky, cwd=repo, check=True, capture_output=True)  # as npm install does
    assert refused(repo)


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"lefthook.yml": "pre-commit: {}\n"}, "lefthook writes the hooks"),
        ({".config/lefthook.toml": ""}, "use_stdin: true"),
        ({"package.json": '{"simple-git-hooks": {}}'}, '"simple-git-hooks" of package.json'),
        ({".git/hooks/pre-push": "#!/bin/sh\ncall_lefthook run\n"}, "add to lefthook.yml"),
        (
            {".git/hooks/pre-commit": "#!/usr/bin/env bash\n# File generated by pre-commit\n"},
            "run rlm-ci init without --hooks",
        ),
    ],
)
def test_what_a_manager_generates_is_never_written(
    cli: Cli, repo: GitRepo, files: dict[str, str], words: str
) -> None:
    for name, text in files.items():
        path = repo.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for flags in ((), ("--force",)):
        told = cli("init", "--hooks", *flags, cwd=repo).stdout
        assert words in told
        assert "commits and pushes of this clone are checked" not in told
        for name, text in files.items():
            assert (repo.path / name).read_text() == text


def test_a_pre_push_hook_still_reads_what_git_tells(
    cli: Cli, repo: GitRepo, tmp_path: Path
) -> None:
    repo.config("core.hooksPath", "tools/hooks")
    repo.write("tools/hooks/pre-push", "#!/bin/bash\nset -u\ncat >refs.log\n", mode=0o755).commit()
    told = cli("init", "--hooks", cwd=repo).stdout
    assert "written    tools/hooks/pre-commit\n" in told
    assert "written    tools/hooks/pre-push (rlm-ci added)" in told
    assert str(tmp_path).encode() not in repo.read("tools/hooks/pre-commit")
    repo.run("init", "-q", "--bare", str(tmp_path / "bare"))
    repo.remote(tmp_path / "bare")
    assert repo.attempt("push", "-q", "origin", "HEAD:main", env=with_rlm_ci()).returncode == 0
    assert repo.read("refs.log").split()[1].decode() == repo.sha()
    repo.write_all({f"f{n}": "x\n" for n in range(26)})
    repo.run("add", "-A")
    repo.run("-c", "core.hooksPath=", "commit", "-q", "-m", "Too much")
    ended = repo.attempt("push", "-q", "origin", "HEAD:main", env=with_rlm_ci())
    assert (ended.returncode, b"diff-budget/files" in ended.stdout + ended.stderr) == (1, True)


def test_the_repositorys_copy_of_our_hooks_is_left_as_it_is(cli: Cli, repo: GitRepo) -> None:
    own = {"pre-commit": '#!/bin/sh\nexec "$(dirname "$0")/run" pre-commit\n', "run": "rlm-ci\n"}
    repo.write_all({f"hooks/{name}": text for name, text in own.items()})
    repo.config("core.hooksPath", "hooks")
    told = cli("init", "--hooks", cwd=repo).stdout
    assert "unchanged  hooks/pre-commit (it runs rlm-ci)" in told
    assert "each hook that was kept" not in told
    assert repo.read("hooks/pre-commit").decode() == own["pre-commit"]


def test_hooks_that_cannot_be_added_to_or_serve_others_are_left_alone(
    cli: Cli, repo: GitRepo, tmp_path: Path
) -> None:
    own = repo.path / ".git/hooks"
    own.mkdir(exist_ok=True)
    (own / "pre-push").write_text("#!/usr/bin/env python3\n")
    (own / "pre-commit").symlink_to("elsewhere")
    told = cli("init", "--hooks", cwd=repo).stdout
    for name in ("pre-push", "pre-commit"):
        assert f"kept       .git/hooks/{name} (it exists; --force overwrites it)" in told
    assert "let each hook that was kept run: rlm-ci check --hook NAME" in told
    assert (own / "pre-push").read_text() == "#!/usr/bin/env python3\n"
    repo.config("core.hooksPath", str(tmp_path / "all"))
    told = cli("init", "--hooks", cwd=repo).stdout
    assert f"kept       core.hooksPath is {tmp_path / 'all'}" in told
    assert "rlm-ci check --hook pre-commit" in told
    assert not (tmp_path / "all").exists()


def test_a_linked_work_tree_shares_them(cli: Cli, repo: GitRepo, tmp_path: Path) -> None:
    repo.commit()
    linked = repo.worktree(tmp_path / "linked")
    told = cli("init", "--hooks", cwd=linked).stdout
    assert f"written    {repo.path}/.git/hooks/pre-commit" in told
    root, git_dir = discover(str(linked.path))
    folder = folder_of(Repository(root, git_dir, dict(os.environ)))
    assert folder.path == f"{repo.path}/.git/hooks"
    assert "removed" in cli("init", "--remove", cwd=linked).stdout
    assert not (repo.path / ".git/hooks/pre-commit").exists()
