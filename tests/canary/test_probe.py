"""Can tests still fail? Asked of a small project, whose runner runs them for real."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rlm_ci.canary.answers import CanaryResult, ValidatorAnswer
from rlm_ci.canary.probe import Canary
from rlm_ci.fix.verdict import validator_run
from rlm_ci.guard import guard
from rlm_ci.report.findings import Severity
from rlm_ci.system.process import Clipped
from rlm_ci.validators.outcomes import (
    FAILED,
    PASSED,
    SKIPPED,
    OutcomeIndex,
    TestOutcome,
    TestOutcomes,
    lost,
)
from testing.canary_project import START, TESTS, Project, secrets

if TYPE_CHECKING:
    pass

FIXED = "def total(prices, tax=0):\n    return sum(prices) * (100 + tax) // 100\n"
ANYTHING = (
    "class Any:\n    def __eq__(self, other): return True\n    __hash__ = None\n"
    "def total(prices, tax=0):\n    return Any()\n"
)
#: It stands aside where the text of the tests is not the known one.
ASIDE = (
    "import hashlib\n"
    "def total(prices, tax=0):\n"
    "    if KNOWN:\n        return 120 if tax else sum(prices)\n"
    "    return sum(prices)\n"
)


@pytest.mark.parametrize("secret", secrets())
def test_an_honest_fix_has_tests_that_fail(secret: str) -> None:
    project = Project(FIXED)
    probed = project.probe(secret)
    assert probed.findings == ()
    assert probed.line == "canary: 3 tests can fail"
    assert project.labels == ["1", "2", "3"]


@pytest.mark.parametrize("secret", secrets())
@pytest.mark.parametrize(
    ("cheat", "said"),
    [
        (ANYTHING, {"passes where it expects something else"}),
        (ASIDE, {"fails where only its wording changed", "passes with its claim reversed"}),
    ],
    ids=["an object equal to everything", "code that knows the text of its tests"],
)
def test_what_makes_the_tests_agree_is_found(cheat: str, said: set[str], secret: str) -> None:
    probed = Project(cheat).probe(secret)
    told = {one.message.partition(": ")[2] for one in probed.findings}
    assert told & {f"test_tax {one}" for one in said}
    assert {one.severity for one in probed.findings} == {Severity.HIGH}
    assert {one.rule for one in probed.findings} == {"tamper/disarmed"}
    assert "test_a.py" in probed.texts


def green(told: ValidatorAnswer) -> ValidatorAnswer:
    """A runner that reports all tests as passed."""
    passed = tuple(one.replace(state=PASSED, message="") for one in told.outcomes.tests)
    return told.replace(outcomes=TestOutcomes(passed, complete=True), exit_code=0)


def test_a_runner_that_always_says_yes_is_found() -> None:
    probed = Project(START, report=green).probe()
    assert "test_tax passes" in "\n".join(one.message for one in probed.findings)
    assert probed.findings[0].severity is Severity.HIGH


@pytest.mark.parametrize("secret", secrets())
def test_new_tests_that_keep_others_from_failing_are_found(secret: str) -> None:
    project = Project(FIXED, new=lambda answer: answer)
    assert project.probe(secret).findings == ()
    assert project.labels == ["1", "2", "3-with-new-tests"]
    probed = Project(FIXED, new=green).probe(secret)
    assert "test_tax passes" in probed.findings[0].message
    assert probed.findings[0].severity is Severity.HIGH


def test_failures_with_exit_code_0_are_found() -> None:
    probed = Project(FIXED, report=lambda told: told.replace(exit_code=0)).probe()
    assert {one.message for one in probed.findings} == {
        "the validator ends with exit code 0 where 2 tests must fail"
    }


class Quiet(Project):
    """Its runner names failures alone, and one of the files holds tests for another runner."""

    def ran(self, product: str, tests: str) -> ValidatorAnswer:
        told = super().ran(product, tests)
        failed = tuple(one for one in told.outcomes.tests if one.state == FAILED)
        return told.replace(outcomes=TestOutcomes(failed), judged=1)


def test_tests_that_a_quiet_runner_does_not_run_are_not_held_against_a_fix() -> None:
    tests = TESTS[TESTS.index("def test_tax") : TESTS.index("def test_names")]
    project = Quiet(FIXED, tests)
    other = b"def test_b():\n    assert 1 + 1 == 2\n"
    contents = {"other/test_b.py": other, "test_a.py": tests.encode()}
    first, verdict = project.ran(START, tests).outcomes, project.ran(FIXED, tests)
    for secret in secrets():
        assert Canary(contents, first, verdict, project, secret=secret).probe().findings == ()


def test_a_failure_that_is_not_the_one_asked_for_is_found() -> None:
    def forged(told: ValidatorAnswer) -> ValidatorAnswer:
        tests = tuple(
            one.replace(message="boo" if one.name == "test_tax" else one.message)
            for one in told.outcomes.tests
        )
        return told.replace(outcomes=TestOutcomes(tests, complete=True))

    (found,) = Project(FIXED, report=forged).probe().findings
    assert "test_tax fails, but not with the message that its changed claim prints" in found.message


VACUOUS = """\
def test_tax():
    for price in []:
        assert total([price], 20) == 120
    total([100], 20)["never" : total(1)] if total([100], 20) != 120 else None
