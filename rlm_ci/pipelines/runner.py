"""Carries out a pipeline in a run, a step for each stage; skips stages that are done."""

from __future__ import annotations

import os
from types import MappingProxyType

from rlm_ci.errors import (
    EXIT_CODES,
    FINDINGS,
    LIMIT,
    OK,
    UNAVAILABLE,
    RlmCiError,
    UnavailableError,
)
from rlm_ci.pipelines.definition import BUILT_IN, COMMAND, OWN
from rlm_ci.runs import FAILED, SUCCEEDED, manifest
from rlm_ci.runs.run import Run
from rlm_ci.runs.store import sibling
from rlm_ci.system import files, process
from rlm_ci.system.process_stream import Clip, stream
from rlm_ci.text.printable import count, printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rlm_ci.pipelines.definition import Pipeline, Stage
    from rlm_ci.runs.run import Step
    from rlm_ci.runs.store import RunStore

    #: Carries out a stage of our own in a run in progress, for a goal; returns the exit code
    #: and a line about it.
    Action = Callable[[Run, str | None], tuple[int, str]]

#: Bytes of a stage's output that its log keeps: of the beginning, and of the end.
_HEAD, _TAIL = 256 << 10, 768 << 10
_NO_LIMIT = 7 * 24 * 3600.0
#: Seconds that a stage has to end by itself after its timeout.
_GRACE = 2.0
_LAST_LINE = 200
_CODES = frozenset(code for code, _, _ in EXIT_CODES)


class RunnerContext(Value):
    """Where pipelines are carried out: ``repository`` is the top level, ``environ`` what the
    stages inherit, ``timeout`` the default of a stage in seconds (None: a week), ``actions`` our
    own stages, by pipeline; ``warn`` shows errors that do not end the run; ``variables`` are
    variables that override those of a stage's definition.
    """

    store: RunStore
    repository: str
    environ: Mapping[str, str]
    pipelines: Mapping[str, Pipeline]
    actions: Mapping[str, Action]
    timeout: float | None = None
    warn: Callable[[RlmCiError], None] | None = None
    variables: Mapping[str, str] = MappingProxyType({})

    def doubt(self, about: RlmCiError | None) -> None:
        """Warn of an error that does not end the run."""
        if about is not None and self.warn is not None:
            self.warn(about)


def conduct(run: Run, name: str, context: RunnerContext, goal: str | None = None) -> int:
    """Begin ``run``, carry out the pipeline ``name`` in it, and end it; return the exit code.

    See ``live``.
    """
    return live(run, lambda: _carry_out(run, name, context, goal), context.doubt)


def live(
    run: Run,
    work: Callable[[], tuple[int, str]],
    warn: Callable[[RlmCiError | None], None] = lambda _: None,
    *,
    is_resumable: bool = True,
) -> int:
    """Begin ``run``, do its ``work``, and end it; return the exit code.

    ``work`` returns the exit code and a line about the result. ``warn`` gets an error that does
    not end the run, None for none. Any exception ends the run, and is raised again. After a signal
    the run can be resumed, if it ``is_resumable``.
    """
    deferred = process.defer()  # signals wait, so that a run that has begun is ended
    try:
        run.begin()
        try:
            process.undefer(deferred)
            try:
                code, summary = work()
            finally:
                process.defer()
        except BaseException as error:
            process.defer()
            is_over = isinstance(error, Exception) or is_resumable
            doubt = run.stop(error) if is_over else run.cancel()
            if str(doubt) != str(error):  # the caller reports what ended the run
                warn(doubt)
            raise
        status = SUCCEEDED if code == OK else FAILED
        warn(run.finish(status, exit_code=code, summary=summary, detail=run.detail))
        return code
    finally:
        process.undefer(deferred)


def _carry_out(run: Run, name: str, context: RunnerContext, goal: str | None) -> tuple[int, str]:
    stages = context.pipelines[name].stages
    done = {step.id for step in run.manifest.commands if step.status == SUCCEEDED}
    failure = ""
    code = OK
    summary = ""
    for stage in stages:
        if failure:
            run.skip(stage.title, stage.shown, name=stage.id, why=f"skipped: {failure}")
        elif stage.id not in done:
            run.heed()
            outcome, summary = _step(run, stage, context, goal)
            if outcome != OK and not (stage.allow_failure or stage.optional):
                code, failure = outcome, f"{stage.title!r} failed"
    if len(stages) == 1 and summary:
        return code, summary
    if failure:
        return code, f"{failure}: {summary}" if summary else failure
    missed = [step.title for step in run.manifest.commands if step.status == FAILED]
    allowed = f"; failed, as it may: {', '.join(missed)}" if missed else ""
    return OK, f"{count(len(stages) - len(missed), 'stage')} done{allowed}"


