"""``rlm-ci rlm``: fix until green, or answer a question from a long text."""

from __future__ import annotations

import os
import sys
import time

from rlm_ci import process, publishing
from rlm_ci.cli import (
    complain,
    configuration,
    output,
    pipelines,
    privileged,
    raising,
    running,
    warn,
)
from rlm_ci.cli.judging import open_repository
from rlm_ci.cli.progress import Progress
from rlm_ci.cli.question import STDIN
from rlm_ci.cli.work import ITERATIVE, Work, without_runs
from rlm_ci.errors import OK, RlmCiError, UsageError
from rlm_ci.findings import Part
from rlm_ci.publishing import neutral
from rlm_ci.runs import FAILED, derived_task_id, pipeline, require_task_id
from rlm_ci.runs.request import Request
from rlm_ci.runs.run import Run
from rlm_ci.settings import Settings
from rlm_ci.table import BUDGET, COMMON, LOOP, MODEL, PROGRAM, SYMBOLIC
from rlm_ci.texts import count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from rlm_ci.cli.arguments import Arguments
    from rlm_ci.cli.judging import Judgement
    from rlm_ci.findings import Report
    from rlm_ci.git import Repository
    from rlm_ci.runs.listing import Entry
    from rlm_ci.runs.stages import Action
    from rlm_ci.settings import Setting

SUMMARY = "fix until green, or answer a question from a long text"
USAGE = '"GOAL" [OPTION...]'
PIPELINE = "rlm"
#: A job has a shorter life than a person's patience.
_IN_ACTIONS = (("loop.max_minutes", 50.0), ("max_calls", 300))


def rows(_argv: Sequence[str]) -> tuple[Setting, ...]:
    return (*COMMON, *LOOP, *SYMBOLIC, *MODEL, *BUDGET)


def run(arguments: Arguments) -> int:
    goal = _goal(arguments)
    flags = {**arguments.flags, **({"loop.goal": goal} if goal else {})}
    settings = read(flags)
    flags |= kept(settings)
    goal = settings.loop.goal
    if not goal or not goal.strip():
        raise UsageError("there is no goal", where="rlm-ci rlm", hint=f"rlm-ci rlm {USAGE}")
    repository = open_repository(settings)
    known = pipelines.load(settings, repository)
    pipelines.require_leave(known, PIPELINE, settings)
    output.require_place(settings)
    is_theirs = pipeline.replaced(known, PIPELINE) is not None
    if is_theirs:
        output.require_text_or_json(settings, f"{PIPELINE} of {known[PIPELINE].source}")
    runs = running.Runs(settings)
    task = require_task_id(settings.task, settings.sources["task"]) if settings.task else None
    task = task or derived_task_id(runs.root)
    asked = Request(
        PIPELINE,
        runs.redactor.text(goal),
        {key: value for key, value in flags.items() if key not in running.OF_A_COMMAND},
        pipeline.digest(known, PIPELINE),
    )
    with Progress(settings.environ, quiet=settings.quiet) as progress:
        work = make(settings, repository, runs, progress)
        with Run.create(
            runs.store, task, pipeline_id=PIPELINE, redactor=runs.redactor, out=runs.out
        ) as held:
            asked.write(held.path)
            progress.say(f"Task: {task}")
            progress.say(f"Run: {held.id}")
            try:
                code = pipelines.conduct(held, asked, runs, known, {PIPELINE: work})
            except BaseException as error:
                tell_result(work, held, progress)
                if isinstance(error, RlmCiError) and settings.format != "text":
                    show(work, settings)  # as text, the error itself is all that there is to tell
                running.tell_way_on(held, progress.say)
                raise
            tell_result(work, held, progress)
            if code != OK:
                running.tell_way_on(held, progress.say)
    if is_theirs:
        _show_stages(runs.find(held.id), settings)
    else:
        show(work, settings)
    return code


def _show_stages(entry: Entry, settings: Settings) -> None:
    """The run of the repository's own stages, as ``status`` shows it, and what ended it."""
    as_json = settings.format == "json"
    record = neutral.record(running.record(entry)) if as_json else ""
    output.emit(record or running.tell(entry, time.time()), settings)
    failed = [step for step in entry.run.commands if step.status == FAILED]
    if entry.run.status == FAILED and failed:
        last = failed[-1]
        where = f"its output is in {last.log_path}" if last.log_path else "it has no output"
        complain(RlmCiError(f"{last.title!r} failed: {last.summary}", where=PIPELINE, hint=where))


def kept(settings: Settings) -> dict[str, str]:
    """The flag that names the context from anywhere, for whoever carries the run out later."""
    source = settings.context.source
    if not source or source == STDIN:
        return {}
    return {"context.source": os.path.abspath(source)}


def show(work: Work, settings: Settings) -> None:
    """The report on standard output, or in a file, in the form that was asked for."""
    if work.report is not None:
        options = output.rendering(settings)
        output.emit(publishing.render(work.report, settings.format, options), settings)