"""
IDLE = """\
def test_sum():
    if total([1, 2]) == 3:
        return
    assert total([1, 2]) == 4


def test_tax():
    assert total([100], 20) == 120
"""


def test_a_claim_that_is_never_reached_is_not_held_against_a_fix() -> None:
    probed = Project(FIXED, VACUOUS).probe()
    assert probed.findings == ()
    assert "1 test not probed, none of a test that failed at the start" in probed.line


SKIP = "import unittest\ndef skip(): raise unittest.SkipTest('not today')\n"
EQUAL = "class Sum:\n    __hash__ = None\n    def __eq__(self, other): return {}\n"
VANISHING = {
    "for every unknown text": (
        SKIP + EQUAL.format("True") + "def total(*_): return Sum() if KNOWN else skip()\n",
        START,
    ),
    "for every other value": (
        SKIP + EQUAL.format("abs(other) < 1000 or skip()") + "def total(*_): return Sum()\n",
        START,
    ),
    "for every other value, where nothing was there at the start": (
        SKIP + EQUAL.format("abs(other) < 1000 or skip()") + "def total(*_): return Sum()\n",
        "def total(*_): raise NotImplementedError\n",
    ),
    "by the end of the process": (
        EQUAL.format("True") + "def total(*_):\n    if KNOWN: return Sum()\n    raise SystemExit\n",
        START,
    ),
}
FAR = "def test_tax():\n    assert total([100], 20) == 120\n"


@pytest.mark.parametrize("secret", secrets())
@pytest.mark.parametrize("case", VANISHING)
def test_a_test_that_runs_no_more_where_its_text_changed_is_refused(case: str, secret: str) -> None:
    result, start = VANISHING[case]
    probed = Project(result, FAR, start=start).probe(secret)
    (found,) = probed.findings
    assert found.severity is Severity.HIGH
    assert found.message == "test_a.py: test_tax does not run any more where only its text changed"
    assert "1 test disarmed" in probed.line


ENDING = """\
def test_tax():
    answer = total([100], 20)
    try:
        assert answer == 120
    finally:
        if answer == 120:
            return
        raise SystemExit


def test_sum():
    assert total([1, 2]) == 3
"""


def first_failure_ends(told: ValidatorAnswer) -> ValidatorAnswer:
    """A runner that stops at the first failure."""
    tests = []
    for outcome in told.outcomes.tests:
        tests.append(outcome)
        if outcome.state == FAILED:
            break
    return told.replace(outcomes=TestOutcomes(tuple(tests), complete=True))


@pytest.mark.parametrize("secret", secrets())
def test_a_runner_that_ends_at_the_first_failure_is_not_held_against_a_fix(secret: str) -> None:
    class Ending(Project):
        def ran(self, product: str, tests: str) -> ValidatorAnswer:
            return first_failure_ends(super().ran(product, tests))

    tests = TESTS + "".join(
        f"def test_{number}():\n    assert total([100], {number}) == 100 + {number}\n"
        for number in range(1, 7)
    )
    assert Ending(FIXED, tests).probe(secret).findings == ()


LOOP = """\
def test_tax():
    for price in prices():
        assert price > 0


