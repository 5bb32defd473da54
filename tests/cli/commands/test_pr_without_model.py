"""``rlm-ci pr`` without a model: what is told of a change, and of what nobody looked at."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from testing.program import Cli
    from testing.repositories.git_repo import GitRepo

OLD = "import os\n\n\ndef run(word):\n    return eval(word)\n"
NEW = """\
import os


def run(word: str) -> object:
    return eval(word)


def more(word, seen=[]):
    try:
        return exec(word)
    except ValueError:
        return missing
"""


def test_what_nobody_looked_at_has_a_row_and_fails_only_where_a_review_is_demanded(
    cli: Cli, repo: GitRepo
) -> None:
    base = repo.write("README.md", "# Shop\n").commit()
    repo.write("README.md", "# The shop\n").write("main.go", "package main\n").commit()
    ended = cli("pr", "--base", base, cwd=repo)
    assert ended.code == 0
    assert re.search(r"(?m)^– review +not looked at: nothing reads 1 Go file, 1", ended.stdout)
    assert "1 Go file (staticcheck, or golangci-lint with gosec)" in ended.stdout
    assert ended.stdout.splitlines()[-1] == (
        "! Checks clean, code not reviewed: 2 checks, nothing to fix "
        "(no model read this change, and analyzers read no file of it)"
    )
    demanded = cli("pr", "--base", base, "--review", "on", cwd=repo)
    assert demanded.code == 5
    assert re.search(r"(?m)^! review +not run: nothing reads 1 Go file, 1", demanded.stdout)
    repo.run("rm", "-q", "main.go")
    last = repo.commit()
    gone = cli("pr", "--base", f"{last}~1", "--review", "on", cwd=repo)
    assert gone.code == 0
    assert re.search(r"(?m)^– review +not looked at: the change has no file", gone.stdout)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("run", "#!/bin/sh\nrm -rf /\n", "1 Shell file (shellcheck)"),
        ("bin/tool", "#!/usr/bin/env perl\nprint 1;\n", "1 Perl file. A model"),
        ("tool.ps1", "exit 1\n", "1 PowerShell file. A model"),
    ],
)
def test_code_is_known_by_its_first_line_and_has_no_tick_where_nothing_read_it(
    cli: Cli, repo: GitRepo, name: str, content: str, message: str
) -> None:
    base = repo.write("README.md", "# Shop\n").commit()
    repo.write(name, content).commit()
    ended = cli("pr", "--base", base, cwd=repo)
    assert message in " ".join(ended.stdout.split())
    assert ended.stdout.splitlines()[-1].startswith("! Checks clean, code not reviewed")


def test_a_script_of_python_is_looked_at_without_a_suffix(cli: Cli, repo: GitRepo) -> None:
    base = repo.write("README.md", "# Shop\n").commit()
    repo.write("bin/tool", "#!/usr/bin/env python3\nprint(missing)\n").commit()
    ended = cli("pr", "--base", base, cwd=repo)
    assert "bin/tool:2  review/ruff-f821  high" in ended.stdout
    assert ended.code == 1


def test_a_link_is_no_file_that_an_analyzer_would_read(cli: Cli, repo: GitRepo) -> None:
    base = repo.write("README.md", "# Shop\n").commit()
    (repo.path / "link.py").symlink_to("/etc/passwd")
    (repo.path / "run").symlink_to("nowhere")
    repo.write("fine.py", "x = 1\n").commit()
    ended = cli("pr", "--base", base, cwd=repo)
    assert "analyzers read 1 of 3 changed" in " ".join(ended.stdout.split())
    assert "install ruff" not in ended.stdout


def test_only_what_is_new_is_annotated_and_the_base_says_what_counts(
    cli: Cli, repo: GitRepo
) -> None:
    repo.write("ruff.toml", "lint.select = ['B', 'F', 'D']\n").write("a.py", OLD)
    base = repo.write("rlm-ci.toml", "[review.ruff]\nextend = ['S102']\n").commit()
    repo.write("ruff.toml", "lint.select = ['S']\n").write("a.py", NEW).commit()
    ended = cli("pr", "--base", base, cwd=repo, env={"GITHUB_ACTIONS": "true"})
    told = re.findall(r"(?m)^::\w+ file=a.py,line=(\d+),endLine=\d+,title=([^:]+)::", ended.stdout)
    assert sorted(told) == [
        ("10", "review/ruff-s102"), ("12", "review/ruff-f821"), ("8", "review/ruff-b006"),
    ]  # fmt: skip
    assert ended.code == 1
    assert "no model read this change, and analyzers read 1 of 2 changed" in (
        " ".join(ended.stdout.split())
    )
    assert "1 not of this change" in ended.stdout
    assert "F401" not in ended.stdout
