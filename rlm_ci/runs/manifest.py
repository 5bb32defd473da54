"""The manifest of a run, written by the process that holds it and read strictly by all others.

``schemas/manifest.schema.json`` is the same for other programs.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime

from rlm_ci.errors import CONFIG, LIMIT, REMOTE, STORAGE, UNAVAILABLE, USAGE, DamagedError
from rlm_ci.runs import CANCELLED, FAILED, IN_PROGRESS, QUEUED, SUCCEEDED
from rlm_ci.system import files
from rlm_ci.text.object_id import is_object_id
from rlm_ci.text.printable import printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Self

    _Shape = dict[str, Callable[[Any], bool]]

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
_STATUSES = tuple(TRANSITIONS)
#: Exit codes of failures outside of the run: it may go on.
_OUTSIDE = (UNAVAILABLE, REMOTE, STORAGE)
#: Exit codes of a refused resume: they leave the run as it was.
REFUSALS = (USAGE, CONFIG)
_HINT = "another program wrote it, or it was changed: restore it, or remove the run's folder"
_LIMIT = 4 << 20
_TEXT = 1 << 16
#: Hex digits of a SHA-256.
_SHA256 = 64


class StepRecord(Value):
    """One step of a run; ``kind`` is "command" or "subpipeline", whose run is ``sub_run_id``."""

    index: int
    id: str
    title: str
    command: str
    kind: str = "command"
    status: str = "pending"
    started_at: str | None = None
    completed_at: str | None = None
    exit_code: int | None = None
    summary: str | None = None
    log_path: str | None = None
    sub_run_id: str | None = None


class ChildRun(Value):
    """A run that this one started, with its last known status."""

    run_id: str
    pipeline_id: str
    status: str
    manifest: str


class Recorder(Value):
    """The agent's program whose hook recorded the run of a subagent, which rlm-ci did not run.

    ``transcript_sha256`` is that of the transcript's first ``transcript_bytes`` at its end; None
    if it was not read.
    """

    program: str
    version: str | None
    session_id: str
    subagent_id: str
    subagent_type: str
    transcript_sha256: str | None = None
    transcript_bytes: int | None = None

    @property
    def name(self) -> str:
        return f"{self.program} {self.version}" if self.version else self.program


class Manifest(Value):
    """The record of one run: timestamps in UTC, paths relative to the repository if inside.

    ``allowed`` are the rules of a fix loop's guard that may be broken. ``recorded_by`` is who
    recorded a run that is not of rlm-ci.
    """

    task_id: str
    run_id: str
    pipeline_id: str
    started_at: str
    updated_at: str
    artifact_root: str
    log_path: str
    parent_run_id: str | None = None
    status: str = QUEUED
    status_detail: str | None = None
    heartbeat_at: str | None = None
    completed_at: str | None = None
    summary: str | None = None
    commands: tuple[StepRecord, ...] = ()
    child_runs: tuple[ChildRun, ...] = ()
    sandbox: str | None = None
    exit_code: int | None = None
    version: int = VERSION
    allowed: tuple[str, ...] = ()
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

    def to_record(self) -> dict[str, Any]:
        """The JSON object of the file, its keys in the order of the contract."""
        record = {name: getattr(self, name) for name in _MANIFEST}
        for name in ("commands", "child_runs"):
            record[name] = [one.to_dict() for one in record[name]]
        record |= {"allowed": list(self.allowed)} if self.allowed else {}
        return record | ({"recorded_by": self.recorded_by.to_dict()} if self.recorded_by else {})


def timestamp(now: float) -> str:
    """Seconds since the epoch in ISO 8601, to the millisecond."""
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def moment(text: str) -> float:
    """The seconds since the epoch that a timestamp means; ValueError when it is none."""
    if not text.endswith("Z") or "T" not in text:
        raise ValueError(text)
    return datetime.fromisoformat(text).timestamp()


def write(folder: str, manifest: Manifest) -> None:
    """Replace the manifest in the folder of its run, durably. Raises StorageError."""
    files.write(os.path.join(folder, NAME), to_bytes(manifest), 0o600)


def to_bytes(manifest: Manifest) -> bytes:
    return f"{json.dumps(manifest.to_record(), indent=2)}\n".encode()


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


def require_version(record: object, known: int, name: str, where: str) -> None:
    """Raise DamagedError where a newer rlm-ci wrote ``record``."""
    version = record.get("version") if isinstance(record, dict) else None
    if isinstance(version, int) and version > known:
        has = "have" if name.endswith("s") else "has"
        raise DamagedError(
            f"{name} {has} version {str(version)[:20]}, this rlm-ci knows {known}",
            where=where,
            hint="install a newer rlm-ci",
        )


def from_record(record: object, where: str) -> Manifest:
    """The manifest of a JSON value. Raises DamagedError."""
    require_version(record, VERSION, "the manifest", where)
    known = record if isinstance(record, dict) else {}
    shape = _MANIFEST | {name: judge for name, judge in _OPTIONAL.items() if name in known}
    fields = _checked(record, shape, "the manifest", where)
    fields["allowed"] = tuple(fields.get("allowed", ()))
    if "recorded_by" in fields:
        recorder = _checked(fields["recorded_by"], _RECORDER, "recorded_by", where)
        fields["recorded_by"] = Recorder(**recorder)
    inner: tuple[tuple[str, type[Value], _Shape], ...] = (
        ("commands", StepRecord, _COMMAND),
        ("child_runs", ChildRun, _CHILD),
    )
    for name, kind, shape in inner:
        fields[name] = tuple(
            kind(**_checked(one, shape, f"{name}[{index}]", where))
            for index, one in enumerate(fields[name])
        )
    manifest = Manifest(**fields)
    if manifest.has_ended != (manifest.completed_at is not None):
        raise _damaged(f"the manifest is {manifest.status}: completed_at does not fit", where)
    return manifest


def _checked(record: object, shape: _Shape, what: str, where: str) -> dict[str, Any]:
    """``record``, which has exactly the keys of ``shape`` and values that it accepts."""
    if not isinstance(record, dict):
        raise _damaged(f"{what} is not a JSON object", where)
    for name in shape:
        if name not in record:
            raise _damaged(f"{what} has no {name}", where)
    for name, value in record.items():
        judge = shape.get(name)
        if judge is None:
            raise _damaged(f"{what} has the unknown key {printable(name)[:80]!r}", where)
        if not judge(value):
            shown = printable(json.dumps(value))[:80]
            raise _damaged(f"{name} in {what} cannot be {shown}", where)
    return dict(record)


def _damaged(what: str, where: str) -> DamagedError:
    return DamagedError(what, where=where, hint=_HINT)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _TEXT


def _is_rules(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_text, value))


def _is_said(value: object) -> bool:
    return isinstance(value, str) and len(value) <= _TEXT


def is_time(value: object) -> bool:
    try:
        return isinstance(value, str) and len(value) <= 40 and moment(value) >= 0
    except (ValueError, OverflowError):
        return False


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < 1 << 53


def _is_code(value: object) -> bool:
    return type(value) is int and -255 <= value <= 255


def _one_of(*choices: str) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and value in choices


def _or_null(judge: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or judge(value)


def _is_list(value: object) -> bool:
    return isinstance(value, list)


_COMMAND: _Shape = {
    "index": _is_count,
    "id": _is_text,
    "title": _is_said,
    "command": _is_said,
    "kind": _one_of("command", "subpipeline"),
    "status": _one_of(*STEP_STATUSES),
    "started_at": _or_null(is_time),
    "completed_at": _or_null(is_time),
    "exit_code": _or_null(_is_code),
    "summary": _or_null(_is_said),
    "log_path": _or_null(_is_text),
    "sub_run_id": _or_null(_is_text),
}
_CHILD: _Shape = {
    "run_id": _is_text,
    "pipeline_id": _is_text,
    "status": _one_of(*_STATUSES),
    "manifest": _is_text,
}
_MANIFEST: _Shape = {
    "version": lambda value: _is_count(value) and value == VERSION,
    "task_id": _is_text,
    "run_id": _is_text,
    "parent_run_id": _or_null(_is_text),
    "pipeline_id": _is_text,
    "status": _one_of(*_STATUSES),
    "status_detail": _or_null(_is_said),
    "started_at": is_time,
    "updated_at": is_time,
    "heartbeat_at": _or_null(is_time),
    "completed_at": _or_null(is_time),
    "artifact_root": _is_text,
    "log_path": _is_text,
    "summary": _or_null(_is_said),
    "commands": _is_list,
    "child_runs": _is_list,
    "sandbox": _or_null(_is_text),
    "exit_code": _or_null(_is_code),
}
_OPTIONAL: _Shape = {"allowed": _is_rules, "recorded_by": lambda value: isinstance(value, dict)}
_RECORDER: _Shape = {
    "program": _is_text,
    "version": _or_null(_is_text),
    "session_id": _is_said,
    "subagent_id": _is_said,
    "subagent_type": _is_said,
    "transcript_sha256": _or_null(lambda value: is_object_id(value) and len(value) == _SHA256),
    "transcript_bytes": _or_null(_is_count),
}
