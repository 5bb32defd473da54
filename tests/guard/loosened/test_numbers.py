"""Numbers that decide what passes, before and after."""

from __future__ import annotations

import pytest

from rlm_ci.guard.loosened.numbers import COVERAGE, RUN, loosened
from rlm_ci.guard.weakening import TextChange
from rlm_ci.validators.test_file_names import is_file

#: A file, what it said, what it says, and the rules that this breaks.
CASES: dict[str, tuple[str, str, str, list[str]]] = {
    "less coverage": ("pyproject.toml", "fail_under = 95", "fail_under = 80", [COVERAGE]),
    "no coverage": (".coveragerc", "fail_under = 95", "", [COVERAGE]),
    "by another tool": (
        "package.json", '"check-coverage": true, "lines": 100', '"x": "bnt --coverage 100"', [],
    ),
    "of no tool": (
        "package.json", '"check-coverage": true, "lines": 100', '"x": "jest --coverage 2>&1"',
        [COVERAGE],
    ),
    "more coverage": ("pyproject.toml", "fail_under = 80", "fail_under = 95", []),
    "as a flag": ("tox.ini", "--cov-fail-under=100", "--cov-fail-under=99.5", [COVERAGE]),
    "of jest": (
        "jest.config.js", "coverageThreshold: { global: { branches: 90, lines: 80 } }",
        "coverageThreshold: { global: { branches: 70, lines: 80 } }", [COVERAGE],
    ),
    "lines of something else": ("package.json", '"lines": 90', '"lines": 10', []),
    "of codecov": ("codecov.yml", "threshold: 1%", "threshold: 20%", [COVERAGE]),
    "a longer timeout": (".github/workflows/t.yml", "timeout-minutes: 5", "timeout-minutes: 60",
                         [RUN]),
    "a first timeout": (".github/workflows/t.yml", "", "timeout-minutes: 60", []),
    "a second job": (
        ".github/workflows/t.yml", "timeout-minutes: 5", "timeout-minutes: 5\ntimeout-minutes: 9",
        [],
    ),
    "a test's timeout": ("tests/test_a.py", "@pytest.mark.timeout(1)", "@pytest.mark.timeout(90)",
                         [RUN]),
    "retries": ("pyproject.toml", "", 'addopts = "--reruns 3"', [RUN]),
    "more retries": ("a.test.js", "jest.retryTimes(1)", "jest.retryTimes(5)", [RUN]),
    "fewer retries": ("a.test.js", "jest.retryTimes(5)", "jest.retryTimes(1)", []),
    "retries of one test": ("a.test.ts", "it('a', () => {", "it('a', { retry: 3 }, () => {", [RUN]),
    "retries of a group": (
        "a.spec.ts", "", "test.describe.configure({ mode: 'serial', retries: 2 })", [RUN],
    ),
    "retries of all": ("playwright.config.ts", "", "  retries: 2,", [RUN]),
    "what the product tries again": ("a.test.ts", "", "ky(url, {\n  retry: 2,\n})", []),
    "how long the product waits": (
        "tests/test_a.py", "run(['--timeout', '1'])", "run(['--timeout', '60'])", [],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_number_that_lets_more_pass_is_found(case: str) -> None:
    path, before, after, rules = CASES[case]
    change = TextChange(path, before, after)
    found = loosened((), [change]) if is_file(path) else loosened([change])
    assert [one.rule for one in found] == rules


def test_a_number_may_move_to_another_file() -> None:
    moved = [
        TextChange(".coveragerc", "[report]\nfail_under = 95\n", None),
        TextChange("pyproject.toml", "", "[tool.coverage.report]\nfail_under = 95\n"),
    ]
    assert list(loosened(moved)) == []


def test_the_line_is_where_the_number_stands_now() -> None:
    (found,) = loosened([TextChange("tox.ini", "\n\nfail_under = 9", "\nfail_under = 8")])
    assert (found.line, found.side) == (2, "new")
    assert found.message == "the coverage that is required was 9, and is 8 now"
