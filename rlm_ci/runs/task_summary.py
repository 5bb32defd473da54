"""The sums of a task's runs: ``metrics.json`` beside them, ``state.json`` in the out folder.

Both are replaced whole under the lock of the task, and made again from the manifests where they
are missing or damaged.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress

from rlm_ci import decoding
from rlm_ci.decoding import DecodeError
from rlm_ci.errors import DamagedError
from rlm_ci.runs import FAILED, SUCCEEDED
from rlm_ci.runs import manifest as manifests
from rlm_ci.system import files
from rlm_ci.system.lock import Lock
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlm_ci.decoding import Count, ExitCode, Text, Words
    from rlm_ci.runs.manifest import Manifest

    Seconds = float

VERSION = 1
METRICS = "metrics.json"
STATE = "state.json"
_IGNORE = ".gitignore"
_LOCK = ".lock"
_LIMIT = 256 << 20
#: Seconds to wait for another run of the task.
_PATIENCE = 30.0
if not TYPE_CHECKING:
    Seconds = decoding.amount(1 << 53)


class EndedRun(Value):
    """One run that has ended."""

    _optional = ()

    run_id: Text
    pipeline_id: Text
    parent_run_id: Text | None
    status: manifests.RunStatus
    status_detail: Words | None
    #: Of rlm-ci's table.
    exit_code: ExitCode | None
    started_at: manifests.Timestamp
    completed_at: manifests.Timestamp
    duration_seconds: Seconds
    commands_passed: Count
    commands_failed: Count
    recorded_at: manifests.Timestamp
    manifest: Text


class TaskMetrics(Value):
    """All runs of a task that have ended."""

    _optional = ()

    version: manifests.ManifestVersion
    task_id: Text
    updated_at: manifests.Timestamp
    #: In the order of their ids.
    runs: tuple[EndedRun, ...]


class RunCounts(Value):
    """How the runs of a task ended."""

    _optional = ()

    total: Count
    succeeded: Count
    failed: Count
    cancelled: Count


class LastRun(Value):
    """The run that ended last."""

    _optional = ()

    run_id: Text
    pipeline_id: Text
    status: manifests.RunStatus
    #: Of rlm-ci's table.
    exit_code: ExitCode | None
    completed_at: manifests.Timestamp
    manifest: Text


class TaskState(Value):
    """How a task stands, in short."""

    _optional = ()

    version: manifests.ManifestVersion
    task_id: Text
    updated_at: manifests.Timestamp
    runs: RunCounts
    #: Of all runs together.
    duration_seconds: Seconds
    last_run: LastRun


def record(task_folder: str, out_folder: str, ended: Manifest, now: float) -> None:
    """Add the run ``ended`` to the metrics and the state of its task, or replace it there.

    Raises StorageError, LockedError, and DamagedError where a newer rlm-ci wrote them.
    """
    path = os.path.join(task_folder, METRICS)
    try:
        with Lock.wait(os.path.join(task_folder, _LOCK), _PATIENCE):
            rows = _read(path)
            if rows is None:
                rows = {manifest.run_id: _row(manifest, now) for manifest in _ended(task_folder)}
            rows[ended.run_id] = _row(ended, now)
            ordered = [rows[run_id] for run_id in sorted(rows)]
            at = manifests.timestamp(now)
            _write(path, TaskMetrics(VERSION, ended.task_id, at, tuple(ordered)))
            _make_out(out_folder)
            _write(os.path.join(out_folder, STATE), _state(ended.task_id, at, ordered))
    except OSError as error:
        raise files.storage_error(error, path) from None


def _read(path: str) -> dict[str, EndedRun] | None:
    """The rows by run id; None where there are none that can be used."""
    try:
        data = json.loads(files.read(path, _LIMIT))
    except (files.UnreadableError, ValueError, RecursionError):
        return None
    manifests.require_version(data, VERSION, "the metrics", path)
    try:
        return {run.run_id: run for run in TaskMetrics.from_dict(data).runs}
    except DecodeError:
        return None


def _ended(task_folder: str) -> Iterator[Manifest]:
    """The readable manifests of the runs of rlm-ci that have ended."""
    folder = os.path.join(task_folder, "cli")
    for name in sorted(os.listdir(folder)):
        try:
            manifest = manifests.read(os.path.join(folder, name))
        except DamagedError:
            continue
        if manifest.has_ended and not manifest.recorded_by:
            yield manifest


def _row(run: Manifest, now: float) -> EndedRun:
    completed = run.completed_at or run.updated_at
    seconds = manifests.moment(completed) - manifests.moment(run.started_at)
    statuses = [command.status for command in run.commands]
    return EndedRun(
        run_id=run.run_id,
        pipeline_id=run.pipeline_id,
        parent_run_id=run.parent_run_id,
        status=run.status,
        status_detail=run.status_detail,
        exit_code=run.exit_code,
        started_at=run.started_at,
        completed_at=completed,
        duration_seconds=round(max(0.0, seconds), 3),
        commands_passed=statuses.count(SUCCEEDED),
        commands_failed=statuses.count(FAILED),
        recorded_at=manifests.timestamp(now),
        manifest=f"{run.artifact_root}/{manifests.NAME}",
    )


def _state(task_id: str, at: str, rows: list[EndedRun]) -> TaskState:
    statuses = [row.status for row in rows]
    last = max(rows, key=lambda row: manifests.moment(row.completed_at))
    return TaskState(
        VERSION,
        task_id,
        at,
        RunCounts(len(rows), *map(statuses.count, manifests.ENDED)),
        round(sum(row.duration_seconds for row in rows), 3),
        LastRun(**{name: getattr(last, name) for name in LastRun._fields}),
    )


def _make_out(folder: str) -> None:
    """Make the out folder of the task, which git ignores."""
    files.require_inside(os.path.dirname(os.path.dirname(folder)), folder)
    if not os.path.isdir(folder):
        files.make_folder(folder)
        files.write(os.path.join(folder, _IGNORE), b"*\n")


def remove(folder: str) -> None:
    """Remove the out folder of a task without runs, and the one above it where nothing is left.

    Other files in it, such as an export, keep it.
    """
    own_files = (STATE, _IGNORE)
    with suppress(OSError):
        if not os.path.islink(folder) and set(os.listdir(folder)) <= set(own_files):
            for name in own_files:
                with suppress(FileNotFoundError):
                    os.unlink(os.path.join(folder, name))
            os.rmdir(folder)
            os.rmdir(os.path.dirname(folder))


def _write(path: str, document: Value) -> None:
    files.write(path, f"{json.dumps(document.to_dict(), indent=2)}\n".encode(), 0o600)
