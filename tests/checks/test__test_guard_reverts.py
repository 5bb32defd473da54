"""A test that a revert takes back with the code is no weakening; taken back alone, it is."""

from __future__ import annotations

import os

import pytest

from rlm_ci.change import change_set
from rlm_ci.checks import test_guard
from rlm_ci.config.core_options import CORE
from rlm_ci.config.settings import Settings
from rlm_ci.git.repository import Repository, discover
from rlm_ci.runs.store import RunStore
from testing.repositories.git_repo import GitRepo

TESTS = "from till import due\n\n\ndef test_due():\n    assert due([20, 35]) == 55\n"
MORE = f"{TESTS}\n\ndef test_nothing():\n    assert due([]) == 0\n"


@pytest.mark.parametrize(
    ("code", "message", "weakened"),
    [
        ("due = sum\n", "Revert it\n\nThis reverts commit {}.", 0),
        ("due = max\n", "Revert it\n\nThis reverts commit {}.", 1),  # the code is another
        (None, "Revert it\n\nThis reverts commit {}.", 1),  # nor is it taken back
        ("due = sum\n", 'Revert "Take the least" (#2)\n\nReverts #1', 0),
        ("due = max\n", 'Revert "Take the other" (#2)\n\nReverts #1', 1),
        ("due = sum\n", "Take it back", 1),
        ("due = sum\n", f"This reverts commit {'0' * 40}.", 1),
    ],
)
def test_a_revert(repo: GitRepo, code: str | None, message: str, weakened: int) -> None:
    repo.write_all({"till.py": "due = sum\n", "tests/test_till.py": TESTS}).commit()
    repo.write_all({"till.py": "due = min\n", "tests/test_till.py": MORE})
    repo.commit("Take the least (#1)")
    fix = repo.sha()
    repo.write("tests/test_till.py", TESTS)
    if code:
        repo.write("till.py", code)
    repo.commit(message.format(fix))
    opened = Repository(*discover(os.fspath(repo)), os.environ)
    change = change_set.from_range(opened, "HEAD~1", "HEAD", "test")
    options = Settings((*CORE, *test_guard.OPTIONS), {}, {})
    part = test_guard.run(change, options, RunStore("", ""))
    assert (part.metrics["weakened"], part.metrics["obsolete"]) == (weakened, 1 - weakened)


@pytest.mark.parametrize(
    ("written", "message", "told"),
    [
        ({"tests/test_till.py": TESTS, "till.py": "due = sum\n"}, "revert: it was not mine", 1),
        ({"tests/test_till.py": TESTS, "till.py": "due = sum\n"}, "Take it back", 0),
        ({"tests/test_till.py": TESTS, "till.py": "due = max\n"}, "Revert to {}~1", 0),
        ({"tests/test_till.py": TESTS}, "Reverts to {}", 0),  # the code is not taken back
        ({"tests/test_till.py": f"{TESTS}\nMORE = 1\n", "till.py": "due = sum\n"},
         "Revert the least, but for one line", 1),
        ({"tests/test_till.py": TESTS, "till.py": "due = sum\n"},
         "revert: it\n\nCo-authored-by: Claude <noreply@anthropic.com>", 0),
    ],
)  # fmt: skip
def test_a_revert_by_hand_is_doubtful(
    repo: GitRepo, written: dict[str, str], message: str, told: int
) -> None:
    repo.write_all({"till.py": "due = sum\n", "tests/test_till.py": TESTS}).commit()
    repo.write_all({"till.py": "due = min\n", "tests/test_till.py": MORE})
    repo.commit("Take the least (#1)")
    start = repo.sha()
    repo.write("other.py", "x = 1\n").commit("Another")
    repo.write_all(written).commit(message.format(start[:12]))
    opened = Repository(*discover(os.fspath(repo)), os.environ)
    change = change_set.from_range(opened, "HEAD~1", "HEAD", "test")
    part = test_guard.run(change, Settings((*CORE, *test_guard.OPTIONS), {}, {}), RunStore("", ""))
    assert (part.metrics["weakened"], part.metrics["reverted"]) == (1 - told, told)
