"""A small project, whose tests are run for real, for the canary."""

from __future__ import annotations

import contextlib
import io
import unittest
from types import ModuleType
from typing import TYPE_CHECKING

from rlm_ci.canary.answers import CanaryResult, ValidatorAnswer
from rlm_ci.canary.probe import Canary
from rlm_ci.validators.outcomes import FAILED, PASSED, SKIPPED, TestOutcome, TestOutcomes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

TESTS = """\
def test_sum():
    assert total([1, 2]) == 3


def test_tax():
    assert total([100], 20) == 120


def test_names():
    names = []
    for name in names:
        assert name == "never"
    assert "ab".upper() == "AB"
"""
START = "def total(prices, tax=0):\n    return sum(prices)\n"


class Project:
    """Runs tests on the start and on a result; ``report`` may bend what is told of a run.

    There is time for so many ``runs``. What a test raises SystemExit for ends the whole run.
    """

    def __init__(
        self,
        result: str,
        tests: str = TESTS,
        report: Callable[[ValidatorAnswer], ValidatorAnswer] = lambda told: told,
        *,
        start: str = START,
        runs: int = 100,
        new: Callable[[ValidatorAnswer], ValidatorAnswer] | None = None,
    ) -> None:
        self.result = result
        self.start, self.runs, self.new = start, runs, new
        self.tests = tests
        self.report = report
        self.labels: list[str] = []

    def __call__(
        self,
        label: str,
        texts: Mapping[str, str],
        *,
        at_start: bool = False,
        with_new: bool = False,
    ) -> ValidatorAnswer | None:
        self.labels.append(label)
        if with_new and self.new:
            return self.report(self.new(self.ran(self.result, texts["test_a.py"])))
        assert with_new == label.endswith("-with-new-tests")
        if len(self.labels) > self.runs:
            return None
        told = self.ran(self.start if at_start else self.result, texts.get("test_a.py", self.tests))
        return told if at_start else self.report(told)

    def ran(self, product: str, tests: str) -> ValidatorAnswer:
        module = ModuleType("test_a")
        module.__dict__["KNOWN"] = tests == self.tests
        found = []
        printed = io.StringIO()
        try:
            exec(product + tests, module.__dict__)
        except SyntaxError as error:
            found.append(TestOutcome("test_a.py", "", FAILED, message=str(error)))
        for name, test in module.__dict__.items():
            if name.startswith("test_"):
                state, message = PASSED, ""
                try:
                    with contextlib.redirect_stdout(printed):
                        test()
                except unittest.SkipTest:
                    state = SKIPPED
                except SystemExit:
                    break
                except Exception as error:  # noqa: BLE001 - whatever a test raises
                    state, message = FAILED, str(error)
                found.append(TestOutcome("test_a.py", name, state, message=message))
        failed = any(one.state == FAILED for one in found)
        return ValidatorAnswer(
            TestOutcomes(tuple(found), complete=True),
            printed.getvalue(),
            int(failed),
            judged=len(found),
        )

    def probe(self, secret: str = "00" * 16, share: float = 1.0) -> CanaryResult:
        first = self.ran(self.start, self.tests).outcomes
        verdict = self.report(self.ran(self.result, self.tests))
        contents = {"test_a.py": self.tests.encode()}
        return Canary(
            contents,
            first,
            verdict,
            self,
            secret=secret,
            share=share,
            has_new=self.new is not None,
            slowness=lambda: "slow",
        ).probe()


def secrets(count: int = 6) -> list[str]:
    return [f"{number:08x}{'5a' * 12}" for number in range(count)]
