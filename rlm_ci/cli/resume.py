"""``rlm-ci resume``: let a run go on where it stopped, or begin one that was only queued."""

from __future__ import annotations

import time

from rlm_ci import errors
from rlm_ci.cli import output, pipelines, rlm, say
from rlm_ci.cli.judging import open_repository
from rlm_ci.cli.progress import Progress
from rlm_ci.cli.running import ROWS, Runs, one_run, record, tell
from rlm_ci.cli.wait import code_of
from rlm_ci.publishing import neutral
from rlm_ci.runs.cancellation import end_leftovers
from rlm_ci.runs.request import Request
from rlm_ci.runs.run import Run
from rlm_ci.settings import Settings
from rlm_ci.table import CORE, PIPELINES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlm_ci.cli.arguments import Arguments
    from rlm_ci.settings import Setting

SUMMARY = "let an interrupted run go on, and end with its exit code"
USAGE = "RUN [OPTION...]"


def rows(_argv: Sequence[str]) -> tuple[Setting, ...]:
    return ROWS


def run(arguments: Arguments) -> int:
    word = one_run(arguments, "resume")
    table = {row.key: row for row in (*CORE, *PIPELINES, *ROWS)}
    settings = Settings(table.values(), arguments.flags)
    output.require_text_or_json(settings, "resume")
    runs = Runs(settings)
    entry = runs.find(word)
    with Run.open(entry.path, redactor=runs.redactor, out=runs.out) as held:
        if not held.manifest.is_resumable:
            say(f"{held.id} has ended already: there is nothing to resume")
            code = code_of(held.manifest)
        else:
            end_leftovers(held.id)
            try:
                asked = Request.read(entry.path)
                known = pipelines.load(settings, open_repository(settings))
                pipelines.require_same(known, asked)
            except errors.RlmCiError as error:
                if held.manifest.status == "queued":  # nobody is there to hear of it but its log
                    held.stop(error)
                raise
            with Progress(settings.environ, quiet=settings.quiet) as progress:
                actions = rlm.actions(asked, arguments.flags, runs, progress)
                code = pipelines.conduct(held, asked, runs, known, actions)
        entry = entry.replace(manifest=held.manifest)
    told = neutral.record(record(entry)) if settings.format == "json" else tell(entry, time.time())
    output.emit(told, settings)
    return code
