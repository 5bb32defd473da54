"""``rlm-ci rlm``: fix until green, or answer a question from a long text."""

from __future__ import annotations

import os
import sys

from rlm_ci.ask.run import STDIN
from rlm_ci.change import privileged_events
from rlm_ci.cli import warn
from rlm_ci.config.options import BUDGET, COMMON, LOOP, MODEL, PROGRAM, SYMBOLIC
from rlm_ci.console.progress import Progress
from rlm_ci.errors import RlmCiError, UsageError
from rlm_ci.judge import config_file
from rlm_ci.pipelines import foreground, load, stored_runs
from rlm_ci.report.findings import Part
from rlm_ci.solve.pipeline import ITERATIVE, Work, without_runs
from rlm_ci.system import process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rlm_ci.config.arguments import Arguments
    from rlm_ci.config.settings import Setting, Settings
    from rlm_ci.git.repository import Repository
    from rlm_ci.judge.judge import Judgement
    from rlm_ci.report.findings import Report
    from rlm_ci.runs.run import Run

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
    settings = foreground.read(flags)
    flags |= kept(settings)
    goal = settings.loop.goal
    if not goal or not goal.strip():
        raise UsageError("there is no goal", where="rlm-ci rlm", hint=f"rlm-ci rlm {USAGE}")
    return foreground.conduct(PIPELINE, settings, flags, goal)


def kept(settings: Settings) -> dict[str, str]:
    """The flag that names the context from anywhere, for whoever carries the run out later."""
    source = settings.context.source
    if not source or source == STDIN:
        return {}
    return {"context.source": os.path.abspath(source)}


def _goal(arguments: Arguments) -> str | None:
    """The goal on the command line: one text, or nothing."""
    words = (*arguments.positionals, *arguments.rest)
    if len(words) > 1:
        raise UsageError("rlm takes one goal", where="rlm-ci rlm", hint=f"rlm-ci rlm {USAGE}")
    return words[0] if words else None


def make(
    settings: Settings,
    repository: Repository,
    runs: stored_runs.Runs,
    progress: Progress,
    replay: str | None = None,
) -> Work:
    """The work that these settings and the config file describe.

    Raises ConfigError, also where a change's code must not be run at all.
    """
    process.harden()
    event = (
        privileged_events.event_of(settings.github.event_name) if settings.github.actions else None
    )
    for change in load.changes_of(settings, repository):
        privileged_events.refuse_execution(change, event, what="a fix loop")
        for doubt in config_file.apply(settings, change):
            warn(doubt)
    chosen = load.load(settings, repository)[PIPELINE]
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


def on_change(judgement: Judgement, held: Run) -> Report:
    """The report of a judgement, with what a fix loop on the change came to.

    Nothing is applied or pushed: the result is a patch in the folder of the run.
    """
    settings = judgement.settings
    settings.values["loop.apply"] = False
    if settings.sources["loop.allow_no_change"] == "default":
        settings.values["loop.allow_no_change"] = True  # most changes are green as they are
    settings.values["mode"], settings.sources["mode"] = ITERATIVE, "rlm-ci pr"
    for key, value in _IN_ACTIONS if settings.github.actions else ():
        if settings.sources[key] == "default":
            settings.values[key] = value
    report = judgement.report
    with Progress(settings.environ, quiet=settings.quiet) as progress:
        try:
            work = make(settings, judgement.repository, stored_runs.Runs(settings), progress)
            work(held, held.redactor.text(settings.fix))
        except RlmCiError as error:
            return report.replace(parts=(*report.parts, Part.from_error(PIPELINE, error)))
        foreground.tell_result(work, held, progress)
    if work.report is None:
        raise AssertionError("a fix loop ends with a report or an error")
    first, *others = work.report.parts
    patch = foreground.patch_of(work.report, held)
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
            try:
                answer = sys.stdin.readline()
            except BaseException:  # Ctrl-C leaves the cursor behind the question
                sys.stderr.write("\n")
                raise
            if not answer:
                has_left = True
                sys.stderr.write("\n")
        return answer

    return ask
