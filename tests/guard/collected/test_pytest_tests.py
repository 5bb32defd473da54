"""Tests of Python that pytest collects no more: by their file, class or function."""

from __future__ import annotations

import pytest

from rlm_ci.guard import weaker
from rlm_ci.guard.weakening import RestOfTree, TextChange

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

PATH = "tests/test_cart.py"
TEST = "def test_total():\n    assert total([40]) == 40\n"
CLASS = "class TestCart:\n    def test_total(self):\n        assert total([40]) == 40\n"
CASE = f"import unittest\n\n\n{CLASS.replace('TestCart', 'CartTest(unittest.TestCase)')}"


class Tree(RestOfTree):
    def __init__(self, files: dict[str, str]) -> None:
        self.files = files

    def with_names(self, names: Collection[str]) -> Iterator[tuple[str, str]]:
        for path, text in self.files.items():
            if path.endswith(".py") and any(name in text for name in names):
                yield path, text

    def read(self, paths: Iterable[str]) -> dict[str, str]:
        return {path: self.files[path] for path in paths if path in self.files}

    def paths(self) -> frozenset[str]:
        return frozenset(self.files)


def pytest_ini(*lines: str) -> dict[str, str]:
    return {"pytest.ini": "\n".join(["[pytest]", *lines, ""])}


