"""One run, held by this process: its lock, manifest, heartbeat, events and end.

Its holder is its only writer. A process that dies leaves a free lock and a manifest that says
``in_progress``: others see both, and can open the run again.
"""

from __future__ import annotations

import os
import re
import threading
import time
from contextlib import contextmanager, suppress

from rlm_ci import errors
from rlm_ci.errors import INTERNAL, INTERRUPTED, TERMINATED, RlmCiError, StorageError, UsageError
from rlm_ci.runs import CANCELLED, FAILED, IN_PROGRESS, QUEUED, SUCCEEDED, task_summary
from rlm_ci.runs import manifest as manifests
from rlm_ci.runs.checksums import ENDINGS, EVENTS, RUNNER, sum_up
from rlm_ci.runs.delegated import Control
from rlm_ci.runs.inbox import Intake
from rlm_ci.runs.journal.journal import Journal
from rlm_ci.runs.journal.run_event import VERSION, RunEvent
from rlm_ci.runs.manifest import ChildRun, Manifest, StepRecord
from rlm_ci.runs.store import remove_unfinished, require_plain_run
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

#: Characters of one text that an event, and a summary, may have.
_EVENT_TEXT = 16_384
_SUMMARY = 4_000


class Step:
    """A step while it runs: its work sets the fields here. ``log`` is where its output belongs."""

    def __init__(self, run: Run, entry: StepRecord, log: str) -> None:
        self.log = log
        self.passed = True
        self.exit_code: int | None = None
        self.summary: str | None = None
        self.sub_run_id = entry.sub_run_id
        self._run = run
        self._entry = entry

    def started(self, child: Manifest) -> None:
        """Record that the run ``child`` carries out this step."""
        self.sub_run_id = child.run_id
        self._run.add_child(child, self._entry.replace(sub_run_id=child.run_id))


