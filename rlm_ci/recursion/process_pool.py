"""An executor on processes of this machine, which may die.

A thread of ours serves each worker. So a killed worker fails only the leaf that it had, unlike
with ``ProcessPoolExecutor``. A worker gets next to nothing of our environment, which may hold
secrets, and leads a process group: what it started is killed with it.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import socket
import sys
import threading
from concurrent.futures import Executor, Future

from rlm_ci.config.settings import environment
from rlm_ci.models.record import errors
from rlm_ci.system import process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection
    from typing import Any, Final

    Call = tuple[Future[Any], Callable[..., Any], tuple[Any, ...]]

#: The program of a worker, with our module search path.
_PROGRAM: Final = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from rlm_ci.recursion.process_pool import work
work(0)
"""


class LostError(Exception):
    """The process ended before it was done: killed, or out of memory."""


class ProcessPool(Executor):
    """``count`` processes; a call and what it returns go through ``pickle``."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._calls: queue.SimpleQueue[Call | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._pids: set[int] = set()
        self._closed = False
        self._threads: list[threading.Thread] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        if kwargs:
            raise TypeError("calls take no names")
        if self._closed:
            raise RuntimeError("the workers have been stopped")
        if len(self._threads) < self.count:
            thread = threading.Thread(target=self._serve, daemon=True)
            self._threads.append(thread)
            thread.start()
        future: Future[Any] = Future()
        self._calls.put((future, fn, args))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002 - the signature of an Executor
        """End the workers; with ``cancel_futures`` at once."""
        self._closed = True
        if cancel_futures:
            with contextlib.suppress(queue.Empty):
                while (call := self._calls.get_nowait()) is not None:
                    call[0].cancel()
            with self._lock:
                for pid in self._pids:
                    _kill(pid)
        for _ in self._threads:
            self._calls.put(None)
        if wait:
            for thread in self._threads:
                thread.join()

    def _serve(self) -> None:
        """Pass calls to one worker, in order."""
        worker: tuple[int, Connection] | None = None
        while (call := self._calls.get()) is not None:
            future, function, arguments = call
            if not future.set_running_or_notify_cancel():
                continue
            try:
                worker = worker or self._started()
                worker[1].send((function, arguments))
                is_well, result = worker[1].recv()
            except (EOFError, OSError):
                self._end(worker)
                worker = None
                future.set_exception(LostError("the process that was at it ended"))
            except BaseException as error:  # noqa: BLE001 - it cannot be pickled
                future.set_exception(error)
            else:
                if is_well:
                    future.set_result(result)
                else:
                    future.set_exception(errors.from_dict(result))
        self._end(worker)

    def _started(self) -> tuple[int, Connection]:
        """A new worker. Raises OSError; EOFError after ``shutdown``."""
        from multiprocessing.connection import Connection

        parent_end, child_end = socket.socketpair()
        nothing = os.open(os.devnull, os.O_RDWR)
        argv = [sys.executable, "-I", "-S", "-c", _PROGRAM, json.dumps(sys.path)]
        current = environment()
        environ = {name: current[name] for name in ("PATH", "HOME", "TMPDIR") if name in current}
        try:
            with self._lock:
                if self._closed:
                    raise EOFError
                descriptors = (child_end.fileno(), nothing, nothing)
                pid = process.spawn(argv, {"LC_ALL": "C.UTF-8", **environ}, descriptors, ())
                self._pids.add(pid)
            return pid, Connection(parent_end.detach())
        finally:
            parent_end.close()
            child_end.close()
            os.close(nothing)

    def _end(self, worker: tuple[int, Connection] | None) -> None:
        if worker is None:
            return
        pid, connection = worker
        connection.close()
        with self._lock:
            self._pids.discard(pid)
            _kill(pid)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)


def _kill(pid: int) -> None:
    # macOS refuses to signal a group of which only the zombie is left.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def work(descriptor: int) -> None:
    """Carry out calls in a worker, until the other end closes."""
    from multiprocessing.connection import Connection

    connection = Connection(os.dup(descriptor))
    while True:
        try:
            function, arguments = connection.recv()
            answer = True, function(*arguments)
        except (EOFError, ConnectionError):
            return
        except Exception as error:  # noqa: BLE001 - sent to the caller
            answer = False, errors.to_dict(error, str)
        try:
            connection.send(answer)
        except OSError:
            return
        except Exception as error:  # noqa: BLE001 - it cannot be pickled
            connection.send((False, errors.to_dict(error, str)))


def cores() -> int:
    """The number of processors that we may use."""
    if not hasattr(process, "spawn"):  # Windows
        return 1
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # macOS
        return os.cpu_count() or 1
