"""Run a built-in pipeline in the foreground: what its commands share."""

from __future__ import annotations

import time

from rlm_ci.console import output
from rlm_ci.console.messages import complain, say
from rlm_ci.console.progress import Progress
from rlm_ci.errors import OK, RlmCiError
from rlm_ci.judge.judge import open_repository
from rlm_ci.judge.options import output_of
from rlm_ci.pipelines import definition, load, stored_runs
from rlm_ci.report import wording
from rlm_ci.runs import FAILED
from rlm_ci.runs.request import OF_A_COMMAND, RunRequest
from rlm_ci.solve import registry
from rlm_ci.text import neutralise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from rlm_ci.config.settings import Settings
    from rlm_ci.pipelines.attempt import PipelineJob
    from rlm_ci.pipelines.runner import Action
    from rlm_ci.report.findings import Report
    from rlm_ci.runs.find import FoundRun
    from rlm_ci.runs.run import Run


def conduct(name: str, settings: Settings, flags: Mapping[str, Any], goal: str | None) -> int:
    """Run the pipeline ``name``, and show its result; the exit code."""
    repository = open_repository(settings)
    pipelines = load.load(settings, repository)
    load.require_leave(pipelines, name, settings)
    output_of(settings).require_place()
    is_theirs = definition.replaced(pipelines, name) is not None
    if is_theirs:
        output_of(settings).require_text_or_json(f"{name} of {pipelines[name].source}")
    runs = stored_runs.StoredRuns(settings)
    task = runs.task_or_own()
    clean = runs.redactor.text
    request = RunRequest(
        name,
        None if goal is None else clean(goal),
        {key: value for key, value in flags.items() if key not in OF_A_COMMAND},
        definition.digest(pipelines, name),
    )
    with Progress(settings.environ, quiet=settings.quiet, colour=settings.color) as progress:
        work = registry.make(name, settings, runs, progress)
        actions: dict[str, Action] = {
            **registry.actions(request, {}, runs, progress, []),
            name: work,
        }
        with runs.create(task, name) as run:
            request.write(run.path)
            progress.say(f"Task: {task}")
            progress.say(f"Run: {run.id}")
            try:
                code = load.conduct(run, request, runs, pipelines, actions)
            except BaseException as error:
                tell_cost(work, progress)
                tell_places(work, run, progress.say)
                if isinstance(error, RlmCiError) and settings.format != "text":
                    show(work, settings)  # as text, the error says it all
                stored_runs.tell_way_on(run, progress)
                raise
            tell_cost(work, progress)
            if code != OK:
                stored_runs.tell_way_on(run, progress)
    if is_theirs:
        _show_stages(runs.find(run.id), settings)
    else:
        show(work, settings)
        if work.report is not None:
            output.explain_parts(work.report)
    if not settings.quiet:
        tell_places(work, run, say)
    return code


def _show_stages(entry: FoundRun, settings: Settings) -> None:
    """The run of the repository's own stages, as ``status`` shows it, and its failed stage."""
    as_json = settings.format == "json"
    record = neutralise.record(stored_runs.record(entry)) if as_json else ""
    output_of(settings).emit(record or stored_runs.tell(entry, time.time()))
    failed = [step for step in entry.run.commands if step.status == FAILED]
    if entry.run.status == FAILED and failed:
        last = failed[-1]
        where = f"its output is in {last.log_path}" if last.log_path else "it has no output"
        name = entry.run.pipeline_id
        complain(RlmCiError(f"{last.title!r} failed: {last.summary}", where=name, hint=where))


def show(work: PipelineJob, settings: Settings) -> None:
    if work.report is not None:
        output_of(settings).show(work.report)


def tell_cost(work: PipelineJob, progress: Progress) -> None:
    """Print what the models were asked, and the cost."""
    if work.report is None:
        return
    usage = work.report.usage
    if spent := wording.spent(usage):
        progress.say(f"Models: {spent}{', price unknown' if usage.cost_usd is None else ''}")


def tell_places(work: PipelineJob, run: Run, tell: Callable[[str], None]) -> None:
    """Print where the run left files for the user, and a patch that is not applied."""
    for line in work.places:
        tell(line)
    patch = "" if work.report is None else patch_of(work.report, run)
    if patch:
        tell(f"Patch: {patch}")


def patch_of(report: Report, run: Run) -> str:
    """The place of a patch that is not applied, "" for none."""
    metrics = report.parts[0].metrics
    is_left = metrics.get("patch") and not metrics.get("applied")
    return run.shown(str(metrics["patch"])) if is_left else ""
