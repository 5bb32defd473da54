"""The order of nodes, their limits, and the slots in which work runs, whatever a node is.

A node that waits for others holds no slot; work that has no slot stays in the frontier.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from concurrent.futures import CancelledError
from contextvars import copy_context
from itertools import count

from rlm_ci.errors import UnavailableError
from rlm_ci.recursion import tree_split
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Executor, Future
    from typing import Any, Protocol

    class Placed(Protocol):
        depth: int

    Done = Callable[[Any, BaseException | None], None]
    Work = tuple[Done, Callable[[], Any]]


BFS = "bfs"
DFS = "dfs"
HYBRID = "hybrid"
ORDERS = (BFS, DFS, HYBRID)
#: Levels that ``HYBRID`` takes breadth first.
_BROAD = 2


class Frontier:
    """The nodes that wait, in the order ``BFS``, ``DFS`` or ``HYBRID``.

    ``HYBRID`` takes the first levels breadth first, deeper ones depth first, and of siblings the
    largest first.
    """

    def __init__(self, order: str, size: Callable[[Any], int]) -> None:
        self._order = order
        self._size = size
        self._broad: deque[Any] = deque()
        self._deep: list[Any] = []
        self._is_sorted = False

    def __len__(self) -> int:
        return len(self._broad) + len(self._deep)

    def add(self, items: Sequence[Placed]) -> None:
        """Siblings, in the order of their scopes."""
        if self._order == BFS:
            self._broad.extend(items)
        elif self._order == DFS:
            self._deep.extend(reversed(items))
        elif items and items[0].depth < _BROAD:
            self._broad.extend(items)
        else:
            self._deep.extend(self._by_size(items) if self._is_sorted else items)

    def pop(self) -> Any:
        if self._broad:
            return self._broad.popleft()
        if self._order == HYBRID and not self._is_sorted:
            self._is_sorted = True
            self._deep = self._by_size(self._deep)
        return self._deep.pop()

    def _by_size(self, items: Sequence[Placed]) -> list[Any]:
        """The largest last, of equals the first last: ``pop`` takes from the end."""
        return sorted(items, key=self._size, reverse=True)[::-1]


class Slots:
    """Work in progress: in an executor, or on threads of ours.

    ``wait`` calls ``done`` of what has ended. Work waits here for a free thread, so that threads
    never wait for work. After an error that ends the run (``is_end``) no more of it begins.
    """

    def __init__(self, concurrency: int, is_end: Callable[[BaseException], bool]) -> None:
        self.busy = 0
        self._most = concurrency
        self._is_end = is_end
        self._is_over = False
        self._inbox: queue.SimpleQueue[tuple[Done, Any, BaseException | None]] = queue.SimpleQueue()
        #: Work by its rank, then its number; None ends a thread.
        self._waiting: queue.PriorityQueue[tuple[bool, int, Work | None]] = queue.PriorityQueue()
        self._numbers = count()
        self._threads: list[threading.Thread] = []

    def compute(
        self, executor: Executor, call: Callable[[Any], Any], argument: Any, done: Done
    ) -> None:
        """Compute in an executor."""

        def tell(future: Future[Any]) -> None:
            error = CancelledError() if future.cancelled() else future.exception()
            self._inbox.put((done, None if error else future.result(), error))

        try:
            future = executor.submit(call, argument)
        except Exception as error:  # noqa: BLE001 - its workers are gone, or it was shut down
            raise UnavailableError(
                f"the scheduler's executor takes no work: {error}",
                where="recursion.scheduler",
                hint="see to its workers, and resume the run",
            ) from None
        self.busy += 1
        future.add_done_callback(tell)

    def ask(self, call: Callable[[], Any], done: Done, *, first: bool) -> None:
        """Wait for a model, on a daemon thread; with ``first``, before all others that wait."""
        if len(self._threads) < min(self._most, self.busy + 1):
            thread = threading.Thread(target=copy_context().run, args=(self._work,), daemon=True)
            self._threads.append(thread)
            thread.start()
        self.busy += 1
        self._waiting.put((not first, next(self._numbers), (done, call)))

    def wait(self, seconds: float | None = None) -> bool:
        """Call ``done`` of all that has ended; False if nothing has after ``seconds``."""
        try:
            done, value, error = self._inbox.get(timeout=seconds)
        except queue.Empty:
            return False
        while True:
            self.busy -= 1
            done(value, error)
            try:
                done, value, error = self._inbox.get_nowait()
            except queue.Empty:
                return True

    def close(self) -> None:
        """Begin nothing more that waits for a thread."""
        self._is_over = True
        for _ in self._threads:
            self._waiting.put((False, next(self._numbers), None))

    def _work(self) -> None:
        while (work := self._waiting.get()[2]) is not None:
            if self._is_over:
                continue
            done, call = work
            try:
                value = call()
            except BaseException as error:  # noqa: BLE001 - raised by the thread that waits
                if self._is_end(error):
                    self._is_over = True
                self._inbox.put((done, None, error))
            else:
                self._inbox.put((done, value, None))


class Budget(Value):
    """The limits of a run besides its ledger's; None is no limit.

    ``calls_left`` gives the calls that the ledger has left; below ``reserve`` no node is split.
    """

    max_depth: int = 12
    minutes: float | None = None
    reserve: int = 0
    calls_left: Callable[[], int | None] | None = None


class Constraints(Value):
    """How a run proceeds. The results depend on ``shape`` and ``min_confidence`` alone."""

    order: str = BFS
    concurrency: int = 8
    attempts: int = 2
    min_confidence: float = 0.25
    shape: tree_split.TreeShape = tree_split.TreeShape()
