"""``rlm-ci resume``: continue a run, or begin one that was only queued.

The folder of a run may come from anywhere. So the command line must repeat any option that shows
a model files outside of the repository, writes or pushes elsewhere, or turns the sandbox off.
"""

from __future__ import annotations

import os
import shlex
import time

from rlm_ci import errors
from rlm_ci.cli.commands.wait import code_of
from rlm_ci.config.core_options import CORE
from rlm_ci.config.options import EPISODE, PIPELINES, RECURSION, SYMBOLIC, WIKI
from rlm_ci.config.settings import Settings
from rlm_ci.console.messages import say
from rlm_ci.console.progress import Progress
from rlm_ci.context.own_files import is_object
from rlm_ci.errors import ConfigError, UsageError
from rlm_ci.judge.judge import open_repository
from rlm_ci.judge.options import output_of
from rlm_ci.pipelines import attempt, load, stored_runs
from rlm_ci.pipelines.run_context import STDIN
from rlm_ci.pipelines.stored_runs import StoredRuns, resume_with
from rlm_ci.runs.cancel import end_leftovers
from rlm_ci.runs.request import RunRequest
from rlm_ci.solve import registry
from rlm_ci.solve.pipeline import CALLS
from rlm_ci.system import files
from rlm_ci.text import neutralise
from rlm_ci.text.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from rlm_ci.config.arguments import Arguments
    from rlm_ci.pipelines.attempt import PipelineJob
    from rlm_ci.runs.manifest import Manifest
    from rlm_ci.runs.run import Run

SUMMARY = "continue an interrupted run, and exit with its code"
USAGE = "RUN [OPTION...]"
TAKES = stored_runs.ONE_RUN
EXAMPLES = ("rlm-ci resume latest --max-iterations 20",)
FORMS = ("text", "json")
EXITS = {errors.OK: "the run succeeded; every other code is that of the run"}
_CONTEXT = "context.source"
#: Settings by which a run leaves its folder and the repository, and their flags.
_OUTPUTS = {
    "wiki.out": "--out", "wiki.site": "--site", "wiki.push": "--push",
    "recursion.scheduler": "--scheduler",
}  # fmt: skip
#: Files that may name programs to run.
_PROGRAMS = ("config", "episode.mcp_config")
ROWS = (
    *stored_runs.SANDBOX,
    *(row for row in EPISODE if row.key in _PROGRAMS),
    *(row for row in SYMBOLIC if row.key == _CONTEXT),
    *attempt.ROWS,
    *(row for row in (*RECURSION, *WIKI) if row.key in _OUTPUTS),
    *stored_runs.ROWS,
)


def run(arguments: Arguments) -> int:
    settings = Settings((*CORE, *PIPELINES, *ROWS), arguments.flags)
    output = output_of(settings).require_text_or_json("resume")
    output.require_place()
    more = attempt.budgets_set(settings, arguments.flags)
    runs = StoredRuns(settings)
    entry = runs.own_run(arguments.words[0])
    done: list[PipelineJob] = []
    with runs.open(entry.path) as resumed:
        entry = entry.replace(manifest=resumed.manifest)
        goes_on = entry.is_resumable or (more and entry.can_be_raised)
        if goes_on:
            code = _go_on(resumed, runs, more, arguments.flags, done)
        elif entry.run.has_ended:
            say(f"{resumed.id} has ended already: there is nothing to resume")
            if entry.can_be_raised:
                say(f"with a higher budget it continues: {stored_runs.more_of(entry.run)}")
            code = code_of(resumed.manifest)
        else:
            raise UsageError(
                "the run cannot be resumed: it has no request",
                where=entry.run_id,
                hint=f"{stored_runs.way_on(entry)}; rlm-ci cancel {entry.run_id} cancels it",
            )
        entry = entry.replace(manifest=resumed.manifest)
    if settings.format == "json":
        output.emit(neutralise.record(stored_runs.record(entry)))
    else:
        # Show the report as its own command does; of a fix only its end.
        shown = (work.shown(output.options()) for work in done)
        output.emit("".join([*shown, stored_runs.tell(entry, time.time())]))
    for line in () if settings.quiet else [line for work in done for line in work.places]:
        say(line)
    return code


