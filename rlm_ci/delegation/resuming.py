"""Continue a run in the background, for the tools that do so."""

from __future__ import annotations

import os
import threading
import time

from rlm_ci.delegation.status import run_ids
from rlm_ci.delegation.tool import ToolError
from rlm_ci.pipelines import background
from rlm_ci.runs import IN_PROGRESS
from rlm_ci.runs.run import is_free

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rlm_ci.delegation.tool import Call
    from rlm_ci.pipelines.stored_runs import StoredRuns
    from rlm_ci.runs.find import FoundRun

#: Seconds in which a resumed run has to begin, or to be refused.
_PATIENCE = 10.0
_LOOK = 0.05


def carry_on(
    call: Call,
    runs: StoredRuns,
    entry: FoundRun,
    words: Sequence[str] = (),
    environ: Mapping[str, str] | None = None,
) -> FoundRun:
    """Continue a run of ``runs`` with the options ``words``. Raises ToolError if it is refused."""
    until = time.monotonic() + _PATIENCE
    while not is_free(entry.path) and time.monotonic() < until:  # its last process is ending
        time.sleep(_LOOK)
    ended = reap(background.carry_out(runs, entry.path, words, environ))
    before = entry.read().run.updated_at
    while not ended.is_set() and time.monotonic() < until and not call.cancelled.is_set():
        entry = entry.read()
        if entry.run.status == IN_PROGRESS and entry.run.updated_at != before:
            break
        time.sleep(_LOOK)
    entry = entry.read()
    if ended.is_set() and entry.run.updated_at == before:
        raise ToolError(
            "resume_refused",
            "the run was not continued",
            where=entry.run_id,
            hint="its log has the reason",
            log_path=run_ids(entry)["log_path"],
        )
    return entry


def reap(pid: int) -> threading.Event:
    """Take the end of a process of ours when it comes, since this server may live on for long."""
    ended = threading.Event()

    def wait() -> None:
        os.waitpid(pid, 0)
        ended.set()

    threading.Thread(target=wait, name=f"run {pid}", daemon=True).start()
    return ended
