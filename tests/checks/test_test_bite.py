"""test-bite on real repositories: tests run in the sandbox at head, at the base, on broken code."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.change import change_set
from rlm_ci.checks import test_bite as check
from rlm_ci.config.core_options import CORE
from rlm_ci.config.settings import Settings
from rlm_ci.errors import ConfigError
from rlm_ci.git.repository import Repository, discover
from rlm_ci.report.findings import CLEAN, INCOMPLETE, Part, Severity
from rlm_ci.runs.store import RunStore
from rlm_ci.trials.bite import BiteResult
from rlm_ci.trials.line_breaks import NEGATED, LineBreak
from rlm_ci.trials.touched_tests import TouchedTest, TouchedTests
from testing import plain_pytest
from testing.repositories.git_repo import GitRepo

if TYPE_CHECKING:
    pass

CART = """\
def total(prices):
    return sum(prices)


def label(name):
    return name.title()
"""
BETTER = """\
def total(prices):
    return sum(prices)


def label(name):
    return name.title()


def reduced(price, percent):
    if percent > 100:
        raise ValueError(percent)
    return price - price * percent / 100


def net(price, tax):
    rest = price / (1 + tax)
    return round(rest, 2)
"""
BITING = """\
import pytest

from cart import net, reduced


def test_reduced():
    assert reduced(200, 25) == 150


def test_too_much():
    with pytest.raises(ValueError):
        reduced(1, 101)


def test_net():
    assert net(119, 0.19) == 100
"""
HOLLOW = """\
from unittest.mock import Mock

from cart import label, net, reduced


def test_itself():
    price = reduced(200, 25)
    assert price == price


def test_of_product():
    expected = reduced(100, 10)
    assert reduced(100, 10) == expected


def test_swallowed():
    try:
        assert net(119, 0.19) == 1
    except Exception:
        pass


def test_unreached():
    for price in []:
        assert reduced(price, 1) == 7


def test_mock():
    net_of = Mock(return_value=100)
    assert net_of(119, 0.19) == 100


def test_label():
    assert label("red shoe") == "Red Shoe"


def test_reduced():
    assert reduced(200, 25) == 150
"""


def settings(environ: dict[str, str] | None = None, **values: Any) -> Settings:
    rows = (*CORE, *check.OPTIONS)
    path = {**os.environ, "PATH": plain_pytest.search_path(), **(environ or {})}
    for name in ("GITHUB_ACTIONS", "AI_AGENT", "CLAUDECODE", "PYTEST_ADDOPTS"):
        path.pop(name, None)
    options = Settings(rows, {}, {**path, **(environ or {})})
    if values:
        options.apply({"test_bite": values}, "rlm-ci.toml", rows)
    return options


def judged(repo: GitRepo, environ: dict[str, str] | None = None, **values: Any) -> Part:
    opened = Repository(*discover(os.fspath(repo)), os.environ)
    change = change_set.from_range(opened, "HEAD~1", "HEAD", "test")
    return check.run(change, settings(environ, **values), RunStore("", ""), lambda: "2026-03-01")


def shop(repo: GitRepo, after: dict[str, str], message: str = "Add reduced prices") -> GitRepo:
    repo.write("cart.py", CART).write("pyproject.toml", "[tool.pytest.ini_options]\n")
    repo.write("tests/test_cart.py", "from cart import total\n\n\ndef test_total():\n"
               "    assert total([1, 2]) == 3\n")  # fmt: skip
    repo.commit("Sell things")
    repo.write_all(after)
    repo.commit(message)
    return repo


def told(part: Part, condition: str) -> dict[str, str]:
    """The messages of a rule, by the subject that they are about."""
    rule = f"{check.ID}/{condition}"
    return {str(one.subject): one.message for one in part.findings if one.rule == rule}


@pytest.mark.full
def test_tests_that_bite_are_clean_in_four_runs(repo: GitRepo) -> None:
    part = judged(shop(repo, {"cart.py": BETTER, "tests/test_prices.py": BITING}))
    assert not part.findings, part.findings
    assert part.verdict(Severity.MEDIUM) == CLEAN
    assert part.metrics["judged"] == 3
    assert part.metrics["runs"] == 4
    assert part.metrics["noticed"] >= 4


@pytest.mark.full
def test_hollow_tests_are_named_with_why(repo: GitRepo) -> None:
    part = judged(shop(repo, {"cart.py": BETTER, "tests/test_prices.py": HOLLOW}))
    hollow = told(part, "hollow-test")
    assert hollow.keys() == {
        "test_itself", "test_of_product", "test_swallowed", "test_unreached", "test_mock",
    }  # fmt: skip
    assert "with itself" in hollow["test_itself"]
    assert "with itself" in hollow["test_of_product"]
    assert "catches their failure" in hollow["test_swallowed"]
    assert "reaches none" in hollow["test_unreached"]
    assert "mocks" in hollow["test_mock"]
    lines = {one.evidence[0].line_start for one in part.findings if "unnoticed" in one.rule}
    assert lines <= set(range(9, 19))
    assert part.metrics["unnoticed"] >= 2  # nothing claims what net gives


SAME = """\
from cart import reduced, total


