"""unittest: the tracebacks below ``FAIL:`` and ``ERROR:``, and its ``Ran N tests``."""

from __future__ import annotations

import re

from rlm_ci.validators.outcomes import FAILED, PASSED, SKIPPED, TestOutcome
from rlm_ci.validators.parsers._output import TestTally, blocks, finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlm_ci.report.findings import Finding, Location
    from rlm_ci.validators.parsers._output import Printout

TOOL = "unittest"

_TITLE = re.compile(r"(FAIL|ERROR): (\S.*)$")
_FRAME = re.compile(r'  File "([^"]+)", line (\d+)')
_RAN = re.compile(r"Ran (\d{1,8}) tests? in ")
_END = re.compile(r"(?:OK|FAILED|NO TESTS RAN)(?: \((.*)\))?$")
_COUNT = re.compile(r"((?<!expected )failures|errors|skipped|unexpected successes)=(\d{1,8})")

#: ``name (module.Class.name) ... ok``, the second line of it where a test has a docstring.
_NAMED = re.compile(r"\b(\w+) \(([\w.<>]+)\)(?: \([^()]*\)| \[[^\[\]]*\])*$")
_VERBOSE = re.compile(r"(.*) \.\.\. (.*)$")
_STATE = re.compile(r"(?:.* )?(ok|FAIL|ERROR|skipped .*|expected failure|unexpected success)$")
_STATES = {"ok": PASSED, "FAIL": FAILED, "ERROR": FAILED, "unexpected success": FAILED}
_RULE = re.compile(r"={60,}$|Ran \d+ tests? in ")


def outcomes(printout: Printout) -> Iterator[TestOutcome]:
    """The tests below ``FAIL:`` and ``ERROR:``, and with -v every one."""
    for title, said in blocks(printout.lines, _TITLE, _RULE):
        if named := _NAMED.search(title[2]):
            yield _outcome(named[1], named[2], FAILED, _error(said))
    before = ""
    waiting: re.Match[str] | None = None  # a test that prints, before its end is told
    for line in printout.lines:
        if told := _VERBOSE.match(line):
            waiting = _NAMED.match(before) or _NAMED.search(told[1])
        state = _STATE.match(told[2] if told else line)
        if waiting and state and (told or line == state[1]):
            yield _outcome(waiting[1], waiting[2], _STATES.get(state[1], SKIPPED))
            waiting = None
        before = line


def _error(said: str) -> str:
    """What stands below the last frame of a traceback."""
    lines = said.split("\n")
    frames = [at for at, line in enumerate(lines) if _FRAME.match(line)]
    below = lines[frames[-1] + 1 :] if frames else lines
    return "\n".join(below[next((at for at, line in enumerate(below) if line[:1].strip()), 0) :])


def _outcome(test: str, place: str, state: str, said: str = "") -> TestOutcome:
    """A test as it is named: until Python 3.10 its class stands beside it, then itself as well."""
    parts = place.split(".")
    if parts[-2:] == ["_FailedTest", test] or parts[-1] == "_FailedTest":
        return TestOutcome(test, "", state, message=said)  # a module that could not be imported
    if parts[-1] == test:
        parts.pop()
    first = (at for at, part in enumerate(parts) if at and part[:1].isupper())
    start = next(first, max(0, len(parts) - 1))
    name = parts[start:] if test in ("setUpClass", "tearDownClass") else [*parts[start:], test]
    module = ".".join(parts[:start])
    return TestOutcome("" if module == "__main__" else module, "::".join(name), state, message=said)


def parse(printout: Printout) -> Iterator[Finding]:
    """One finding a failed test."""
    lines = printout.lines
    index = 1
    while index < len(lines):
        title = _TITLE.match(lines[index])
        index += 1
        if title is None or set(lines[index - 2]) != {"="}:
            continue
        places: list[Location] = []
        said = ""
        while index < len(lines) and not lines[index].startswith("====="):
            line = lines[index]
            if _RAN.match(line):
                break
            if frame := _FRAME.match(line):
                place = printout.place(frame[1], frame[2])
                places += [place] if place else []
                said = ""
            elif line[:1].strip() and not line.startswith(("-----", "Traceback (")):
                # the error itself stands at the left margin, after the last frame
                said = said or line
            index += 1
        condition = "unittest-failure" if title[1] == "FAIL" else "unittest-error"
        kept = [places[-1], places[0]] if places else []
        message = f"{title[2]}: {said}" if said else title[2]
        yield finding(TOOL, condition, message, *kept, subject=title[2])


def names_all(printout: Printout) -> bool:
    """Whether each test that ran is named; of one, many parts may fail."""
    ran = 0
    for line in printout.lines:
        if told := _RAN.match(line):
            ran += int(told[1])
        elif ran and (end := _END.match(line)) and end[1]:
            ran -= sum(int(number) for word, number in _COUNT.findall(end[1]) if word == "skipped")
    return len({(one.place, one.name) for one in outcomes(printout)}) >= ran


def tally(printout: Printout) -> TestTally | None:
    """The sum of its summaries; None when there is none."""
    ran = failed = skipped = 0
    seen = False
    for line in printout.lines:
        if told := _RAN.match(line):
            seen = True
            ran += int(told[1])
        elif seen and (end := _END.match(line)) and end[1]:
            for word, number in _COUNT.findall(end[1]):
                if word == "skipped":
                    skipped += int(number)
                else:
                    failed += int(number)
    return TestTally(max(0, ran - failed - skipped), failed) if seen else None
