"""tsc: ``path(line,column): error TSnnnn: message``, and the same in its pretty form."""

from __future__ import annotations

import re

from rlm_ci.loop.outputs._printout import finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlm_ci.findings import Finding
    from rlm_ci.loop.outputs._printout import Printout

TOOL = "tsc"

_PLAIN = re.compile(r"([^\s(][^(]*)\((\d+),\d+\): error (TS\d{1,6}): (.*)$")
_PRETTY = re.compile(r"([^\s:][^:]*):(\d+):\d+ - error (TS\d{1,6}): (.*)$")
_GLOBAL = re.compile(r"error (TS\d{1,6}): (.*)$")


def parse(printout: Printout) -> Iterator[Finding]:
    """One finding an error."""
    for line in printout.lines:
        if error := _PLAIN.match(line) or _PRETTY.match(line):
            place = printout.place(error[1], error[2])
            yield finding(TOOL, "tsc", f"{error[3]}: {error[4]}", place, subject=error[3])
        elif whole := _GLOBAL.match(line):
            yield finding(TOOL, "tsc", f"{whole[1]}: {whole[2]}", subject=whole[1])
