"""ESLint: the rows below a file's name (stylish), and one line a problem (unix)."""

from __future__ import annotations

import re

from rlm_ci.findings import Severity
from rlm_ci.loop.outputs._printout import finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlm_ci.findings import Finding, Location
    from rlm_ci.loop.outputs._printout import Printout

TOOL = "eslint"

_ROW = re.compile(r" +(\d+):\d+ +(error|warning) +(\S.*)$")
_UNIX = re.compile(r"([^\s:][^:]*):(\d+):\d+: (.*) \[(Error|Warning)(?:/([^\]]*))?\]$")
_RULE = re.compile(r"[@a-z][\w@/-]{1,80}$")


def parse(printout: Printout) -> Iterator[Finding]:
    """One finding a problem; warnings are of medium severity."""
    path = ""
    for line in printout.lines:
        if row := _ROW.match(line):
            said, _, rule = row[3].rpartition("  ")
            if not (said and _RULE.match(rule)):  # a broken file has no rule
                said, rule = row[3], ""
            yield _found(row[2], printout.place(path, row[1]), said, rule)
        elif unix := _UNIX.match(line):
            yield _found(unix[4].lower(), printout.place(unix[1], unix[2]), unix[3], unix[5] or "")
        elif line[:1].strip():
            path = line


def _found(level: str, place: Location | None, said: str, rule: str) -> Finding:
    severity = Severity.HIGH if level == "error" else Severity.MEDIUM
    message = f"{said.strip()} ({rule})" if rule else said
    return finding(TOOL, "eslint", message, place, subject=rule or None, severity=severity)
