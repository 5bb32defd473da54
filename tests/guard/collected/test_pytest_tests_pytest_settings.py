"""The settings of pytest, in each of the files that may have them."""

from __future__ import annotations

import pytest

from rlm_ci.guard.collected.pytest_tests import options, settings_of
from rlm_ci.guard.collected.tree_side import TreeSide
from rlm_ci.guard.weakening import RestOfTree, TextChange

WORDS = {"addopts": ("-q", "-k", "not total")}


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("pyproject.toml", "[tool.pytest.ini_options]\naddopts = \"-q -k 'not total'\"\n"),
        ("pyproject.toml", "[tool.pytest]\naddopts = ['-q', '-k', 'not total']\n"),
        ("a/pytest.toml", "[pytest]\naddopts = ['-q', '-k', 'not total']\n"),
        ("pytest.ini", "[pytest]\naddopts =\n  -q\n  -k'not total'\n"),
        ("tox.ini", "[tox]\nx = 1\n[pytest]\naddopts = -q -k 'not total'\n"),
        ("setup.cfg", "[tool:pytest]\naddopts = -q -k 'not total'\n"),
    ],
)
def test_settings_are_read_from_each_file(path: str, text: str) -> None:
    assert options(path, text) == WORDS


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("pyproject.toml", "[tool.ruff]\nline-length = 100\n"), ("setup.cfg", "[tool:pytest"),
        ("setup.cfg", "[pytest]\naddopts = -q\n"), ("package.json", "{}"),
    ],
)  # fmt: skip
def test_a_file_may_have_no_settings(path: str, text: str) -> None:
    assert options(path, text) is None


def test_the_nearest_file_counts_and_defaults_stand_in() -> None:
    changes = [
        TextChange("setup.cfg", "[tool:pytest]\npython_files = check_*.py\n", ""),
        TextChange("a/pytest.ini", None, "[pytest]\npython_files = test.py\n"),
    ]
    before, after = (TreeSide(changes, RestOfTree(), old=is_old) for is_old in (True, False))
    assert settings_of(before, "a/tests").words("python_files") == ("check_*.py",)
    assert settings_of(after, "a/tests").words("python_files") == ("test.py",)
    assert settings_of(after, "a/tests").folder == "a/"
    assert settings_of(after, "b").words("python_files") == ("test_*.py", "*_test.py")
