"""mocha: the numbered list below ``N failing``."""

from __future__ import annotations

import re

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

TOOL = "mocha"

_COUNT = re.compile(r" +(\d{1,8}) (passing|failing)\b")
_TITLE = re.compile(r"  \d+\) (\S.*)$")

_LINE = re.compile(r"(  +)(?:([✓✔-]|\d+\)) )?(\S.*?)(?: \(\d+ms\))?$")
_PENDING = "-"
_STOP = re.compile(r" +at ")


def outcomes(printout: Printout) -> Iterator[TestOutcome]:
    """All tests of its reporter ``spec``, of others those that failed."""
    outline = TitleOutline()
    lines = iter(printout.lines)
    for line in lines:
        if (count := _COUNT.match(line)) and count[2] == "failing":
            break
        if count:
            outline = TitleOutline()
        elif (told := _LINE.match(line)) and told[2]:
            state = PASSED if told[2] in "✓✔" else SKIPPED if told[2] == _PENDING else FAILED
            yield TestOutcome("", outline.name(len(told[1]), told[3]), state)
        elif told:
            outline.enter(len(told[1]), told[3])
    for head, said in blocks(lines, _TITLE, _STOP):
        above, _, below = said.partition("\n\n") if not head[1].endswith(":") else ("", "", said)
        titles = [head[1], *(one.strip() for one in above.split("\n"))] if above else [head[1]]
        yield TestOutcome("", "::".join(titles).rstrip(":"), FAILED, message=below)


def parse(printout: Printout) -> Iterator[Finding]:
    """One finding a failed test."""
    title: list[str] = []
    said = ""
    place: Location | None = None
    is_listing = in_title = False
    for line in (*printout.lines, "  0) end"):
        if not is_listing:
            is_listing = bool((count := _COUNT.match(line)) and count[2] == "failing")
        elif first := _TITLE.match(line):
            if title:
                yield _found(title, said, place)
            title, said, place, in_title = [first[1].rstrip(":")], "", None, True
        elif in_title and line.strip():  # the path of the test, deeper line by line
            title.append(line.strip().rstrip(":"))
        elif in_title:
            in_title = False
        elif line.lstrip().startswith("at "):
            place = place or printout.spot(frame(line))
        else:
            said = sentence(said, line.strip())
    if title and title != ["end"]:
        yield _found(title, said, place)


def _found(title: list[str], said: str, place: Location | None) -> Finding:
    name = " > ".join(title[:20])
    return finding(TOOL, "mocha-failure", f"{name}: {said}", place, subject=name)


def tally(printout: Printout) -> TestTally | None:
    """The sum of its counts; None when there is none."""
    counts = {"passing": 0, "failing": 0}
    seen = False
    for line in printout.lines:
        if count := _COUNT.match(line):
            seen = True
            counts[count[2]] += int(count[1])
    return TestTally(counts["passing"], counts["failing"]) if seen else None
