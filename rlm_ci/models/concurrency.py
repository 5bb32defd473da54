"""How many threads of a run ask a model at once.

A thread gives its turn to another while it writes its answer to the disk.
"""

from __future__ import annotations

import threading
from collections import deque
from contextlib import contextmanager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


class ConcurrencyLimit:
    """``count`` turns."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._lock = threading.Lock()
        #: A gate for each thread that waits; threads that already had a turn come first.
        self._again: deque[threading.Lock] = deque()
        self._fresh: deque[threading.Lock] = deque()

    @contextmanager
    def one(self) -> Iterator[None]:
        """Have a turn; it may be given back before the end, and taken again."""
        self._take(self._fresh)
        _own.turns = self
        _own.has = True
        try:
            yield
        finally:
            give()
            _own.turns = None

    def again(self) -> None:
        self._take(self._again)

    def _take(self, waiting: deque[threading.Lock]) -> None:
        with self._lock:
            if self._free:
                self._free -= 1
                return
            gate = threading.Lock()
            gate.acquire()
            waiting.append(gate)
        gate.acquire()

    def give(self) -> None:
        with self._lock:
            waiting = self._again or self._fresh
            if waiting:
                waiting.popleft().release()
            else:
                self._free += 1


class _Own(threading.local):
    """What this thread has; one without a limit never waits."""

    turns: ConcurrencyLimit | None = None
    has: bool = False


_own = _Own()


def take() -> None:
    """Wait until this thread has its turn again, if it gave it back."""
    if _own.turns is not None and not _own.has:
        _own.turns.again()
        _own.has = True


def give() -> None:
    """Let another thread have the turn of this one, if it has it."""
    if _own.turns is not None and _own.has:
        _own.has = False
        _own.turns.give()
