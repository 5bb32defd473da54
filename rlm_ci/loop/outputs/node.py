"""node --test with its own reporter for people: the list of failing tests at its end."""

from __future__ import annotations

import re

from rlm_ci.loop.outputs._printout import Tally, finding, frame, sentence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlm_ci.findings import Finding, Location
    from rlm_ci.loop.outputs._printout import Printout

TOOL = "node"

_NAME = re.compile(r"✖ (.*?)(?: \([\d.]+ms\))?( # .*)?$")
_COUNT = re.compile(r"ℹ (pass|fail) (\d{1,8})$")


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


def tally(printout: Printout) -> Tally | None:
    """The sum of its counts; None when there is none."""
    counts = {"pass": 0, "fail": 0}
    seen = False
    for line in printout.lines:
        if count := _COUNT.match(line):
            seen = True
            counts[count[1]] += int(count[2])
    return Tally(counts["pass"], counts["fail"]) if seen else None
