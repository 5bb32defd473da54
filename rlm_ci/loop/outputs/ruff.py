"""ruff, concise, full or for GitHub; what has the same short form (flake8) reads the same."""

from __future__ import annotations

import re

from rlm_ci.loop.outputs._printout import finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlm_ci.findings import Finding
    from rlm_ci.loop.outputs._printout import Printout

TOOL = "ruff"

_SHORT = re.compile(
    r"([^\s:][^:]*):(\d+):\d+: ([A-Z]{1,6}\d{1,4}|invalid-syntax|SyntaxError):? (?:\[\*\] )?(.*)$"
)
_LONG = re.compile(r"([A-Z]{1,6}\d{1,4}|invalid-syntax|unformatted):? (?:\[\*\] )?(\S.*)$")
_GITHUB = re.compile(r"::error title=ruff \(([^)]*)\),file=[^:]*::([^:]*):(\d+):\d+: \S+ (.*)$")


def parse(printout: Printout) -> Iterator[Finding]:
    """One finding an error."""
    tool = "flake8"
    if any(line.startswith("Found ") and " error" in line for line in printout.lines):
        tool = TOOL
    code = said = ""
    for line in printout.lines:
        if github := _GITHUB.match(line):
            message = github[4].partition("%0A")[0]
            place = printout.place(github[2], github[3])
            yield finding(TOOL, "ruff", f"{github[1]} {message}", place, subject=github[1])
        elif short := _SHORT.match(line):
            place = printout.place(short[1], short[2])
            yield finding(tool, tool, f"{short[3]} {short[4]}", place, subject=short[3])
        elif code and line.lstrip().startswith("--> "):
            place = printout.spot(line.lstrip()[4:])
            yield finding(TOOL, "ruff", f"{code} {said}", place, subject=code)
            code = ""
        elif line.startswith("Would reformat: "):
            place = printout.place(line[16:])
            yield finding(TOOL, "ruff", line, place, subject="unformatted")
        else:
            long = _LONG.match(line)
            code, said = (long[1], long[2]) if long else ("", "")
