"""TAP, as node --test, mocha and tape write it: ``not ok`` lines and what is indented below."""

from __future__ import annotations

import re

from rlm_ci.loop.outputs._printout import Tally, finding, frame, sentence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlm_ci.findings import Finding, Location
    from rlm_ci.loop.outputs._printout import Printout

TOOL = "tap"

_POINT = re.compile(r"( *)(not )?ok (?:\d+\b(?: -)?|-) ?(.*)$")
_PLAN = re.compile(r"1\.\.\d{1,8}(?: |$)|TAP version \d")
_WAIVED = re.compile(r"# *(?:TODO|SKIP)\b", re.IGNORECASE)
_KEY = re.compile(r" +(at|code|error|failureType|location|name|stack): *(.*)$")
_COUNT = re.compile(r"# (pass|fail|tests) +(\d{1,8})$")
_BLOCKS = ("|-", "|", ">-", ">", "")
_FRAMES = ("file://", "(/", "at ")


class _Failure:
    """One ``not ok`` and its diagnostics."""

    def __init__(self, name: str, depth: int) -> None:
        self.name = name
        self.depth = depth
        self.said = ""
        self.place: Location | None = None
        self.defined: Location | None = None
        self.of_subtests = False
        self._is_yaml = False
        self._reads_error = False

    def take(self, printout: Printout, line: str) -> None:
        """What a line below adds."""
        told = line.strip()
        if told in ("---", "..."):
            self._is_yaml = told == "---"
        elif self._is_yaml and (key := _KEY.match(line)):
            self._reads_error = key[1] == "error" and key[2] in _BLOCKS
            if key[1] == "failureType":
                self.of_subtests = "subtestsFailed" in key[2]
            elif key[1] == "error" and not self._reads_error:
                self.said = key[2].strip("'\"")
            elif key[1] in ("location", "at"):
                self.defined = self.defined or printout.spot(key[2].strip("'\""))
        elif any(sign in told for sign in _FRAMES):
            self.place = self.place or printout.spot(frame(told))
        elif self._reads_error or not self._is_yaml:
            self.said = sentence(self.said, told)


def parse(printout: Printout) -> Iterator[Finding]:
    """One finding a failed test, none for a suite that failed only by its tests."""
    failure: _Failure | None = None
    for line in printout.lines:
        point = _POINT.match(line)
        if failure and (point or (line and len(line) - len(line.lstrip()) <= failure.depth)):
            yield from _found(failure)
            failure = None
        if point and point[2] and not _WAIVED.search(point[3]):
            failure = _Failure(point[3], len(point[1]))
        elif failure:
            failure.take(printout, line)
    if failure:
        yield from _found(failure)


def _found(failure: _Failure) -> Iterator[Finding]:
    if not failure.of_subtests:
        name = failure.name or "a test without a name"
        message = f"{name}: {failure.said}" if failure.said else name
        place = failure.place or failure.defined
        yield finding(TOOL, "tap-failure", message, place, subject=name)


def tally(printout: Printout) -> Tally | None:
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
        return Tally(counts["pass"], counts.get("fail", 0))
    return Tally(passed, failed) if seen else None
