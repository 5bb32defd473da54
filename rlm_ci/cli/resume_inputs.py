"""The text that a resumed run would read: taken from its folder only where it may be ours to show.

The folder of a run may come from anywhere, and what it asks for is shown to a model.
"""

from __future__ import annotations

import os
import shlex

from rlm_ci.ask.run import STDIN
from rlm_ci.config.options import SYMBOLIC
from rlm_ci.context.own_files import is_object
from rlm_ci.errors import ConfigError
from rlm_ci.pipelines.stored_runs import resume_with
from rlm_ci.text.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from rlm_ci.config.settings import Settings
    from rlm_ci.pipelines.stored_runs import StoredRuns
    from rlm_ci.runs.request import RunRequest
    from rlm_ci.runs.run import Run

KEY = "context.source"
ROWS = tuple(row for row in SYMBOLIC if row.key == KEY)


def require(
    held: Run, asked: RunRequest, settings: Settings, flags: Mapping[str, Any], runs: StoredRuns
) -> None:
    """Raise ConfigError unless the text is one of the repository, or is named again.

    ``flags`` are those of the command line. What the run has read already lies in its folder,
    and its record tells whether that is still the same.
    """
    source, said = asked.flags.get(KEY), settings.context.source
    is_again = said is not None and source in (said, runs.redactor.text(os.path.abspath(said)))
    begun = f"--context {shlex.quote(printable(str(source)))}" if source else "no --context"
    if KEY in flags and not is_again:
        raise ConfigError(
            f"the run began with {begun}",
            where="--context",
            hint="repeat it, leave it out, or start a new run",
        )
    if source is None or is_object(held.path_of("rlm", "context")):
        return
    if source == STDIN:
        raise ConfigError(
            "the run began with a text on standard input, and was ended before it had read it",
            where=held.id,
            hint="start a new run",
        )
    if is_again:
        return
    if not (isinstance(source, str) and _is_inside(source, runs.root)):
        raise ConfigError(
            f"the run began with {begun}, which is not in the repository, and which"
            " only a command line can set",
            where=held.id,
            hint=f"if you want it, repeat it: {resume_with(held.id)} {begun}",
        )


def _is_inside(path: str, root: str) -> bool:
    """Whether ``path``, wherever links lead, is in ``root``, and not what git keeps there."""
    if "\0" in path or not os.path.isabs(path):
        return False
    real, top = os.path.realpath(path), os.path.realpath(root)
    names = os.path.relpath(real, top).split(os.sep)
    return names[0] != os.pardir and ".git" not in names
