"""node --test with its own reporter for people: the list of failing tests at its end."""

from __future__ import annotations

import re
from itertools import pairwise

from rlm_ci.validators.outcomes import FAILED, PASSED, SKIPPED, TestOutcome
from rlm_ci.validators.parsers._output import (
    TestTally,
    TitleOutline,
    blocks,
    finding,
    frame,
    sentence,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlm_ci.report.findings import Finding, Location
    from rlm_ci.validators.parsers._output import Printout

TOOL = "node"

_NAME = re.compile(r"✖ (.*?)(?: \([\d.]+ms\))?( # .*)?$")
_COUNT = re.compile(r"ℹ (pass|fail) (\d{1,8})$")

_LINE = re.compile(r"( *)([▶✔✖﹣⚠]) (.*?)( \([\d.]+ms\))?( # .*)?$")
_PLACE = re.compile(r"test at (\S.*)$")
_ENDED = {"✔": PASSED, "✖": FAILED}
_SCRIPT = re.compile(r"\S+\.[cm]?[jt]sx?$")


def outcomes(printout: Printout) -> Iterator[TestOutcome]:
    """All tests, a suite as well; where a failing one stands is told below, by name and time."""
    failures: dict[str, tuple[str, str]] = {}
    for at, said in blocks(printout.lines, _PLACE, _PLACE):
        first, _, rest = said.partition("\n")
        where = printout.spot(at[1])
        message = rest.partition("\n    at ")[0].partition("\n      at ")[0]
        failures[first.strip()] = (where.path if where else "", message)
    outline = TitleOutline()
    for before, line in pairwise(("", *printout.lines)):
        is_listed = line == "✖ failing tests:" or before.startswith("test at ")
        if is_listed or (told := _LINE.match(line)) is None:
            continue
        depth, title = len(told[1]), told[3]
        if told[2] == "▶":
            if not told[4]:
                outline.enter(depth, title)
            continue
        name = outline.name(depth, title)
        state = SKIPPED if told[5] else _ENDED.get(told[2], SKIPPED)
        place, message = failures.get(line.strip(), ("", "")) if state == FAILED else ("", "")
        if _SCRIPT.fullmatch(title) and not told[1]:  # a file that could not be run
            yield TestOutcome(title, "", state, message=message)
        else:
            yield TestOutcome(place, name, state, message=message)


def parse(printout: Printout) -> Iterator[Finding]:
    """One finding a failing test; what is marked as a todo does not fail."""
    defined: Location | None = None
    broken: Location | None = None
    name = said = ""
    listed = False
    for line in (*printout.lines, "test at "):
        if line.startswith("test at "):
            if name:
                place = broken or defined
                yield finding(TOOL, "node-test-failure", f"{name}: {said}", place, subject=name)
            defined, broken, name, said, listed = printout.spot(line[8:]), None, "", "", True
        elif listed and line.startswith("✖ ") and (told := _NAME.match(line)):
            name = "" if told[2] else told[1]
            listed = False
        elif name and line.lstrip().startswith("at "):
            broken = broken or printout.spot(frame(line))
        elif name:
            said = sentence(said, line.strip())


def tally(printout: Printout) -> TestTally | None:
    """The sum of its counts; None when there is none."""
    counts = {"pass": 0, "fail": 0}
    seen = False
    for line in printout.lines:
        if count := _COUNT.match(line):
            seen = True
            counts[count[1]] += int(count[2])
    return TestTally(counts["pass"], counts["fail"]) if seen else None
