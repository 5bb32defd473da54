"""mypy: ``path.py:line: error: message  [code]``, with columns and in its pretty form, too."""

from __future__ import annotations

import re

from rlm_ci.loop.outputs._printout import finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlm_ci.findings import Finding
    from rlm_ci.loop.outputs._printout import Printout

TOOL = "mypy"

_ERROR = re.compile(r"([^\s:][^:]*\.(?:py|pyi|ipynb)):(\d+)(?::\d+)*: error: (.*)$")
_CODE = re.compile(r" *\[([a-z][a-z-]{1,40})\]$")
#: So many lines a pretty message may be folded into.
_FOLDS = 6


def parse(printout: Printout) -> Iterator[Finding]:
    """One finding an error; notes are part of it."""
    lines = printout.lines
    is_pretty = any(line.strip(" ^~") == "" and "^" in line for line in lines)
    for index, line in enumerate(lines):
        if (error := _ERROR.match(line)) is None:
            continue
        said = error[3]
        for more in lines[index + 1 : index + _FOLDS] if is_pretty else ():
            if _CODE.search(said) or more.startswith("    ") or _ERROR.match(more):
                break
            said = f"{said} {more}"
        code = _CODE.search(said)
        place = printout.place(error[1], error[2])
        yield finding(TOOL, "mypy", said, place, subject=code[1] if code else None)
