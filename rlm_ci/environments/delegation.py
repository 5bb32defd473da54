"""Tasks that an action gives to children: side by side, in bounds, none lost.

Children wait in a queue for a slot. A parent that waits for its children gives its own slot up
meanwhile, so however deep the tree is, some child can always run.
"""

from __future__ import annotations

import hashlib
import heapq
import itertools
import json
import threading
from contextvars import copy_context
from functools import partial
from time import monotonic

from rlm_ci.environments import rewards
from rlm_ci.errors import RlmCiError, UnavailableError
from rlm_ci.recursion.node_work import is_fatal
from rlm_ci.text.printable import printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    #: Runs a child's episode; the second is what its own delegate actions go through.
    RunChild = Callable[["ChildTask", "Delegation"], "ChildResult"]

#: Why a child was not run, whose time was over.
OVER = "the time was over before it could start"


class ChildTask(Value):
    """A task for a child. ``context`` is text; ``context_refs`` name lines of files.

    ``environment`` and ``role`` are the parent's where they are empty.
    """

    task: str
    context: str = ""
    environment: str = ""
    role: str = ""
    context_refs: tuple[Any, ...] = ()
    max_steps: int | None = None

    def fingerprint(self) -> str:
        """What makes a task the same as another: its words, environment and context."""
        parts = [self.task.split(), self.environment, self.context, self.context_refs]
        text = json.dumps(parts, sort_keys=True, default=str)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class ChildResult(Value):
    """What came of a child; ``reason`` says why it is not ``completed``.

    ``skipped``: a guard did not let it start.
    """

    answer: str
    completed: bool = False
    steps: int = 0
    reward: float = 0.0
    reason: str = ""
    skipped: bool = False


