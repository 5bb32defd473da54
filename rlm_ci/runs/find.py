"""List, find and remove the runs of a store."""

from __future__ import annotations

import os
import shlex
import stat
import time
from contextlib import suppress

from rlm_ci.errors import (
    CONFIG,
    UNAVAILABLE,
    USAGE,
    DamagedError,
    LockedError,
    RlmCiError,
    StorageError,
    UsageError,
)
from rlm_ci.git.repository import discover
from rlm_ci.runs import (
    FAILED,
    IN_PROGRESS,
    QUEUED,
    is_run_id,
    is_task_id,
    new_run_id,
    request,
)
from rlm_ci.runs import manifest as manifests
from rlm_ci.runs.journal.journal import replay
from rlm_ci.runs.run import holder_of
from rlm_ci.system import files
from rlm_ci.system.lock import NAME as LOCK
from rlm_ci.system.lock import Lock
from rlm_ci.text.printable import printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlm_ci.runs.manifest import Manifest
    from rlm_ci.runs.store import RunStore

LATEST = "latest"
DAMAGED = "damaged"
#: The status of a run that goes on by its manifest, while no process holds it.
GONE = "gone"
#: The journal of what a run asked and ran, and the kinds of its facts that come before any of it.
CALLS = "calls.jsonl"
_BEFORE_WORK = frozenset(("benchmark", "clock", "context", "mode", "terms"))
_REFUSED_BY = (USAGE, UNAVAILABLE, CONFIG)
_SHOWN = 5
#: An unknown name is compared with so many of the newest runs.
_COMPARED = 1000
#: Seconds after which the end of a recorded subagent is no longer waited for.
_UNREPORTED = 86_400.0


class FoundRun(Value):
    """A run in the store. ``manifest_path`` names its manifest in messages; where ``manifest`` is
    None, ``problem`` says what is wrong with it.
    """

    task_id: str
    run_id: str
    path: str
    manifest_path: str
    manifest: Manifest | None = None
    problem: RlmCiError | None = None

    @property
    def run(self) -> Manifest:
        """The manifest; raises DamagedError where it cannot be read."""
        if self.manifest is not None:
            return self.manifest
        raise self.problem or DamagedError("there is no manifest", where=self.manifest_path)

    @property
    def order(self) -> tuple[str, float, str]:
        """Sorts the run that was started last behind all others."""
        if self.manifest is None:
            return (self.run_id[:20], 0.0, self.run_id)
        started = manifests.moment(self.manifest.started_at)
        is_recorded = self.manifest.recorded_by is not None  # its id has no time
        stamp = new_run_id(started) if is_recorded else self.run_id
        return (stamp[:20], started, self.run_id)

    @property
    def is_resumable(self) -> bool:
        """Whether the run may go on, by its request; replays and runs of stages have none."""
        return self.run.is_resumable and request.is_kept(self.path)

    @property
    def can_be_raised(self) -> bool:
        """Whether the run goes on with more of the budget that ended it."""
        return self.run.spent_budget is not None and request.is_kept(self.path)

    @property
    def was_refused(self) -> bool:
        """Whether the run ended at its start, before it ran or asked anything."""
        run = self.run
        if run.status != FAILED or run.exit_code not in _REFUSED_BY:
            return False
        if any(step.log_path for step in run.commands):
            return False
        with suppress(RlmCiError):
            calls = replay(os.path.join(self.path, CALLS), live=True)
            return all(call.get("kind") in _BEFORE_WORK for call in calls)
        return False

    def is_gone(self, now: float) -> bool:
        """Whether an unfinished run has no process, or was queued in silence for too long."""
        if self.manifest is None or self.manifest.has_ended:
            return False
        if self.manifest.recorded_by:  # its process is not ours to look for
            return self.manifest.silent_for(now) > _UNREPORTED
        holder = holder_of(self.path)
        if holder is not None and (holder.alive or self.manifest.status == IN_PROGRESS):
            return not holder.alive
        return self.manifest.silent_for(now) > manifests.STALE

    def is_going(self, now: float) -> bool:
        """Whether the run is queued or in progress, and not gone."""
        return self.status_at(now) in (QUEUED, IN_PROGRESS)

    def status_at(self, now: float) -> str:
        """The status of the manifest, or ``GONE``, or ``DAMAGED``."""
        if self.manifest is None:
            return DAMAGED
        return GONE if self.is_gone(now) else self.manifest.status

    def read(self) -> FoundRun:
        """The same run, read again."""
        return _entry(self.task_id, self.run_id, self.path, self.manifest_path)


