"""vitest: the blocks below `` FAIL  file > test``."""

from __future__ import annotations

import re

from rlm_ci.validators.outcomes import FAILED, PASSED, SKIPPED, TestOutcome
from rlm_ci.validators.parsers._output import (
    TestTally,
    TitleOutline,
    blocks,
    finding,
    frame,
    of_suites,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlm_ci.report.findings import Finding, Location
    from rlm_ci.validators.parsers._output import Printout

TOOL = "vitest"

_TITLE = re.compile(r" FAIL  (?:\|[^|]*\| )?(\S.*)$")
_SUITE = re.compile(r"(\S+) \[ .* \]$")
_COUNTS = re.compile(r" *(Test Files|Tests)  ")

_LINE = re.compile(r"( +)([✓×❯↓]) (?:\|[^|]*\| )?(\S.*)$")
_FILE = re.compile(r"(\S+\.[cm]?[jt]sx?) +\(\d+ tests?\b|(\S+\.[cm]?[jt]sx?) > (.*)$")
_AFTER = re.compile(r"(?: \[skipped\]| \d+(?:\.\d+)?m?s| \(retry x\d+\)| +\d+ MB heap used)+$")
_SUITE_END = re.compile(r" \(\d+\)$")
_ENDED = {"✓": PASSED, "×": FAILED}
_STOP = re.compile(r" ❯ |⎯")


def outcomes(printout: Printout) -> Iterator[TestOutcome]:
    """The tests that failed, and with the reporter ``verbose``, or of a single file, all."""
    failed: set[tuple[str, str]] = set()
    for title, said in blocks(printout.lines, _TITLE, _STOP):
        if suite := _SUITE.match(title[1]):
            yield TestOutcome(suite[1], "", FAILED, message=said)
        else:
            where, _, test = title[1].partition(" > ")
            failed.add((where, test.rpartition(" > ")[2]))
            yield TestOutcome(where, test.replace(" > ", "::"), FAILED, message=said)
    path, outline = "", TitleOutline()
    for line in printout.lines:
        if (told := _LINE.match(line)) is None:
            continue
        depth, name = len(told[1]), _AFTER.sub("", told[3])
        file = _FILE.match(name) if depth == 1 else None
        if file and file[1]:
            path, outline = file[1], TitleOutline()
        elif file:
            name = file[3].replace(" > ", "::")
            yield TestOutcome(file[2], name, _ENDED.get(told[2], SKIPPED))
        elif _SUITE_END.search(name) and told[2] != "×":
            outline.enter(depth, _SUITE_END.sub("", name))
        elif told[2] == "×" and (path, name.rpartition(" > ")[2]) in failed:
            continue  # told above by its whole name, and here by its title alone
        elif path and depth > 1:
            full = outline.name(depth, name.replace(" > ", "::"))
            yield TestOutcome(path, full, _ENDED.get(told[2], SKIPPED))


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


def tally(printout: Printout) -> TestTally | None:
    """The sum of its summaries; None when there is none."""
    return of_suites(printout, _COUNTS, "No test files found, exiting with code")
