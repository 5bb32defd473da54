"""How many cases a test has, by the tables of its file."""

from __future__ import annotations

import pytest

from rlm_ci.guard.weakened_tests.compare import CodeChange, compare
from rlm_ci.guard.weakening import TextChange

TEST = "\n@pytest.mark.parametrize('x', {})\ndef test_a(x):\n    assert total(x) == 3\n"
LOOP = "\ndef test_a():\n    for x in {}:\n        assert total(x) == 3\n"
THREE = "CASES = [1, 2, 3]\n"

#: The table and what the test takes, before and after.
WEAKER = {
    "emptied": (THREE, "CASES", "CASES = []\n", "CASES"),
    "sliced": (THREE, "CASES", THREE, "CASES[:1]"),
    "sliced from behind": (THREE, "CASES", THREE, "CASES[-2:]"),
    "sliced in the table": (THREE, "CASES", f"{THREE}CASES = CASES[:1]\n", "CASES"),
    "filtered": (THREE, "CASES", THREE, "[x for x in CASES if x < 3]"),
    "filtered by a call": (THREE, "CASES", THREE, "list(filter(fast, CASES))"),
    "filtered in the table": ("CASES = load()\n", "CASES", "CASES = load()\n", "CASES[:1]"),
    "cleared": (THREE, "CASES", f"{THREE}CASES.clear()\n", "CASES"),
    "of a mapping": ("C = {'a': 1, 'b': 2}\n", "C.items()", "C = {'a': 1}\n", "C.items()"),
    "of two tables": ("A = [1]\nB = [2]\n", "A + B", "A = [1]\nB = []\n", "[*A, *B]"),
    "no longer added": (
        "CASES = [1]\nCASES += [2]\nCASES.append(3)\n", "CASES", "CASES = [1]\n", "CASES",
    ),
}  # fmt: skip
HONEST = {
    "more": (THREE, "CASES", "CASES = [1, 2, 3, 4]\n", "CASES"),
    "in another variable": (THREE, "CASES", "MORE = [1, 2, 3]\n", "MORE"),
    "written in place": (THREE, "CASES", "", "[1, 2, 3]"),
    "computed": (THREE, "CASES", "CASES = load()\n", "CASES"),
    "with names": (THREE, "CASES", THREE, "[pytest.param(x, id=str(x)) for x in CASES]"),
    "sorted": (THREE, "CASES", THREE, "sorted(CASES)"),
    "under a condition": (THREE, "CASES", f"if NEW:\n    {THREE}else:\n    CASES = [1]\n", "CASES"),
}  # fmt: skip


@pytest.mark.parametrize("form", [TEST, LOOP], ids=["parametrized", "loop"])
@pytest.mark.parametrize("case", [*WEAKER, *HONEST])
def test_fewer_cases_are_found(case: str, form: str) -> None:
    old, takes, new, takes_now = (WEAKER | HONEST)[case]
    change = TextChange("tests/test_a.py", old + form.format(takes), new + form.format(takes_now))
    found = [one.rule for one in compare([change]).weakenings]
    assert found == (["test-removed"] if case in WEAKER else [])


def test_cases_may_go_with_a_parameter_and_the_code() -> None:
    old = (
        "@pytest.mark.parametrize('new', [True, False])\ndef test_a(new):\n    assert a(new) == 3\n"
    )
    change = TextChange("tests/test_a.py", old, "def test_a():\n    assert a(True) == 3\n")
    result = compare([change], CodeChange(changed=True))
    assert (result.weakenings, [one.rule for one in result.notes]) == ((), ["obsolete"])
    assert [one.rule for one in compare([change]).weakenings] == ["test-removed"]


def test_of_equal_cases_that_are_written_out_one_counts() -> None:
    for rows, rules in (("[1, 2]", []), ("[1, 1, 1, 1]", ["test-removed"])):
        change = TextChange("tests/test_a.py", TEST.format("[1, 2, 1, 2]"), TEST.format(rows))
        assert [one.rule for one in compare([change]).weakenings] == rules
