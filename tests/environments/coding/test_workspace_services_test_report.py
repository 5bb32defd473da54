"""What a run of tests says: counted, never green without a test that was asked for."""

from __future__ import annotations

import pytest

from rlm_ci.environments.coding.workspace_services import TestReport, judged
from rlm_ci.system.command_line import Command
from rlm_ci.system.process import Clipped, StreamResult
from rlm_ci.validators.validator import Validator

VALIDATOR = Validator(
    Command.parse("pytest -q"),
    root="/repo",
    exists=lambda _path: False,
    redact=str,
    find=lambda name: name,
    mark="mark",
)


def report(output: str, code: int = 0, *, reason: str = "", named: bool = False) -> TestReport:
    ended = StreamResult(code, reason, Clipped(output.encode()), 1.0)
    return judged(VALIDATOR, ended, is_selection=named)


@pytest.mark.parametrize(
    ("output", "code", "scores"),
    [
        ("..\n2 passed in 0.01s\n", 0, (True, True, 1.0, 0)),
        ("\x1b[32m..\x1b[0m\n3 passed, 12 warnings in 0.01s\n", 0, (True, True, 1.0, 12)),
        ("==== 1 failed, 3 passed, 1 warning in 0.01s ====\n", 1, (False, False, 0.75, 1)),
        ("all is well, 7 warnings in 3s\n", 0, (True, None, 1.0, 0)),
        ("make: *** no rule\n", 2, (False, None, 0.0, 0)),
        ("no tests ran in 0.01s\n", 0, (False, None, 0.0, 0)),
    ],
)
def test_scores(output: str, code: int, scores: tuple[object, ...]) -> None:
    found = report(output, code)
    assert (found.passed, found.tests, found.score, found.warnings) == scores
    assert not found.timed_out


def test_a_named_test_that_is_not_there_is_not_green() -> None:
    found = report("no tests ran in 0.01s\n", 5, named=True)
    assert found.text.startswith("no test ran: none has such a name")
    assert not found.passed
    assert not report("all is well\n", named=True).passed
    assert report("2 passed in 0.01s\n", named=True).text == "2 tests ran\nit passes"


def test_a_run_that_was_stopped_says_so() -> None:
    found = report("..", -9, reason="timeout")
    assert found.timed_out
    assert not found.passed
