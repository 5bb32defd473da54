"""Subagents that an agent starts, as runs below ``.runs``, and the task of its session.

A hook records what its program says: that a subagent started, how it stopped, and the SHA-256 of
its transcript. rlm-ci ran nothing, so the manifest names who recorded it.
"""

from __future__ import annotations

import os
import time
from hashlib import sha256

from rlm_ci.agent_hooks import session as sessions
from rlm_ci.checks.delegation_guard import INDEX, owner_of, read_index
from rlm_ci.errors import ConfigError, RlmCiError
from rlm_ci.runs import (
    CANCELLED,
    FAILED,
    IN_PROGRESS,
    SUCCEEDED,
    id_part,
    is_task_id,
    require_task_id,
)
from rlm_ci.runs import manifest as manifests
from rlm_ci.runs.manifest import Manifest, Recorder
from rlm_ci.runs.store import RunStore
from rlm_ci.system import files
from rlm_ci.text.printable import printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from rlm_ci.agent_hooks.dialects import Event
    from rlm_ci.git.repository import Repository


_LINE = "Task:"


def of_session(event: Event, repository: Repository, task: str | None) -> str:
    """The task of the settings, else that of a line in a prompt, else the branch's; "" for none.

    A line and a branch count only where they name a registered task. Raises RlmCiError.
    """
    if task:
        return require_task_id(task, "the task of the session")
    keys = frozenset(read_index(repository)[0])
    if not keys:
        return ""
    session = sessions.load(sessions.folder_of(repository, event))
    branch = (repository.head_ref() or "").removeprefix("refs/heads/")
    names = [session.task if session else "", *reversed(branch.split("/"))]
    return next((owner for name in names if (owner := owner_of(name, keys))), "")


def of_prompt(prompt: str, repository: Repository) -> str:
    """The registered task that the last line ``Task: ID`` of a prompt names; "" for none."""
    lines = [line.strip() for line in prompt.splitlines()]
    names = [line.removeprefix(_LINE).strip() for line in lines if line.startswith(_LINE)]
    keys = frozenset(read_index(repository)[0]) if names else frozenset()
    return next((owner for name in reversed(names) if (owner := owner_of(name, keys))), "")


#: The pipeline of such a run.
SUBAGENT = "subagent"
_END = "subagent-stop"
#: What a program is called, and where it keeps its transcripts: a variable, or a folder at home.
_PROGRAMS = {
    "claude": ("Claude Code", "CLAUDE_CONFIG_DIR", ".claude"),
    "codex": ("Codex", "CODEX_HOME", ".codex"),
    "copilot": ("GitHub Copilot", "COPILOT_HOME", ".copilot"),
    "cursor": ("Cursor", "CURSOR_CONFIG_DIR", ".cursor"),
}
#: The variables by which hooks know the version; Claude's is ``claude-code_2-1-197_harness``.
_VERSIONS = {
    "claude": "AI_AGENT",
    "copilot": "COPILOT_CLI_BINARY_VERSION",
    "cursor": "CURSOR_VERSION",
}
#: What programs call an end by which a subagent did its work, and one that cut it.
_COMPLETED = ("", "completed", "end_turn")
_CUT_SHORT = ("aborted", "cancelled", "interrupted")
_NO_START = "its start was not recorded"
_LONGEST_TYPE = 40
_LONGEST_LINE = 400
#: Characters of a line in which secrets are looked for: enough for what is written of it.
_LONGEST_READ = 1 << 16
_LONGEST_NAME = 200
_LONGEST_VERSION = 40
#: Bytes of a transcript that are hashed in a fraction of a second.
_TRANSCRIPT_LIMIT = 64 << 20


class RecordOptions(Value):
    """``task`` is that of the settings, if they name one; ``environ`` are the hook's variables."""

    task: str | None
    runs_dir: str
    environ: Mapping[str, str]


def record(event: Event, repository: Repository, options: RecordOptions) -> str:
    """Record that a subagent works, or how it stopped; its last stop counts.

    What a person should know, or "".
    """
    if event.agent not in _PROGRAMS or not (event.subagent_id or event.subagent_type):
        return ""
    try:
        task = of_session(event, repository, options.task)
        if not task:
            return ""
        store = RunStore.at(repository.root, options.runs_dir, options.environ)
        folder = _task_folder(task, event.subagent_type, repository)
        run_id = _run_id(event)
        existing = _existing(event, store, folder, run_id)
        if existing is None and not event.subagent_type:
            return ""  # a helper of the program itself has no type, and no start
        recorder, problem = _recorder(event, options.environ)
        run = _working(existing or _new(store, folder, run_id), recorder)
        if event.name == _END:
            has_start = existing is not None and existing.status_detail != _NO_START
            run = _ended(run, event, options.environ, has_start=has_start)
        manifests.write(store.make(folder, "cli", run.run_id), run)
    except (RlmCiError, OSError, ValueError) as error:
        return f"rlm-ci has not recorded this subagent: {printable(str(error))}"
    return problem


