"""mocha: the numbered list below ``N failing``."""

from __future__ import annotations

import re

from rlm_ci.loop.outputs._printout import Tally, finding, frame, sentence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlm_ci.findings import Finding, Location
    from rlm_ci.loop.outputs._printout import Printout

TOOL = "mocha"

_COUNT = re.compile(r" +(\d{1,8}) (passing|failing)\b")
_TITLE = re.compile(r"  \d+\) (\S.*)$")


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


def tally(printout: Printout) -> Tally | None:
    """The sum of its counts; None when there is none."""
    counts = {"passing": 0, "failing": 0}
    seen = False
    for line in printout.lines:
        if count := _COUNT.match(line):
            seen = True
            counts[count[2]] += int(count[1])
    return Tally(counts["passing"], counts["failing"]) if seen else None
