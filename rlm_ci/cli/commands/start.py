"""``rlm-ci start``: start a pipeline in the background, and say how to watch it."""

from __future__ import annotations

import os
import sys

from rlm_ci import errors
from rlm_ci.cli import folder_argument, load, options
from rlm_ci.config.arguments import split_command
from rlm_ci.config.core_options import CORE
from rlm_ci.config.options import PIPELINES
from rlm_ci.config.settings import Setting, Settings
from rlm_ci.errors import RlmCiError, StorageError, UnavailableError, UsageError
from rlm_ci.judge.judge import open_repository
from rlm_ci.judge.options import output_of
from rlm_ci.pipelines import definition, stored_runs
from rlm_ci.pipelines import load as pipelines_load
from rlm_ci.pipelines.definition import OWN
from rlm_ci.runs import is_task_id, manifest
from rlm_ci.runs.checksums import LOG
from rlm_ci.runs.request import OF_A_COMMAND, RunRequest
from rlm_ci.system import process
from rlm_ci.text import neutralise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from rlm_ci.config.arguments import Arguments
    from rlm_ci.pipelines.stored_runs import StoredRuns
    from rlm_ci.runs.manifest import Manifest

SUMMARY = "start a pipeline in the background"
USAGE = (
    "rlm --goal G [OPTION...] | run --goal TASK [OPTION...] | review [OPTION...] | wiki [OPTION...]"
    " | PIPELINE [OPTION...] | PIPELINE --help"
)
TAKES = ("one pipeline", 1, 1)
EXAMPLES = ('rlm-ci start rlm --goal "make the tests pass"',)
EXITS = {errors.OK: "the run has started; `rlm-ci wait` has its code"}
_OWN = (
    Setting("loop.goal", "the goal", env=("RLM_GOAL",), own_env=False, file=False,
            flag="--goal", metavar="G"),
    Setting("parent_run", "the run that starts this one", flag="--parent-run", metavar="ID",
            env=("CODEX_ORCHESTRATOR_RUN_ID",), file=False, own_env=False),
)  # fmt: skip
#: Settings that a resumed run does not take from its folder, with flags; those that are paths.
_REPEATED = {
    "sandbox": "--sandbox", "config": "--config", "context.source": "--context",
    "wiki.out": "--out", "wiki.site": "--site", "wiki.push": "--push",
    "recursion.scheduler": "--scheduler",
}  # fmt: skip
_PLACES = ("config", "context.source")
_OTHERS = {
    f"CODEX_ORCHESTRATOR_{name}" for name in ("RUN_ID", "PIPELINE_ID", "MANIFEST_PATH", "RUN_DIR")
}


def rows(argv: Sequence[str]) -> tuple[Setting, ...]:
    """Our own options, and those of the command that runs the pipeline in the foreground."""
    mine = (*_OWN, *stored_runs.SANDBOX, *stored_runs.ROWS)
    known = {row.key for row in mine}
    return (*mine, *(row for row in _of_pipeline(argv) if row.key not in known))


def _of_pipeline(argv: Sequence[str]) -> tuple[Setting, ...]:
    try:
        name, rest = split_command(argv, (*_OWN, *stored_runs.SANDBOX, *stored_runs.ROWS))
    except UsageError:  # an option of the pipeline before its name; parsing complains
        return ()
    return options(load(name), rest) if name in definition.BUILT_IN else ()


