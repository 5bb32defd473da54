"""A few threads for tasks that wait, with results in order."""

from __future__ import annotations

import threading
from contextvars import copy_context

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeVar

    T = TypeVar("T")

#: Seconds without the end of a task after which a thread is added.
_PATIENCE = 0.005
#: Seconds after which the caller looks for a signal that the kernel gave to another thread.
_ALERTNESS = 0.2


def in_order(
    tasks: Sequence[Callable[[], T]], concurrency: int
) -> tuple[list[T | None], BaseException | None]:
    """The result of each task, and the error of the first that raised.

    Tasks begin in order, up to ``concurrency`` at once. After an error no more begin; those under
    way end. Each has the context of the caller. The result is None for a task that raised or did
    not begin. An interrupt of the caller is raised at once; daemon threads keep the rest.

    A thread is added whenever no task has ended for a few milliseconds: threads whose tasks hardly
    wait only take the interpreter's lock from each other.
    """
    results: list[T | None] = [None] * len(tasks)
    failures: dict[int, BaseException] = {}
    waiting = iter(range(len(tasks)))
    lock = threading.Lock()
    stop = threading.Event()
    ended: list[int] = []

    def work() -> None:
        while True:
            with lock:
                index = None if stop.is_set() else next(waiting, None)
            if index is None:
                return
            try:
                results[index] = tasks[index]()
            except BaseException as error:  # noqa: BLE001 - returned to the caller
                failures[index] = error
                stop.set()
            ended.append(index)

    # Not an executor: the interpreter waits for its threads before it ends.
    count = min(concurrency, len(tasks))
    threads = [
        threading.Thread(target=copy_context().run, args=(work,), daemon=True) for _ in range(count)
    ]
    try:
        for thread in threads:
            thread.start()
            seen = -1
            while seen < len(ended) and threads[0].is_alive():
                seen = len(ended)
                threads[0].join(_PATIENCE)
        for thread in threads:
            while thread.is_alive():
                thread.join(_ALERTNESS)
    except BaseException:
        stop.set()
        raise
    return results, failures[min(failures)] if failures else None
