"""CI that judges less than before."""

from __future__ import annotations

import pytest

from rlm_ci.guard.loosened.ci_jobs import WEAKENED, weakened
from rlm_ci.guard.loosened.numbers import RUN
from rlm_ci.guard.weakening import TextChange

PATH = ".github/workflows/ci.yml"
CI = """\
name: CI
on:
  pull_request:
  push:
jobs:
  test:
    name: All tests
    runs-on: ubuntu-24.04
    steps:
      - uses: actions/checkout@v4
      - name: Test
        run: pytest -q
  lint:
    runs-on: ubuntu-24.04
    steps:
      - run: |
          ruff check .
          mypy
"""
#: What is changed in it, and the rules that this breaks.
CASES: dict[str, tuple[str, str, list[str]]] = {
    "a newer action": ("checkout@v4", "checkout@v6", []),
    "another order of words": ("pytest -q", "pytest --quiet tests", []),
    "one tool for another": ("mypy", "pyright", []),
    "a step less": ("      - name: Test\n        run: pytest -q\n", "", [WEAKENED]),
    "a tool less": ("          mypy\n", "", [WEAKENED]),
    "a tool in a comment": ("          mypy\n", "          # mypy\n", [WEAKENED]),
    "a job renamed": ("All tests", "Tests", [WEAKENED]),
    "an id renamed": ("  lint:", "  style:", [WEAKENED]),
    "never": ("    name: All tests", "    name: All tests\n    if: false", [WEAKENED]),
    "may fail": ("run: pytest -q", "run: pytest -q\n        continue-on-error: true", [RUN]),
    "shrugs": ("pytest -q", "pytest -q || true", [RUN]),
    "shrugs elsewhere": ("          ruff", "          rm x || true\n          ruff", []),
    "no pull request": ("  pull_request:\n", "", [WEAKENED]),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_ci_that_judges_less_is_found(case: str) -> None:
    old, new, rules = CASES[case]
    assert old in CI
    assert [one.rule for one in weakened([TextChange(PATH, CI, CI.replace(old, new))])] == rules


def test_jobs_may_move_to_another_workflow() -> None:
    moved = [TextChange(PATH, CI, None), TextChange(".github/workflows/all.yml", None, CI)]
    assert list(weakened(moved)) == []


def test_each_job_of_a_workflow_that_is_gone_is_named() -> None:
    told = [one.message for one in weakened([TextChange(PATH, CI, None)])]
    assert "the job 'lint' is gone: a required check may stand for it" in told
    assert "the job 'All tests' is gone: a required check may stand for it" in told


def test_of_other_ci_the_words_count() -> None:
    before = "test:\n  script: tox\n"
    (found,) = weakened([TextChange(".gitlab-ci.yml", before, "test:\n  script: echo\n")])
    assert found.message == "CI no longer runs tox here"
    (found,) = weakened([TextChange(".gitlab-ci.yml", before, before + "  allow_failure: true\n")])
    assert (found.rule, found.line) == (RUN, 3)
