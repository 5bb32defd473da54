"""One job on several cores: forks of this process take its pieces, each the next free one.

Counting holds Python's lock, so threads would not help. A fork copies one thread only, and a lock
that another thread held stays locked in it, so a process with threads does not fork.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from functools import partial

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, NoReturn

#: More gain nothing: memory is the limit, and a container may have fewer cores than it shows.
MOST = 4
#: The numbers of all pieces fit into one page, the least that a pipe holds.
PIECES = 1024
_NUMBER = 4


def processes(requested: int | None = None) -> int:
    """The number of processes: ``requested``, or our cores; one if a fork is not safe."""
    if sys.platform != "linux":
        return 1
    try:
        alone = len(os.listdir("/proc/self/task")) == 1
    except OSError:
        return 1
    return min(MOST, requested or len(os.sched_getaffinity(0))) if alone else 1


def share(
    pieces: int, work: Callable[[int], None], result: Callable[[], Any], workers: int
) -> list[Any]:
    """Do ``work(number)`` once for each number below ``pieces``, on up to ``workers`` processes.

    Returns the ``result()``, as JSON, of each other process. The pieces of a process that ended
    without one are done again here. ``pieces`` is at most ``PIECES``. Raises what ``work`` raises.
    """
    done: set[int] = set()
    results = []
    queue = _queue(pieces) if workers > 1 else None
    if queue is not None:
        children: list[_Copy] = []
        serve = partial(_serve, queue, work, result, os.getpid())
        try:
            with suppress(OSError):  # no process or descriptor left: use fewer
                for _ in range(workers - 1):
                    _Copy(children, serve)
            for number in _taken(queue):
                work(number)
                done.add(number)
            for child in children:
                if (report := child.finish()) is not None:
                    results.append(report["result"])
                    done.update(report["done"])
        finally:
            for child in children:
                child.end()
            os.close(queue)
    for number in range(pieces):
        if number not in done:
            work(number)
    return results


def _serve(
    queue: int, work: Callable[[int], None], result: Callable[[], Any], parent: int
) -> dict[str, Any]:
    """The work of a fork; it stops when its parent has ended."""
    done = []
    for number in _taken(queue):
        work(number)
        done.append(number)
        if os.getppid() != parent:
            break
    return {"done": done, "result": result()}


def _queue(pieces: int) -> int | None:
    """A pipe with the numbers of all pieces, to read from; None if no descriptor is left."""
    try:
        source, sink = os.pipe()
    except OSError:
        return None
    with os.fdopen(sink, "wb") as stream:
        stream.write(b"".join(n.to_bytes(_NUMBER, "little") for n in range(pieces)))
    return source


def _taken(queue: int) -> Iterator[int]:
    """The pieces that are left; only one process reads a number."""
    while number := os.read(queue, _NUMBER):
        yield int.from_bytes(number, "little")


class _Copy:
    """A fork of this process, and the pipe for its result."""

    def __init__(self, children: list[_Copy], work: Callable[[], Any]) -> None:
        """Start it, and add it to ``children``. Raises OSError."""
        import signal

        from rlm_ci.system.process import INTERRUPTS

        self._source, sink = os.pipe()
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, INTERRUPTS)
        try:
            self._pid = os.fork()
            if not self._pid:
                _live(work, sink, mask)
            children.append(self)
        except BaseException:
            os.close(self._source)
            raise
        finally:
            os.close(sink)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def finish(self) -> Any:
        """Wait for its result; None if it ended without."""
        data = bytearray()
        while part := os.read(self._source, 1 << 16):
            data += part
        return json.loads(data) if self.end(kill=False) == 0 else None

    def end(self, *, kill: bool = True) -> int:
        """End it, and return its exit code; safe to repeat."""
        import signal

        if not self._pid:
            return 0
        if kill:
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
        status = -1
        with suppress(ChildProcessError):  # another handler has waited for it
            status = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        self._pid = 0
        os.close(self._source)
        return status


def _live(work: Callable[[], Any], sink: int, mask: set[Any]) -> NoReturn:
    """Run a fork, without its parent's exit handlers."""
    import gc
    import signal

    from rlm_ci.system.process import INTERRUPTS

    code = 1
    gc.disable()
    try:
        for signals in INTERRUPTS:  # the handlers are the parent's, which ends us
            signal.signal(signals, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        unsent = memoryview(json.dumps(work()).encode())
        while unsent:
            unsent = unsent[os.write(sink, unsent) :]
        code = 0
    finally:
        os._exit(code)