def test_more():
    assert total([1, 2, 3]) == 6


def test_some():
    assert total([4]) == 4
"""
#: A change of code that no test of it needs.
UNTESTED = CART.replace("sum(prices)", "sum(prices, 0)")


@pytest.mark.full
@pytest.mark.parametrize(("message", "environ", "values", "severity"), [
    ("Fix the total of no prices", {}, {}, Severity.MEDIUM),
    ("Fix the total of no prices", {"AI_AGENT": "1"}, {}, Severity.HIGH),
    ("Fix the total of no prices", {}, {"fail": True}, Severity.HIGH),
    ("Refactor the cart", {}, {}, Severity.INFO),
    ("Add tests for the total", {}, {}, Severity.INFO),
])  # fmt: skip
def test_a_test_that_passes_without_the_change(
    repo: GitRepo,
    message: str,
    environ: dict[str, str],
    values: dict[str, Any],
    severity: Severity,
) -> None:
    tests = SAME.replace("reduced, ", "")
    part = judged(
        shop(repo, {"cart.py": UNTESTED, "tests/test_more.py": tests}, message), environ, **values
    )
    same = [one for one in part.findings if "without" in one.rule]
    assert [one.subject for one in same] == ["test_more", "test_some"]
    assert {one.severity for one in same} == {severity}
    assert not told(part, "hollow-test")


@pytest.mark.full
@pytest.mark.parametrize(("old", "severity"), [
    ("@pytest.mark.xfail(os.name == 'nt', reason='(no)')\n", Severity.INFO),  # as it was, here
    ("@pytest.mark.parametrize('_case', [1])\n", Severity.MEDIUM),
])  # fmt: skip
def test_a_test_whose_marks_alone_changed_claims_nothing_new(
    repo: GitRepo, old: str, severity: Severity
) -> None:
    tests = "import os\n\nimport pytest\nfrom cart import total\n\n\n{}def test_none({}):\n"
    tests += "    assert total([]) == 0\n"
    argument = "_case" if "_case" in old else ""
    repo.write("tests/test_none.py", tests.format(old, argument))
    after = {"cart.py": UNTESTED, "tests/test_none.py": tests.format("", "")}
    part = judged(shop(repo, after, "Fix the total of no prices"))
    (same,) = (finding for finding in part.findings if "without" in finding.rule)
    assert (same.subject, same.severity) == ("test_none", severity)


#: An older test that reads a file for each of its cases.
READS_CASES = """\
import json
import pathlib

from cart import total


def test_cases():
    for path in pathlib.Path(__file__).parent.glob("cases/*.json"):
        prices, expected = json.loads(path.read_text())
        assert total(prices) == expected
