"""How many tests were run: no fewer than at first."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rlm_ci.git.repository import Repository, discover
from rlm_ci.guard import guard
from rlm_ci.validators.test_reports import CollectedTests, parse
from rlm_ci.workspace.workspace import Workspace
from testing.guarded_trees import rules
from testing.repositories.git_repo import GitRepo

OUTPUTS = [
    ("===== 3 failed, 2 passed, 1 skipped, 1 xfailed, 2 errors in 0.12s =====", 7, 2),
    ("\x1b[31m\x1b[1m1 failed\x1b[0m, \x1b[32m4 passed\x1b[0m in 0.10s\n", 5, 0),
    ("==== 5 passed, 4 deselected in 1.02s (0:00:01) ====\n", 9, 4),
    ("==== no tests ran in 0.01s ====", 0, 0),
    ("1 passed in 9.99s\nlater\n3 passed, 1 warning in 0.20s\n", 4, 0),
    ("Ran 5 tests in 0.001s\n\nFAILED (failures=1, errors=1, skipped=2)\n", 5, 2),
    ("Tests:       1 failed, 2 skipped, 3 passed, 6 total\nTime: 1 s\n", 6, 2),
    (" 2 pass\n 1 skip\n 1 todo\n 2 fail\n 2 expect() calls\nRan 6 tests across 2 files.\n", 6, 2),
    ("OK (4 tests, 4 assertions)\n", 4, 0),
    ("OK, but there were issues!\nTests: 5, Assertions: 9, Deprecations: 1, Skipped: 2.\n", 5, 2),
    ("      Tests  1 failed | 3 passed | 1 skipped (5)\n", 5, 1),
    ("  3 passing (10ms)\n  1 failing\n  2 pending\n", 6, 2),
    ("# tests 5\n# pass 4\n# fail 0\n# skipped 1\n# todo 0\n", 5, 1),
    (("test result: ok. 3 passed; 0 failed; 2 ignored; 0 measured; 1 filtered out; finished\n"
      "test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out\n"), 8, 3),
    ("--- PASS: TestA (0.00s)\n    --- SKIP: TestA/b (0.00s)\n--- FAIL: TestC (0.1s)\n", 3, 1),
    ("ok  \texample.com/a\t0.01s\nFAIL\texample.com/b\t0.1s\nFAIL\n", 2, 0),
]  # fmt: skip


@pytest.mark.parametrize(("output", "total", "skipped"), OUTPUTS)
def test_runners_tell_how_many_tests_they_know(output: str, total: int, skipped: int) -> None:
    [found] = parse(output).values()
    assert (found.total, found.skipped, found.early) == (total, skipped, False)


@pytest.mark.parametrize("output", ["", "All good\n", "2 passed my house\n", "x" * (9 << 20)])
def test_nothing_told_is_nothing_known(output: str) -> None:
    assert parse(output) == {}


def test_what_a_failing_test_prints_is_no_run_of_the_suite() -> None:
    """It is gone once the test passes, which is nobody's doing."""
    inner = "Ran 7 tests in 0.1s\n===== 9 passed in 0.1s =====\nok  \texample.com/a\t0.01s\n"
    output = (
        f"==== FAILURES ====\n--- Captured stdout call ---\n{inner}==== 1 failed in 0.1s ====\n"
    )
    assert parse(output) == {"pytest": CollectedTests("pytest", 1)}


def cargo(passed: int, failed: int, ignored: int = 0) -> str:
    return (
        f"running {passed + failed + ignored} tests\n"
        f"test result: {'FAILED' if failed else 'ok'}. {passed} passed; {failed} failed; "
        f"{ignored} ignored; 0 measured; 0 filtered out; finished in 0.00s\n"
    )


