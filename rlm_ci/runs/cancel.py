"""End a run that another process holds, and no other process."""

from __future__ import annotations

import os
import select
import signal
import time
from contextlib import suppress

from rlm_ci.errors import TERMINATED, ConfigError
from rlm_ci.runs import CANCELLED, QUEUED
from rlm_ci.runs import manifest as manifests
from rlm_ci.runs.delegated import is_delegated
from rlm_ci.runs.run import Run, holder_of, is_free
from rlm_ci.runs.store import sibling
from rlm_ci.system import files
from rlm_ci.system.lock import ProcessStatus
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rlm_ci.redaction.redactor import Redactor
    from rlm_ci.runs.manifest import Manifest
    from rlm_ci.system.lock import LockHolder

#: Seconds that a run has to end by itself.
GRACE = 10.0
_LOOK = 0.05
#: The variable by which every command of a run is known.
MARK = "CODEX_ORCHESTRATOR_RUN_ID"
#: A file in a run's folder while it is being cancelled: its process then offers no way on.
SIGN = ".cancelling"


class CancelledRun(Value):
    """The manifest now, whether this call ended the run, and what happened to its process:
    "" (there was none), "ended" or "killed".
    """

    manifest: Manifest
    ended_now: bool
    process: str = ""


def cancel(
    path: str, manifest: Manifest, *, redactor: Redactor, out: str, grace: float = GRACE
) -> CancelledRun:
    """End the run in the folder ``path``, and those that are its steps, not delegated ones.

    Its process gets SIGTERM, and after ``grace`` seconds SIGKILL with all that it has started. A
    run that has ended stays as it is. Raises LockedError where another process still holds the
    run, ConfigError where its process belongs to another user, DamagedError, StorageError.
    """
    if not manifest.can_be_cancelled:
        return CancelledRun(manifest, ended_now=False)
    holder = None if is_free(path) else holder_of(path)
    process = ""
    if holder is not None and holder.alive:
        mark = os.path.join(path, SIGN)
        files.write(mark, b"")
        try:
            process = _end(path, holder, grace)
        finally:
            files.clear(mark)
    end_leftovers(manifest.run_id)
    with Run.open(path, redactor=redactor, out=out) as run:
        if not run.manifest.can_be_cancelled:
            return CancelledRun(run.manifest, ended_now=False, process=process)
        for child in run.manifest.child_runs:
            inner = sibling(path, child.run_id)
            if inner is not None and not is_delegated(inner):
                ended = cancel(inner, manifests.read(inner), redactor=redactor, out=out)
                run.add_child(ended.manifest)
        run.cancel()
        return CancelledRun(run.manifest, ended_now=True, process=process)


def interrupt(path: str, *, redactor: Redactor, out: str, grace: float = GRACE) -> None:
    """End the run in the folder ``path`` as a signal does: it can be resumed.

    One whose process does not come is cancelled for good. Raises as ``cancel``.
    """
    until = time.monotonic() + grace
    while manifests.read(path).status == QUEUED and time.monotonic() < until:
        time.sleep(_LOOK)
    holder = holder_of(path)
    if holder is not None and holder.alive:
        _end(path, holder, grace)
    with Run.open(path, redactor=redactor, out=out) as run:
        end_leftovers(run.id)
        if run.manifest.status == QUEUED:
            run.cancel()
        elif not run.manifest.has_ended:  # it was killed
            run.finish(CANCELLED, exit_code=TERMINATED, detail=manifests.INTERRUPTED)


def end_leftovers(run_id: str) -> None:
    """Kill the commands that a killed run left running.

    The run's id in their environment shows them. This process and its ancestors are spared: a
    command of a run may cancel it.
    """
    table = _processes()
    spared, pid = set(), os.getpid()
    while pid in table and pid not in spared:
        spared.add(pid)
        pid = table[pid].parent
    for pid, status in table.items():
        if pid not in spared and _carries(pid, run_id):
            target = _Target.of(pid, status.started)
            if target is not None:
                with suppress(PermissionError):
                    target.send(signal.SIGKILL)
                target.close()


def _carries(pid: int, run_id: str) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as stream:
            return f"{MARK}={run_id}".encode() in stream.read().split(b"\0")
    except OSError:  # it has ended, or is another user's
        return False


def _end(path: str, holder: LockHolder, grace: float) -> str:
    target = _Target.of(holder.pid, holder.started)
    # Look again now that we have a handle: from here on the number cannot mean another process.
    again = holder_of(path)
    if target is None or again is None or again.pid != holder.pid or not again.alive:
        return "ended"
    try:
        target.send(signal.SIGTERM)
        if target.ends_within(grace):
            return "ended"
        target.kill_tree()
        target.ends_within(grace)
        return "killed"
    except PermissionError:
        raise ConfigError(
            f"process {holder.pid} belongs to another user",
            where=path,
            hint="cancel the run as the user who started it",
        ) from None
    finally:
        target.close()


class _Target:
    """A process, by a handle that no other process can get."""

    def __init__(self, pid: int, started: str, handle: int) -> None:
        self.pid = pid
        self._started = started
        self._handle = handle

    @classmethod
    def of(cls, pid: int, started: str) -> _Target | None:
        """None when that process has ended."""
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            return None
        except (AttributeError, OSError):  # not Linux: the number has to do
            handle = -1
        target = cls(pid, started, handle)
        if started and ProcessStatus.of(pid).started != started:
            target.close()
            return None
        return target

    def close(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)

    def send(self, number: int) -> None:
        with suppress(ProcessLookupError):
            if self._handle >= 0:
                signal.pidfd_send_signal(self._handle, number)
            else:
                os.kill(self.pid, number)

    def ends_within(self, seconds: float) -> bool:
        if self._handle >= 0:
            return bool(select.select([self._handle], [], [], seconds)[0])
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                os.kill(self.pid, 0)
            except ProcessLookupError:
                return True
            time.sleep(_LOOK)
        return False

    def kill_tree(self) -> None:
        """Kill it and all its descendants, stopped first so that they start nothing."""
        tree: dict[int, _Target] = {self.pid: self}
        try:
            self.send(signal.SIGSTOP)
            while new := self._unseen(tree):
                for target in new:
                    tree[target.pid] = target
                    with suppress(PermissionError):
                        target.send(signal.SIGSTOP)
            for target in tree.values():
                with suppress(PermissionError):
                    target.send(signal.SIGKILL)
        finally:
            for target in tree.values():
                if target is not self:
                    target.close()

    def _unseen(self, known_targets: dict[int, _Target]) -> list[_Target]:
        """Descendants, and members of a session of its own, not in ``known_targets``."""
        targets = (
            _Target.of(pid, status.started)
            for pid, status in _processes().items()
            if pid not in known_targets
            and (status.parent in known_targets or status.session == self.pid)
        )
        return [target for target in targets if target is not None]


def _processes() -> dict[int, ProcessStatus]:
    """All processes by their number; none where the system is not Linux."""
    try:
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except FileNotFoundError:
        return {}
    statuses = {pid: ProcessStatus.of(pid) for pid in pids}
    return {pid: status for pid, status in statuses.items() if status.started}
