"""Sessions of CPython: a worker in a sandbox, and what the host does while it runs a block."""

from __future__ import annotations

import os
import threading
from time import monotonic

from rlm_ci.environments.repl import states
from rlm_ci.environments.repl.block import ENDED, Block
from rlm_ci.environments.repl.session import BlockResult
from rlm_ci.environments.repl.worker_process import WorkerProcess
from rlm_ci.errors import ConfigError
from rlm_ci.system import files
from rlm_ci.values import Closing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rlm_ci.environments.repl.session import HostFunction, SessionLimits
    from rlm_ci.sandbox.job import Sandbox

_CHUNK = 1 << 20


class CPythonWorkers:
    """Workers of one kind; one is started ahead of its session."""

    def __init__(self, sandbox: Sandbox, limits: SessionLimits, *, ahead: bool) -> None:
        self.sandbox = sandbox
        self.limits = limits
        self._lock = threading.Lock()
        self._ahead = ahead
        self._spare: WorkerProcess | None = None
        if ahead:
            self._spare = WorkerProcess(sandbox, limits)

    def take(self) -> WorkerProcess:
        """The worker that waits; another is started for the next."""
        with self._lock:
            spare, self._spare = self._spare, None
            found = spare or WorkerProcess(self.sandbox, self.limits)
            if self._ahead:
                self._spare = WorkerProcess(self.sandbox, self.limits)
        return found

    def close(self) -> None:
        with self._lock:
            spare, self._spare = self._spare, None
            self._ahead = False
        if spare is not None:
            spare.close()


class CPythonSession(Closing):
    """Blocks of code on the variables of one worker, or of the next when that is lost."""

    def __init__(
        self,
        workers: CPythonWorkers,
        *,
        context: str | None,
        context_name: str,
        functions: dict[str, HostFunction],
        before: Iterable[bytes],
        submit: Callable[[Callable[[], None]], object] | None,
    ) -> None:
        self.name, self.isolated = workers.sandbox.name, workers.sandbox.isolated
        self._workers = workers
        self._limits = workers.limits
        self._names = context_name
        self._functions = functions
        self._submit = submit or (lambda work: work())
        self._parts = states.merged(states.CPYTHON, before)
        self._context = -1 if context is None else _kept(context, self._limits.context)
        self._number = 0
        self._closed = False
        self._worker: WorkerProcess | None = self._opened()

    def _opened(self) -> WorkerProcess:
        """A worker that has the context and the variables."""
        found = self._workers.take()
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
        found.begin(self._functions, self._submit, self._context)
        found.channel.send(order, *self._parts.values())
        return found

    def execute(self, code: str, *, seconds: float) -> BlockResult:
        begun = monotonic()
        if self._closed:
            return _stopped("the session is closed", begun)
        self._worker = self._worker or self._opened()
        self._number += 1
        block = Block(self._worker, self._parts, self._limits)
        try:
            lost = block.run(code, self._number, seconds)
            if lost:
                lost = self._lose(lost)
        except (
            BaseException
        ):  # an interrupt, or a fault of a function: it is in the midst of a block
            self._lose("")
            raise
        state, problem = b"", ""
        if block.saved is not None:
            parts, removed, problem = block.saved
            self._parts.update(parts)
            for number in removed:
                self._parts.pop(number, None)
            state = states.packed(states.CPYTHON, parts, removed)
        error, answer, variables = block.done or ("", None, ())
        if lost:
            error = f"{error}\n{lost}. All variables are as they were before it.".strip()
        return BlockResult(
            block.output(), error, answer, monotonic() - begun, variables, state, problem, lost
        )

    def _lose(self, why: str) -> str:
        """End the worker; in its words why, if the sandbox has stopped it."""
        lost, self._worker = self._worker, None
        return (lost.close(has_ended=why == ENDED) if lost is not None else "") or why

    def close(self) -> None:
        self._closed = True
        self._lose("")
        context, self._context = self._context, -1
        if context >= 0:
            os.close(context)


def _stopped(why: str, begun: float) -> BlockResult:
    return BlockResult("", why, None, monotonic() - begun, (), b"", "", why)


def _kept(path: str, most: int) -> int:
    """A copy of the file at ``path`` in memory, which nothing can change any more."""
    try:
        given = files.open_regular(path, os.O_RDONLY)
        try:
            size = os.fstat(given).st_size
            if size > most:
                raise ConfigError(
                    f"the context has {size:,} bytes, and may have {most:,}", where=path
                )
            return _copied(given)
        finally:
            os.close(given)
    except OSError as error:
        raise ConfigError(
            f"the context cannot be read: {error.strerror}", where=path, hint="name a text file"
        ) from None


def _copied(given: int) -> int:
    import fcntl

    if not hasattr(os, "memfd_create"):  # not Linux, and so no sandbox that a copy protects from
        return os.dup(given)
    copy = os.memfd_create("context", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        while chunk := os.read(given, _CHUNK):
            data = memoryview(chunk)
            while data:
                data = data[os.write(copy, data) :]
        seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
        fcntl.fcntl(copy, fcntl.F_ADD_SEALS, seals)
    except BaseException:
        os.close(copy)
        raise
    return copy