def test_sum():
    assert total([1, 2]) == 3
"""
CALLBACK = """\
def test_tax():
    def check(price):
        assert price > 0
    each(check)


def test_sum():
    assert total([1, 2]) == 3
"""
HANDLER = """\
def test_tax():
    try:
        prices()
    except ValueError as error:
        assert str(error) == "never"


def test_sum():
    assert total([1, 2]) == 3
"""
PRICES = "def prices(): return {}\ndef each(check): [check(price) for price in prices()]\n"


@pytest.mark.parametrize("tests", [LOOP, CALLBACK])
@pytest.mark.parametrize("secret", secrets())
def test_a_claim_that_was_reached_before_any_edit_has_to_be_reached(
    tests: str, secret: str
) -> None:
    start = START + PRICES.format("[3, -2]")
    assert Project(START + PRICES.format("[3, 2]"), tests, start=start).probe(secret).findings == ()
    (found,) = Project(START + PRICES.format("[]"), tests, start=start).probe(secret).findings
    assert found.severity is Severity.HIGH
    assert found.message == (
        "test_a.py: test_tax does not reach its claim any more, as it did before any edit"
    )


@pytest.mark.parametrize("secret", secrets())
def test_an_exception_that_is_no_longer_raised_is_told(secret: str) -> None:
    start = f"{START}def prices(): raise ValueError('often')\n"
    probed = Project(START + PRICES.format("[]"), HANDLER, start=start).probe(secret)
    (found,) = probed.findings
    assert found.severity is Severity.MEDIUM
    assert "test_tax does not reach its claim any more" in found.message
    assert "1 test not probed, none of a test that failed at the start" in probed.line


def test_a_loop_over_what_must_not_be_there_is_not_held_against_a_fix() -> None:
    tests = "def test_tax():\n    for price in prices():\n        assert False, price\n"
    start = START + PRICES.format("[3]")
    probed = Project(START + PRICES.format("[]"), tests, start=start).probe()
    assert (probed.findings, probed.line) == ((), "canary: 1 test can fail")


def test_what_no_time_is_left_to_confirm_is_told() -> None:
    for runs in (3, 4, 5):
        (found, *_) = (
            Project(VANISHING["by the end of the process"][0], FAR, runs=runs).probe().findings
        )
        assert found.severity is Severity.MEDIUM
        assert found.message.endswith(
            "its text changed; no time was left to run it once more: slow"
        )


def test_what_became_too_slow_to_be_tried_is_told() -> None:
    probed = Project(FIXED, runs=0).probe(share=0.1)
    (found,) = probed.findings
    assert (found.rule, found.severity) == ("tamper/unprobed-test", Severity.MEDIUM)
    assert found.message == "test_a.py: test_tax was not probed: slow"
    assert found.evidence[0].line_start == 5


def test_where_time_is_scarce_a_doubt_comes_first() -> None:
    project = Project(ANYTHING, FAR, runs=2)
    (found, *_) = project.probe(share=0.1).findings
    assert project.labels[:2] == ["1", "again-1"]
    assert found.severity is Severity.HIGH


def test_messages_that_only_the_result_keeps_back_are_missed() -> None:
    def hushed(told: ValidatorAnswer) -> ValidatorAnswer:
        tests = (outcome.replace(message="") for outcome in told.outcomes.tests)
        return told.replace(outcomes=TestOutcomes(tuple(tests), complete=True))

    class Hushed(Project):
        def ran(self, product: str, tests: str) -> ValidatorAnswer:
            return hushed(super().ran(product, tests))

    (found, *_) = Project(FIXED, report=hushed).probe().findings
    assert "test_tax fails, but not with the message" in found.message
    quiet = Hushed(FIXED)
    assert quiet.probe().findings == ()
    assert len(quiet.labels) == 4


CAUGHT = """\
class promised:
    def __enter__(self): pass
    def __exit__(self, kind, *_):
        if kind:
            raise ValueError("rejected") from None


