"""test-guard on the rows of its tables: each weakening is found, and no honest change is."""

from __future__ import annotations

import os

import pytest

from rlm_ci.change import change_set
from rlm_ci.checks import test_guard
from rlm_ci.config.core_options import CORE
from rlm_ci.config.settings import Settings
from rlm_ci.git.repository import Repository, discover
from rlm_ci.report.findings import Severity
from rlm_ci.runs.store import RunStore
from testing.repositories.git_repo import GitRepo
from testing.weakening_rows import Row, names

#: One of each table and kind, for the default suite.
SAMPLE = [
    "python/weak/suppressed", "python/honest/loop-to-cases", "javascript/weak/failing",
    "go/honest/fatal-for-error", "rust/weak/attribute-gone", "java/weak/not-null",
]  # fmt: skip


def parameters() -> list[object]:
    """Rows that are open fail, and say so once they do not."""
    mark = pytest.mark.xfail(strict=True, raises=AssertionError, reason="open")
    return [
        pytest.param(name, marks=[mark] if Row(name).is_open else [])
        for name in dict.fromkeys([*SAMPLE, *names()])
    ]


@pytest.mark.sample(len(SAMPLE))
@pytest.mark.parametrize("name", parameters())
def test_a_row(repo: GitRepo, name: str) -> None:
    row = Row(name)
    repo.write_all(row.before).commit()
    repo.remove(*row.deleted).write_all(row.after).commit()
    opened = Repository(*discover(os.fspath(repo)), os.environ)
    change = change_set.from_range(opened, "HEAD~1", "HEAD", "test")
    options = Settings((*CORE, *test_guard.OPTIONS), {}, {})
    part = test_guard.run(change, options, RunStore("", ""))
    weakenings = [finding for finding in part.findings if finding.severity > Severity.INFO]
    messages = "\n".join(finding.message for finding in part.findings)
    rules = {finding.rule for finding in weakenings}
    if row.kind == "weak":
        assert row.by <= rules, f"{part.summary}\n{messages}"
    else:
        assert not rules, f"{part.summary}\n{messages}"
    assert all(finding.evidence[0].path for finding in weakenings), messages


def test_what_is_asked_of_the_rows() -> None:
    kinds = [Row(name).kind for name in names()]
    assert kinds.count("weak") >= 47
    assert kinds.count("honest") >= 21
