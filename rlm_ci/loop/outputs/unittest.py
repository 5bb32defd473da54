"""unittest: the tracebacks below ``FAIL:`` and ``ERROR:``, and its ``Ran N tests``."""

from __future__ import annotations

import re

from rlm_ci.loop.outputs._printout import Tally, finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlm_ci.findings import Finding, Location
    from rlm_ci.loop.outputs._printout import Printout

TOOL = "unittest"

_TITLE = re.compile(r"(FAIL|ERROR): (\S.*)$")
_FRAME = re.compile(r'  File "([^"]+)", line (\d+)')
_RAN = re.compile(r"Ran (\d{1,8}) tests? in ")
_END = re.compile(r"(?:OK|FAILED|NO TESTS RAN)(?: \((.*)\))?$")
_COUNT = re.compile(r"((?<!expected )failures|errors|skipped|unexpected successes)=(\d{1,8})")


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


def tally(printout: Printout) -> Tally | None:
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
    return Tally(max(0, ran - failed - skipped), failed) if seen else None