class ChildSlots:
    """So many children of a whole tree run at once. Those deepest in the tree go first."""

    def __init__(self, number: int) -> None:
        self._free = number
        self._waiting: list[tuple[int, bool, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._lock = threading.Lock()

    def ask(self, depth: int, start: Callable[[], None], *, first: bool = False) -> None:
        """Call ``start`` once there is a slot for it; ``first`` of those at this depth."""
        with self._lock:
            heapq.heappush(self._waiting, (-depth, not first, next(self._numbers), start))
        self._start()

    def release(self) -> None:
        """Give a slot back."""
        with self._lock:
            self._free += 1
        self._start()

    def acquire(self, depth: int) -> None:
        """Wait for a slot, before what has not begun at this depth."""
        ready = threading.Event()
        self.ask(depth, ready.set, first=True)
        ready.wait()

    def _start(self) -> None:
        with self._lock:
            if not self._free or not self._waiting:
                return
            self._free -= 1
            start = heapq.heappop(self._waiting)[3]
        start()


class Delegation:
    """The children of one node. ``depth`` is 0 for the root, which needs no slot.

    ``lineage`` are the fingerprints of the node and of those above it. ``deadline`` is a time of
    ``time.monotonic`` that all share. ``path`` names the node in the tree.
    """

    def __init__(
        self,
        run_child: RunChild,
        *,
        slots: ChildSlots,
        lineage: tuple[str, ...] = (),
        depth: int = 0,
        max_depth: int = 2,
        max_children: int = 4,
        parallelism: int = 2,
        deadline: float | None = None,
        path: str = "root",
    ) -> None:
        self._run_child = run_child
        self._slots = slots
        self.lineage = lineage
        self.depth = depth
        self.max_depth = max_depth
        self.max_children = max_children
        self.parallelism = parallelism
        self.deadline = deadline
        self.path = path
        self._actions = 0

    def run(self, tasks: Sequence[ChildTask], parallelism: int | None = None) -> list[ChildResult]:
        """The results of ``tasks``, in their order, however each ends.

        Raises what ends a whole run, such as a full disk, once all children have ended.
        """
        self._actions += 1
        action = _Action(self, tasks, min(parallelism or self.parallelism, self.parallelism))
        if self.depth:
            self._slots.release()
        try:
            return action.run(self._slots)
        finally:
            if self.depth:
                self._slots.acquire(self.depth + 1)

    def refusal(self, task: ChildTask) -> ChildResult | None:
        """Why a guard does not let a child start, as its result."""
        if self.depth >= self.max_depth:
            reason = f"depth {self.max_depth} is the deepest: do it yourself"
            return ChildResult("", reward=rewards.TOO_DEEP, reason=reason, skipped=True)
        if task.fingerprint() in self.lineage:
            reason = "a cycle: it is the task that you, or who asked you, already have"
            return ChildResult("", reward=rewards.CYCLE, reason=reason, skipped=True)
        return None

    def child(self, task: ChildTask, number: int) -> Delegation:
        """What the delegate actions of a child go through."""
        return Delegation(
            self._run_child,
            slots=self._slots,
            lineage=(*self.lineage, task.fingerprint()),
            depth=self.depth + 1,
            max_depth=self.max_depth,
            max_children=self.max_children,
            parallelism=self.parallelism,
            deadline=self.deadline,
            path=f"{self.path}/{self._actions}.{number}",
        )

    def result(self, task: ChildTask, child: Delegation) -> ChildResult:
        """The result of a child that has a slot; a failure is one too."""
        if self.deadline is not None and monotonic() >= self.deadline:
            return ChildResult("", reason=OVER)
        try:
            return self._run_child(task, child)
        except RlmCiError as error:
            if is_fatal(error):
                raise
            return ChildResult("", reason=printable(str(error)[:500]))
        except Exception as error:  # noqa: BLE001 - of a caller's engine or connector
            message = f"{type(error).__name__}: {error}"
            return ChildResult("", reason=printable(message[:500]))


class _Action:
    """The children of one action, at most ``parallelism`` at once."""

    def __init__(self, parent: Delegation, tasks: Sequence[ChildTask], parallelism: int) -> None:
        self._parent = parent
        self._parallelism = parallelism
        self._results: list[ChildResult | None] = [parent.refusal(task) for task in tasks]
        self._next = iter(
            [
                (at, task, parent.child(task, at + 1))
                for at, task in enumerate(tasks)
                if self._results[at] is None
            ]
        )
        self._fatal: BaseException | None = None
        #: That of the action, whichever thread frees the slot for a child.
        self._context = copy_context()
        self._changed = threading.Condition()
        self._running = 0

    def run(self, slots: ChildSlots) -> list[ChildResult]:
        for _ in range(self._parallelism):
            self._ask(slots)
        try:
            with self._changed:
                self._changed.wait_for(lambda: not self._running)
        except BaseException as error:
            self._fatal = error  # an interrupt: no more of them begin
            raise
        if self._fatal is not None:
            raise self._fatal
        return [result for result in self._results if result is not None]

    def _ask(self, slots: ChildSlots) -> None:
        """Put the next child into the queue, if there is one left."""
        with self._changed:
            task = None if self._fatal else next(self._next, None)
            if task is None:
                return
            self._running += 1
        slots.ask(self._parent.depth + 1, partial(self._start, slots, task))

    def _start(self, slots: ChildSlots, numbered_task: tuple[int, ChildTask, Delegation]) -> None:
        work = partial(self._work, slots, *numbered_task)
        thread = threading.Thread(target=self._context.copy().run, args=(work,), daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # the system has no more threads
            self._fatal = UnavailableError(
                f"a child could not be started: {error}",
                where="parallelism",
                hint="allow more threads, or lower --parallelism",
            )
            self._ended(slots)

    def _work(self, slots: ChildSlots, at: int, task: ChildTask, child: Delegation) -> None:
        try:
            self._results[at] = self._parent.result(task, child)
        except BaseException as error:  # noqa: BLE001 - raised by the thread that waits
            self._fatal = error
        self._ended(slots)

    def _ended(self, slots: ChildSlots) -> None:
        slots.release()
        self._ask(slots)
        with self._changed:
            self._running -= 1
            self._changed.notify_all()


def reward(results: Sequence[ChildResult]) -> float:
    """The reward of the action that gave the tasks; before the global scale."""
    if not results:
        return rewards.NO_CHILDREN
    if all(result.skipped for result in results):
        return min(result.reward for result in results)
    number = len(results)
    completed = sum(result.completed for result in results)
    skipped = sum(result.skipped for result in results)
    failed = number - completed - skipped
    return 0.2 + (0.5 * completed - 0.35 * failed - 0.1 * skipped) / number
