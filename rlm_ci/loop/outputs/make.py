"""make: a missing rule, a file that it cannot read, and the target that it did not run."""

from __future__ import annotations

import re

from rlm_ci.loop.outputs._printout import Tally, finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlm_ci.findings import Finding
    from rlm_ci.loop.outputs._printout import Printout

TOOL = "make"

_RULE = re.compile(r"g?make(?:\[\d+\])?: \*\*\* (No rule to make target .*)$")
_BROKEN = re.compile(r"([^\s:][^:]*):(\d+): \*\*\* (.*)$")
_IDLE = re.compile(r"g?make(?:\[\d+\])?: (?:Nothing to be done for|.* is up to date\.)")


def parse(printout: Printout) -> Iterator[Finding]:
    """One finding for what keeps make itself from working, none for the commands that it runs."""
    for line in printout.lines:
        if rule := _RULE.match(line):
            yield finding(TOOL, "make-error", rule[1].removesuffix("  Stop."))
        elif broken := _BROKEN.match(line):
            said = broken[3].removesuffix("  Stop.")
            yield finding(TOOL, "make-error", said, printout.place(broken[1], broken[2]))


def tally(printout: Printout) -> Tally | None:
    """Nothing ran, where make said only that there is nothing to do: a file has the target's name.

    Below other lines it is one folder's say, and others may have been busy.
    """
    said = [line for line in printout.lines if line]
    return Tally(0) if said and all(map(_IDLE.match, said)) else None
