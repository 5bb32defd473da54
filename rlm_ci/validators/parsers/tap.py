"""TAP of node --test, mocha and tape: ``not ok`` lines and the diagnostics below."""

from __future__ import annotations

import re

from rlm_ci.validators.outcomes import FAILED, PASSED, SKIPPED, TestOutcome
from rlm_ci.validators.parsers._output import (
    LONGEST_SAID,
    TestTally,
    TitleOutline,
    finding,
    frame,
    sentence,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlm_ci.report.findings import Finding, Location
    from rlm_ci.validators.parsers._output import Printout

TOOL = "tap"

_POINT = re.compile(r"( *)(not )?ok (?:\d+\b(?: -)?|-) ?(.*)$")
_PLAN = re.compile(r"1\.\.\d{1,8}(?: |$)|TAP version \d")
_WAIVED = re.compile(r"# *(?:TODO|SKIP)\b", re.IGNORECASE)
_SUBTEST = re.compile(r"( *)# Subtest: (.*)$")
#: Lines of diagnostics that are kept of one point.
_LINES = 60
_KEY = re.compile(r" +(at|code|error|failureType|location|name|stack): *(.*)$")
_COUNT = re.compile(r"# (pass|fail|tests) +(\d{1,8})$")
_BLOCKS = ("|-", "|", ">-", ">", "")
_FRAMES = ("file://", "(/", "at ")


class _Point:
    """One point and its diagnostics; ``path`` is its name with those of its subtests."""

    def __init__(self, name: str, depth: int, path: str, state: str) -> None:
        self.name = name
        self.depth = depth
        self.path = path
        self.state = state
        self.text: list[str] = []
        self.message = ""
        self.location: Location | None = None
        self.defined: Location | None = None
        self.of_subtests = False
        self._is_yaml = False
        self._reads_error = False

    def take(self, printout: Printout, line: str) -> None:
        """What a line below adds."""
        text = line.strip()
        if text in ("---", "..."):
            self._is_yaml = text == "---"
        elif self._is_yaml and (key := _KEY.match(line)):
            self._reads_error = key[1] == "error" and key[2] in _BLOCKS
            if key[1] == "failureType":
                self.of_subtests = "subtestsFailed" in key[2]
            elif key[1] == "error" and not self._reads_error:
                self.message = key[2].strip("'\"")
                self.text.append(self.message)
            elif key[1] in ("location", "at"):
                self.defined = self.defined or printout.spot(key[2].strip("'\""))
        elif any(sign in text for sign in _FRAMES):
            self.location = self.location or printout.spot(frame(text))
        elif self._reads_error or not self._is_yaml:
            self.message = sentence((self.message, text))
            if len(self.text) < _LINES:
                self.text.append(text)


def _points(printout: Printout) -> Iterator[_Point]:
    current: _Point | None = None
    outline = TitleOutline()
    for line in printout.lines:
        point = _POINT.match(line)
        if current and (point or (line and len(line) - len(line.lstrip()) <= current.depth)):
            yield current
            current = None
        if point:
            waived = _WAIVED.search(point[3])
            name = point[3][: waived.start()].rstrip() if waived else point[3]
            state = SKIPPED if waived else FAILED if point[2] else PASSED
            path = outline.name(len(point[1]), name)
            current = _Point(name, len(point[1]), path, state)
        elif subtest := _SUBTEST.match(line):
            outline.enter(len(subtest[1]), subtest[2])
        elif current:
            current.take(printout, line)
    if current:
        yield current


def parse(printout: Printout) -> Iterator[Finding]:
    """One finding a failed test, none for a suite that failed only by its tests."""
    for point in _points(printout):
        if point.state == FAILED and not point.of_subtests:
            name = point.name or "a test without a name"
            message = f"{name}: {point.message}" if point.message else name
            location = point.location or point.defined
            yield finding(TOOL, "tap-failure", message, location, subject=name)


def outcomes(printout: Printout) -> Iterator[TestOutcome]:
    """All tests."""
    for point in _points(printout):
        location = point.defined or point.location
        text = "\n".join(point.text)[:LONGEST_SAID] if point.state == FAILED else ""
        yield TestOutcome(location.path if location else "", point.path, point.state, message=text)


def tally(printout: Printout) -> TestTally | None:
    """Its own counts, else the points at the left margin; None when it is no TAP."""
    counts: dict[str, int] = {}
    passed = failed = 0
    seen = False
    for line in printout.lines:
        if count := _COUNT.match(line):
            counts[count[1]] = counts.get(count[1], 0) + int(count[2])
        elif _PLAN.match(line):
            seen = True
        elif (point := _POINT.match(line)) and not point[1] and not _WAIVED.search(point[3]):
            passed += point[2] is None
            failed += point[2] is not None
    if "pass" in counts:
        return TestTally(counts["pass"], counts.get("fail", 0))
    return TestTally(passed, failed) if seen else None
