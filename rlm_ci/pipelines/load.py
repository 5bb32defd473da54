"""Loads the pipelines of a repository, and carries one out in a run."""

from __future__ import annotations

import os

from rlm_ci.change import change_set, privileged_events, trigger
from rlm_ci.console.failures import failure
from rlm_ci.console.messages import warn
from rlm_ci.errors import ConfigError
from rlm_ci.judge import config_file
from rlm_ci.judge.options import change_choice
from rlm_ci.pipelines import definition, runner
from rlm_ci.text.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from rlm_ci.change.change_set import ChangeSet
    from rlm_ci.config.settings import Settings
    from rlm_ci.git.repository import Repository
    from rlm_ci.pipelines.definition import Pipeline
    from rlm_ci.pipelines.runner import Action
    from rlm_ci.pipelines.stored_runs import StoredRuns
    from rlm_ci.runs.request import RunRequest
    from rlm_ci.runs.run import Run

#: The pipeline whose stage calls us: its stage must not start it again.
_INSIDE = "CODEX_ORCHESTRATOR_PIPELINE_ID"


def load(settings: Settings, repository: Repository) -> dict[str, Pipeline]:
    """All pipelines: those of the configuration, of the JSON file, and the built-in ones.

    For a change from outside, both files are read from its base. Raises ConfigError.
    """
    changes = changes_of(settings, repository)
    record: dict[str, object] = {}
    source, commit = "", None
    if changes:
        record, source = config_file.read(settings, changes[0])
        commit = changes[0].policy_commit
    configured = definition.from_settings(record.get("pipelines", []), source or "rlm-ci.toml")
    data, at = _json_file(repository, commit)
    foreign = {} if data is None else definition.from_json(data, at)
    inside = settings.environ.get(_INSIDE)
    configured, foreign = (
        {name: pipeline for name, pipeline in layer.items() if name != inside}
        for layer in (configured, foreign)
    )
    return definition.merge(configured, foreign)


def _json_file(repository: Repository, commit: str | None) -> tuple[bytes | None, str]:
    """The JSON file of pipelines, of a commit or of the work tree, and its name."""
    if commit:
        at = f"{definition.FILE} at {commit[:12]}"
        return repository.read(f"{commit}:{definition.FILE}")[0], at
    data = config_file.read_worktree(repository, definition.FILE, "file of pipelines")
    return data, definition.FILE


def loop_settings(settings: Settings, repository: Repository) -> tuple[dict[str, Any], str]:
    """What the JSON file of pipelines says of analyses in its loop, and its name.

    For a change from outside, the file is that of its base. Raises ConfigError.
    """
    changes = changes_of(settings, repository)
    data, at = _json_file(repository, changes[0].policy_commit if changes else None)
    return ({} if data is None else definition.loop_from_json(data, at)), at


def configure(settings: Settings, repository: Repository, what: str) -> None:
    """Apply the config file, where ``what`` runs code of the repository.

    Raises ConfigError, also if the change's code must not run.
    """
    event = (
        privileged_events.event_of(settings.github.event_name) if settings.github.actions else None
    )
    for change in changes_of(settings, repository):
        privileged_events.refuse_execution(change, event, what=what)
        for doubt in config_file.apply(settings, change):
            warn(doubt)


def changes_of(settings: Settings, repository: Repository) -> list[ChangeSet]:
    """The change that the flags or the event name; else the uncommitted one."""
    return trigger.select(
        change_choice(settings), repository, lambda repo: change_set.from_local(repo, "worktree")
    )


def require_leave(pipelines: Mapping[str, Pipeline], name: str, settings: Settings) -> None:
    """Raise ConfigError if ``name`` runs stages of the repository instead of our own.

    Users expect the sandbox of our own stages. Only the command line or a variable can turn it
    off, not a file of the repository.
    """
    pipeline = definition.replaced(pipelines, name)
    if pipeline is not None and settings.sandbox != "none":
        raise ConfigError(
            f"the repository defines {pipeline.id} itself: its stages would run as you, without a"
            " sandbox",
            where=pipeline.source,
            hint="use --sandbox none to run them; or remove `stages` from that definition"
            " (keep `inputs`) to use the built-in ones",
        )


def of_run(pipelines: Mapping[str, Pipeline], request: RunRequest) -> Mapping[str, Pipeline]:
    """The ``pipelines``, with the benchmarks if ``request`` is one: no pipeline of that name."""
    bench_digest = definition.digest(definition.BENCHMARKS, definition.BENCH)
    is_ours = (request.pipeline_id, request.definition) == (definition.BENCH, bench_digest)
    return {**pipelines, **definition.BENCHMARKS} if is_ours else pipelines


def require_same(pipelines: Mapping[str, Pipeline], request: RunRequest) -> None:
    """Raise ConfigError if the pipeline has changed since the run was started."""
    is_defined = request.pipeline_id in pipelines
    if not is_defined or definition.digest(pipelines, request.pipeline_id) != request.definition:
        what = "has changed since the run was started" if is_defined else "is not there any more"
        raise ConfigError(
            f"the pipeline {printable(request.pipeline_id)[:80]} {what}",
            where=pipelines[request.pipeline_id].source if is_defined else "PIPELINE",
            hint="start a new run, or put the definition back",
        )


def conduct(
    run: Run,
    request: RunRequest,
    runs: StoredRuns,
    pipelines: Mapping[str, Pipeline],
    actions: Mapping[str, Action],
) -> int:
    """Carry out the pipeline of ``request`` in ``run``, which this process holds.

    ``pipelines`` are unchanged (``require_same``); ``actions`` are our own, by pipeline. Returns
    the exit code. Raises the error that ends the run early, once the run has recorded it.
    """
    milliseconds = runs.settings.stage_timeout_ms
    context = runner.RunnerContext(
        runs.store,
        os.path.abspath(runs.root),
        runs.settings.environ,
        pipelines,
        actions,
        None if milliseconds is None else milliseconds / 1000,
        warn,
        definition.variables(request.flags),
    )
    try:
        return runner.conduct(run, request.pipeline_id, context, request.goal)
    except Exception as error:  # noqa: BLE001 - the run keeps the traceback of a bug
        raise failure(error, run.path, run.redactor.text) from None
