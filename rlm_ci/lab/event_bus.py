"""Events of episodes, for who wants to follow them: observers, never a part of the run."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Any

from rlm_ci.console.messages import warn
from rlm_ci.errors import RlmCiError
from rlm_ci.runs.manifest import timestamp
from rlm_ci.text.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Subscriber = Callable[["RLMRuntimeEvent"], object]

RUN_START = "run_start"
STEP_START = "step_start"
STEP_END = "step_end"
RUN_END = "run_end"
CYCLE_GUARD = "run_cycle_guard"


@dataclass(slots=True)
class RLMRuntimeEvent:
    """``payload`` has ``run_id``, ``depth``, ``parent_run_id``, and what the event tells."""

    name: str
    timestamp: str
    payload: dict[str, Any]

    @property
    def run_id(self) -> str:
        return str(self.payload.get("run_id", ""))

    @property
    def depth(self) -> int:
        return int(self.payload.get("depth", 0))

    @property
    def parent_run_id(self) -> str | None:
        run_id: str | None = self.payload.get("parent_run_id")
        return run_id


class RLMEventBus:
    """Passes each event to all subscribers, in the thread that emits it.

    Children run in threads of their own, so a subscriber may be called by several at once.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._subscribers: dict[int, Subscriber] = {}
        self._next = 0
        self._failed: set[int] = set()

    def subscribe(self, callback: Subscriber) -> Callable[[], None]:
        """Call ``callback`` with each event from now on; returns a function that ends this."""
        with self._lock:
            key, self._next = self._next, self._next + 1
            self._subscribers[key] = callback

        def unsubscribe() -> None:
            with self._lock:
                self._subscribers.pop(key, None)

        return unsubscribe

    def emit(self, name: str, payload: dict[str, Any] | None = None) -> None:
        """Pass an event on. A subscriber that raises is named once, and does not end the run."""
        event = RLMRuntimeEvent(name, timestamp(time.time()), dict(payload or {}))
        with self._lock:
            subscribers = list(self._subscribers.items())
        for key, callback in subscribers:
            try:
                callback(event)
            except Exception as error:  # noqa: BLE001 - a stranger's code: no error of it is ours
                self._tell(key, name, error)

    def _tell(self, key: int, name: str, error: Exception) -> None:
        with self._lock:
            is_known = key in self._failed
            self._failed.add(key)
        if not is_known:
            message = printable(f"{type(error).__name__}: {error}")[:200]
            warn(
                RlmCiError(
                    f"a subscriber of events raised {message}",
                    where=name,
                    hint="the run goes on; mend the callback",
                )
            )
