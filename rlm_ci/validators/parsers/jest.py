"""jest: the blocks that begin with a bullet, below the file that failed."""

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

TOOL = "jest"

_FILE = re.compile(r"FAIL (?:.* )?(\S+\.[cm]?[jt]sx?)(?: \([\d.]+ m?s\))?$")
_TITLE = re.compile(r"  ● (\S.*)$")
_COUNTS = re.compile(r"(Tests|Test Suites): ")
_END = re.compile(r"(?:PASS|FAIL|Test Suites:|Summary of all) ?")
_TOLD = re.compile(r"    (?:Expected|Received)\b.*: ")

_RAN = re.compile(r"(?:PASS|FAIL) (?:.* )?(\S+\.[cm]?[jt]sx?)(?: \([\d.]+ m?s\))?$")
_LINE = re.compile(r"( +)(?:([✓✕○✎√×]) (?:skipped |todo )?)?(\S.*?)(?: \([\d.]+ m?s\))?$")
_ENDED = {"✓": PASSED, "√": PASSED, "✕": FAILED, "×": FAILED}
_HEAD = re.compile(rf"{_RAN.pattern}|{_TITLE.pattern}")
_FRAMES = re.compile(r"      at |Test Suites: |Summary of all")


def outcomes(printout: Printout) -> Iterator[TestOutcome]:
    """The tests that failed, and with --verbose, or of a single file, all."""
    path = ""
    for head, said in blocks(printout.lines, _HEAD, _FRAMES):
        if head[1]:
            path = head[1] if head[0].startswith("FAIL") else ""
        elif path and head[2] != "Console":
            parts = head[2].split(" › ")
            is_file = parts == ["Test suite failed to run"]
            yield TestOutcome(path, "" if is_file else "::".join(parts), FAILED, message=said)
    path, outline = "", TitleOutline()
    for line in printout.lines:
        if ran := _RAN.match(line):
            path, outline = ran[1], TitleOutline()
        elif not line or line.startswith("  ● "):
            path = ""  # what failed, and what was printed
        elif path and (told := _LINE.match(line)):
            if told[2]:
                name = outline.name(len(told[1]), told[3])
                yield TestOutcome(path, name, _ENDED.get(told[2], SKIPPED))
            else:
                outline.enter(len(told[1]), told[3])


def parse(printout: Printout) -> Iterator[Finding]:
    """One finding a failed test or suite."""
    path = title = ""
    said: list[str] = []
    places: list[Location] = []
    for line in (*printout.lines, "Test Suites:"):
        new = _TITLE.match(line)
        if title and (new or _END.match(line)):
            yield _found(title, said, places or [printout.place(path)])
            title = ""
        if file := _FILE.match(line):
            path = file[1]
        elif new:
            # logs of the console have a bullet as well, and no file that failed above them
            title = new[1] if path and new[1] != "Console" else ""
            said, places = [], []
        elif line.startswith(("PASS ", "Test Suites:")):
            path = ""
        elif title and line.startswith("      at "):
            place = printout.spot(frame(line))
            places += [place] if place else []
        elif title and line.strip() and (not said or _TOLD.match(line)) and len(said) < 4:
            said.append(line.strip())


def _found(title: str, said: list[str], places: list[Location | None] | list[Location]) -> Finding:
    condition = "jest-error" if title == "Test suite failed to run" else "jest-failure"
    return finding(TOOL, condition, f"{title}: {'; '.join(said)}", places[0], subject=title)


def tally(printout: Printout) -> TestTally | None:
    """The sum of its summaries; None when there is none."""
    return of_suites(printout, _COUNTS, "No tests found, exiting with code")
