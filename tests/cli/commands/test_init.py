"""rlm-ci init: what it writes, what it leaves alone, and to which commit it pins."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

import pytest

from rlm_ci import __version__
from rlm_ci.cli import main
from rlm_ci.cli.commands import init
from rlm_ci.system import installation

if TYPE_CHECKING:
    from pathlib import Path

    from testing.program import Cli
    from testing.repositories.git_repo import GitRepo

ALWAYS = [".github/workflows/rlm-ci.yml", ".gitignore", ".pre-commit-config.yaml", "rlm-ci.toml"]
PUBLISH = ".github/workflows/rlm-ci-publish.yml"
COMMENT = ".github/workflows/rlm-ci-comment.yml"
COMMIT = "1" * 40


def contents(repo: GitRepo) -> dict[str, bytes]:
    """Every file of the work tree by its path."""
    return {
        path.relative_to(repo.path).as_posix(): path.read_bytes()
        for path in repo.path.rglob("*")
        if path.is_file() and ".git" not in path.relative_to(repo.path).parts
    }


@pytest.mark.parametrize(
    ("flags", "more"),
    [
        ([], []),
        (["--fork-safe"], [PUBLISH]),
        (["--slash-commands"], [COMMENT]),
        (["--fork-safe", "--slash-commands"], [PUBLISH, COMMENT]),
    ],
)
def test_what_is_written(cli: Cli, repo: GitRepo, flags: list[str], more: list[str]) -> None:
    ended = cli("init", *flags, cwd=repo)
    assert (ended.code, ended.stderr) == (0, "")
    written = contents(repo)
    assert sorted(written) == sorted([*ALWAYS, *more])
    for path in written:
        assert f"written    {path}" in ended.stdout
    assert ("default branch" in ended.stdout) == bool(flags)
    again = cli("init", *flags, cwd=repo)
    assert again.code == 0
    assert "written" not in again.stdout
    assert contents(repo) == written


@pytest.mark.parametrize("flags", [[], ["--force"]])
def test_settings_in_pyproject_stay_the_only_ones(
    cli: Cli, repo: GitRepo, flags: list[str]
) -> None:
    repo.write("pyproject.toml", '[tool.rlm-ci]\nfail_level = "low"\n')
    ended = cli("init", *flags, cwd=repo)
    assert ended.code == 0, ended.stderr
    assert "kept       [tool.rlm-ci] of pyproject.toml is the configuration\n" in ended.stdout
    assert not (repo.path / "rlm-ci.toml").exists()
    told = cli("config", cwd=repo)
    assert (told.code, "pyproject.toml" in told.stdout) == (0, True), told.stderr


def test_a_pyproject_without_our_settings_is_nothing_to_us(cli: Cli, repo: GitRepo) -> None:
    for text in ("[tool.ruff]\n", "[tool.rlm-ci]\n", "[tool.rlm-ci\n"):
        repo.write("pyproject.toml", text)
        assert cli("init", "--force", cwd=repo).code == 0
        assert (repo.path / "rlm-ci.toml").exists()


def test_every_line_of_the_settings_holds_without_its_hash(cli: Cli, repo: GitRepo) -> None:
    """Defaults are valid, and so are the examples of what has none."""
    from rlm_ci.config.options import PROGRAM

    text = init.config_file()
    wanted = {row.key for row in PROGRAM if row.file and not row.secret}
    section, seen, plain = "", set(), []
    for line in text.splitlines():
        if line.startswith("["):
            section = line[1:-1]
            plain.append(line)
        elif found := re.match(r"# ([a-z_]+) = ([^#]+)$", line):
            seen.add(f"{section}.{found[1]}".lstrip("."))
            plain.append(line[2:])
    tables = {row.key for row in PROGRAM if row.kind in ("table", "tables") and row.file}
    # TOML has either a value there or a table, so that one stands in place of the other.
    inner = {key for key in wanted if key.rpartition(".")[0] in wanted}
    assert inner == {"review.ruff.extend"}
    assert "#   ruff = { extend = [] }" in text
    assert wanted <= seen | tables | inner
    (repo.path / "rlm-ci.toml").write_text("\n".join(plain) + "\n", "utf-8")
    ended = cli("config", cwd=repo)
    assert (ended.code, ended.stderr) == (0, "")


def test_half_of_the_two_jobs_is_not_written(cli: Cli, repo: GitRepo) -> None:
    """The first job of a plain `init` leaves no report, so that the second would only fail."""
    assert cli("init", cwd=repo).code == 0
    before = contents(repo)
    ended = cli("init", "--fork-safe", cwd=repo)
    assert ended.code == 5
    assert "uploads no report for the second job" in ended.stderr
    assert "rlm-ci init --fork-safe --force" in ended.stderr
    assert contents(repo) == before
    assert cli("init", "--fork-safe", "--force", cwd=repo).code == 0
    assert init.REPORT_NAME.encode() in repo.read(".github/workflows/rlm-ci.yml")
    assert PUBLISH in contents(repo)


def test_nothing_is_overwritten_without_force(cli: Cli, repo: GitRepo) -> None:
    flags = ("--fork-safe", "--slash-commands")
    own = [path for path in (*ALWAYS, PUBLISH, COMMENT) if path != ".gitignore"]
    repo.write_all(dict.fromkeys(own, f"mine, with {init.REPORT_NAME}\n"))
    kept = cli("init", *flags, cwd=repo)
    assert kept.code == 0
    for path in own:
        assert f"kept       {path} (it exists; --force overwrites it)" in kept.stdout
        assert repo.read(path).startswith(b"mine")
    forced = cli("init", *flags, "--force", cwd=repo)
    for path in own:
        assert f"written    {path}" in forced.stdout
        assert not repo.read(path).startswith(b"mine")
        assert repo.read(f"{path}.orig").startswith(b"mine")
    repo.write("rlm-ci.toml", "again\n")
    assert "(the previous one: rlm-ci.toml.orig1)" in cli("init", "--force", cwd=repo).stdout
    assert repo.read("rlm-ci.toml.orig1") == b"again\n"


def test_what_an_own_pre_commit_configuration_lacks_is_told(cli: Cli, repo: GitRepo) -> None:
    repo.write(".pre-commit-config.yaml", "repos: []\n")
    told = cli("init", cwd=repo).stdout
    assert "default_install_hook_types: [pre-commit, pre-push]\n" in told
    assert f"\n  - repo: {installation.URL}\n    rev: " in told
    assert "\n      - id: diff-budget\n" in told
    repo.write(".pre-commit-config.yaml", f"repos:\n  - repo: {installation.URL}\n    rev: v0\n")
    assert "- id: diff-budget" not in cli("init", cwd=repo).stdout


@pytest.mark.parametrize("linked", [".github", ".github/workflows"])
def test_a_linked_folder_is_not_followed(
    cli: Cli, repo: GitRepo, tmp_path: Path, linked: str
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (repo.path / linked).parent.mkdir(exist_ok=True)
    os.symlink(tmp_path / "elsewhere", repo.path / linked)
    ended = cli("init", "--fork-safe", cwd=repo)
    assert ended.code == 5
    assert "the folder is a link" in ended.stderr
    assert not list((tmp_path / "elsewhere").iterdir())


def test_outside_of_a_repository_nothing_is_written(cli: Cli, tmp_path: Path) -> None:
    ended = cli("init", "--fork-safe")
    assert (ended.code, list(tmp_path.iterdir())) == (5, [])
    assert "git init" in ended.stderr


def test_every_workflow_is_pinned_alike() -> None:
    made = init.workflows(COMMIT, fork_safe=True, slash_commands=True)
    assert set(made) == {"rlm-ci.yml", "rlm-ci-publish.yml", "rlm-ci-comment.yml"}
    for text in made.values():
        assert re.findall(r"uses: (rlm-ci/.*)", text) == [
            f"rlm-ci/rlm-ci@{COMMIT} # rlm-ci {__version__}"
        ]
        assert "@PIN@" not in text


def test_a_commit_that_is_named_is_the_one(cli: Cli, repo: GitRepo) -> None:
    assert cli("init", "--fork-safe", "--pin", COMMIT, cwd=repo).code == 0
    for path in (".github/workflows/rlm-ci.yml", PUBLISH, ".pre-commit-config.yaml"):
        assert COMMIT.encode() in repo.read(path)


@pytest.mark.parametrize("name", ["v0.1.0", "main", "1" * 39, "1" * 41, "G" * 40, "A" * 40])
def test_a_tag_or_a_branch_is_no_commit(cli: Cli, repo: GitRepo, name: str) -> None:
    before = contents(repo)
    ended = cli("init", f"--pin={name}", cwd=repo)
    assert (ended.code, contents(repo)) == (5, before)
    assert "error: no commit: " in ended.stderr
    assert "40 hex digits" in ended.stderr


def test_without_a_commit_nothing_is_written(
    repo: GitRepo, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(init, "own_commit", lambda _environ: None)
    before = contents(repo)
    assert main(["init", "-C", str(repo.path)]) == 5
    told = capsys.readouterr().err
    assert contents(repo) == before
    assert "rlm-ci init --pin COMMIT" in told
    assert "git ls-remote https://github.com/rlm-ci/rlm-ci" in told
