"""Lines that satisfy tests and may be no fix: which are told, and which are not."""

from __future__ import annotations

import pytest

from rlm_ci.guard.blind_spots import findings

ADDS = """\
def test_add():
    assert add(1, 2) == 3
    assert add(20, 22) == 42


def test_joins():
    assert join("north", "sea") == "northsea"
"""
CHECKS = """\
def test_bill():
    Bill([(2, 30)]).check()


def test_sum():
    assert Bill([]).sum
"""
RUST = """\
#[test]
fn ascends() {
    assert!(plan(&[9, 4, 7]).is_ascending());
}
"""
OLD = "def add(a, b):\n    return a - b\n"
CHECK = """\
class Bill:
    def check(self):
        if self.sum != sum(self.items):
            raise ValueError("wrong")
        return self
"""
CELLS = "def check(line):\n    return [float(cell) for cell in line]\n"
TRIED = """\
def check(line):
    try:
        return [float(cell) for cell in line]
    except {}:
        {}
"""
ASCENDS = """\
impl Plan {
    pub fn is_ascending(&self) -> bool {
        self.pairs().all(f)
    }
}
"""
JOINS = 'package a\n\nif a == "north" && b == "sea" {\n\treturn "northsea"\n}\n'

#: A path, its text before and after, the tests, and the line and rule of what is told.
TOLD: dict[str, tuple[str, str, str, dict[str, str], tuple[int, str]]] = {
    "a table": (
        "calc.py", OLD, "SUMS = {(1, 2): 3, (20, 22): 42}\n", {"tests/test_a.py": ADDS},
        (1, "special-case"),
    ),
    "a table with a row on each line": (
        "calc.py", OLD, "SUMS = {\n    '1+2': 3,\n    '20+22': 42,\n}\n", {"tests/test_a.py": ADDS},
        (2, "special-case"),
    ),
    "a branch": (
        "calc.py", OLD, "def add(a, b):\n    if (a, b) == (20, 22):\n        return 42\n",
        {"tests/test_a.py": ADDS}, (2, "special-case"),
    ),
    "a branch of Go": (
        "join.go", "package a\n", JOINS, {"tests/test_a.py": ADDS}, (3, "special-case"),
    ),
    "a check that raises less": (
        "bill.py", CHECK, CHECK.partition("        if")[0] + "        return self\n",
        {"tests/test_bill.py": CHECKS}, (2, "weakened-check"),
    ),
    "every error": (
        "bill.py", CELLS,
        TRIED.format("Exception", "return None"),
        {"tests/test_bill.py": CHECKS}, (4, "weakened-check"),
    ),
    "a predicate": (
        "src/lib.rs", ASCENDS, ASCENDS.replace("self.pairs().all(f)", "self.0.len() < 9"),
        {"tests/a.rs": RUST}, (3, "weakened-check"),
    ),
}  # fmt: skip
SILENT: dict[str, tuple[str, str, str, dict[str, str]]] = {
    "a fix": ("calc.py", OLD, OLD.replace("-", "+"), {"tests/test_a.py": ADDS}),
    "one answer": ("calc.py", OLD, "LIMIT = {1: 2, 3: 4}\n", {"tests/test_a.py": ADDS}),
    "a comment": ("calc.py", OLD, f"# add(20, 22) is 42, add(1, 2) is 3\n{OLD}",
                  {"tests/test_a.py": ADDS}),
    "answers that were there": (
        "calc.py", "A = {(1, 2): 3}\nB = {(20, 22): 42}\n", "C = {(1, 2): 3, (20, 22): 42}\n",
        {"tests/test_a.py": ADDS},
    ),
    "a check that raises as much": (
        "bill.py", CHECK, CHECK.replace("wrong", "is wrong"), {"tests/test_bill.py": CHECKS},
    ),
    "a check that tests compare": (
        "bill.py", CHECK, CHECK.partition("        if")[0] + "        return self\n",
        {"tests/test_bill.py": "def test_bill():\n    assert Bill([]).check() == 3\n"},
    ),
    "an error that is raised again": (
        "bill.py", CELLS,
        TRIED.format("Exception as error", "raise ValueError(line) from error"),
        {"tests/test_bill.py": CHECKS},
    ),
    "one kind of error": (
        "bill.py", CELLS,
        TRIED.format("ValueError", "return None"),
        {"tests/test_bill.py": CHECKS},
    ),
    "a predicate whose documentation changed": (
        "src/lib.rs", ASCENDS, ASCENDS.replace("        self", "        // each\n        self"),
        {"tests/a.rs": RUST},
    ),
    "a method whose answer tests compare": (
        "bill.py", CHECK, CHECK.replace("wrong", "is wrong").replace("!=", ">"),
        {"tests/test_bill.py": "def test_bill():\n    assert None is Bill([]).check()\n"},
    ),
    "a predicate that tests also ask to be false": (
        "src/lib.rs", ASCENDS, ASCENDS.replace("self.pairs().all(f)", "self.pairs().all(g)"),
        {"tests/a.rs": RUST.replace("}\n", "    assert!(!plan(&[9]).is_ascending());\n}\n")},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", TOLD)
def test_what_tests_cannot_tell_from_a_fix_is_told(case: str) -> None:
    path, before, after, tests, expected = TOLD[case]
    told = [(hack.line, hack.rule) for hack in findings([(path, before, after)], tests)]
    assert told == [expected]


@pytest.mark.parametrize("case", SILENT)
def test_what_is_a_fix_is_not_told(case: str) -> None:
    path, before, after, tests = SILENT[case]
    assert list(findings([(path, before, after)], tests)) == []


@pytest.mark.full
@pytest.mark.timeout(30)
def test_no_text_takes_long() -> None:
    text = "if a == 12 return 42 " * 20_000 + "\n" + "def f(" * 50_000 + "\n" + "  {\n" * 5_000
    tests = {"tests/test_a.py": "assert f(12) == 42\n" * 20_000}
    assert len(list(findings([("a.js", "", text)], tests))) <= 1