def _task_folder(task: str, kind: str, repository: Repository) -> str:
    """The task of a subagent's run. Raises ConfigError where another registered one has it."""
    keys = frozenset(read_index(repository)[0])
    for part in (id_part(kind, _LONGEST_TYPE), SUBAGENT):
        name = f"{task}-{part}"
        if part and is_task_id(name) and owner_of(name, keys) == owner_of(task, keys):
            return name
    raise ConfigError(
        f"no run of a subagent can be named after {task}", where=INDEX, hint="use a shorter name"
    )


def _run_id(event: Event) -> str:
    """The same for each event about a subagent. Of its own id, which may be anything, a hash."""
    name = event.subagent_id or event.transcript_path or str(time.time_ns())
    key = f"{event.session_id}\0{name}".encode("utf-8", "surrogatepass")
    return f"{event.agent}-{sha256(key).hexdigest()[:16]}"


def _existing(event: Event, store: RunStore, folder: str, run_id: str) -> Manifest | None:
    """The run that an event is about, if it is recorded. Raises RlmCiError.

    A program may not say which subagent stopped (Cursor): the one that has worked the longest.
    """
    store.require_plain(folder, "cli")
    parent = os.path.join(store.root, folder, "cli")
    run = _read(store, folder, run_id)
    if run or event.subagent_id or event.name != _END or not os.path.isdir(parent):
        return run
    others = (name for name in os.listdir(parent) if name.startswith(f"{event.agent}-"))
    runs = (_read(store, folder, name) for name in others)
    working = [
        run
        for run in runs
        if run and run.recorded_by and run.status == IN_PROGRESS
        and run.recorded_by.session_id == _clipped(event.session_id)
    ]  # fmt: skip
    return min(working, key=lambda run: run.started_at, default=None)


def _read(store: RunStore, folder: str, run_id: str) -> Manifest | None:
    store.require_plain(folder, "cli", run_id)
    path = os.path.join(store.root, folder, "cli", run_id)
    if not os.path.lexists(os.path.join(path, manifests.NAME)):
        return None
    run = manifests.read(path)
    if run.recorded_by is None or (run.task_id, run.run_id) != (folder, run_id):
        raise ConfigError(
            "the run of that name is not a recorded one", where=path, hint="move it away"
        )
    return run


def _new(store: RunStore, folder: str, run_id: str) -> Manifest:
    now = manifests.timestamp(time.time())
    shown = f"{store.shown}/{folder}/cli/{run_id}"
    log = f"{shown}/{manifests.NAME}"  # it has no other file
    return Manifest(folder, run_id, SUBAGENT, now, now, shown, log)


def _working(run: Manifest, recorder: Recorder) -> Manifest:
    return run.replace(
        recorded_by=recorder,
        status=IN_PROGRESS,
        status_detail=None,
        updated_at=manifests.timestamp(time.time()),
        completed_at=None,
        summary=None,
    )


def _ended(run: Manifest, event: Event, environ: Mapping[str, str], *, has_start: bool) -> Manifest:
    from rlm_ci.redaction.redactor import Redactor

    lines = (line.strip() for line in event.last_message.splitlines())
    first = next((line for line in lines if line), "")
    status, detail = SUCCEEDED, None if has_start else _NO_START
    if event.outcome not in _COMPLETED:
        status = CANCELLED if event.outcome in _CUT_SHORT else FAILED
        detail = _clipped(event.outcome)
    elif not first:
        status, detail = FAILED, "it stopped without a last message"
    summary = printable(Redactor(environ).text(first[:_LONGEST_READ]))[:_LONGEST_LINE]
    return run.replace(
        status=status, status_detail=detail, completed_at=run.updated_at, summary=summary or None
    )


def _recorder(event: Event, environ: Mapping[str, str]) -> tuple[Recorder, str]:
    """Who recorded a run; and what is wrong with its transcript, or ""."""
    recorder = Recorder(
        _PROGRAMS[event.agent][0],
        _version(event.agent, environ),
        _clipped(event.session_id),
        _clipped(event.subagent_id),
        _clipped(event.subagent_type),
    )
    if event.name != _END or not event.transcript_path:
        return recorder, ""
    try:
        data = _transcript(event, environ)
    except (files.UnreadableError, OSError, ValueError) as error:
        return recorder, f"rlm-ci has not hashed the subagent's transcript: {printable(str(error))}"
    return recorder.replace(
        transcript_sha256=sha256(data).hexdigest(), transcript_bytes=len(data)
    ), ""


def _transcript(event: Event, environ: Mapping[str, str]) -> bytes:
    """The transcript, only from where the program keeps it. Raises UnreadableError, OSError."""
    program, variable, folder = _PROGRAMS[event.agent]
    home = environ.get(variable) or os.path.join(os.path.expanduser("~"), folder)
    path = os.path.realpath(event.transcript_path)
    if not files.below(os.path.realpath(home), path):
        raise files.UnreadableError(f"it is not in the folder of {program}, {home}")
    return files.read(path, _TRANSCRIPT_LIMIT)


def _version(agent: str, environ: Mapping[str, str]) -> str | None:
    parts = environ.get(_VERSIONS.get(agent, ""), "").replace("-", ".").split("_")
    numbers = (part for part in parts if part.isascii() and part.replace(".", "").isdigit())
    return next(numbers, "")[:_LONGEST_VERSION] or None


def _clipped(text: str) -> str:
    return printable(text)[:_LONGEST_NAME]