"""


@pytest.mark.full
@pytest.mark.parametrize(("path", "content", "severity"), [
    ("tests/cases/none.json", "[[], 0]", Severity.INFO),  # a new case of an older test
    ("tests/cases/one.json", "[[2], 2]", Severity.INFO),
    ("tests/__snapshots__/cart.ambr", "# name: test_total\n", Severity.INFO),
    ("cases/none.json", "[[], 0]", Severity.MEDIUM),  # no test has to do with it
    ("tests/cases/one.json", "[[1], 1]", Severity.MEDIUM),  # as before
])  # fmt: skip
def test_data_of_tests_may_be_read_by_an_older_test_that_bites(
    repo: GitRepo, path: str, content: str, severity: Severity
) -> None:
    repo.write_all({"tests/test_cases.py": READS_CASES, "tests/cases/one.json": "[[1], 1]"})
    tests = SAME.replace("reduced, ", "")
    after = {"cart.py": UNTESTED, "tests/test_more.py": tests, path: content}
    part = judged(shop(repo, after, "Fix the total of no prices"))
    same = [one for one in part.findings if "without" in one.rule]
    assert [one.subject for one in same] == ["test_more", "test_some"]
    assert {one.severity for one in same} == {severity}


@pytest.mark.full
@pytest.mark.parametrize(("after", "severity"), [
    ("CASES = [[], [1]]", Severity.INFO),  # the older test may need the change for its new case
    ("CASES = [[1]]", Severity.MEDIUM),
])  # fmt: skip
def test_a_table_of_an_older_test_may_need_the_change(
    repo: GitRepo, after: str, severity: Severity
) -> None:
    older = (
        "from cart import total\n\nCASES = [[1]]\n\n\ndef test_older():\n    for case in CASES:\n"
    )
    older += "        assert total(case) == len(case)\n"
    repo.write("tests/test_cases.py", older)
    new = "\n\ndef test_none():\n    assert total([]) == 0\n"
    tests = f"{older.replace('CASES = [[1]]', after)}{new}"
    change = {"cart.py": UNTESTED, "tests/test_cases.py": tests}
    part = judged(shop(repo, change, "Fix the total of no prices"))
    (same,) = (finding for finding in part.findings if "without" in finding.rule)
    assert (same.subject, same.severity) == ("test_none", severity)


@pytest.mark.full
def test_one_test_that_bites_makes_the_others_information(repo: GitRepo) -> None:
    biting = "def test_net():\n    assert reduced(10, 50) == 5\n\n\ndef test_some"
    names = "import cart\n\ntotal = cart.total\nreduced = getattr(cart, 'reduced', None)"
    tests = SAME.replace("def test_some", biting)
    tests = tests.replace("from cart import reduced, total", names)
    part = judged(shop(repo, {"cart.py": BETTER, "tests/test_more.py": tests}))
    same = [one for one in part.findings if "without" in one.rule]
    assert {one.severity for one in same} == {Severity.INFO}
    assert told(part, "passes-without-change").keys() == {"test_more", "test_some"}


@pytest.mark.full
def test_methods_of_unittest_without_pytest(repo: GitRepo) -> None:
    tests = (
        "import unittest\n\nimport cart\n\n\nclass Prices(unittest.TestCase):\n"
        "    def test_reduced(self):\n        self.assertEqual(cart.reduced(200, 25), 150)\n\n"
        "    def test_itself(self):\n"
        "        self.assertEqual(cart.net(119, 0.19), cart.net(119, 0.19))\n"
    )
    part = judged(
        shop(repo, {"cart.py": BETTER, "tests/test_prices.py": tests, "tests/__init__.py": ""}),
        validator="python3 -m unittest",
    )
    assert part.metrics["judged"] == 2
    assert told(part, "hollow-test").keys() == {"Prices::test_itself"}
    assert not told(part, "passes-without-change")


@pytest.mark.full
def test_tests_that_cannot_be_judged_are_no_pass(repo: GitRepo) -> None:
    tests = "import no_such_package\n\n\ndef test_it():\n    assert no_such_package.one() == 1\n"
    part = judged(shop(repo, {"tests/test_prices.py": tests}))
    assert part.verdict(Severity.HIGH) == INCOMPLETE
    assert "not judged" in told(part, "not-judged")["None"]
    assert part.summary.startswith("0 of 1 touched test judged")


@pytest.mark.full
def test_the_time_limit_is_said(repo: GitRepo) -> None:
    part = judged(shop(repo, {"cart.py": BETTER, "tests/test_prices.py": BITING}), minutes=0.02)
    assert part.verdict(Severity.HIGH) == INCOMPLETE
    assert "time limit" in part.summary or "took too long" in part.summary


@pytest.mark.parametrize(("same", "noticed", "is_claimed", "failing", "severity"), [
    (1, 0, True, 0, Severity.MEDIUM),
    (0, 0, True, 0, Severity.INFO),  # it fails without the change: it needs it
    (1, 1, True, 0, Severity.INFO),
    (1, 0, False, 0, Severity.INFO),
    (1, 0, True, 1, Severity.INFO),  # the test that does not run here may need it
])  # fmt: skip
def test_a_line_is_more_than_information_only_where_nothing_bites(
    same: int, noticed: int, is_claimed: bool, failing: int, severity: Severity
) -> None:
    judged = (TouchedTest("tests/test_a.py", "test_a", 1, 2, ""),)
    others = (TouchedTest("tests/test_a.py", "test_b", 4, 5, ""),)[:failing]
    edit = LineBreak("a.py", 3, NEGATED, 0, 1, "", "total")
    result = BiteResult(judged, others, judged[:same], unnoticed=(edit,), noticed=noticed)
    findings = list(check._findings(result, is_claimed=is_claimed))
    assert findings[-1].rule == "test-bite/unnoticed-line"
    assert findings[-1].severity == severity
    if noticed == 0:
        assert {finding.severity for finding in findings} == {severity}


@pytest.mark.parametrize(("noticed", "unnoticed", "severity"), [
    (8, 2, Severity.INFO),  # the same by other code, such as faster one
    (13, 3, Severity.INFO),
    (8, 0, Severity.INFO),
    (1, 0, Severity.MEDIUM),  # a line that is mended: breaking it shows what was tested before
    (7, 0, Severity.MEDIUM),
    (7, 3, Severity.MEDIUM),
    (1, 11, Severity.MEDIUM),
])  # fmt: skip
def test_code_that_does_the_same_anew_needs_no_test_that_fails_without_it(
    noticed: int, unnoticed: int, severity: Severity
) -> None:
    judged = (TouchedTest("tests/test_a.py", "test_a", 1, 2, ""),)
    edits = (LineBreak("a.py", 3, NEGATED, 0, 1, "", "total"),) * unnoticed
    result = BiteResult(judged, (), judged, unnoticed=edits, noticed=noticed)
    first = next(check._findings(result, is_claimed=True))
    assert (first.rule, first.severity) == ("test-bite/passes-without-change", severity)


@pytest.mark.parametrize(("output", "line"), [
    ("\x1b[31m1 failed\x1b[39m\n", "1 failed"),
    ("E   ModuleNotFoundError: No module named 'tills'\nERROR test_a.py\n2 errors in 0.23s\n",
     "ModuleNotFoundError: No module named 'tills'"),
])  # fmt: skip
def test_the_words_of_a_runner_that_say_most_have_no_colour(output: str, line: str) -> None:
    tests = (TouchedTest("test/a.test.ts", "a", 1, 2, ""),)
    (finding,) = check._not_judged(BiteResult(failing=tests, output=output))
    assert finding.message == f"not judged, as it does not pass here: a; the runner says: {line}"


@pytest.mark.parametrize(("path", "is_shared"), [
    ("tests/__init__.py", True),  # a class of tests that others inherit
    ("tests/base.py", True),
    ("tests/mixins/cart.py", True),
    ("tests/test_cart.py", False),
    ("tests/cart_test.py", False),
    ("test/cart.js", False),  # a runner may be given any name
])  # fmt: skip
def test_tests_that_classes_elsewhere_inherit(path: str, is_shared: bool) -> None:
    tests = (TouchedTest("tests/test_a.py", "test_a", 1, 2, ""),
             TouchedTest(path, "Cases::test_a", 1, 2, ""))  # fmt: skip
    assert check._are_shared(TouchedTests(tests)) == is_shared


@pytest.mark.parametrize(("path", "is_beside"), [
    ("shop/cart.pyi", True), ("src/cart.d.ts", True), ("src/cart.d.mts", True),
    ("shop/cart.py", False), ("src/cart.ts", False), ("src/d.ts", False),
])  # fmt: skip
def test_a_file_of_types_is_no_code_that_a_test_notices(path: str, *, is_beside: bool) -> None:
    assert check._is_beside(path) is is_beside


def test_without_a_touched_test_nothing_runs(repo: GitRepo) -> None:
    part = judged(shop(repo, {"cart.py": BETTER}))
    assert part.summary == "no test is added or changed"


def test_a_case_more_in_a_table_that_a_test_reads_is_not_passed_over(repo: GitRepo) -> None:
    cases = (
        "CASES = [(1, 1), {}]\n\n\ndef test_all():\n"
        "    for one, two in CASES:\n        assert one == two\n"
    )
    repo.write("test_cases.py", cases.format("(2, 2)"))
    part = judged(shop(repo, {"cart.py": BETTER, "test_cases.py": cases.format("(3, 3), (4, 4)")}))
    assert part.summary == (
        "no test is added or changed, but what tests read is, and they were not run"
    )
    assert part.verdict(Severity.INFO) == CLEAN


def test_it_is_off_unless_it_is_named(repo: GitRepo) -> None:
    opened = Repository(*discover(os.fspath(shop(repo, {"cart.py": BETTER}))), os.environ)
    change = change_set.from_range(opened, "HEAD~1", "HEAD", "test")
    assert check.applies(change, settings()) == "it runs tests, and only where it is named"


@pytest.mark.parametrize("event", ["pull_request_target", "workflow_run"])
def test_a_job_with_rights_runs_no_code_of_a_change(repo: GitRepo, event: str) -> None:
    with pytest.raises(ConfigError, match="runs the pull request's code"):
        judged(
            shop(repo, {"cart.py": BETTER, "tests/test_prices.py": BITING}),
            {"GITHUB_ACTIONS": "true", "GITHUB_EVENT_NAME": event},
        )


def test_what_is_staged_is_not_run(repo: GitRepo) -> None:
    shop(repo, {"cart.py": BETTER}).write("tests/test_prices.py", BITING).stage()
    opened = Repository(*discover(os.fspath(repo)), os.environ)
    change = change_set.from_local(opened, "index")
    with pytest.raises(ConfigError, match="staged"):
        check.run(change, settings(), RunStore("", ""))
