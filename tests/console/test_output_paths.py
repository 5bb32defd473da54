"""A command that writes a file or a folder names it in its last lines."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from testing.program import Cli

if TYPE_CHECKING:
    from testing.repositories.git_repo import GitRepo

#: What is called, and what it leaves.
WRITING = {
    "check --base HEAD~1 --output out.txt": "out.txt",
    "check --base HEAD~1 --format html --output out.html": "out.html",
    "completion bash --output done.sh": "done.sh",
    "context build src": "src.context",
    "explain diff-budget/files --output rule.txt": "rule.txt",
    "init": "rlm-ci.toml",
    "pr --base HEAD~1 --out pages": "pages/report.html",
    "review --base HEAD~1": "report.md",
    "suppress src/calc.py:1 --reason agreed": "rlm-ci.toml",
    "wiki": "index.md",
    "wiki --out pages": "pages",
}
_LAST = 6


@pytest.fixture
def changed(repo: GitRepo) -> GitRepo:
    repo.write("src/calc.py", "def add(a, b):\n    return a + b\n").commit("Add")
    repo.write("src/calc.py", "import os\n\n\ndef add(a, b):\n    return a + b\n").commit("Log")
    return repo


@pytest.mark.parametrize("line", WRITING)
@pytest.mark.full
def test_the_last_lines_name_what_was_written(line: str, changed: GitRepo) -> None:
    cli = Cli(changed.path)
    if line.startswith("suppress"):  # what it accepts is in the latest run
        cli("review", "--base", "HEAD~1")
    before = set(changed.path.rglob("*"))
    ended = cli(*line.split())
    assert ended.code == 0, ended
    path = WRITING[line]
    made = {one for one in set(changed.path.rglob("*")) - before if one.match(path)}
    assert made, ended
    last = (ended.stdout + ended.stderr).splitlines()[-_LAST:]
    if line.startswith("init"):  # each file has a line, then come the next steps
        last = ended.stdout.splitlines()
    assert any(str(one.relative_to(changed.path)) in text for one in made for text in last), ended


def test_a_page_of_no_run_has_a_date(changed: GitRepo) -> None:
    Cli(changed.path)("check", "--base", "HEAD~1", "--format", "html", "--output", "out.html")
    Cli(changed.path)("pr", "--base", "HEAD~1", "--out", "pages")
    for page in ("out.html", "pages/report.html"):
        assert re.search(
            r"<time>\d{4}-\d\d-\d\d \d\d:\d\d UTC</time>", (changed.path / page).read_text()
        )


def test_an_exported_run_is_named_last(changed: GitRepo) -> None:
    cli = Cli(changed.path)
    cli("review", "--base", "HEAD~1")
    ended = cli("export", "latest", "--output", "run.tar.gz")
    assert ended.code == 0, ended
    assert (changed.path / "run.tar.gz").is_file()
    assert ended.stdout.splitlines()[-1].startswith("run.tar.gz: ")


def test_a_form_that_a_command_has_not_is_refused(changed: GitRepo) -> None:
    for command in ("completion bash", "explain diff-budget/files"):
        ended = Cli(changed.path)(*command.split(), "--format", "json")
        assert ended.code == 2, ended
        assert "use text" in ended.stderr
