"""Sessions of CPython: a worker in a sandbox, and what the host does while it runs a block."""

from __future__ import annotations

import os
import threading
from time import monotonic

from rlm_ci.environments.repl import states
from rlm_ci.environments.repl.block import ENDED, Block
from rlm_ci.environments.repl.session import BlockResult, LockedSession
from rlm_ci.environments.repl.worker_process import WorkerProcess

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from rlm_ci.environments.repl.session import HostFunction, SessionLimits
    from rlm_ci.sandbox.job import Sandbox


#: Why a closed session runs nothing.
CLOSED = "The session is closed"


class CPythonWorkers:
    """Workers of one kind; one is started ahead of its session."""

    def __init__(self, sandbox: Sandbox, limits: SessionLimits, *, ahead: bool) -> None:
        self.sandbox = sandbox
        self.limits = limits
        self._lock = threading.Lock()
        self._ahead = ahead
        self._spare: WorkerProcess | None = None
        self.prepare()

    def prepare(self) -> None:
        """Start the worker of the next session, unless one waits."""
        with self._lock:
            if self._ahead and self._spare is None:
                self._spare = WorkerProcess(self.sandbox, self.limits)

    def take(self) -> WorkerProcess:
        """The worker that waits, or a new one."""
        with self._lock:
            spare, self._spare = self._spare, None
        return spare or WorkerProcess(self.sandbox, self.limits)

    def close(self) -> None:
        with self._lock:
            spare, self._spare = self._spare, None
            self._ahead = False
        if spare is not None:
            spare.close()


class CPythonSession(LockedSession):
    """Blocks of code on the variables of one worker, or of the next when that is lost."""

    def __init__(
        self,
        workers: CPythonWorkers,
        *,
        context: int | None,
        context_name: str,
        functions: dict[str, HostFunction],
        parts: dict[int, bytes],
        submit: Callable[[Callable[[], None]], object] | None,
    ) -> None:
        super().__init__()
        self.name, self.isolated = workers.sandbox.name, workers.sandbox.isolated
        self._workers = workers
        self._limits = workers.limits
        self._names = context_name
        self._functions = functions
        self._submit = submit or (lambda work: work())
        self._parts = parts
        self._context = context
        self._number = 0
        self._worker: WorkerProcess | None = self._opened()

    def _opened(self) -> WorkerProcess:
        """A worker that has the context and the variables."""
        process = self._workers.take()
        limits = self._limits
        order = {
            "type": "open",
            "functions": list(self._functions),
            "context_name": self._names,
            "parts": [[number, len(data)] for number, data in self._parts.items()],
            "limits": {
                name: getattr(limits, name) for name in ("request", "error", "answer", "state")
            },
        }
        process.begin(self._functions, self._submit, self._context)
        process.channel.send(order, *self._parts.values())
        return process

    def _execute(self, code: str, seconds: float) -> BlockResult:
        begun = monotonic()
        if self._closed:
            return BlockResult("", CLOSED, None, 0.0, (), b"", "", CLOSED)
        self._worker = self._worker or self._opened()
        self._number += 1
        block = Block(self._worker, self._parts, self._limits)
        try:
            lost = block.run(code, self._number, seconds)
            if lost:
                lost = self._lose(lost)
        except BaseException:  # an interrupt, or a fault of a function
            self._lose("")
            raise
        self._workers.prepare()  # not before: it would be in the way of this block
        state, problem = b"", ""
        if block.saved is not None:
            parts, removed, problem = block.saved
            self._parts.update(parts)
            for number in removed:
                self._parts.pop(number, None)
            state = states.packed(states.CPYTHON, parts, removed)
        error, answer, variables = block.done or ("", None, ())
        if lost:
            error = f"{error}\n{lost}. All variables are as they were before this block.".strip()
        return BlockResult(
            block.output(), error, answer, monotonic() - begun, variables, state, problem, lost
        )

    def _lose(self, why: str) -> str:
        """End the worker; in its words why, if the sandbox has stopped it."""
        lost, self._worker = self._worker, None
        reason = lost.close(has_ended=why == ENDED) if lost is not None else ""
        return CLOSED if self._closed else reason or why

    def _stop(self) -> None:
        if (running := self._worker) is not None:
            running.stop()

    def _end(self) -> None:
        self._lose("")
        context, self._context = self._context, None
        if context is not None:
            os.close(context)