def _go_on(
    run: Run,
    runs: StoredRuns,
    more: Mapping[str, float | None],
    flags: Mapping[str, Any],
    done: list[PipelineJob],
) -> int:
    """Carry out the rest of the run; adds the job to ``done``. Raises the error that ends it."""
    settings = runs.settings
    end_leftovers(run.id)
    try:
        request = RunRequest.read(run.path, run.manifest.pipeline_id)
        pipeline = load.of_run(load.load(settings, open_repository(settings)), request)
        load.require_same(pipeline, request)
        if more:
            attempt.require(run.manifest, more, request, run.path_of(CALLS))
            run.raised = True
    except errors.RlmCiError as error:
        if run.manifest.status == "queued":  # its log is the only place to look
            run.stop(error)
        raise
    _require_repeated(run.manifest, request, settings, runs.root)
    _require_context(run, request, flags, runs)
    load.require_leave(pipeline, request.pipeline_id, settings)
    with Progress(settings.environ, quiet=settings.quiet, colour=settings.color) as progress:
        actions = registry.actions(request, flags, runs, progress, done)
        try:
            return load.conduct(run, request, runs, pipeline, actions)
        except BaseException:
            stored_runs.tell_way_on(run, progress)
            raise


def _require_repeated(begun: Manifest, request: RunRequest, settings: Settings, root: str) -> None:
    """Raise ConfigError unless the command line repeats what the run's folder must not decide."""
    repeated = settings.sources["sandbox"] == "--sandbox"
    sandbox = settings.sandbox if repeated else request.flags.get("sandbox", settings.sandbox)
    missing = []
    if "none" in (request.flags.get("sandbox"), begun.sandbox) and settings.sandbox != "none":
        missing.append("--sandbox none")
    missing += [
        f"{settings.rows[key].flag} {shlex.quote(str(request.flags[key]))}"
        for key in _PROGRAMS
        if key in request.flags and not settings.values[key]
    ]
    for key, flag in _OUTPUTS.items():
        value = request.flags.get(key)
        if value and value != settings.values[key] and not _is_harmless(key, value, root):
            shown = shlex.quote(printable(str(value)))
            missing.append(flag if value is True else f"{flag} {shown}")
    if missing:
        raise _unrepeated(begun.run_id, " ".join(missing), "which only a command line can set")
    is_told = repeated or sandbox == "none"
    if is_told and sandbox != "auto" and begun.sandbox not in (None, sandbox):
        raise ConfigError(
            f"the run began in the sandbox {printable(begun.sandbox)[:80]}, and continues in it",
            where=settings.sources["sandbox"],
            hint="leave that out, or start a new run",
        )


def _unrepeated(run: str, words: str, why: str) -> ConfigError:
    return ConfigError(
        f"the run began with {words}, {why}",
        where=run,
        hint=f"if you want it, repeat it: {resume_with(run)} {words}",
    )


def _is_harmless(key: str, value: object, root: str) -> bool:
    """Whether an output stays on this machine, and in the repository."""
    if key == "recursion.scheduler":
        return "://" not in str(value)
    return key != "wiki.push" and _is_inside(str(value), root)


def _require_context(
    run: Run, request: RunRequest, flags: Mapping[str, Any], runs: StoredRuns
) -> None:
    """Raise ConfigError unless the context is in the repository, or named again in ``flags``.

    A context that the run has read already is in its folder, and its record has the hash.
    """
    source, path = request.flags.get(_CONTEXT), runs.settings.context.source
    is_again = path is not None and source in (path, runs.redactor.text(os.path.abspath(path)))
    begun = f"--context {shlex.quote(printable(str(source)))}" if source else "no --context"
    if _CONTEXT in flags and not is_again:
        raise ConfigError(
            f"the run began with {begun}",
            where="--context",
            hint="repeat it, leave it out, or start a new run",
        )
    if source is None or is_object(run.path_of("rlm", "context")):
        return
    if source == STDIN:
        raise ConfigError(
            "the run began with a text on standard input, and was ended before it had read it",
            where=run.id,
            hint="start a new run",
        )
    is_ours = isinstance(source, str) and os.path.isabs(source) and _is_inside(source, runs.root)
    if not (is_again or is_ours):
        why = "which is not in the repository, and which only a command line can set"
        raise _unrepeated(run.id, begun, why)


def _is_inside(path: str, root: str) -> bool:
    """Whether ``path``, with links resolved, is in ``root`` and outside of git's own folder."""
    if "\0" in path:
        return False
    inside = files.below(os.path.realpath(root), os.path.realpath(path))
    return inside is not None and ".git" not in inside.split("/")