def _step(run: Run, stage: Stage, context: RunnerContext, goal: str | None) -> tuple[int, str]:
    """Carry out one stage; return its exit code in our table, and a line about it."""
    kind = "command" if stage.kind in (COMMAND, OWN) else "subpipeline"
    with run.step(stage.title, stage.shown, name=stage.id, kind=kind) as step:
        if stage.kind == OWN:
            code, step.summary = context.actions[stage.pipeline](run, goal)
            step.exit_code = code
        elif stage.kind == COMMAND:
            code = _command(run, stage, step, context, goal)
        else:
            code = _subpipeline(run, stage, step, context, goal)
        step.passed = code == OK
        return code, step.summary or ""


def _command(run: Run, stage: Stage, step: Step, context: RunnerContext, goal: str | None) -> int:
    argv = ["sh", "-c", stage.command] if isinstance(stage.command, str) else list(stage.command)
    limit = stage.timeout or context.timeout or _NO_LIMIT
    begun = manifest.timestamp(run.now())
    try:
        ended = stream(
            argv,
            env=_environment(run, stage, context, goal),
            cwd=os.path.join(context.repository, stage.cwd),
            timeout=limit,
            clip=Clip(_HEAD, _TAIL),
            grace=_GRACE,
        )
    except UnavailableError as error:
        step.summary = str(error)
        return UNAVAILABLE
    output = run.redactor.text(ended.output.without_seam().text())
    outcome = f"[timed out after {limit:g} s]" if ended.reason else f"[exit {ended.returncode}]"
    head = f"[{begun}] $ {run.redactor.text(stage.shown)}\n"
    text = f"{head}{output}{'' if output.endswith(chr(10)) or not output else chr(10)}{outcome}\n"
    files.write(step.log, text.encode("utf-8", "backslashreplace"), 0o600)
    step.exit_code = ended.returncode
    last = next((line.strip() for line in reversed(output.splitlines()) if line.strip()), "")
    last = printable(last)[:_LAST_LINE]
    if ended.reason:
        step.summary = f"timed out after {limit:g} s"
        return LIMIT
    if ended.returncode == 0:
        step.summary = stage.summary_hint or last
        return OK
    how = f"exit {ended.returncode}" if ended.returncode > 0 else f"signal {-ended.returncode}"
    step.summary = f"{how}: {last}" if last else how
    # A stage that replaces one of ours may use our exit codes.
    as_ours = run.manifest.pipeline_id in BUILT_IN and ended.returncode in _CODES
    return ended.returncode if as_ours else FINDINGS


def _environment(
    run: Run, stage: Stage, context: RunnerContext, goal: str | None
) -> dict[str, str]:
    """The variables of a stage: its definition overrides those of the run, flags override both."""
    prefix = "CODEX_ORCHESTRATOR_"
    of_run = {
        "MCP_RUNNER_TASK_ID": run.task_id,
        f"{prefix}TASK_ID": run.task_id,
        f"{prefix}RUN_ID": run.id,
        f"{prefix}PIPELINE_ID": run.manifest.pipeline_id,
        f"{prefix}MANIFEST_PATH": os.path.join(run.path, manifest.NAME),
        f"{prefix}RUN_DIR": run.path,
        f"{prefix}RUNS_DIR": os.path.abspath(context.store.root),
        f"{prefix}OUT_DIR": os.path.abspath(run.out),
        f"{prefix}ROOT": context.repository,
        f"{prefix}PACKAGE_ROOT": os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
    }
    if goal is not None:
        of_run["RLM_GOAL"] = goal
    inputs = context.pipelines[run.manifest.pipeline_id].variables()
    return {**inputs, **context.environ, **of_run, **dict(stage.env), **context.variables}


def _subpipeline(
    run: Run, stage: Stage, step: Step, context: RunnerContext, goal: str | None
) -> int:
    if stage.pipeline not in context.pipelines:
        step.summary = f"there is no pipeline {stage.pipeline!r}"
        return UNAVAILABLE
    with _child(run, stage, step, context) as child:
        child.above = run
        if child.manifest.status == SUCCEEDED:
            code = OK
        else:
            step.started(child.manifest)
            try:
                code = conduct(child, stage.pipeline, context, goal)
            except RlmCiError as error:
                code = error.code
            finally:
                run.add_child(child.manifest)
        step.exit_code, step.summary = code, child.manifest.summary
        return code


def _child(run: Run, stage: Stage, step: Step, context: RunnerContext) -> Run:
    if step.sub_run_id is not None:
        path = sibling(run.path, step.sub_run_id)
        if path is not None:
            child = Run.open(path, redactor=run.redactor, out=run.out, now=run.now)
            if child.manifest.is_resumable or child.manifest.status == SUCCEEDED:
                return child
            child.close()
    return Run.create(
        context.store,
        run.task_id,
        pipeline_id=stage.pipeline,
        redactor=run.redactor,
        out=run.out,
        parent_run_id=run.id,
        now=run.now,
    )
