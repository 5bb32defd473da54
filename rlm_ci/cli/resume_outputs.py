"""Where a resumed run would write to besides its folder: taken from that only within bounds.

The folder of a run may come from anywhere. What it would write outside of the repository, push,
or send to a cluster has to be said again.
"""

from __future__ import annotations

import os
import shlex

from rlm_ci.config.options import RECURSION, WIKI
from rlm_ci.errors import ConfigError
from rlm_ci.pipelines.stored_runs import resume_with
from rlm_ci.text.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rlm_ci.config.settings import Settings
    from rlm_ci.runs.request import RunRequest

_FLAGS = {
    "wiki.out": "--out", "wiki.site": "--site", "wiki.push": "--push",
    "recursion.scheduler": "--scheduler",
}  # fmt: skip
ROWS = tuple(row for row in (*RECURSION, *WIKI) if row.key in _FLAGS)


def require(run: str, asked: RunRequest, settings: Settings, root: str) -> None:
    """Raise ConfigError unless what leads out of the repository is said by our own word."""
    unsaid = []
    for key, flag in _FLAGS.items():
        value = asked.flags.get(key)
        if not value or value == settings.values[key] or _is_harmless(key, value, root):
            continue
        unsaid += [flag] if value is True else [flag, shlex.quote(printable(str(value)))]
    if unsaid:
        words = " ".join(unsaid)
        raise ConfigError(
            f"the run began with {words}, which only a command line can set",
            where=run,
            hint=f"if you want it, repeat it: {resume_with(run)} {words}",
        )


def _is_harmless(key: str, value: object, root: str) -> bool:
    """Whether it stays on this machine, and in the repository."""
    if key == "recursion.scheduler":
        return "://" not in str(value)
    if key == "wiki.push" or "\0" in str(value):
        return False
    real, top = os.path.realpath(str(value)), os.path.realpath(root)
    names = os.path.relpath(real, top).split(os.sep)
    return names[0] != os.pardir and ".git" not in names
