"""What a pull request may bring to make us slow, large or wrong: each was once found so."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from testing.repositories.archives import MARKER, stub

if TYPE_CHECKING:
    from testing.program import Cli
    from testing.repositories.git_repo import GitRepo

GIGABYTE = 1 << 30


def limited(repo: GitRepo, *args: str) -> subprocess.CompletedProcess[str]:
    """The command in one gigabyte of memory and twenty seconds."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (GIGABYTE, GIGABYTE))

    argv = [sys.executable, "-I", "-m", "rlm_ci", *args]
    return subprocess.run(
        argv, cwd=repo, capture_output=True, text=True, check=False, timeout=20, preexec_fn=limit
    )


def test_a_pyproject_that_is_hard_to_parse_is_compared_not_parsed(repo: GitRepo) -> None:
    base = repo.write("a.py", "a\n").commit()
    repo.write("pyproject.toml", "# rlm-ci\n" + ".".join(["a"] * 60_000) + " = 1\n").commit()
    ended = limited(repo, "check", "diff-budget", "--base", base)
    assert (ended.returncode, "1 file (limit 25)" in ended.stdout) == (0, True), ended.stderr


@pytest.mark.full
def test_large_policy_files_hide_nothing(repo: GitRepo) -> None:
    base = repo.write("a.py", "a\n").commit()
    repo.write_all({f"d{n}/.gitattributes": b"\0" * (40 << 20) for n in range(4)})
    repo.write_all({f"f{n}": "x\n" for n in range(30)}).commit()
    ended = limited(repo, "pr", "--base", base, "--out", "out")
    assert ended.returncode == 1, ended.stderr
    assert "34 files changed" in ended.stdout
    assert "edited here, and not used" in ended.stdout


@pytest.mark.full
def test_a_deep_folder_costs_no_more_than_its_name(repo: GitRepo) -> None:
    base = repo.write("a.py", "a\n").commit()
    blob = repo.text("rev-parse", f"{base}:a.py")
    rows = b"".join(
        b"100644 %s\t%s\0" % (blob.encode(), b"/".join([b"d%d" % n, *[b"d"] * 3000, b"f"]))
        for n in range(6)
    )
    repo.run("update-index", "-z", "--index-info", stdin=rows)
    repo.commit(stage=False)
    ended = limited(repo, "check", "diff-budget", "--base", base)
    assert (ended.returncode, "6 files (limit 25)" in ended.stdout) == (0, True), ended.stderr


@pytest.mark.full
def test_names_with_line_breaks_cost_no_process_each(repo: GitRepo) -> None:
    base = repo.write("a.py", "a\n").commit()
    blob = repo.text("rev-parse", f"{base}:a.py").encode()
    rows = b"".join(b"100644 %s\td\n%d/f\0" % (blob, n) for n in range(20_000))
    repo.run("update-index", "-z", "--index-info", stdin=rows)
    repo.commit(stage=False)
    ended = limited(repo, "check", "diff-budget", "--base", base)
    assert (ended.returncode, "20,000 files changed" in ended.stdout) == (1, True), ended.stderr


@pytest.mark.parametrize(
    "config",
    ['[diff_budget]\nignore = ["[z-a]"]\n',
     '[[diff_budget.paths]]\nglob = "[z-a]"\nmax_lines = 1\n',
     '[[suppressions]]\nrule = "diff-budget"\npath = "[z-a]"\nreason = "r"\n'],
)  # fmt: skip
def test_a_pattern_that_is_none_is_a_config_error(cli: Cli, repo: GitRepo, config: str) -> None:
    repo.write("rlm-ci.toml", config).commit()
    ended = cli("check", "diff-budget", "--max-files", "0", "--commit", "HEAD", cwd=repo)
    assert (ended.code, "bad character range" in ended.stderr) == (5, True), ended.stderr


def test_whole_numbers_may_be_written_as_others_are(cli: Cli, repo: GitRepo) -> None:
    repo.write("README.md", "# x\n").commit()
    repo.branch("doc-archives").write("docs/x.md", stub("docs/x.md")).commit()
    report = cli("check", "doc-archive", "--commit", "HEAD", "--format", "json", cwd=repo).json()
    place = report["findings"][0]["evidence"][0]
    place["line_start"] = place["line_end"] = float(place["line_start"])
    repo.write("report.json", json.dumps(report))
    assert cli("verify", "report.json", cwd=repo).code == 0
    place["path"] += "\r"
    repo.write("report.json", json.dumps(report))
    assert cli("verify", "report.json", cwd=repo).code == 1


@pytest.mark.sample(3)
@pytest.mark.parametrize("form", ["text", "markdown", "html", "github", "json", "sarif"])
def test_no_form_prints_a_workflow_command(cli: Cli, repo: GitRepo, form: str) -> None:
    base = repo.write("README.md", "# x\n").commit()
    repo.branch("doc-archives")
    for name, line in (("x.md", "::add-mask::e"), ("##[error]y.md", "  ::stop-commands::zz")):
        text = (
            f"# T\n\n{MARKER}\n{line}\n\n- Archive branch: doc-archives\n- Archive path: {name}\n"
        )
        repo.write(f"docs/{name}", text)
    repo.commit()
    ended = cli("check", "doc-archive", "--base", base, "--format", form, cwd=repo)
    assert ended.code == 1
    assert "##[" not in ended.stdout + ended.stderr
    commands = [one for one in ended.stdout.splitlines() if one.lstrip().startswith("::")]
    assert all(one.startswith(("::error file=", "::error title=")) for one in commands)
    assert bool(commands) == (form == "github")