class Run(Closing):
    """A run that this process holds. It redacts all that it writes.

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
        """For ``create`` and ``open``. Raises as Journal.open."""
        self.path = path
        self.manifest = manifest
        self.redactor = redactor
        self.out = out
        self.now = now
        self._lock = lock
        self._state = threading.RLock()
        self._stopped = threading.Event()
        self._heart: threading.Thread | None = None
        #: The ``status_detail`` of its end.
        self.detail: str | None = None
        #: What its results rest on besides its own record, to make them again.
        self.rests_on: Mapping[str, Any] = {}
        #: Whether it has more of the budget that ended it.
        self.raised = False
        #: The manifest before it was resumed.
        self._before: Manifest | None = None
        self._control = Control(path)
        #: The run of which this one carries out a stage: its pause is a pause of both.
        self.above: Run | None = None
        self._intake = Intake(path)
        self._events = Journal.open(os.path.join(path, EVENTS), take=self._intake.seen)

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
        run_id: str | None = None,
        log: str = EVENTS,
        now: Callable[[], float] = time.time,
    ) -> Self:
        """A new run, queued, its manifest on disk. Raises StorageError.

        ``log`` is the file in its folder that tells what happens: the output of a run in the
        background.
        """
        run_id, path = store.new_run(task_id, now, run_id)
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
        """Take over the run in ``path``. Raises LockedError, DamagedError, StorageError."""
        lock = Lock.take_over(os.path.join(path, LOCK))
        try:
            require_plain_run(path)
            manifest = manifests.read(path)
            remove_unfinished(path)
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
        """The path of a file of this run; its folder is made for the owner alone.

        Raises StorageError for a folder that is a link, as a repository may hold one.
        """
        path = os.path.join(self.path, *parts)
        if parts[1:]:
            files.require_inside(self.path, os.path.dirname(path))
        files.make_folder(os.path.dirname(path), 0o700)
        return path

    def shown(self, *parts: str) -> str:
        """The same path, as manifests and messages name it."""
        return "/".join((self.manifest.artifact_root, *parts))

    def begin(self) -> None:
        """Be in progress, with a heartbeat. Raises UsageError where it has ended for good."""
        before = self.manifest
        if not (before.is_resumable or (self.raised and before.spent_budget)):
            raise UsageError(
                f"the run has ended: {before.status}",
                where=before.run_id,
                hint="start a new one",
            )
        resumed = before.status != QUEUED
        self._before = before if resumed else None
        self._control.begin(anew=not resumed)
        payload = {"pipeline_id": before.pipeline_id, "from": before.status}
        self.event("run_resumed" if resumed else "run_started", payload, durable=True)
        steps = tuple(
            step.replace(status="pending") if step.status == "running" else step
            for step in before.commands
        )
        now = self.now()
        fields = {"heartbeat_at": manifests.timestamp(now), "commands": steps}
        with self._state:
            self._write(self.manifest.moved(IN_PROGRESS, now, **fields))
        self._heart = threading.Thread(target=self._beat, name="heartbeat", daemon=True)
        self._heart.start()

    def heed(self) -> None:
        """Raise Paused if a pause was asked for: here the run may stop, and lose nothing."""
        if threading.current_thread() is threading.main_thread():  # only there it ends the run
            self._control.heed()
        if self.above is not None:
            self.above.heed()

    def _beat(self) -> None:
        while not self._stopped.wait(manifests.HEARTBEAT):
            # A full disk ends the run at a write that matters.
            with self._state, suppress(StorageError):
                if self._stopped.is_set():
                    return
                at = manifests.timestamp(self.now())
                self._write(self.manifest.replace(heartbeat_at=at, updated_at=at))
                self._take_in()

    def _take_in(self) -> None:
        """Take in what other processes have posted. Raises StorageError."""
        self._intake.into(self._events, self._clean)
        for child in self._intake.moved(self.manifest.child_runs):
            self.add_child(child)

    def finish(
        self, status: str, *, exit_code: int, summary: str | None = None, detail: str | None = None
    ) -> RlmCiError | None:
        """End the run as ``status``; returns an error of what is written beside its manifest.

        Raises StorageError, and ValueError for an impossible transition.
        """
        before = process.defer()  # interrupts wait until all is written
        try:
            self._still()
            with suppress(StorageError):  # it will be met again
                self._take_in()
            return self._finish(status, exit_code, self._bounded(summary, _SUMMARY), detail)
        finally:
            process.undefer(before)

    def _finish(
        self, status: str, exit_code: int, summary: str | None, detail: str | None
    ) -> RlmCiError | None:
        with self._state:
            texts = {"summary": summary, "status_detail": self._bounded(detail)}
            ended = self.manifest.moved(status, self.now(), exit_code=exit_code, **texts)
            payload = {"status": status, "exit_code": exit_code, **texts, "rests_on": self.rests_on}
            doubt: RlmCiError | None = None
            try:
                payload |= sum_up(self.path, ended)
                self.event(ENDINGS[status], payload, durable=True)
            except StorageError as error:  # perhaps what ended the run
                doubt = error
            try:  # before the manifest: each ended run is in the metrics
                task = os.path.dirname(os.path.dirname(self.path))
                out = os.path.join(self.out, self.task_id)
                task_summary.record(task, out, ended, self.now())
            except RlmCiError as error:
                doubt = error
            self._write(ended)
            return doubt

    def stop(self, error: BaseException) -> RlmCiError | None:
        """End the run by the exception that ended its work.

        After a signal the run is cancelled, ``interrupted``, and can be resumed. A resume that the
        settings refuse leaves the run as it was.
        """
        if isinstance(error, RlmCiError):
            if self._before is not None and error.code in manifests.REFUSALS:
                return self._as_before(self._before, error)
            summary = str(error)
            return self.finish(FAILED, exit_code=error.code, summary=summary, detail=self.detail)
        if isinstance(error, errors.Paused):
            paused = manifests.PAUSED
            return self.finish(FAILED, exit_code=errors.LIMIT, summary=paused, detail=paused)
        if isinstance(error, Exception):
            what = f"internal error: {type(error).__name__}: {error}"
            return self.finish(FAILED, exit_code=INTERNAL, summary=what)
        code = INTERRUPTED if isinstance(error, KeyboardInterrupt) else TERMINATED
        summary = "interrupted" if code == INTERRUPTED else "terminated"
        step = next(
            (command.title for command in self.manifest.commands if command.status == "pending"), ""
        )
        return self.finish(
            CANCELLED,
            exit_code=code,
            summary=f"{summary}: {step}" if step else summary,
            detail=manifests.INTERRUPTED,
        )

    def _as_before(self, before: Manifest, error: RlmCiError) -> RlmCiError | None:
        """End a refused resume as the run was before; one whose process was gone is paused."""
        text = str(error)
        if not before.has_ended:
            return self.finish(FAILED, exit_code=error.code, summary=text, detail=manifests.PAUSED)
        with suppress(StorageError):  # the caller shows the error
            self.event("progress", {"summary": f"not resumed: {text}"})
        code = error.code if before.exit_code is None else before.exit_code
        return self.finish(
            before.status, exit_code=code, summary=before.summary, detail=before.status_detail
        )

    def cancel(self, exit_code: int = TERMINATED) -> RlmCiError | None:
        """End the run for good."""
        with self._state:
            steps = tuple(
                step.replace(status="skipped", summary="cancelled")
                if step.status in ("pending", "running")
                else step
                for step in self.manifest.commands
            )
            self.manifest = self.manifest.replace(commands=steps)
        detail = manifests.STOPPED
        return self.finish(CANCELLED, exit_code=exit_code, summary=detail, detail=detail)

    def close(self) -> None:
        """Release the run; without ``finish`` it stays in progress, to be resumed."""
        self._still()
        self._events.close()
        self._lock.release()
        self._intake.close(self.redactor)

    def _still(self) -> None:
        """Stop the heartbeat: it must not overwrite the manifest of an ended run."""
        self._stopped.set()
        if self._heart is not None:
            self._heart.join()
            self._heart = None

    def event(self, name: str, payload: Mapping[str, Any], *, durable: bool = False) -> None:
        """Append to events.jsonl; a ``durable`` one is on disk when this returns."""
        now = manifests.timestamp(self.now())
        event = RunEvent(
            VERSION, now, self.task_id, self.id, name, RUNNER, self._clean(dict(payload))
        )
        self._events.append(event.to_dict(), durable=durable)

    @contextmanager
    def step(
        self, title: str, command: str = "", *, name: str = "", kind: str = "command"
    ) -> Iterator[Step]:
        """One entry of ``commands[]`` and its events, around the work.

        A step of a resumed run replaces the one of the same ``name`` (default: the title). An
        exception makes it fail, a signal leaves it pending.
        """
        title, command = self._bounded(title) or "", self._bounded(command, _SUMMARY) or ""
        name = name or title or "step"
        entry = self._step_begun(name, title, command, kind)
        slug = re.sub("[^a-z0-9]+", "-", name.lower()).strip("-")[:60] or "step"
        log = f"commands/{entry.index + 1:02}-{slug}.log"
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
            before = next((record for record in self.manifest.commands if record.id == name), None)
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
            summary=self._bounded(step.summary, _SUMMARY),
            log_path=self.shown(log) if os.path.exists(step.log) else None,
            sub_run_id=step.sub_run_id,
        )
        if status != "pending":
            name = "step_completed" if status == SUCCEEDED else "step_failed"
            payload = {"index": ended.index, "id": ended.id, "title": ended.title}
            payload |= {"exit_code": ended.exit_code, "summary": ended.summary}
            self.event(name, payload, durable=True)
        with self._state:
            self._put(ended)

    def skip(self, title: str, command: str = "", *, name: str = "", why: str = "") -> None:
        """Record a step that is not carried out, and the reason."""
        with self._state:
            indices = {record.id: record.index for record in self.manifest.commands}
            index = indices.get(name or title, len(indices))
            texts = self._bounded(title) or "", self._bounded(command, _SUMMARY) or ""
            entry = StepRecord(index, name or title, *texts, status="skipped")
            self._put(entry.replace(summary=self._bounded(why)))

    def add_child(self, child: Manifest, step: StepRecord | None = None) -> None:
        """Record a run that this one started, or its new status, and the step that it is."""
        manifest_path = f"{child.artifact_root}/{manifests.NAME}"
        entry = ChildRun(child.run_id, child.pipeline_id, child.status, manifest_path)
        with self._state:
            others = tuple(
                child_run
                for child_run in self.manifest.child_runs
                if child_run.run_id != child.run_id
            )
            self.manifest = self.manifest.replace(child_runs=(*others, entry))
            if step is not None:
                self._put(step)
            else:
                self._write(self.manifest)

    def set_sandbox(self, name: str, allowed: tuple[str, ...] = ()) -> None:
        """Record the isolation that untrusted code of this run is in, and rules it may break."""
        with self._state:
            self._write(self.manifest.replace(sandbox=name, allowed=allowed))

    def _put(self, entry: StepRecord) -> None:
        commands = list(self.manifest.commands)
        commands[entry.index : entry.index + 1] = [entry]
        at = manifests.timestamp(self.now())
        self._write(self.manifest.replace(commands=tuple(commands), updated_at=at))

    def _write(self, manifest: Manifest) -> None:
        manifests.write(self.path, manifest)
        self.manifest = manifest

    def _bounded(self, text: str | None, limit: int = 1_000) -> str | None:
        """``text`` without secrets, of bounded length."""
        if text is None:
            return None
        text = encodable(self.redactor.text(text))
        left = len(text) - limit
        return text if left <= 0 else f"{text[:limit]}… ({left:,} characters more)"

    def _clean(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._bounded(value, _EVENT_TEXT)
        if isinstance(value, dict):
            return {self._clean(name): self._clean(inner) for name, inner in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._clean(inner) for inner in value]
        return value


def holder_of(path: str) -> LockHolder | None:
    """The process that last took the run in the folder ``path``, alive or not."""
    return holder(os.path.join(path, LOCK))


def is_free(path: str) -> bool:
    """Whether no process holds the run in the folder ``path``. Raises StorageError."""
    return Lock.is_free(os.path.join(path, LOCK))
