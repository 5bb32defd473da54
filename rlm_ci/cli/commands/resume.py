"""``rlm-ci resume``: let a run go on where it stopped, or begin one that was only queued."""

from __future__ import annotations

import shlex
import time

from rlm_ci import errors
from rlm_ci.cli import resume_inputs, resume_outputs
from rlm_ci.cli.commands.wait import code_of
from rlm_ci.config.options import CORE, PIPELINES
from rlm_ci.config.settings import Settings
from rlm_ci.console.messages import say
from rlm_ci.console.progress import Progress
from rlm_ci.errors import ConfigError, UsageError
from rlm_ci.judge.judge import open_repository
from rlm_ci.judge.options import output_of
from rlm_ci.pipelines import budget_increase, load
from rlm_ci.pipelines.stored_runs import (
    ROWS,
    SANDBOX,
    StoredRuns,
    more_of,
    one_run,
    record,
    resume_with,
    tell,
    tell_way_on,
    way_on,
)
from rlm_ci.report import render
from rlm_ci.runs.cancel import end_leftovers
from rlm_ci.runs.request import RunRequest
from rlm_ci.runs.run import Run
from rlm_ci.solve import registry
from rlm_ci.solve.pipeline import CALLS
from rlm_ci.text import neutralise
from rlm_ci.text.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlm_ci.config.arguments import Arguments
    from rlm_ci.config.settings import Setting
    from rlm_ci.pipelines.job import PipelineJob
    from rlm_ci.runs.find import FoundRun
    from rlm_ci.runs.manifest import Manifest

SUMMARY = "continue an interrupted run, and exit with its code"
USAGE = "RUN [OPTION...]"
EXAMPLES = ("rlm-ci resume 2026-11-23T08-07-09Z-e35eefc6 --max-iterations 20",)
EXITS = {errors.OK: "the run succeeded; every other code is that of the run"}


def rows(_argv: Sequence[str]) -> tuple[Setting, ...]:
    return (*SANDBOX, *resume_inputs.ROWS, *budget_increase.ROWS, *resume_outputs.ROWS, *ROWS)


def run(arguments: Arguments) -> int:
    word = one_run(arguments, "resume")
    table = {row.key: row for row in (*CORE, *PIPELINES, *rows(()))}
    settings = Settings(table.values(), arguments.flags)
    output_of(settings).require_text_or_json("resume")
    output_of(settings).require_place()
    more = budget_increase.told(settings, arguments.flags)
    runs = StoredRuns(settings)
    entry = runs.own(word)
    done: list[PipelineJob] = []
    with Run.open(entry.path, redactor=runs.redactor, out=runs.out) as held:
        entry = entry.replace(manifest=held.manifest)
        goes_on = entry.is_resumable or (more and entry.can_be_raised)
        if entry.run.has_ended and not goes_on:
            say(f"{held.id} has ended already: there is nothing to resume")
            if entry.can_be_raised:
                say(f"with a higher budget it continues: {more_of(entry.run)}")
            code = code_of(held.manifest)
        else:
            if not goes_on:
                raise _nothing_asked(entry)
            end_leftovers(held.id)
            try:
                asked = RunRequest.read(entry.path, held.manifest.pipeline_id)
                known = load.load(settings, open_repository(settings))
                load.require_same(known, asked)
                if more:
                    budget_increase.require(held.manifest, more, asked, held.path_of(CALLS))
                    held.raised = True
            except errors.RlmCiError as error:
                if held.manifest.status == "queued":  # nobody is there to hear of it but its log
                    held.stop(error)
                raise
            _require_said(held.manifest, asked, settings)
            resume_outputs.require(held.id, asked, settings, runs.root)
            resume_inputs.require(held, asked, settings, arguments.flags, runs)
            load.require_leave(known, asked.pipeline_id, settings)
            with Progress(
                settings.environ, quiet=settings.quiet, colour=settings.color
            ) as progress:
                actions = registry.actions(asked, arguments.flags, runs, progress, done)
                try:
                    code = load.conduct(held, asked, runs, known, actions)
                except BaseException:
                    tell_way_on(held, progress.say)
                    raise
        entry = entry.replace(manifest=held.manifest)
    if settings.format == "json":
        output_of(settings).emit(neutralise.record(record(entry)))
    else:
        output_of(settings).emit(_answers(done, settings) + tell(entry, time.time()))
    return code


def _answers(done: Sequence[PipelineJob], settings: Settings) -> str:
    """What was asked for, as its own command shows it; of a fix nothing more than its end."""
    reports = (work.report for work in done if work.report and work.tells)
    options = output_of(settings).options()
    return "".join(f"{render.render(one, settings.format, options)}\n" for one in reports)


def _nothing_asked(entry: FoundRun) -> UsageError:
    """The error of a run that does not tell what it was asked for."""
    return UsageError(
        "the run cannot be resumed: it has no request",
        where=entry.run_id,
        hint=f"{way_on(entry)}; rlm-ci cancel {entry.run_id} cancels it",
    )


def _require_said(begun: Manifest, asked: RunRequest, settings: Settings) -> None:
    """Raise ConfigError unless the run goes on in the cage that it began in, by our own word.

    The folder of a run may come from anywhere: it cannot do without a sandbox, nor name the file
    of settings that says which variables an agent is given.
    """
    said = settings.sources["sandbox"] == "--sandbox"
    place = settings.sandbox if said else asked.flags.get("sandbox", settings.sandbox)
    unsaid = []
    if "none" in (asked.flags.get("sandbox"), begun.sandbox) and settings.sandbox != "none":
        unsaid.append("--sandbox none")
    if "config" in asked.flags and not settings.config:
        unsaid.append(f"--config {shlex.quote(asked.flags['config'])}")
    if unsaid:
        words = " ".join(unsaid)
        raise ConfigError(
            f"the run began with {words}, which only a command line can set",
            where=begun.run_id,
            hint=f"if you want it, repeat it: {resume_with(begun.run_id)} {words}",
        )
    if place == "none" and begun.sandbox not in (None, "none"):
        raise ConfigError(
            f"the run began in the sandbox {printable(begun.sandbox)[:80]}, and continues in it",
            where=settings.sources["sandbox"],
            hint="leave that out, or start a new run",
        )