def tell_result(work: Work, held: Run, progress: Progress) -> None:
    """What it cost, however it ended, and where the patch lies that is not in the work tree."""
    if work.report is None:
        return
    usage = work.report.usage
    if usage.calls:
        tokens = usage.prompt_tokens + usage.completion_tokens
        cost = "" if usage.cost_usd is None else f", ${usage.cost_usd:.4f}"
        progress.say(f"Models: {count(usage.calls, 'call')}, {count(tokens, 'token')}{cost}")
    patch = _patch(work.report, held)
    if patch:
        progress.say(f"Patch: {patch}")


def _patch(report: Report, held: Run) -> str:
    """Where the patch lies that is not in the work tree; nothing where there is none."""
    metrics = report.parts[0].metrics
    is_left = metrics.get("patch") and not metrics.get("applied")
    return held.shown(str(metrics["patch"])) if is_left else ""


def read(flags: Mapping[str, Any]) -> Settings:
    """The settings of a run, before its config file is known. Raises ConfigError."""
    table = {row.key: row for row in (*PROGRAM, *running.ROWS)}
    return Settings(table.values(), flags)


def _goal(arguments: Arguments) -> str | None:
    """The goal on the command line: one text, or nothing."""
    words = (*arguments.positionals, *arguments.rest)
    if len(words) > 1:
        raise UsageError("rlm takes one goal", where="rlm-ci rlm", hint=f"rlm-ci rlm {USAGE}")
    return words[0] if words else None


def make(
    settings: Settings,
    repository: Repository,
    runs: running.Runs,
    progress: Progress,
    replay: str | None = None,
) -> Work:
    """The work that these settings and the config file describe.

    Raises ConfigError, also where a change's code must not be run at all.
    """
    process.harden()
    event = privileged.event_of(settings.github.event_name) if settings.github.actions else None
    for change in pipelines.changes_of(settings, repository):
        privileged.refuse_execution(change, event, what="a fix loop")
        for doubt in configuration.apply(settings, change):
            warn(doubt)
    chosen = pipelines.load(settings, repository)[PIPELINE]
    if chosen.inputs:
        source = f"inputs of the pipeline {PIPELINE}, {chosen.source}"
        settings.apply({"loop": dict(chosen.inputs)}, source, PROGRAM)
    return Work(
        settings,
        repository,
        progress,
        skipped=without_runs(runs.root, settings.runs_dir, settings.out_dir),
        ask=asker(settings, progress),
        replay=replay,
    )


def actions(
    asked: Request,
    flags: Mapping[str, Any],
    runs: running.Runs,
    progress: Progress,
    done: list[Work],
) -> dict[str, Action]:
    """What rlm-ci does itself, for a run that was asked for earlier; ``done`` gets the work."""

    def fix(run: Run, goal: str | None) -> tuple[int, str]:
        settings = read({**asked.flags, **flags})
        work = make(settings, open_repository(settings), runs, progress)
        work.more = raising.told(settings, flags)
        done.append(work)
        return work(run, goal)

    return {PIPELINE: fix}


def on_change(judgement: Judgement, held: Run) -> Report:
    """The report of a judgement, with what a fix loop on the change came to.

    Nothing is applied or pushed: the result is a patch in the folder of the run.
    """
    settings = judgement.settings
    settings.values["loop.apply"] = False
    settings.values["mode"], settings.sources["mode"] = ITERATIVE, "rlm-ci pr"
    for key, value in _IN_ACTIONS if settings.github.actions else ():
        if settings.sources[key] == "default":
            settings.values[key] = value
    report = judgement.report
    with Progress(settings.environ, quiet=settings.quiet) as progress:
        try:
            work = make(settings, judgement.repository, running.Runs(settings), progress)
            work(held, held.redactor.text(settings.fix))
        except RlmCiError as error:
            return report.replace(parts=(*report.parts, Part.from_error(PIPELINE, error)))
        tell_result(work, held, progress)
    if work.report is None:
        raise AssertionError("a fix loop ends with a report or an error")
    first, *others = work.report.parts
    patch = _patch(work.report, held)
    if patch:
        first = first.replace(summary=f"{first.summary}; its patch is `{patch}`")
    parts = (*report.parts, first, *others)
    return report.replace(parts=parts, usage=work.report.usage)


def asker(settings: Settings, progress: Progress) -> Callable[[str], str] | None:
    """Puts a question to the person at the terminal; None where there is nobody."""
    silent = not settings.interactive or settings.non_interactive or settings.ci
    if silent or sys.stdin is None or not sys.stdin.isatty():
        return None

    has_left = False

    def ask(question: str) -> str:
        nonlocal has_left
        if has_left:
            return ""
        with progress.paused():
            sys.stderr.write(question)
            sys.stderr.flush()
            answer = sys.stdin.readline()
            if not answer:
                has_left = True
                sys.stderr.write("\n")
        return answer

    return ask
