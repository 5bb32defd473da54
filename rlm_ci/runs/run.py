"""One run, held by this process: its lock, its manifest and heartbeat, its events, its end.

Whoever holds the run is its only writer. A process that dies leaves the lock free and a
manifest that says ``in_progress``: others see both, and the run can be opened again.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import contextmanager, suppress

from rlm_ci.errors import INTERNAL, INTERRUPTED, TERMINATED, RlmCiError, StorageError, UsageError
from rlm_ci.runs import CANCELLED, FAILED, IN_PROGRESS, QUEUED, SUCCEEDED, run_folder, task_summary
from rlm_ci.runs import manifest as manifests
from rlm_ci.runs.checksums import ENDINGS, EVENTS, sum_up
from rlm_ci.runs.journal.journal import Journal
from rlm_ci.runs.manifest import ChildRun, Manifest, StepRecord
from rlm_ci.system import files, process
from rlm_ci.system.lock import NAME as LOCK
from rlm_ci.system.lock import Lock, holder
from rlm_ci.text.printable import encodable
from rlm_ci.values import Closing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any, Self

    from rlm_ci.redaction.redactor import Redactor
    from rlm_ci.runs.store import RunStore
    from rlm_ci.system.lock import LockHolder

EVENT_VERSION = 1
#: Characters of one text that an event, and a summary, may have.
_EVENT_TEXT = 16_384
_SUMMARY = 4_000


class Step:
    """A step while it runs: whoever carries it out says here how it ended."""

    def __init__(self, run: Run, entry: StepRecord, log: str) -> None:
        #: Where its output belongs.
        self.log = log
        self.passed = True
        self.exit_code: int | None = None
        self.summary: str | None = None
        #: The run that carries it out, where another one does: also that of an earlier try.
        self.sub_run_id = entry.sub_run_id
        self._run = run
        self._entry = entry

    def started(self, child: Manifest) -> None:
        """Another run carries out this step; known from now on, whatever becomes of us."""
        self.sub_run_id = child.run_id
        self._run.add_child(child, self._entry.replace(sub_run_id=child.run_id))


class Run(Closing):
    """A run that this process holds. Everything said to it is redacted before it is written.

    ``out`` is the folder of all tasks' ``state.json``; ``now`` gives seconds since the epoch.
    """

    def __init__(
        self,
        path: str,
        manifest: Manifest,
        lock: Lock,
        *,
        redactor: Redactor,
        out: str,
        now: Callable[[], float] = time.time,
    ) -> None:
        """For ``create`` and ``open``, which hold the lock already. Raises as Journal.open."""
        self.path = path
        self.manifest = manifest
        self.redactor = redactor
        self.out = out
        self.now = now
        self._lock = lock
        self._state = threading.RLock()
        self._stopped = threading.Event()
        self._heart: threading.Thread | None = None
        #: What the work has to say about its end besides the exit code.
        self.detail: str | None = None
        #: What its results rest on besides its own record, to make them again.
        self.rests_on: Mapping[str, Any] = {}
        #: Whether it is given more of the budget that has ended it.
        self.raised = False
        #: As it stood before somebody let it go on, where somebody did.
        self._before: Manifest | None = None
        self._events = Journal.open(os.path.join(path, EVENTS))

    @classmethod
    def create(
        cls,
        store: RunStore,
        task_id: str,
        *,
        pipeline_id: str,
        redactor: Redactor,
        out: str,
        parent_run_id: str | None = None,
        log: str = EVENTS,
        now: Callable[[], float] = time.time,
    ) -> Self:
        """A new run, queued, its manifest on disk. Raises StorageError.

        ``log`` is the file in its folder that tells what happens: one in the background has its
        own, to which all is written that it prints.
        """
        run_id, path = store.new_run(task_id, now)
        lock = Lock.take(os.path.join(path, LOCK))
        try:
            at = manifests.timestamp(now())
            shown = f"{store.shown}/{task_id}/cli/{run_id}"
            manifest = Manifest(
                task_id, run_id, pipeline_id, at, at, shown, f"{shown}/{log}", parent_run_id
            )
            manifests.write(path, manifest)
            return cls(path, manifest, lock, redactor=redactor, out=out, now=now)
        except BaseException:
            lock.release()
            raise

    @classmethod
    def open(
        cls, path: str, *, redactor: Redactor, out: str, now: Callable[[], float] = time.time
    ) -> Self:
        """Take over the run in the folder ``path``, its journal recovered.

        Raises LockedError while another process holds it, DamagedError, StorageError.
        """
        lock = Lock.take(os.path.join(path, LOCK))
        try:
            run_folder.require_plain(path)
            manifest = manifests.read(path)
            run_folder.sweep(path)
            return cls(path, manifest, lock, redactor=redactor, out=out, now=now)
        except BaseException:
            lock.release()
            raise

    @property
    def id(self) -> str:
        return self.manifest.run_id

    @property
    def task_id(self) -> str:
        return self.manifest.task_id

    def path_of(self, *parts: str) -> str:
        """Where a file of this run lies, its folder made for the owner alone."""
        path = os.path.join(self.path, *parts)
        files.make_folder(os.path.dirname(path), 0o700)
        return path

    def shown(self, *parts: str) -> str:
        """The same file, as manifests and messages name it."""
        return "/".join((self.manifest.artifact_root, *parts))

    # -- its life --------------------------------------------------------------------------

    def begin(self) -> None:
        """In progress from here on, with a heartbeat. UsageError where it has ended for good."""
        before = self.manifest
        if not (before.is_resumable or (self.raised and before.spent_budget)):
            raise UsageError(
                f"the run has ended: {before.status}",
                where=before.run_id,
                hint="start a new one",
            )
        resumed = before.status != QUEUED
        self._before = before if resumed else None
        payload = {"pipeline_id": before.pipeline_id, "from": before.status}
        self.event("run_resumed" if resumed else "run_started", payload, durable=True)
        steps = tuple(
            step.replace(status="pending") if step.status == "running" else step
            for step in before.commands
        )
        at = manifests.timestamp(self.now())
        self._move(IN_PROGRESS, heartbeat_at=at, commands=steps)
        self._heart = threading.Thread(target=self._beat, name="heartbeat", daemon=True)
        self._heart.start()

    def _beat(self) -> None:
        while not self._stopped.wait(manifests.HEARTBEAT):
            # A full disk ends the run where it writes what matters, not here.
            with self._state, suppress(StorageError):
                if self._stopped.is_set():
                    return
                at = manifests.timestamp(self.now())
                self._write(self.manifest.replace(heartbeat_at=at, updated_at=at))

    def finish(
        self, status: str, *, exit_code: int, summary: str | None = None, detail: str | None = None
    ) -> RlmCiError | None:
        """End the run as ``status``; what could not be told of it beside its manifest is returned.

        Raises StorageError, and ValueError for a transition that there is not.
        """
        before = process.defer()  # it is told whole, however often we are interrupted
        try:
            self._still()
            return self._finish(status, exit_code, self._said(summary, _SUMMARY), detail)
        finally:
            process.undefer(before)

    def _finish(
        self, status: str, exit_code: int, summary: str | None, detail: str | None
    ) -> RlmCiError | None:
        with self._state:
            said = {"summary": summary, "status_detail": self._said(detail)}
            ended = self.manifest.moved(status, self.now(), exit_code=exit_code, **said)
            payload = {"status": status, "exit_code": exit_code, **said, "rests_on": self.rests_on}
            doubt: RlmCiError | None = None
            try:
                payload |= sum_up(self.path, ended)
                self.event(ENDINGS[status], payload, durable=True)
            except StorageError as error:  # it may be what ends the run
                doubt = error
            try:  # before the manifest: a run that has ended is in the metrics
                task = os.path.dirname(os.path.dirname(self.path))
                out = os.path.join(self.out, self.task_id)
                task_summary.record(task, out, ended, self.now())
            except RlmCiError as error:
                doubt = error
            self._write(ended)
            return doubt

    def stop(self, error: BaseException) -> RlmCiError | None:
        """End the run by what ended the work in it: a failure, or a signal's exception.

        After a signal the run is cancelled, ``interrupted``, and can be resumed. Where it was to
        go on, and settings or a missing key refuse that, it is what it was: they can be fixed.
        """
        if isinstance(error, RlmCiError):
            if self._before is not None and error.code in manifests.REFUSALS:
                return self._as_before(self._before, error)
            summary = str(error)
            return self.finish(FAILED, exit_code=error.code, summary=summary, detail=self.detail)
        if isinstance(error, Exception):
            what = f"internal error: {type(error).__name__}: {error}"
            return self.finish(FAILED, exit_code=INTERNAL, summary=what)
        code = INTERRUPTED if isinstance(error, KeyboardInterrupt) else TERMINATED
        return self.finish(CANCELLED, exit_code=code, detail=manifests.INTERRUPTED)

    def _as_before(self, before: Manifest, error: RlmCiError) -> RlmCiError | None:
        """Let the run stand as it stood; one whose process was gone waits for somebody."""
        said = str(error)
        if not before.has_ended:
            return self.finish(FAILED, exit_code=error.code, summary=said, detail=manifests.PAUSED)
        with suppress(StorageError):  # it is told by whoever has asked
            self.event("progress", {"summary": f"not resumed: {said}"})
        code = error.code if before.exit_code is None else before.exit_code
        return self.finish(
            before.status, exit_code=code, summary=before.summary, detail=before.status_detail
        )

    def cancel(self, exit_code: int = TERMINATED) -> RlmCiError | None:
        """End the run for good, at somebody's wish."""
        with self._state:
            steps = tuple(
                step.replace(status="skipped", summary="cancelled")
                if step.status in ("pending", "running")
                else step
                for step in self.manifest.commands
            )
            self.manifest = self.manifest.replace(commands=steps)
        return self.finish(CANCELLED, exit_code=exit_code, detail=manifests.STOPPED)

    def close(self) -> None:
        """Let go of the run; without ``finish`` it stays in progress, to be resumed."""
        self._still()
        self._events.close()
        self._lock.release()

    def _still(self) -> None:
        """No heartbeat from here on: a manifest that has ended is never written over."""
        self._stopped.set()
        if self._heart is not None:
            self._heart.join()
            self._heart = None

    # -- what happens in it ------------------------------------------------------------------

    def event(
        self,
        name: str,
        payload: Mapping[str, Any],
        *,
        actor: str = "runner",
        durable: bool = False,
    ) -> None:
        """Append to events.jsonl; a ``durable`` one is on disk when this returns."""
        self._events.append(
            {
                "schema_version": EVENT_VERSION,
                "timestamp": manifests.timestamp(self.now()),
                "task_id": self.task_id,
                "run_id": self.id,
                "event": name,
                "actor": actor,
                "payload": self._clean(dict(payload)),
            },
            durable=durable,
        )

    @contextmanager
    def step(
        self, title: str, command: str = "", *, name: str = "", kind: str = "command"
    ) -> Iterator[Step]:
        """One entry of ``commands[]`` while its work is done, with events around it.

        ``name`` (default: the title) is its identity: a step of a resumed run takes the place
        of the one that it repeats. An exception makes it fail, a signal leaves it pending.
        """
        title, command = self._said(title) or "", self._said(command, _SUMMARY) or ""
        name = name or title or "step"
        entry = self._step_begun(name, title, command, kind)
        log = f"commands/{entry.index + 1:02}-{_slug(name)}.log"
        step = Step(self, entry, self.path_of(*log.split("/")))
        try:
            yield step
        except Exception as error:
            step.passed, step.summary = False, step.summary or str(error)
            self._step_ended(entry, step, FAILED, log)
            raise
        except BaseException:
            self._step_ended(entry, step, "pending", log)
            raise
        self._step_ended(entry, step, SUCCEEDED if step.passed else FAILED, log)

    def _step_begun(self, name: str, title: str, command: str, kind: str) -> StepRecord:
        at = manifests.timestamp(self.now())
        with self._state:
            before = next((one for one in self.manifest.commands if one.id == name), None)
            index = len(self.manifest.commands) if before is None else before.index
            entry = StepRecord(index, name, title, command, kind, "running", at)
            if before is not None:
                entry = entry.replace(sub_run_id=before.sub_run_id)
            self._put(entry)
        self.event("step_started", {"index": index, "id": name, "title": title})
        return entry

    def _step_ended(self, entry: StepRecord, step: Step, status: str, log: str) -> None:
        ended = entry.replace(
            status=status,
            completed_at=manifests.timestamp(self.now()),
            exit_code=step.exit_code,
            summary=self._said(step.summary, _SUMMARY),
            log_path=self.shown(log) if os.path.exists(step.log) else None,
            sub_run_id=step.sub_run_id,
        )
        if status != "pending":
            name = "step_completed" if status == SUCCEEDED else "step_failed"
            told = {"index": ended.index, "id": ended.id, "title": ended.title}
            told |= {"exit_code": ended.exit_code, "summary": ended.summary}
            self.event(name, told, durable=True)
        with self._state:
            self._put(ended)

    def skip(self, title: str, command: str = "", *, name: str = "", why: str = "") -> None:
        """A step that is not carried out, and the reason."""
        with self._state:
            known = {one.id: one.index for one in self.manifest.commands}
            index = known.get(name or title, len(known))
            said = self._said(title) or "", self._said(command, _SUMMARY) or ""
            entry = StepRecord(index, name or title, *said, status="skipped")
            self._put(entry.replace(summary=self._said(why)))

    def add_child(self, child: Manifest, step: StepRecord | None = None) -> None:
        """Record a run that this one started, or how it stands now.

        ``step`` is the entry of ``commands[]`` that it carries out.
        """
        place = f"{child.artifact_root}/{manifests.NAME}"
        entry = ChildRun(child.run_id, child.pipeline_id, child.status, place)
        with self._state:
            others = tuple(one for one in self.manifest.child_runs if one.run_id != child.run_id)
            self.manifest = self.manifest.replace(child_runs=(*others, entry))
            if step is not None:
                self._put(step)
            else:
                self._write(self.manifest)

    def set_sandbox(self, name: str, allowed: tuple[str, ...] = ()) -> None:
        """Record the isolation that untrusted code of this run is in, and rules it may break."""
        with self._state:
            self._write(self.manifest.replace(sandbox=name, allowed=allowed))

    # -- writing -----------------------------------------------------------------------------

    def _put(self, entry: StepRecord) -> None:
        commands = list(self.manifest.commands)
        commands[entry.index : entry.index + 1] = [entry]
        at = manifests.timestamp(self.now())
        self._write(self.manifest.replace(commands=tuple(commands), updated_at=at))

    def _move(self, status: str, **fields: Any) -> None:
        with self._state:
            self._write(self.manifest.moved(status, self.now(), **fields))

    def _write(self, manifest: Manifest) -> None:
        manifests.write(self.path, manifest)
        self.manifest = manifest

    def _said(self, text: str | None, limit: int = 1_000) -> str | None:
        """A text for the manifest: without secrets, of bounded length."""
        return None if text is None else self._clean_text(text, limit)

    def _clean_text(self, text: str, limit: int) -> str:
        text = encodable(self.redactor.text(text))
        left = len(text) - limit
        return text if left <= 0 else f"{text[:limit]}… ({left:,} characters more)"

    def _clean(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._clean_text(value, _EVENT_TEXT)
        if isinstance(value, dict):
            return {self._clean(name): self._clean(inner) for name, inner in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._clean(inner) for inner in value]
        return value


def holder_of(path: str) -> LockHolder | None:
    """Who took the run in the folder ``path`` last and has not let go; alive or not."""
    return holder(os.path.join(path, LOCK))


def is_free(path: str) -> bool:
    """Whether no process holds the run in the folder ``path``. Raises StorageError."""
    return Lock.is_free(os.path.join(path, LOCK))


def _slug(name: str) -> str:
    """``name`` as part of a file's name."""
    kept = "".join(char if char.isascii() and char.isalnum() else "-" for char in name.lower())
    return "-".join(part for part in kept.split("-") if part)[:60] or "step"