#: What pytest prints where it cannot read a file of tests: none is run.
COLLECTION = """\
============ test session starts ============
platform linux -- Python 3.11.7, pytest-9.0.2, pluggy-1.6.0
collected 5 items / 1 error

================== ERRORS ==================
______ ERROR collecting test_other.py ______
E   NameError: name 'gone' is not defined
========= short test summary info ==========
ERROR test_other.py - NameError: name 'gone' is not defined
!!!!!! Interrupted: 1 error during collection !!!!!!
============= 1 error in 0.05s =============
"""
#: What was printed before and after a fix by which nobody bent anything.
HONEST = {
    "TAP, of which nothing passes at first": (
        "not ok 1 - adds\nnot ok 2 - more\n1..2\n# tests 2\n# pass 0\n# skipped 0\n",
        "ok 1 - adds\nok 2 - more\n1..2\n# tests 2\n# pass 2\n# skipped 0\n",
    ),
    "go -v, of which nothing passes at first": (
        "=== RUN   TestA\n--- FAIL: TestA (0.00s)\nFAIL\nFAIL\texample.com/a\t0.01s\nFAIL\n",
        "=== RUN   TestA\n--- PASS: TestA (0.00s)\nPASS\nok  \texample.com/a\t0.01s\n",
    ),
    "go, whose packages are built at last": (
        "FAIL\texample.com/a [build failed]\nok  \texample.com/b\t0.01s\nFAIL\n",
        "ok  \texample.com/a\t0.02s\nok  \texample.com/b\t(cached)\n",
    ),
    "make, which ends at the first runner that fails": (
        "F.\nRan 2 tests in 0.001s\n\nFAILED (failures=1)\nmake: *** [Makefile:2: test] Error 1\n",
        "..\nRan 2 tests in 0.001s\n\nOK\n.\n1 passed in 0.01s\n",
    ),
    "make, which runs one runner after the other": (
        "100 passed in 1.00s\n1 failed, 9 passed in 0.10s\n",
        "100 passed in 1.00s\n10 passed in 0.10s\n5 passed in 0.10s\n",
    ),
    "cargo, then npm": (cargo(0, 1), cargo(1, 0) + "Tests:       3 passed, 3 total\n"),
    "cargo, which ends at the first target that fails": (
        cargo(1, 1), cargo(2, 0) + cargo(0, 0, ignored=1),
    ),
    "pytest -x, with an old skip behind the failure": (
        "!!!!! stopping after 1 failures !!!!!\n==== 1 failed in 0.1s ====\n",
        "==== 4 passed, 1 skipped in 0.1s ====\n",
    ),
    "jest --bail, with old skips behind the failure": (
        "Tests:       1 failed, 1 passed, 2 total\n",
        "Tests:       2 skipped, 4 passed, 6 total\n",
    ),
    "unittest of a module that could not be read": (
        "Ran 1 test in 0.000s\n\nFAILED (errors=1)\n",
        "Ran 4 tests in 0.000s\n\nOK (skipped=2)\n",
    ),
    "pytest of a module that could not be read, with an old skip elsewhere": (
        COLLECTION, "collected 6 items\n\n==== 3 passed, 3 skipped in 0.1s ====\n",
    ),
    "pytest of a module that could not be read, quietly": (
        "==== ERRORS ====\nE   NameError\n1 error in 0.1s\n", "1 passed in 0.1s\n",
    ),
    "pytest with subtests": (
        "2 failed, 2 subtests passed in 0.1s\n", "1 passed, 3 subtests passed in 0.1s\n",
    ),
}  # fmt: skip
#: As many tests ran at first as are not told of now.
SHRUNK = {
    "a test less": ("2 failed in 0.1s\n", "1 passed in 0.1s\n"),
    "a skip more": ("2 failed in 0.1s\n", "1 passed, 1 skipped in 0.1s\n"),
    "an expected failure": (
        "Ran 2 tests in 0.1s\n\nFAILED (failures=2)\n",
        "Ran 2 tests in 0.1s\n\nOK (expected failures=1)\n",
    ),
    "nothing is told": ("1 failed in 0.1s\n", "done\n"),
    "by another runner": ("1 failed in 0.1s\n", "Ran 9 tests in 0.1s\n\nOK\n"),
    "one runner of two": (
        "5 passed in 0.1s\nTests:       1 failed, 3 passed, 4 total\n",
        "50 passed in 0.1s\nTests:       3 passed, 3 total\n",
    ),
    "the first of two": (
        "5 passed in 0.1s\nTests:       1 failed, 3 passed, 4 total\n",
        "Tests:       4 passed, 4 total\n",
    ),
    "the first run of two": (
        "5 passed in 0.1s\n1 failed in 0.1s\n", "4 passed in 0.1s\n1 passed in 0.1s\n",
    ),
    "points of TAP": ("ok 1 - a\nnot ok 2 - b\n", "ok 1 - a\nok 2 - b # SKIP not here\n"),
    "node": ("# tests 2\n# pass 1\n", "# tests 2\n# pass 1\n# skipped 1\n"),
    "go -v": (
        "--- FAIL: TestA (0.00s)\n--- PASS: TestB (0.00s)\n", "--- PASS: TestA (0.00s)\n",
    ),
    "a package of go without tests": (
        "FAIL\texample.com/a\t0.01s\n", "ok  \texample.com/a\t0.01s [no tests to run]\n",
    ),
    "pytest is told to end": (
        "!!! stopping after 1 failures !!!\n1 failed in 0.1s\n",
        "1 passed in 0.1s\n!!! _pytest.outcomes.Exit: done !!!\n",
    ),
    "pytest dies, and another one does not": (
        "=== test session starts ===\n=== 1 failed in 0.1s ===\n",
        "=== test session starts ===\n=== test session starts ===\n=== 9 passed in 0.1s ===\n",
    ),
    "pytest dies, where it could not begin at first": (
        "ImportError while loading conftest\n", "=== test session starts ===\ncollected 3 items\n",
    ),
    "fewer than pytest had found when a module could not be read": (
        COLLECTION, "collected 4 items\n\n==== 4 passed in 0.1s ====\n",
    ),
    "none, of those that pytest had found when a module could not be read": (
        COLLECTION, "done\n",
    ),
    "a target of cargo dies": (cargo(0, 1), f"running 1 test\n{cargo(2, 0)}"),
}  # fmt: skip


@pytest.fixture
def space(repo: GitRepo, tmp_path: Path) -> Workspace:
    repo.write("a.py", "1\n").commit()
    top, git_dir = discover(str(repo.path))
    place = Repository(top, git_dir, dict(os.environ))
    return Workspace(str(tmp_path / "run"), place, dict(os.environ))


@pytest.mark.sample(15)
@pytest.mark.parametrize("case", [*HONEST, *SHRUNK])
def test_tests_must_not_shrink(case: str, space: Workspace) -> None:
    """``tamper/tests-shrunk``: runner by runner, fewer tests were run than at first."""
    before, after = (parse(output) for output in (HONEST | SHRUNK)[case])
    found = guard.findings(space, space.tree(), before, after)
    assert rules(found) == ({"tests-shrunk"} if case in SHRUNK else set())
    assert guard.findings(space, space.tree(), before, after, allow_test_edits=True) == ()
