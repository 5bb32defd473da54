"""PHPUnit: its lists of errors and failures, and its last lines with the counts."""

from __future__ import annotations

import re

from rlm_ci.validators.outcomes import FAILED, TestOutcome
from rlm_ci.validators.parsers._output import TestTally, blocks, finding, message, sentence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlm_ci.report.findings import Finding
    from rlm_ci.validators.parsers._output import Printout

TOOL = "phpunit"

#: Above the failures; lists of warnings, skipped and risky tests look the same below.
_LIST = re.compile(r"(?:There (?:was|were) )?\d{1,8} (?:(error|failure)s?|.*(?<=[a-z])):$")
_TEST = re.compile(r"\d{1,8}\) (\S.*)$")
_END = re.compile(r"(?:--|FAILURES!|ERRORS!|WARNINGS!|OK\b.*)$")
_CASE = re.compile(r" with data set (.*)$")
_PLACE = re.compile(r"/?[^\s:]\S*\.php:\d+$")
_GREEN = re.compile(r"OK \((\d{1,8}) tests?, \d{1,8} assertions?\)$")
_COUNTS = re.compile(r"Tests: (\d{1,8}), Assertions: \d{1,8}(?:, [A-Z][\w ]{1,30}: \d{1,8})*\.$")
_COUNT = re.compile(r", (Errors|Failures|Skipped|Incomplete): (\d{1,8})")
_NONE = "No tests executed!"


def _failures(printout: Printout) -> Iterator[tuple[str, list[str]]]:
    """The name of each test that failed, and the lines below."""
    for kind, listed in blocks(printout.lines, _LIST, _END):
        if kind[1]:
            yield from ((test[1], below) for test, below in blocks(listed, _TEST))


def parse(printout: Printout) -> Iterator[Finding]:
    """One finding a failed test."""
    for test, below in _failures(printout):
        places = (printout.spot(line) for line in below if _PLACE.match(line))
        location = next(filter(None, places), None)
        name = _CASE.sub("", test)
        text = sentence(filter(None, below))
        yield finding(TOOL, "phpunit-failure", f"{name}: {text}", location, subject=name)


def outcomes(printout: Printout) -> Iterator[TestOutcome]:
    """The tests that failed: it names no others."""
    for test, below in _failures(printout):
        case = _CASE.search(test)
        places = (printout.spot(line) for line in reversed(below) if _PLACE.match(line))
        location = next(filter(None, places), None)
        name = _CASE.sub("", test).rpartition("\\")[2]
        yield TestOutcome(
            location.path if location else "", name, FAILED, case[1] if case else "",
            message(below, _PLACE),
        )  # fmt: skip


def tally(printout: Printout) -> TestTally | None:
    """The sum of its last lines; None when there is none."""
    tallies = []
    for line in printout.lines:
        if green := _GREEN.match(line):
            tallies.append(TestTally(int(green[1])))
        elif counts := _COUNTS.match(line):
            count_by_word = {word: int(number) for word, number in _COUNT.findall(line)}
            failed = count_by_word.get("Errors", 0) + count_by_word.get("Failures", 0)
            done = int(counts[1]) - sum(count_by_word.values())
            tallies.append(TestTally(max(0, done), failed))
        elif line == _NONE:
            tallies.append(TestTally(0))
    if not tallies:
        return None
    return TestTally(
        sum(test_tally.passed for test_tally in tallies), sum(tally.failed for tally in tallies)
    )
