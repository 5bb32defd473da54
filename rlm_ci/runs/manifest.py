"""The manifest of a run, written by the process that holds it and read strictly by all others.

``schemas/manifest.schema.json`` is the same for other programs.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime

from rlm_ci import decoding
from rlm_ci.decoding import DecodeError
from rlm_ci.errors import CONFIG, LIMIT, REMOTE, STORAGE, UNAVAILABLE, USAGE, DamagedError
from rlm_ci.runs import CANCELLED, FAILED, IN_PROGRESS, QUEUED, SUCCEEDED
from rlm_ci.system import files
from rlm_ci.text.printable import printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

    from rlm_ci.decoding import Count, ExitCode, Sha256, Text, Words

VERSION = 1
NAME = "manifest.json"
ENDED = (SUCCEEDED, FAILED, CANCELLED)
#: Details of a run that a signal ended, that a person cancelled, and that waits to be resumed.
INTERRUPTED = "interrupted"
STOPPED = "cancelled"
PAUSED = "paused"
#: Pipelines with a record of each node: a cancelled run can go on.
_TAKEN_UP = ("review", "wiki")
#: Details of a run that a budget ended: it can go on with more of that one.
BUDGETS = ("max_iterations", "max_minutes", "max_calls", "max_tokens", "budget_usd")
#: Seconds between two heartbeats, and until a silent run counts as gone.
HEARTBEAT = 5.0
STALE = 30.0
#: From each status, those that may follow. Only a resumable run, or one with more of its spent
#: budget, leaves an end.
TRANSITIONS = {
    QUEUED: (IN_PROGRESS, FAILED, CANCELLED),
    IN_PROGRESS: (IN_PROGRESS, SUCCEEDED, FAILED, CANCELLED),
    SUCCEEDED: (),
    FAILED: (IN_PROGRESS, CANCELLED),
    CANCELLED: (IN_PROGRESS, CANCELLED),
}
STEP_STATUSES = ("pending", "running", SUCCEEDED, FAILED, "skipped")
#: Exit codes of failures outside of the run: it may go on.
_OUTSIDE = (UNAVAILABLE, REMOTE, STORAGE)
#: Exit codes of a refused resume: they leave the run as it was.
REFUSALS = (USAGE, CONFIG)
_HINT = "another program wrote it, or it was changed: restore it, or remove the run's folder"
_LIMIT = 4 << 20
_MOST_RULES = 1 << 16
#: The members of a manifest in order; those that may be missing follow.
_ORDER = (
    "version", "task_id", "run_id", "parent_run_id", "pipeline_id", "status", "status_detail",
    "started_at", "updated_at", "heartbeat_at", "completed_at", "artifact_root", "log_path",
    "summary", "commands", "child_runs", "sandbox", "exit_code", "allowed", "recorded_by",
)  # fmt: skip


def moment(text: str) -> float:
    """The seconds since the epoch that a timestamp means; ValueError when it is none."""
    if not text.endswith("Z") or "T" not in text:
        raise ValueError(text)
    return datetime.fromisoformat(text).timestamp()


def is_time(value: object) -> bool:
    try:
        return isinstance(value, str) and len(value) <= 40 and moment(value) >= 0
    except (ValueError, OverflowError):
        return False


if TYPE_CHECKING:
    Timestamp = str
    StepKind = str
    StepStatus = str
    RunStatus = str
    ManifestVersion = int
else:
    _SECONDS = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{3,6})?Z$(?!\n)"
    Timestamp = decoding.Kind(
        is_time,
        "a time in UTC",
        {"type": "string", "maxLength": 40, "pattern": f"^{_SECONDS}"},
    )
    StepKind = decoding.one_of("command", "subpipeline")
    StepStatus = decoding.one_of(*STEP_STATUSES)
    RunStatus = decoding.one_of(*TRANSITIONS)
    ManifestVersion = decoding.one_of(VERSION)


class StepRecord(Value):
    """One step of a run; ``kind`` is "command" or "subpipeline", whose run is ``sub_run_id``."""

    _optional = ()

    index: Count
    id: Text
    title: Words
    command: Words
    kind: StepKind = "command"
    status: StepStatus = "pending"
    started_at: Timestamp | None = None
    completed_at: Timestamp | None = None
    #: As the program ended.
    exit_code: ExitCode | None = None
    summary: Words | None = None
    log_path: Text | None = None
    sub_run_id: Text | None = None


class ChildRun(Value):
    """A run that this one started, with its last known status."""

    run_id: Text
    pipeline_id: Text
    status: RunStatus
    manifest: Text


class Recorder(Value):
    """The agent's program whose hook recorded the run of a subagent, which rlm-ci did not run.

    ``transcript_sha256`` is that of the transcript's first ``transcript_bytes`` at its end; None
    if it was not read.
    """

    _optional = ()

    program: Text
    version: Text | None
    session_id: Words
    subagent_id: Words
    subagent_type: Words
    #: Of the first ``transcript_bytes`` of its transcript, when it stopped; null if that was not
    #: read.
    transcript_sha256: Sha256 | None = None
    transcript_bytes: Count | None = None

    @property
    def name(self) -> str:
        return f"{self.program} {self.version}" if self.version else self.program


class Manifest(Value):
    """The record of one run: timestamps in UTC, paths relative to the repository if inside.

    ``allowed`` are the rules of a fix loop's guard that may be broken. ``recorded_by`` is who
    recorded a run that is not of rlm-ci.
    """

    _optional = ("allowed", "recorded_by")
    _items = (("allowed", 1, _MOST_RULES),)

    task_id: Text
    run_id: Text
    pipeline_id: Text
    started_at: Timestamp
    updated_at: Timestamp
    #: The folder of the run, relative to the repository where it lies in it.
    artifact_root: Text
    log_path: Text
    parent_run_id: Text | None = None
    status: RunStatus = QUEUED
    #: ``interrupted``: a signal ended it, and it can be resumed.
    status_detail: Words | None = None
    #: Renewed every 5 seconds while the run is in progress.
    heartbeat_at: Timestamp | None = None
    #: Null until the run has ended.
    completed_at: Timestamp | None = None
    summary: Words | None = None
    commands: tuple[StepRecord, ...] = ()
    child_runs: tuple[ChildRun, ...] = ()
    #: The isolation that untrusted code ran in.
    sandbox: Text | None = None
    #: Of rlm-ci's table.
    exit_code: ExitCode | None = None
    version: ManifestVersion = VERSION
    #: The rules of the guard that --allow let a fix loop break.
    allowed: tuple[Text, ...] = ()
    recorded_by: Recorder | None = None

    @property
    def has_ended(self) -> bool:
        return self.status in ENDED

    @property
    def is_resumable(self) -> bool:
        """Whether the run may go on: not ended, interrupted, paused, or a failure from outside."""
        if self.recorded_by:
            return False
        if self.status == CANCELLED:
            return self.status_detail == INTERRUPTED or self.pipeline_id in _TAKEN_UP
        if self.status == FAILED:
            return self.exit_code in _OUTSIDE or self.status_detail == PAUSED
        return not self.has_ended

    @property
    def can_be_cancelled(self) -> bool:
        """Whether there is something left to end."""
        goes_on = not (self.has_ended or self.recorded_by) or self.is_resumable
        return self.status_detail != STOPPED and goes_on

    @property
    def spent_budget(self) -> str | None:
        """The budget that ended the run, which goes on with more of it."""
        is_one = self.status == FAILED and self.exit_code == LIMIT
        return self.status_detail if is_one and self.status_detail in BUDGETS else None

    def moved(self, status: str, now: float, **fields: Any) -> Self:
        """The manifest after a transition at ``now``; ValueError for an impossible one."""
        allowed = status in TRANSITIONS[self.status]
        goes_on = not self.has_ended or self.is_resumable or self.spent_budget
        if not allowed or not goes_on:
            raise ValueError(f"a run cannot go from {self.status} to {status}")
        at = timestamp(now)
        ended = {"completed_at": at if status in ENDED else None}
        if status not in ENDED:
            ended |= {"exit_code": None, "status_detail": None}
        return self.replace(**{**ended, "status": status, "updated_at": at, **fields})

    def silent_for(self, now: float) -> float:
        """Seconds since the last heartbeat or change."""
        heard = max(moment(self.heartbeat_at or self.updated_at), moment(self.updated_at))
        return max(0.0, now - heard)

    def _require(self) -> None:
        if self.has_ended != (self.completed_at is not None):
            raise ValueError(f"it is {self.status}: completed_at does not fit")

    def to_dict(self) -> dict[str, Any]:
        """The JSON object of the file, its keys in the order of the contract."""
        record = super().to_dict()
        return {name: record[name] for name in _ORDER if name in record}


def timestamp(now: float) -> str:
    """Seconds since the epoch in ISO 8601, to the millisecond."""
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def write(folder: str, manifest: Manifest) -> None:
    """Replace the manifest in the folder of its run, durably. Raises StorageError."""
    files.write(os.path.join(folder, NAME), to_bytes(manifest), 0o600)


def to_bytes(manifest: Manifest) -> bytes:
    return f"{json.dumps(manifest.to_dict(), indent=2)}\n".encode()


def read(folder: str) -> Manifest:
    """The manifest in the folder of a run. Raises DamagedError."""
    path = os.path.join(folder, NAME)
    return from_record(read_json(path, "the manifest", _HINT), path)


def read_json(path: str, name: str, hint: str) -> Any:
    """The JSON value of a file of a run. Raises DamagedError, which calls the file ``name``."""
    try:
        return json.loads(files.read(path, _LIMIT).decode("utf-8"))
    except files.UnreadableError as error:
        what = f"{name} cannot be read: {error}"
    except (ValueError, RecursionError) as error:
        what = f"{name} is not valid JSON: {printable(str(error))[:200]}"
    raise DamagedError(what, where=path, hint=hint)


def require_version(record: object, newest: int, name: str, where: str) -> None:
    """Raise DamagedError where a newer rlm-ci wrote ``record``."""
    version = record.get("version") if isinstance(record, dict) else None
    if isinstance(version, int) and version > newest:
        has = "have" if name.endswith("s") else "has"
        raise DamagedError(
            f"{name} {has} version {str(version)[:20]}, this rlm-ci knows {newest}",
            where=where,
            hint="install a newer rlm-ci",
        )


def from_record(record: object, where: str) -> Manifest:
    """The manifest of a JSON value. Raises DamagedError."""
    require_version(record, VERSION, "the manifest", where)
    try:
        return Manifest.from_dict(record)
    except DecodeError as error:
        raise DamagedError(f"the manifest is not valid: {error}", where=where, hint=_HINT) from None
