"""What a run of the tests says to an agent, and its scores."""

from __future__ import annotations

import re

from rlm_ci.system.transcript import plain
from rlm_ci.text.printable import count
from rlm_ci.validators import parsers, test_counts
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rlm_ci.system.process import StreamResult
    from rlm_ci.validators.validator import Validator

UNKNOWN_RUNNER = "rlm-ci cannot run some tests of this validator: name none, or use another tool"
#: In the last line of pytest.
_WARNINGS = re.compile(
    r"^(?:=+ )?(?:\d{1,9} [a-z]+, ){0,9}(\d{1,9}) warnings?(?:, \d{1,9} [a-z]+){0,9} in \d",
    re.MULTILINE,
)


class TestReport(Value):
    """``text`` is for the model.

    ``passed``: the validator is green. ``score`` is the share of tests that passed; ``tests`` says
    whether all did, None where none was counted. ``timed_out``: it was stopped.
    """

    __test__ = False

    text: str
    passed: bool
    tests: bool | None
    score: float
    warnings: int
    timed_out: bool


def judged(validator: Validator, ended: StreamResult, *, is_selection: bool) -> TestReport:
    """The report of a run; ``is_selection``: of some tests alone."""
    verdict = validator.judge(lambda _argv: ended)
    output = ended.output.text()
    counts = test_counts.parse(output).values()
    number = max((tests.judged for tests in counts), default=0)
    notes = [f"{count(number, 'test')} ran"] if number else []
    passed = verdict.passed
    if is_selection and not number:
        notes = ["no test ran: none has such a name"]
        passed = False
    elif verdict.passed:
        notes += ["it passes"]
    printed = plain(output)
    read = parsers.read(printed.split("\n"), validator.root, validator.exists)
    tallies = [tally for _, tally in read.tallies]
    good, bad = (
        sum(tally.passed for tally in tallies),
        sum(test_tally.failed for test_tally in tallies),
    )
    ran = good + bad
    return TestReport(
        "\n".join(notes if verdict.passed else [*notes, verdict.feedback]),
        passed,
        (not bad) if ran else None,
        good / ran if ran else float(passed),
        sum(map(int, _WARNINGS.findall(printed))),
        ended.reason == "timeout",
    )
