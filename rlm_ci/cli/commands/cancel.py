"""``rlm-ci cancel``: end a run, also one of another process."""

from __future__ import annotations

import time

from rlm_ci import errors
from rlm_ci.config.settings import Settings
from rlm_ci.judge.options import output_of
from rlm_ci.pipelines.stored_runs import ONE_RUN, ROWS, StoredRuns, record, status_in_words
from rlm_ci.text import neutralise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rlm_ci.config.arguments import Arguments

SUMMARY = "stop a run; kill it after 10 seconds"
USAGE = "RUN [OPTION...]"
TAKES = ONE_RUN
EXAMPLES = ("rlm-ci cancel latest",)
FORMS = ("text", "json")
EXITS = {errors.OK: "the run has ended; also if it had before"}
_TOLD = {"": "", "ended": "; its process has ended", "killed": "; its process was killed"}


def run(arguments: Arguments) -> int:
    settings = Settings(ROWS, arguments.flags)
    output = output_of(settings).require_text_or_json("cancel")
    runs = StoredRuns(settings)
    entry = runs.own_run(arguments.words[0])
    outcome = runs.cancel(entry)
    entry = entry.replace(manifest=outcome.manifest)
    if settings.format == "json":
        text = neutralise.record(record(entry) | {"cancelled": outcome.ended_now})
    elif outcome.ended_now:
        text = f"{entry.run_id} is cancelled{_TOLD[outcome.process]}\n"
    else:
        text = f"{entry.run_id} had ended already: {status_in_words(entry, time.time())}\n"
    output.emit(text)
    return errors.OK
