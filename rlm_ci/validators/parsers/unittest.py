"""unittest: the tracebacks below ``FAIL:`` and ``ERROR:``, and its ``Ran N tests``."""

from __future__ import annotations

import re
from collections import Counter

from rlm_ci.validators.outcomes import FAILED, PASSED, SKIPPED, TestOutcome
from rlm_ci.validators.parsers._output import TestTally, blocks, finding, message

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlm_ci.report.findings import Finding
    from rlm_ci.validators.parsers._output import Printout

TOOL = "unittest"

_TITLE = re.compile(r"(FAIL|ERROR): (\S.*)$")
_FRAME = re.compile(r'  File "([^"]+)", line (\d+)')
_RULE = re.compile(r"={5,}$")
_STOP = re.compile(r"=====|Ran \d+ tests? in ")
#: The error is at the left margin, below the last frame.
_ERROR = re.compile(r"(?!-----|Traceback \()\S")
_RAN = re.compile(r"Ran (\d{1,8}) tests? in ")
_END = re.compile(r"(?:OK|FAILED|NO TESTS RAN)(?: \((.*)\))?$")
_COUNT = re.compile(r"((?<!expected )failures|errors|skipped|unexpected successes)=(\d{1,8})")

#: ``name (module.Class.name) ... ok``, the second line of it where a test has a docstring.
_NAMED = re.compile(r"\b(\w+) \(([\w.<>]+)\)(?: \([^()]*\)| \[[^\[\]]*\])*$")
_VERBOSE = re.compile(r"(.*) \.\.\. (.*)$")
_STATE = re.compile(r"(?:.* )?(ok|FAIL|ERROR|skipped .*|expected failure|unexpected success)$")
_STATES = {"ok": PASSED, "FAIL": FAILED, "ERROR": FAILED, "unexpected success": FAILED}


def _failures(
    printout: Printout,
) -> Iterator[tuple[re.Match[str], list[re.Match[str]], list[str]]]:
    """The title of each failure, the frames of its traceback, and the lines of its error."""
    for _, below in blocks(printout.lines, _RULE, _STOP):
        if title := _TITLE.match("".join(below[:1])):
            frames = [(at, match) for at, line in enumerate(below) if (match := _FRAME.match(line))]
            error = below[frames[-1][0] + 1 if frames else 1 :]
            begin = (at for at, line in enumerate(error) if _ERROR.match(line))
            yield title, [match for _, match in frames], error[next(begin, len(error)) :]


def outcomes(printout: Printout) -> Iterator[TestOutcome]:
    """The tests below ``FAIL:`` and ``ERROR:``, and with -v every one."""
    for title, _, error in _failures(printout):
        if match := _NAMED.search(title[2]):
            yield _outcome(match[1], match[2], FAILED, message(error))
    before = ""
    waiting: re.Match[str] | None = None  # a test that prints before its result
    for line in printout.lines:
        if verbose := _VERBOSE.match(line):
            waiting = _NAMED.match(before) or _NAMED.search(verbose[1])
        state = _STATE.match(verbose[2] if verbose else line)
        if waiting and state and (verbose or line == state[1]):
            yield _outcome(waiting[1], waiting[2], _STATES.get(state[1], SKIPPED))
            waiting = None
        before = line


def _outcome(test: str, class_path: str, state: str, text: str = "") -> TestOutcome:
    """A test by its printed name. ``class_path`` has the name, too, from Python 3.11 on."""
    parts = class_path.split(".")
    if parts[-2:] == ["_FailedTest", test] or parts[-1] == "_FailedTest":
        return TestOutcome(test, "", state, message=text)  # a module that could not be imported
    if parts[-1] == test:
        parts.pop()
    first = (at for at, part in enumerate(parts) if at and part[:1].isupper())
    start = next(first, max(0, len(parts) - 1))
    name = parts[start:] if test in ("setUpClass", "tearDownClass") else [*parts[start:], test]
    module = ".".join(parts[:start])
    return TestOutcome("" if module == "__main__" else module, "::".join(name), state, message=text)


def parse(printout: Printout) -> Iterator[Finding]:
    """One finding a failed test."""
    for title, frames, error in _failures(printout):
        places = [
            location for frame in frames if (location := printout.location_of(frame[1], frame[2]))
        ]
        rule = "unittest-failure" if title[1] == "FAIL" else "unittest-error"
        text = ": ".join((title[2], *error[:1]))
        yield finding(TOOL, rule, text, *places[-1:], *places[:1], subject=title[2])


def _ran(printout: Printout) -> tuple[int, Counter[str]] | None:
    """How many tests ran, and what the last lines count of them; None without a summary."""
    counts: Counter[str] = Counter()
    ran = None
    for line in printout.lines:
        if match := _RAN.match(line):
            ran = (ran or 0) + int(match[1])
        elif ran is not None and (end := _END.match(line)) and end[1]:
            for word, number in _COUNT.findall(end[1]):
                counts[word] += int(number)
    return None if ran is None else (ran, counts)


def names_all(printout: Printout) -> bool:
    """Whether each test that ran is named; of one, many parts may fail."""
    ran, counts = _ran(printout) or (0, Counter())
    tests = {(outcome.location, outcome.name) for outcome in outcomes(printout)}
    return len(tests) >= ran - counts["skipped"]


def tally(printout: Printout) -> TestTally | None:
    """The sum of its summaries; None when there is none."""
    summary = _ran(printout)
    if summary is None:
        return None
    ran, counts = summary
    failed = counts.total() - counts["skipped"]
    return TestTally(max(0, ran - counts.total()), failed)
