"""When the iterations of a run were, and their parts, by the events of the run."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rlm_ci.viewer.steps import ViewedStep

    #: By iteration ("" outside of one) and what was done: when it began, and how long it took.
    Phases = Mapping[tuple[str, str], tuple[float, float | None]]

_PHASE = re.compile(r"iteration ([0-9]{1,9}): ([^:]+)")
_BEFORE = {"validator, before any edit": ("0", "validator")}


def read(events: Sequence[tuple[float, str, str]]) -> Phases:
    """The phases of iterations, by the events of a run: seconds, name and summary.

    A resumed run walks through its record again, quickly: the longest time counts.
    """
    found: dict[tuple[str, str], tuple[float, float | None]] = {}
    following = [*events[1:], (0.0, "", "")]
    for (at, _, told), (end, after, _) in zip(events, following, strict=False):  # may be empty
        named = _PHASE.match(told)
        key = (named[1], named[2]) if named else _BEFORE.get(told, ("", told))
        seconds = end - at if after not in ("", "run_resumed") and end >= at else None
        known = found.get(key)
        if known is None or (seconds or 0.0) > (known[1] or 0.0):
            found[key] = at, seconds
    return found


def give(phases: Phases, number: str, step: ViewedStep) -> None:
    """Give an iteration its time: from its first phase on, as long as all of them took."""
    some = [when for (one, _), when in phases.items() if one == number]
    if some:
        step.start = min(start for start, _ in some)
        step.seconds = sum(seconds or 0.0 for _, seconds in some) or None