def entries(store: RunStore, task_id: str | None = None) -> list[FoundRun]:
    """All runs, or those of one task, the newest first; broken ones are among them.

    Raises StorageError when the store cannot be listed; one that is not there is empty.
    """
    runs = [_in_store(store, task, run) for task, run in _own_runs(store, task_id)]
    return sorted(runs, key=lambda entry: entry.order, reverse=True)


def brought(store: RunStore) -> int:
    """How many runs came with the repository; they are not listed or found."""
    return sum(store.is_brought(task, run) for task, run in _folders(store, None))


def _own_runs(store: RunStore, task_id: str | None) -> Iterator[tuple[str, str]]:
    return (folder for folder in _folders(store, task_id) if not store.is_brought(*folder))


def _folders(store: RunStore, task_id: str | None) -> Iterator[tuple[str, str]]:
    """Task and run of each folder that may hold a run, in no order."""
    store.require_plain()
    for task in _names(store.root):
        if task_id in (None, task):
            for run in _names(os.path.join(store.root, task, "cli"), tolerant=True):
                yield task, run


def _in_store(store: RunStore, task: str, run: str) -> FoundRun:
    shown = f"{store.shown}/{task}/cli/{run}/{manifests.NAME}"
    return _entry(task, run, os.path.join(store.root, task, "cli", run), shown)


def _names(folder: str, *, tolerant: bool = False) -> list[str]:
    """The real folders in ``folder`` that may be ours, no links; none where it is not there."""
    if tolerant and os.path.islink(folder):
        return []
    try:
        with os.scandir(folder) as listing:
            return [
                entry.name
                for entry in listing
                if is_task_id(entry.name) and entry.is_dir(follow_symlinks=False)
            ]
    except FileNotFoundError:
        return []
    except OSError as error:
        if tolerant:
            return []
        raise StorageError(
            f"the runs cannot be listed: {error.strerror}",
            where=folder,
            hint="make it a folder that you can read",
        ) from None


def _entry(task: str, run: str, path: str, shown_path: str) -> FoundRun:
    try:
        manifest = manifests.read(path)
    except DamagedError as error:
        return FoundRun(task, run, path, shown_path, problem=error)
    if (manifest.task_id, manifest.run_id) != (task, run):
        problem = DamagedError(
            f"the manifest is that of the run {printable(manifest.run_id)[:80]}",
            where=shown_path,
            hint="a run must lie in <task-id>/cli/<run-id>: move it back, or remove it",
        )
        return FoundRun(task, run, path, shown_path, problem=problem)
    return FoundRun(task, run, path, shown_path, manifest)


def find(store: RunStore, word: str, task_id: str | None = None) -> FoundRun:
    """The run that ``word`` means: an id, a unique prefix of one, a manifest path, ``latest``.

    Raises UsageError where it means none or several, and the run's own DamagedError.
    """
    entry = locate(store, word, task_id)
    if entry.problem is not None:
        raise entry.problem
    return entry


def locate(store: RunStore, word: str, task_id: str | None = None) -> FoundRun:
    """As ``find``, but also a run whose manifest cannot be read."""
    if "/" in word or os.sep in word or word == manifests.NAME:
        return _at(store, word)
    if word == LATEST:
        return _latest(entries(store, task_id))
    # By name, so that of thousands of manifests only one is read.
    pairs = sorted(_own_runs(store, task_id), key=lambda pair: pair[1], reverse=True)
    ids = [run for _, run in pairs]
    if not is_task_id(word):
        raise _unknown(f"{printable(word)[:80]!r} is not the id of a run", ids, word)
    matches = [pair for pair in pairs if pair[1] == word]
    matches = matches or [pair for pair in pairs if pair[1].startswith(word)]
    if not matches:
        raise _unknown(f"there is no run {word[:80]!r}", ids, word)
    if len(matches) > 1:
        listed = ", ".join(run for _, run in matches[:_SHOWN])
        more = f" and {len(matches) - _SHOWN} more" if len(matches) > _SHOWN else ""
        raise UsageError(
            f"{len(matches)} runs begin with {word[:80]!r}",
            where="RUN",
            hint=f"write more of it: {listed}{more}",
        )
    return _in_store(store, *matches[0])


