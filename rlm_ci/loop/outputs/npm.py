"""npm: a script that is not there, and the placeholder that stands where tests should."""

from __future__ import annotations

import re

from rlm_ci.loop.outputs._printout import Tally, finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlm_ci.findings import Finding
    from rlm_ci.loop.outputs._printout import Printout

TOOL = "npm"

_MISSING = re.compile(r"npm (?:error|ERR!) (?:code E)?(Missing script: .*)$", re.IGNORECASE)
_PLACEHOLDER = re.compile(r'"?Error: no test specified"?$')


def parse(printout: Printout) -> Iterator[Finding]:
    """One finding where a script is missing."""
    for line in printout.lines:
        if missing := _MISSING.match(line):
            yield finding(TOOL, "npm-script", missing[1], printout.place("package.json"))


def tally(printout: Printout) -> Tally | None:
    """Nothing ran, where the placeholder spoke."""
    return Tally(0) if any(map(_PLACEHOLDER.match, printout.lines)) else None
