"""A few threads for things that wait for somebody else, with results in the order asked."""

from __future__ import annotations

import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeVar

    T = TypeVar("T")


def in_order(
    tasks: Sequence[Callable[[], T]], concurrency: int
) -> tuple[list[T | None], BaseException | None]:
    """What each of ``tasks`` returned, and the error of the first one that raised.

    They are begun in order, up to ``concurrency`` at once. After an error none is begun any
    more; those under way end, and what they return is kept. None stands for those that raised
    or were not begun. An interrupt of the caller is raised at once: whoever is under way then
    is left alone, on a thread that keeps no process from ending.
    """
    results: list[T | None] = [None] * len(tasks)
    failures: dict[int, BaseException] = {}
    waiting = iter(range(len(tasks)))
    lock = threading.Lock()
    stop = threading.Event()

    def work() -> None:
        while True:
            with lock:
                index = None if stop.is_set() else next(waiting, None)
            if index is None:
                return
            try:
                results[index] = tasks[index]()
            except BaseException as error:  # noqa: BLE001 - raised again by whoever asked
                failures[index] = error
                stop.set()

    # Not an executor: the interpreter waits for the threads of one before it ends.
    count = min(concurrency, len(tasks))
    threads = [threading.Thread(target=work, daemon=True) for _ in range(count)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    except BaseException:
        stop.set()
        raise
    return results, failures[min(failures)] if failures else None
