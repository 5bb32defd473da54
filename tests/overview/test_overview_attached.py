"""Which reports have an overview: those of changes between commits, and never at a hook."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from rlm_ci.overview.overview import attached
from rlm_ci.report.findings import Report, Severity, Subject
from testing import change_sets
from testing.repositories.git_repo import History

if TYPE_CHECKING:
    from testing.program import Cli
    from testing.repositories.git_repo import GitRepo

SECRET = "c0rrect-h0rse-battery-staple"


def report() -> Report:
    return Report(Subject(), Severity.HIGH, ())


@pytest.mark.full
def test_check_and_pr_say_what_changes_and_hooks_do_not(cli: Cli, repo: GitRepo) -> None:
    base = repo.write("a.py", "def f(): ...\ndef g():\n    f()\n").commit()
    repo.write("a.py", f"def g(key='{SECRET}'):\n    f()\n").commit()
    made = cli("check", "--base", base, "--format", "json", cwd=repo)
    (one,) = [one for one in json.loads(made.stdout)["overview"]["names"] if one["name"] == "f"]
    assert (one["change"], one["caller_count"], one["outside"]) == ("removed", 1, 1)
    text = cli("check", "--base", base, "--format", "markdown", cwd=repo).stdout
    assert "### What changes\n\n1 file; 2 public names: 1 removed, 1 changed\n" in text
    secret = {"OPENAI_API_KEY": SECRET}
    posted = cli("pr", "--base", base, "--review", "off", "--format", "html", cwd=repo, env=secret)
    assert "<h2>What changes</h2>" in posted.stdout
    assert SECRET not in posted.stdout
    hook = ("check", "--hook", "pre-commit", "--staged", "--format", "json")
    assert "overview" not in json.loads(cli(*hook, cwd=repo).stdout)


def test_an_overview_that_cannot_be_made_says_so_and_fails_nothing(repo: GitRepo) -> None:
    base = repo.write("a.py", "def f(): ...\n").commit()
    head = repo.write("a.py", "").commit()
    change = change_sets.change_of(History(repo, base, head))
    missing = change.replace(merge_base="1" * 40)
    made = attached(report(), missing, {}).overview
    assert made is not None
    assert made.limits[0].startswith("the overview could not be made: ")
    assert attached(report(), change.replace(trigger="index"), {}).overview is None
