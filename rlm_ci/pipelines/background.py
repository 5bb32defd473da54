"""Runs in the background: created here, carried out by a process that outlives this one."""

from __future__ import annotations

import os
import sys

from rlm_ci.config.core_options import CORE
from rlm_ci.config.options import BUDGET, MODEL, PIPELINES, RECURSION, REVIEW, WIKI
from rlm_ci.config.settings import Setting, Settings
from rlm_ci.errors import RlmCiError, UnavailableError, UsageError
from rlm_ci.judge.judge import open_repository
from rlm_ci.pipelines import definition, load, stored_runs
from rlm_ci.pipelines.definition import OWN
from rlm_ci.runs import is_run_id, is_task_id, manifest
from rlm_ci.runs.cancel import MARK
from rlm_ci.runs.checksums import LOG
from rlm_ci.runs.request import OF_A_COMMAND, RunRequest
from rlm_ci.system import process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from rlm_ci.pipelines.stored_runs import StoredRuns
    from rlm_ci.runs.manifest import Manifest

#: The options of a start, besides those of its pipeline.
ROWS: tuple[Setting, ...] = (
    Setting("loop.goal", "the goal", env=("RLM_GOAL",), own_env=False, file=False,
            flag="--goal", metavar="G"),
    Setting("parent_run", "the run that starts this one", flag="--parent-run", metavar="ID",
            env=("CODEX_ORCHESTRATOR_RUN_ID",), file=False, own_env=False),
    Setting("run_id", "id of the new run, for a program that must know it before: a UTC time and 8 "
            "hex digits (2026-11-23T08-07-09Z-e35eefc6)", flag="--run-id", metavar="ID",
            file=False, own_env=False),
)  # fmt: skip
#: Settings that a resumed run does not take from its folder, with flags; those that are paths.
_REPEATED = {
    "sandbox": "--sandbox", "config": "--config", "context.source": "--context",
    "episode.mcp_config": "--mcp-config",
    "wiki.out": "--out", "wiki.site": "--site", "wiki.push": "--push",
    "recursion.scheduler": "--scheduler",
}  # fmt: skip
_PLACES = ("config", "context.source", "episode.mcp_config")
_OTHERS = {
    f"CODEX_ORCHESTRATOR_{name}" for name in ("RUN_ID", "PIPELINE_ID", "MANIFEST_PATH", "RUN_DIR")
}


def settings_of(flags: Mapping[str, Any]) -> Settings:
    """The settings of a start of a review or a wiki. Raises ConfigError."""
    of_both = (*RECURSION, *REVIEW, *WIKI, *MODEL, *BUDGET)
    settings = (*ROWS, *stored_runs.SANDBOX, *stored_runs.ROWS)
    return Settings((*CORE, *PIPELINES, *settings, *of_both), flags)


def start(settings: Settings, name: str, flag_values: Mapping[str, Any]) -> tuple[Manifest, int]:
    """Start the pipeline ``name`` with the flags ``flag_values``; its run, and its process.

    Raises UsageError, ConfigError, UnavailableError, StorageError.
    """
    repository = open_repository(settings)
    pipelines = load.load(settings, repository)
    chosen = definition.choose(pipelines, name)
    load.require_leave(pipelines, name, settings)
    goal = settings.loop.goal
    flags = {key: value for key, value in flag_values.items() if key not in OF_A_COMMAND}
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
    request = RunRequest(
        name,
        None if goal is None else clean(goal),
        {key: clean(value) if isinstance(value, str) else value for key, value in flags.items()},
        definition.digest(pipelines, name),
    )
    ids = {"parent_run_id": _parent(settings), "run_id": _own_id(settings)}
    before = process.defer()  # a run that is half begun would never go on
    try:
        return _begin(runs, request, runs.task_or_own(), ids, _repeated(flags))
    finally:
        process.undefer(before)


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


def _own_id(settings: Settings) -> str | None:
    run_id: str | None = settings.run_id
    if run_id is not None and not is_run_id(run_id):
        raise UsageError(
            f"{run_id[:80]!r} is not in the form of a run's id",
            where="--run-id",
            hint="write it like 2026-11-23T08-07-09Z-e35eefc6, or leave it out",
        )
    return run_id


def _begin(
    runs: StoredRuns,
    request: RunRequest,
    task: str,
    ids: Mapping[str, str | None],
    options: Sequence[str],
) -> tuple[Manifest, int]:
    """Create a run on disk, and a process that carries it out with these ``options``."""
    with runs.create(task, request.pipeline_id, log=LOG, **ids) as run:
        try:
            request.write(run.path)
        except RlmCiError as error:
            run.stop(error)
            raise
    try:
        pid = carry_out(runs, run.path, options)
    except UnavailableError as error:
        with runs.open(run.path) as run:
            run.stop(error)
        raise
    return run.manifest, pid


def carry_out(
    runs: StoredRuns, path: str, options: Sequence[str], environ: Mapping[str, str] | None = None
) -> int:
    """Start a process that carries out the run in ``path``, from where it is; its id.

    ``environ``, if it is not that of this process. Raises UnavailableError, StorageError.
    """
    manifest_path = os.path.join(os.path.abspath(path), manifest.NAME)
    # -P: do not search the current folder for modules, because it is the repository's.
    argv = [sys.executable, "-P", "-m", "rlm_ci", "resume", manifest_path]
    argv += ["--repo", os.path.abspath(runs.root), "--no-interactive", *options]
    # The variables of another run, whose command this may be, are not true of this one.
    base_environ = runs.settings.environ if environ is None else environ
    child_environ = {name: value for name, value in base_environ.items() if name not in _OTHERS}
    # So that a cancel ends it before it holds the run, too.
    child_environ[MARK] = os.path.basename(path)
    try:
        return _detach(argv, child_environ, os.path.join(path, LOG))
    except OSError as error:
        raise process.unavailable(argv[0], error) from None


def _detach(argv: Sequence[str], environ: Mapping[str, str], log: str) -> int:
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
        return process.spawn(argv, environ, streams, session=True)