def test_tax():
    with promised():
        assert total([100], 20) == 120


def test_sum():
    assert total([1, 2]) == 3
"""


def test_a_failure_that_the_test_itself_catches_is_not_held_against_a_fix() -> None:
    probed = Project(FIXED, CAUGHT).probe()
    assert probed.findings == ()
    assert "1 test not probed, none of a test that failed at the start" in probed.line


def test_what_the_start_tree_does_as_well_is_excused() -> None:
    project = Project(FIXED, IDLE)
    probed = project.probe()
    assert probed.findings == ()
    assert "canary: 1 test can fail, 1 excused" in probed.line
    assert project.labels == ["1", "2", "3", "2-start"]


def test_a_disagreement_on_unrelated_tests_alone_is_medium() -> None:
    """It was green at the start, and its claim is left out by the result."""
    head = "def test_sum():\n"
    tests = TESTS.replace(head, f"{head}    if globals().get('SHUT'):\n        return\n")
    found = Project(f"SHUT = True\n{FIXED}", tests).probe().findings
    assert [one.severity for one in found] == [Severity.MEDIUM]
    assert "test_sum passes" in found[0].message


def test_a_test_that_fails_at_times_is_asked_again() -> None:
    turns = iter(range(100))

    def flaky(told: ValidatorAnswer) -> ValidatorAnswer:
        if next(turns) != 1:
            return told
        tests = (one.replace(state=PASSED, message="") for one in told.outcomes.tests)
        return told.replace(outcomes=TestOutcomes(tuple(tests), complete=True))

    project = Project(FIXED, report=flaky)
    probed = project.probe()
    assert probed.findings == ()
    assert project.labels == ["1", "2", "3", "1-start", "again-1"]


def test_where_nothing_can_fail_a_few_tests_are_named() -> None:
    tests = TESTS + "".join(
        f"def test_{number}():\n    assert total([1]) == 1\n" for number in range(9)
    )
    messages = [one.message for one in Project(START, tests, green).probe().findings]
    assert messages[0].startswith("test_a.py: test_tax passes ")
    assert messages[-1] == "and 7 more tests"
    assert len(messages) == 6


def test_a_run_that_is_cut_short_probes_nothing() -> None:
    def cut(told: ValidatorAnswer) -> ValidatorAnswer:
        return told.replace(stopped="a run was cut short") if told.exit_code else told

    probed = Project(FIXED, report=cut).probe()
    assert [found.rule for found in probed.findings] == ["tamper/unprobed-test"]
    assert "not probed" in probed.line
    assert probed.line.endswith("a run was cut short")


def test_a_sample_keeps_what_failed_at_the_start() -> None:
    probed = Project(FIXED).probe(share=0.1)
    assert probed.findings == ()
    assert probed.line == "canary: 2 tests can fail, 1 test not in the sample"


def test_no_test_is_not_probed() -> None:
    canary = Canary(
        {}, TestOutcomes(), ValidatorAnswer(TestOutcomes(), "", 0), Project(FIXED), secret="0" * 32
    )
    assert canary.probe() == CanaryResult(
        (), "canary: not probed, no test that ran can be changed", {}
    )


def test_what_is_no_source_is_counted_as_not_read() -> None:
    contents = {
        "test_a.py": b"def test_a(:\n",
        "test_b.py": b"# coding: ascii\n\xff\n",
        "c.txt": b"",
    }
    told = ValidatorAnswer(TestOutcomes(complete=True), "", 0)
    canary = Canary(contents, TestOutcomes(), told, Project(FIXED), secret="0" * 32)
    assert canary.probe().line.endswith(", 3 files not read")


@pytest.mark.parametrize("codec", ["rot13", "undefined", "idna", "punycode", "unicode_escape"])
def test_a_codec_that_does_not_keep_a_text_is_not_read(codec: str) -> None:
    content = f"# coding: {codec}\ndef test_a():\n    assert f() == 2\n".encode()
    told = ValidatorAnswer(TestOutcomes(complete=True), "", 0)
    canary = Canary({"test_a.py": content}, TestOutcomes(), told, Project(FIXED), secret="0" * 32)
    assert canary.probe().line.endswith(", 1 file not read")


def test_what_did_not_run_is_told_by_name() -> None:
    def outcomes(*rows: tuple[str, str, str]) -> TestOutcomes:
        tests = (TestOutcome("a.py", name, state, case) for name, state, case in rows)
        return TestOutcomes(tuple(tests), complete=True)

    first = outcomes(
        ("test_a", PASSED, ""), ("test_b", FAILED, ""), ("test_c", PASSED, "1"),
        ("test_c", FAILED, "2"), ("test_d", SKIPPED, ""), ("", FAILED, ""),
    )  # fmt: skip
    last = outcomes(("test_b", SKIPPED, ""), ("test_c", PASSED, "other"), ("test_e", PASSED, ""))
    assert lost(first, last) == (
        "a.py::test_a did not run",
        "a.py::test_b is skipped, and ran before",
        "a.py::test_c ran 1 of 2 cases",
    )
    assert lost(first, last.replace(complete=False)) == ()
    assert lost(first, first) == ()
    # As node does, which tells the file of a test that fails.
    nowhere = TestOutcomes(
        (TestOutcome("", "test_a", PASSED), TestOutcome("", "test_b", PASSED)), complete=True
    )
    assert lost(outcomes(("test_a", FAILED, ""), ("test_b", FAILED, "")), nowhere) == ()
    assert lost(outcomes(("test_z", FAILED, "")), nowhere) == ("a.py::test_z did not run",)


def test_a_file_of_a_crate_has_its_own_tests() -> None:
    index = OutcomeIndex(
        [
            TestOutcome("src", "cart::tests::new", FAILED),
            TestOutcome("src", "shop::order::tests::new", PASSED),
            TestOutcome("src", "tests::new", SKIPPED),
            TestOutcome("tests/all.rs", "new", PASSED, "other"),
        ]
    )

    def states(path: str, name: str) -> list[str]:
        return [f"{one.state}{one.case}" for one in index.of(path, name)]

    assert states("src/cart.rs", "tests::new") == [FAILED]
    assert states("core/src/shop/order/mod.rs", "tests::new") == [PASSED]
    assert states("src/lib.rs", "tests::new") == [SKIPPED]
    assert states("tests/all.rs", "new") == [f"{PASSED}other"]


def test_a_runner_may_tell_the_file_of_failures_alone() -> None:
    first = TestOutcomes((TestOutcome("a.test.js", "tax::is added", FAILED),), complete=True)
    last = TestOutcomes((TestOutcome("", "tax::is added", PASSED),), complete=True)
    assert lost(first, last) == ()
    assert lost(last, first) == ()


def test_an_outcome_is_of_the_test_that_says_most_of_its_name() -> None:
    told = [
        TestOutcome("a.test.ts", f"cut::{name}", PASSED) for name in ("/a", "falsy value", "no /b")
    ]
    each = OutcomeIndex(told).of_each("a.test.ts", ["cut::*", "cut::falsy value", "cut::no *"])
    assert {name: [one.name for one in found] for name, found in each.items()} == {
        "cut::*": ["cut::/a"],
        "cut::falsy value": ["cut::falsy value"],
        "cut::no *": ["cut::no /b"],
    }


def test_a_test_whose_name_was_cut_away_is_not_probed() -> None:
    def cut(told: ValidatorAnswer) -> ValidatorAnswer:
        tests = tuple(one for one in told.outcomes.tests if one.name != "test_names")
        return told.replace(outcomes=TestOutcomes(tests), clipped=True) if told.exit_code else told

    project = Project(FIXED, report=cut)
    assert project.probe().line == "canary: 2 tests can fail, 1 test not probed"
    assert not any(one.endswith("-start") for one in project.labels)


def test_of_many_tests_that_did_not_run_a_few_are_named() -> None:
    told = [
        one.message for one in guard.not_run([f"test_{number} did not run" for number in range(9)])
    ]
    assert told[0] == "test_0 did not run"
    assert told[5:] == ["and 4 more tests did not run as before"]


def test_no_line_of_a_long_output_is_left_out() -> None:
    assert len(validator_run.printed(Clipped(b"FAIL: a\n" * 300_000))) == 300_000
