"""Sessions of CPython: a worker in a sandbox, and what the host does while it runs a block."""

from __future__ import annotations

import os
import select
import threading
from contextlib import suppress
from time import monotonic

from rlm_ci.environments.repl import states
from rlm_ci.environments.repl.session import BlockResult, LockedSession
from rlm_ci.environments.repl.worker_process import BrokenFrameError, Frame, WorkerProcess, is_count
from rlm_ci.system.process_stream import Clip

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rlm_ci.environments.repl.session import HostFunction, SessionLimits
    from rlm_ci.sandbox.job import Sandbox


#: Seconds for a worker to start.
_STARTING = 60.0
_CHUNK = 1 << 18
#: What a pipe holds at most: more has been printed since.
_PIPE = 1 << 20
_MOST_SHOWN = 200
_MOST_PARTS = 100_000
ENDED = "The Python process closed its channel and was stopped"


class Block:
    """Runs one block of code in a worker that has the variables ``parts``."""

    def __init__(
        self, worker: WorkerProcess, parts: Mapping[int, bytes], limits: SessionLimits
    ) -> None:
        self._worker = worker
        self._parts = parts
        self._limits = limits
        self._clip = Clip(limits.output // 2, limits.output - limits.output // 2)
        self._is_open = True
        #: Error, answer and variables; and parts, numbers of those that are gone, and problems.
        self.done: tuple[str, str | None, tuple[tuple[str, str, int], ...]] | None = None
        self.saved: tuple[dict[int, bytes], list[int], str] | None = None

    def output(self) -> str:
        return self._clip.clipped().text()

    def run(self, code: str, number: int, seconds: float) -> str:
        """Run it; why the worker is lost, or "". Raises what a function of the host raises."""
        worker = self._worker
        worker.channel.send({"type": "run", "code": code, "number": number})
        try:
            self._seconds = seconds
            return self._serve()
        except EOFError:
            return ENDED
        except BrokenFrameError as error:
            self.done = self.saved = None
            return f"The block broke the protocol of the session ({error}) and was stopped"
        finally:
            self._drain()

    def _serve(self) -> str:
        worker, poll = self._worker, select.poll()
        poll.register(worker.output, select.POLLIN)
        poll.register(worker.alarm, select.POLLIN)
        self._left = self._seconds if worker.is_ready else _STARTING
        while self.saved is None:
            waits = select.POLLOUT if worker.channel.flush() else 0
            poll.register(worker.channel, select.POLLIN | waits)
            # While the host owes an answer, the time is not the block's.
            is_ours = bool(worker.calls) and self.done is None
            begun = monotonic()
            for descriptor, _ in poll.poll(None if is_ours else max(0.0, self._left) * 1000 + 1):
                if descriptor == worker.output:
                    if not self._read() and not self._is_open:
                        poll.unregister(worker.output)
                elif descriptor == worker.alarm:
                    worker.send_answers()
                else:
                    for frame in worker.channel.receive():
                        begun += self._take(frame)
            if not is_ours:
                self._left -= monotonic() - begun
                if self._left <= 0 and self.saved is None:
                    return self._late()
        return ""

    def _late(self) -> str:
        if not self._worker.is_ready:
            return f"The Python process did not start within {_STARTING:g} s"
        if self.done is None:
            return f"The block ran for more than {self._seconds:g} s and was stopped"
        return f"The variables could not be kept within {self._limits.saving:g} s"

    def _take(self, frame: Frame) -> float:
        """Do what a frame asks for; the seconds that this took of the host's."""
        fields = frame.fields
        if frame.kind == "ready" and not self._worker.is_ready:
            self._worker.ready()
            self._left = self._seconds
        elif frame.kind == "call" and self._worker.is_ready:
            begun = monotonic()
            self._worker.call(frame)
            return monotonic() - begun
        elif frame.kind == "done" and self._worker.is_ready and self.done is None:
            self.done = self._checked(fields["error"], fields["answer"], fields["variables"])
            self._left = self._limits.saving
        elif frame.kind == "state" and self.done is not None and self.saved is None:
            self.saved = self._state(frame)
        else:
            raise BrokenFrameError("a frame came at a time when none of its kind may")
        return 0.0

    def _checked(
        self, error: str, answer: str | None, variables: list[object]
    ) -> tuple[str, str | None, tuple[tuple[str, str, int], ...]]:
        limits = self._limits
        if len(error) > limits.error + 100 or len(answer or "") > limits.answer:
            raise BrokenFrameError("an answer is too long")
        if len(variables) > _MOST_SHOWN:
            raise BrokenFrameError("there are too many variables")
        shown = []
        for variable in variables:
            match variable:
                case [str(name), str(kind), int(size)] if (
                    is_count(size) and len(name + kind) <= 200
                ):
                    shown.append((name, kind, size))
                case _:
                    raise BrokenFrameError("a variable is described in another way")
        return error, answer, tuple(shown)

    def _state(self, frame: Frame) -> tuple[dict[int, bytes], list[int], str]:
        parts: dict[int, bytes] = {}
        at = 0
        for field in frame.fields["parts"]:
            match field:
                case [number, size] if is_count(number) and is_count(size) and number not in parts:
                    parts[number] = frame.payload[at : at + size]
                    at += size
                case _:
                    raise BrokenFrameError("a state has parts of another form")
        removed = frame.fields["removed"]
        problem = frame.fields["problem"]
        if at != len(frame.payload) or not all(map(is_count, removed)) or len(problem) > 20_000:
            raise BrokenFrameError("a state has another form")
        gone = {*removed}
        merged = {
            number: part for number, part in {**self._parts, **parts}.items() if number not in gone
        }
        if sum(map(len, merged.values())) > self._limits.state or len(merged) > _MOST_PARTS:
            raise BrokenFrameError("a state is too large")
        return parts, removed, problem

    def _read(self) -> int:
        """Take in a piece of output; how much it was."""
        with suppress(BlockingIOError):
            chunk = os.read(self._worker.output, _CHUNK)
            self._clip.add(chunk)
            self._is_open = bool(chunk)
            return len(chunk)
        return 0

    def _drain(self) -> None:
        """Take in what was printed before the end, and no more than that."""
        left = _PIPE
        while left > 0 and (count := self._read()):
            left -= count


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