def _latest(runs: list[FoundRun]) -> FoundRun:
    """The newest run that did something, and that no other run started as one of its steps."""
    inner = {
        child_run.run_id
        for entry in runs
        if entry.manifest
        for child_run in entry.manifest.child_runs
    }
    outer_runs = [run for run in runs if run.manifest is not None and run.run_id not in inner]
    of_rlm_ci = (run for run in outer_runs if not (run.run.recorded_by or run.was_refused))
    for entry in (*of_rlm_ci, *outer_runs):
        return entry
    raise UsageError("there are no runs yet", where="RUN", hint="start one with: rlm-ci start")


def _at(store: RunStore, word: str) -> FoundRun:
    """The run whose manifest, or folder, lies at the path ``word``, in a store or in another."""
    path = word
    if not os.path.lexists(path) and word.startswith(f"{store.shown}/"):
        path = os.path.join(store.root, word[len(store.shown) + 1 :])
    if os.path.basename(path) == manifests.NAME:
        path = os.path.dirname(path)
    path = os.path.abspath(path)
    task_folder, cli = os.path.split(os.path.dirname(path))
    task, run = os.path.basename(task_folder), os.path.basename(path)
    try:
        is_folder = stat.S_ISDIR(os.lstat(path).st_mode)
    except (OSError, ValueError):
        is_folder = False
    is_run = cli == "cli" and is_folder and is_task_id(task) and is_task_id(run)
    if not is_run or store.is_brought_at(path):
        raise UsageError(
            f"there is no run at {printable(word)[:200]}",
            where="RUN",
            hint=f"name a manifest: {store.shown}/<task-id>/cli/<run-id>/{manifests.NAME}",
        )
    return _entry(task, run, path, word)


def require_in(store: RunStore, entry: FoundRun) -> None:
    """Raise UsageError for a run outside of ``store``: its request is about another repository."""
    store_path = os.path.join(os.path.realpath(store.root), entry.task_id, "cli", entry.run_id)
    if os.path.realpath(entry.path) != store_path:
        elsewhere, git_dir = discover(os.path.realpath(entry.path))
        raise UsageError(
            "that run belongs to another repository, or to no one",
            where=entry.manifest_path,
            hint=f"add -C {shlex.quote(elsewhere)}" if git_dir else f"name one below {store.root}",
        )


def _unknown(what: str, ids: list[str], word: str) -> UsageError:
    from difflib import get_close_matches

    close = get_close_matches(word[:200], [*ids[:_COMPARED], LATEST], 3, 0.5)
    if close:
        hint = f"did you mean {' or '.join(close)}?"
    elif ids:
        hint = f"the newest is {ids[0]}; rlm-ci list shows all"
    else:
        hint = "there are no runs yet; start one with: rlm-ci start"
    return UsageError(what, where="RUN", hint=hint)


def prune(
    store: RunStore, seconds: float, now: float, task_id: str | None = None
) -> list[FoundRun]:
    """Remove the runs that were silent for more than ``seconds`` before ``now``; returns them.

    A run that a process holds stays, and so does a folder that rlm-ci did not make. Raises
    StorageError for one that cannot be removed.
    """
    return [
        entry
        for entry in entries(store, task_id)
        if _age(entry, now) > seconds
        and (entry.manifest is not None or is_run_id(entry.run_id))
        and _remove(entry)
    ]


def _age(entry: FoundRun, now: float) -> float:
    if entry.manifest is not None:
        return entry.manifest.silent_for(now)
    try:
        return now - os.stat(entry.path, follow_symlinks=False).st_mtime
    except OSError:
        return 0.0


def _remove(entry: FoundRun) -> bool:
    """Remove a run; False where a process holds it."""
    # Rename it first: a run that is half removed must not look like one.
    doomed = os.path.join(os.path.dirname(entry.path), f".{entry.run_id}.removed")
    path = entry.path
    try:
        with Lock.take(os.path.join(path, LOCK)):
            os.rename(path, doomed)
        path = doomed
        files.clear(path)
    except LockedError:
        return False
    except OSError as error:
        raise files.storage_error(error, path) from None
    return True


def wait_for_end(entry: FoundRun) -> FoundRun:
    """The run once it has ended, or its process is gone; the pauses grow."""
    pause = 0.1
    while entry.is_going(time.time()):
        time.sleep(pause)
        pause = min(2.0, pause * 1.25)
        entry = entry.read()
    return entry
