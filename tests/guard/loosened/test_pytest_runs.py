"""What the settings of pytest leave out of every run, or no longer fail for."""

from __future__ import annotations

import pytest

from rlm_ci.guard.collected.tree_side import TreeSide
from rlm_ci.guard.loosened.pytest_runs import loosened
from rlm_ci.guard.weakening import RestOfTree, TextChange

#: Lines of the settings, before and after.
WEAK = {
    "by words": ("addopts = -q", "addopts = -q -k 'not total'"),
    "by glued words": ("addopts = -q", "addopts = -q -k'not total'"),
    "by a node": ("addopts = -q", "addopts = -q --deselect=tests/test_cart.py::test_total"),
    "only collected": ("", "addopts = --collect-only"),
    "by more words": ("addopts = -k 'not slow'", "addopts = -k 'not slow and not total'"),
    "the last failures": ("", "addopts = --lf"),
    "by a variable": ("", "[testenv]\nsetenv = PYTEST_ADDOPTS = -k 'not total'"),
    "warnings": ("filterwarnings = error", "filterwarnings = default"),
    "warnings by an option": ("addopts = -q -W error", "addopts = -q"),
    "expected failures": ("xfail_strict = true", "xfail_strict = false"),
    "marks": ("addopts = -q --strict-markers", "addopts = -q"),
    "all of it": ("strict = true", "strict_markers = true"),
    "doctests": ("addopts = --doctest-modules", "addopts = -q"),
}  # fmt: skip
HONEST = {
    "less of an output": ("addopts = -ra", "addopts = -q --tb=short -x --maxfail=2 -n auto"),
    "one warning": ("filterwarnings = error", "filterwarnings =\n  error\n  ignore::UserWarning"),
    "strict in one word": ("xfail_strict = true\naddopts = --strict-markers", "strict = true"),
    "a mark that no test has": ("addopts = -q", "addopts = -q -m 'not slow'"),
    "the same option": ("addopts = -k 'not slow'", "addopts = -q -k 'not slow'"),
    "more": ("addopts = -k 'not slow'", "addopts = -q"),
}  # fmt: skip


@pytest.mark.parametrize("case", [*WEAK, *HONEST])
def test_settings_may_weaken_every_run(case: str) -> None:
    old, new = (f"[pytest]\n{text}\n" for text in (WEAK | HONEST)[case])
    changes = [TextChange("tox.ini", old, new)]
    found = list(loosened(changes, TreeSide(changes, RestOfTree(), old=False)))
    assert [one.rule for one in found] == (["run-loosened"] if case in WEAK else [])


def test_settings_may_move_to_another_file() -> None:
    text = "addopts = -k 'not slow'\nxfail_strict = true\n"
    changes = [
        TextChange("setup.cfg", f"[tool:pytest]\n{text}", ""),
        TextChange("pytest.ini", None, f"[pytest]\n{text}"),
    ]
    assert list(loosened(changes, TreeSide(changes, RestOfTree(), old=False))) == []


class Marked(RestOfTree):
    def with_names(self, _names: object) -> list[tuple[str, str]]:
        return [("tests/test_a.py", "@pytest.mark.slow\ndef test_a(): ...\n")]


def test_a_mark_that_tests_had_may_not_be_left_out() -> None:
    changes = [TextChange("pytest.ini", "[pytest]\n", "[pytest]\naddopts = -m 'not slow'\n")]
    (found,) = loosened(changes, TreeSide(changes, Marked(), old=False))
    assert found.message == "every run of pytest leaves tests out: -m not slow"
