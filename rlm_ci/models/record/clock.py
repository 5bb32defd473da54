"""The time that a run has used, by its record, and the budgets that end it."""

from __future__ import annotations

import time

from rlm_ci.text.printable import count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from rlm_ci.runs import Fact


class RunClock:
    """The time of a run in all sessions; facts found in its record take none."""

    def __init__(
        self,
        fact: Fact,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._fact = fact
        self._clock = clock
        self._now = now
        self._used = 0.0
        self._since = clock()

    def seconds(self) -> float:
        """Seconds used until now."""
        return self._used + self._clock() - self._since

    def deadline(self, minutes: float | None) -> float | None:
        """When so many minutes will be over, by the clock of this process."""
        return None if minutes is None else self._clock() + minutes * 60 - self.seconds()

    def tick(self, turn: int | str) -> tuple[float, str]:
        """Seconds used when this turn began, and when that was (UTC, ISO 8601).

        ``turn`` is the number of an iteration, or its place, as turns may be side by side.
        """
        turn_place = turn if isinstance(turn, str) else f"iteration-{turn}"
        reading = self._fact("clock", turn_place, {}, self._recorded)
        self._used, self._since = max(self._used, float(reading["seconds"])), self._clock()
        return float(reading["seconds"]), str(reading["at"])

    def _recorded(self) -> Mapping[str, Any]:
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._now()))
        return {"seconds": round(self.seconds(), 3), "at": at}


def over(
    turns: int, minutes: float, max_turns: float | None, max_minutes: float | None
) -> tuple[str, str] | None:
    """The budget that does not allow another turn after ``turns``, and the reason."""
    if max_turns is not None and turns >= max_turns:
        return "max_iterations", f"the limit of {count(int(max_turns), 'iteration')} is reached"
    if max_minutes is not None and minutes >= max_minutes:
        return "max_minutes", f"the limit of {max_minutes:g} minutes is reached"
    return None