def run(arguments: Arguments) -> int:
    name = arguments.words[0]
    arguments = arguments.replace(flags=folder_argument.placed(arguments.flags))
    settings = Settings((*CORE, *PIPELINES, *rows((name,))), arguments.flags)
    output = output_of(settings).require_text_or_json("start")
    repository = open_repository(settings)
    known = pipelines_load.load(settings, repository)
    chosen = definition.choose(known, name)
    pipelines_load.require_leave(known, name, settings)
    goal = settings.loop.goal
    flags = {key: value for key, value in arguments.flags.items() if key not in OF_A_COMMAND}
    is_own = any(stage.kind == OWN for stage in chosen.stages)
    with_goal = (definition.WITH_GOAL, definition.EPISODE)
    needs_goal = any(stage.pipeline in with_goal for stage in chosen.stages)
    if is_own and needs_goal and not (goal and goal.strip()):
        raise UsageError(
            "there is no goal", where="rlm-ci start", hint='add it: --goal "make it pass"'
        )
    if settings.values.get("context.source") == "-":
        raise UsageError(
            "a run in the background has no standard input to take its context from",
            where=settings.sources["context.source"],
            hint="name a file",
        )
    # Own stages run without a sandbox anyway; ``none`` is for a pipeline of ours among them.
    sayable = {"config", "sandbox"} if flags.get("sandbox") == "none" else {"config"}
    if not is_own and flags.keys() - sayable:
        raise UsageError(
            f"the pipeline {name} takes no options of its own",
            where=chosen.source,
            hint="its stages get --goal as RLM_GOAL",
        )
    source = settings.values.get("context.source")  # also from a variable
    places = {**flags, **({"context.source": source} if source else {})}
    flags |= {key: os.path.abspath(places[key]) for key in _PLACES if key in places}
    runs = stored_runs.StoredRuns(settings)
    clean = runs.redactor.text
    asked = RunRequest(
        name,
        None if goal is None else clean(goal),
        {key: clean(value) if isinstance(value, str) else value for key, value in flags.items()},
        definition.digest(known, name),
    )
    begun = _begin(runs, asked, runs.task_or_own(), _parent(settings), _repeated(flags))
    try:
        output.emit(_text(begun, settings))
    except StorageError as error:  # the run continues, and its id must be known
        follow = f"the run has started; follow it with: rlm-ci status {begun.run_id} --watch"
        raise StorageError(error.what, where=error.where, hint=follow) from None
    return errors.OK


def _repeated(flags: Mapping[str, Any]) -> list[str]:
    """Options for the run's process, which does not take them from the run's folder."""
    words = []
    for key, flag in _REPEATED.items():
        if key in flags:
            words += [flag] if isinstance(flags[key], bool) else [flag, flags[key]]
    return words


def _parent(settings: Settings) -> str | None:
    parent: str | None = settings.parent_run
    if parent is not None and not is_task_id(parent):
        raise UsageError(
            f"{parent[:80]!r} is not the id of a run",
            where=settings.sources["parent_run"],
            hint="rlm-ci list shows the ids",
        )
    return parent


def _begin(
    runs: StoredRuns, asked: RunRequest, task: str, parent: str | None, options: Sequence[str]
) -> Manifest:
    """Create a run on disk, and a process that carries it out with these ``options``."""
    with runs.create(task, asked.pipeline_id, parent_run_id=parent, log=LOG) as run:
        try:
            asked.write(run.path)
        except RlmCiError as error:
            run.stop(error)
            raise
    place = os.path.join(os.path.abspath(run.path), manifest.NAME)
    # -P: do not search the current folder for modules, because it is the repository's.
    argv = [sys.executable, "-P", "-m", "rlm_ci", "resume", place]
    argv += ["--repo", os.path.abspath(runs.root), "--no-interactive", *options]
    try:
        # The variables of another run, whose command this may be, are not true of this one.
        environ = {
            name: value for name, value in runs.settings.environ.items() if name not in _OTHERS
        }
        _detach(argv, environ, os.path.join(run.path, LOG))
    except OSError as error:
        failure = process.unavailable(argv[0], error)
        with runs.open(run.path) as run:
            run.stop(failure)
        raise failure from None
    return run.manifest


def _detach(argv: Sequence[str], environ: Mapping[str, str], log: str) -> None:
    """Start ``argv`` in a session of its own, with nothing of ours open but the log."""
    if sys.platform == "win32":
        raise UnavailableError(
            "runs in the background need a POSIX system", hint="use Linux, macOS, or WSL"
        )

    def create(path: str, flags: int) -> int:
        return os.open(path, flags | os.O_NOFOLLOW, 0o600)

    # An inherited pipe would keep its reader waiting until the run ends.
    with open(os.devnull, "rb") as nothing, open(log, "ab", opener=create) as output:
        streams = (nothing.fileno(), output.fileno(), output.fileno())
        process.spawn(argv, environ, streams, session=True)


def _text(begun: Manifest, settings: Settings) -> str:
    place = f"{begun.artifact_root}/{manifest.NAME}"
    if settings.format == "json":
        facts = {"run_id": begun.run_id, "task_id": begun.task_id, "status": begun.status}
        facts |= {"pipeline_id": begun.pipeline_id, "artifact_root": begun.artifact_root}
        facts |= {"manifest": place, "log_path": begun.log_path}
        return neutralise.record(facts | {"summary": begun.summary})
    if settings.quiet:
        return f"{begun.run_id}\n"
    lines = [
        f"run        {begun.run_id}",
        f"task       {begun.task_id}",
        f"manifest   {place}",
        f"log        {begun.log_path}",
        f"status     {begun.status}",
        f"follow it with: rlm-ci status {begun.run_id} --watch",
    ]
    return "".join(f"{line}\n" for line in lines)
