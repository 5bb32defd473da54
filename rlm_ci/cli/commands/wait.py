"""``rlm-ci wait``: return when a run has ended, with the exit code of that run."""

from __future__ import annotations

import time

from rlm_ci import errors
from rlm_ci.config.settings import Settings
from rlm_ci.console.messages import complain
from rlm_ci.errors import RlmCiError
from rlm_ci.judge.options import output_of
from rlm_ci.pipelines.stored_runs import (
    ONE_RUN,
    ROWS,
    StoredRuns,
    more_of,
    record,
    recorded_by,
    tell,
    way_on,
)
from rlm_ci.runs import CANCELLED, SUCCEEDED, find
from rlm_ci.text import neutralise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rlm_ci.config.arguments import Arguments
    from rlm_ci.runs.find import FoundRun
    from rlm_ci.runs.manifest import Manifest

SUMMARY = "wait until a run has ended, and exit with its code"
USAGE = "RUN [OPTION...]"
TAKES = ONE_RUN
EXAMPLES = ("rlm-ci wait latest",)
FORMS = ("text", "json")
EXITS = {
    errors.OK: "the run succeeded; every other code is that of the run",
    errors.TERMINATED: "the process of the run is gone",
}


def run(arguments: Arguments) -> int:
    settings = Settings(ROWS, arguments.flags)
    output = output_of(settings).require_text_or_json("wait")
    output.require_place()
    entry = find.wait_for_end(StoredRuns(settings).find(arguments.words[0]))
    ended = entry.run
    if settings.format == "json":
        output.emit(neutralise.record(record(entry)))
    elif not settings.quiet:
        output.emit(tell(entry, time.time()))
    if not ended.has_ended:
        gone = "the process of the run is gone; the run has not ended"
        hint = recorded_by(ended) or way_on(entry)
        complain(RlmCiError(gone, where=entry.run_id, hint=hint))
        return errors.TERMINATED
    code = code_of(ended)
    if code != errors.OK and settings.quiet and settings.format == "text":
        complain(_failed(entry))
    return code


def code_of(ended: Manifest) -> int:
    """The exit code that a run has ended with."""
    if ended.exit_code is not None:
        return ended.exit_code
    if ended.status == SUCCEEDED:
        return errors.OK
    return errors.LIMIT if ended.recorded_by else errors.INTERNAL


def _failed(entry: FoundRun) -> RlmCiError:
    run = entry.run
    summary = neutralise.clip(
        neutralise.one_line(run.summary or f"it ended with {run.exit_code}"), 400
    )
    word = "was cancelled" if run.status == CANCELLED else "failed"
    more = more_of(run) if entry.can_be_raised else ""
    hint = f"give it more with {more}" if more else f"see rlm-ci status {run.run_id}"
    return RlmCiError(
        f"the run {word}: {summary}",
        where=run.run_id,
        hint=way_on(entry) if entry.is_resumable else hint,
    )
