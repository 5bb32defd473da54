"""vitest: the blocks below `` FAIL  file > test``."""

from __future__ import annotations

import re

from rlm_ci.loop.outputs._printout import Tally, finding, frame, numbers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlm_ci.findings import Finding, Location
    from rlm_ci.loop.outputs._printout import Printout

TOOL = "vitest"

_TITLE = re.compile(r" FAIL  (?:\|[^|]*\| )?(\S.*)$")
_SUITE = re.compile(r"(\S+) \[ .* \]$")
_COUNTS = re.compile(r" *(Test Files|Tests)  ")


def parse(printout: Printout) -> Iterator[Finding]:
    """One finding a failed test or file; titles that share an error share a block."""
    titles: list[str] = []
    said = ""
    places: list[Location] = []
    for line in (*printout.lines, "⎯"):
        title = _TITLE.match(line)
        if (title or line.startswith("⎯")) and said:
            yield from (_found(printout, one, said, places) for one in titles)
            titles, said, places = [], "", []
        if title:
            titles = [*titles[-20:], title[1]]
        elif titles and line.lstrip().startswith("❯ "):
            place = printout.spot(frame(line))
            places += [place] if place else []
        elif titles and line.strip():
            said = said or line.strip()


def _found(printout: Printout, title: str, said: str, places: list[Location]) -> Finding:
    suite = _SUITE.match(title)
    path = suite[1] if suite else title.partition(" > ")[0]
    place = places[0] if places else printout.place(path)
    condition = "vitest-error" if suite else "vitest-failure"
    return finding(TOOL, condition, f"{suite[1] if suite else title}: {said}", place, subject=title)


def tally(printout: Printout) -> Tally | None:
    """The sum of its summaries; None when there is none."""
    passed = failed = 0
    seen = False
    for line in printout.lines:
        if label := _COUNTS.match(line):
            seen = True
            counts = list(numbers(line[label.end() :]))
            failed = max(failed, sum(number for number, word in counts if word == "failed"))
            if label[1] == "Tests":
                passed += sum(number for number, word in counts if word == "passed")
        elif line.startswith("No test files found, exiting with code"):
            seen = True
    return Tally(passed, failed) if seen else None