#: The tests, their new path, what does not change, and whether they still run.
MOVED: dict[str, tuple[str, str, dict[str, str], bool]] = {
    "another ending": (TEST, "tests/cart_checks.py", {}, False),
    "another beginning": (TEST, "tests/_test_cart.py", {}, False),
    "a class of unittest": (CASE, "tests/cart_cases.py", {}, False),
    "by unittest alone": (TEST, "tests/testcart.py", {}, True),
    "not by pytest": (TEST, "tests/testcart.py", pytest_ini("addopts = -q"), False),
    "by its settings": (
        TEST, "tests/check_cart.py", pytest_ini("python_files = test_*.py check_*.py"), True,
    ),
    "out of testpaths": (TEST, "checks/test_cart.py", pytest_ini("testpaths = tests"), False),
    "within testpaths": (
        TEST, "tests/unit/test_cart.py", pytest_ini("testpaths = docs tests"), True,
    ),
    "into a folder that CI names": (
        TEST, "checks/test_cart.py",
        {**pytest_ini("testpaths = tests"), ".github/workflows/ci.yml": "- run: pytest checks\n"},
        True,
    ),
    "a file that make names": (
        TEST, "tests/cart_checks.py", {"Makefile": "test:\n\tpytest -q tests/cart_checks.py\n"},
        True,
    ),
    "into a folder of builds": (TEST, "tests/build/test_cart.py", {}, False),
    "into an ignored folder": (
        TEST, "tests/slow/test_cart.py", pytest_ini("addopts = --ignore=tests/slow"), False,
    ),
    "to a module that another imports": (
        TEST, "tests/cart_cases.py", {"tests/test_all.py": "from tests.cart_cases import *\n"},
        True,
    ),
    "to a module whose class another inherits": (
        CLASS, "tests/cart_cases.py",
        {"tests/test_all.py": "import cart_cases\n\nclass TestAll(cart_cases.TestCart): ...\n"},
        True,
    ),
    "to a module that another names": (
        CLASS, "tests/cart_cases.py", {"tests/test_all.py": "from . import cart_cases\n"}, False,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", MOVED)
def test_a_file_may_move_out_of_what_pytest_collects(case: str) -> None:
    text, path, files, still_runs = MOVED[case]
    moved = [TextChange(PATH, text, None), TextChange(path, None, text)]
    found = weaker.compared(moved, code_changed=False, tree=Tree(files)).weakenings
    said = f"pytest does not collect {path}: 1 test of {PATH} no longer run"
    assert [one.message for one in found] == ([] if still_runs else [said])


#: The tests before and after, what does not change, and what is not collected.
NAMED: dict[str, tuple[str, str, dict[str, str], str]] = {
    "a class": (CLASS, CLASS.replace("TestCart", "CartTests"), {}, "CartTests"),
    "a class with a constructor": (
        CLASS, CLASS.replace(":\n", ":\n    def __init__(self): ...\n", 1), {}, "TestCart",
    ),
    "a base that is gone": (
        CASE, CASE.replace("(unittest.TestCase)", ""), {}, "CartTest",
    ),
    "a nested class": (
        CLASS.replace("\n ", "\n     ").replace("class", "class TestAll:\n    class", 1),
        CLASS.replace("\n ", "\n     ").replace("class TestCart", "class TestAll:\n    class Cart"),
        {}, "TestAll.Cart",
    ),
    "a class by its settings": (
        CLASS.replace("TestCart", "CheckCart"), CLASS, pytest_ini("python_classes = Check"),
        "TestCart",
    ),
    "a class of unittest": (CASE, CASE.replace("CartTest", "Cart"), {}, ""),
    "a base that is not known": (
        CASE, CASE.replace("CartTest(unittest.TestCase)", "Cart(Base)"), {}, "",
    ),
    "a base of another class": (
        CLASS, f"{CLASS.replace('TestCart', 'Cart')}\n\nclass TestCart(Cart):\n    pass\n", {}, "",
    ),
    "a base in another file": (
        CLASS, CLASS.replace("TestCart", "Cart"),
        {"tests/test_more.py": "class TestMore(test_cart.Cart):\n    pass\n"}, "",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", NAMED)
def test_a_name_may_be_one_that_pytest_does_not_collect(case: str) -> None:
    before, after, files, name = NAMED[case]
    change = [TextChange(PATH, before, after)]
    found = weaker.compared(change, code_changed=False, tree=Tree(files)).weakenings
    said = f"pytest does not collect {name}: 1 test no longer run"
    assert [one.message for one in found] == ([said] if name else [])


def test_a_function_has_a_name_by_the_settings() -> None:
    change = [TextChange(PATH, TEST.replace("test_", "check_"), TEST.replace("test_", "total_"))]
    tree = Tree(pytest_ini("python_functions = check_*"))
    (found,) = weaker.compared(change, code_changed=False, tree=tree).weakenings
    assert (found.rule, found.message) == ("test-removed", "check_total is gone")


#: Lines of the settings before and after, and how many of the two files are lost.
SETTINGS: dict[str, tuple[tuple[str, ...], tuple[str, ...], int]] = {
    "testpaths": (("testpaths = tests",), ("testpaths = tests/unit",), 1),
    "new testpaths": ((), ("testpaths = tests/unit",), 1),
    "python_files": ((), ("python_files = check_*.py",), 2),
    "norecursedirs": (("addopts = -q",), ("norecursedirs = unit",), 1),
    "ignored": (("addopts = -q",), ("addopts = -q --ignore=tests/unit",), 1),
    "ignored by a glob": ((), ("addopts = --ignore-glob=*/test_*",), 2),
    "deselected": ((), ("addopts = --deselect tests/test_cart.py",), 1),
    "more": (("testpaths = tests/unit",), ("testpaths = tests",), 0),
    "another order": (("testpaths = tests docs",), ("testpaths = docs tests",), 0),
    "a glob": (("testpaths = tests",), ("testpaths = test*",), 0),
    "what is no test": ((), ("addopts = --ignore=docs",), 0),
}  # fmt: skip


@pytest.mark.parametrize("case", SETTINGS)
def test_settings_may_leave_out_files(case: str) -> None:
    before, after = (pytest_ini(*lines)["pytest.ini"] for lines in SETTINGS[case][:2])
    lost = SETTINGS[case][2]
    tree = Tree({PATH: TEST, "tests/unit/test_rate.py": TEST, "docs/test_data.py": "X = 1\n"})
    change = [TextChange("pytest.ini", before, after)]
    found = [
        one.message
        for one in weaker.compared(change, code_changed=False, tree=tree).weakenings
        if one.rule == "test-removed"
    ]
    assert len(found) == (lost > 0)
    assert not lost or f"pytest no longer collects {lost} file" in found[0]
