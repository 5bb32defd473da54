"""Budget increases: ``rlm-ci resume`` can give more to a fix loop that a budget has ended.

The options of the run stay as recorded. Each increase is a fact after them, so that resuming
again, or a replay, uses the same budgets.
"""

from __future__ import annotations

import os
from contextlib import suppress

from rlm_ci.config.options import BUDGET, LOOP
from rlm_ci.errors import DamagedError, UsageError
from rlm_ci.models.record.record import Record
from rlm_ci.pipelines.definition import BENCH, BUILT_IN, EPISODE, WITH_GOAL
from rlm_ci.pipelines.stored_runs import flag_of, more_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from rlm_ci.config.settings import Settings
    from rlm_ci.runs.manifest import Manifest
    from rlm_ci.runs.request import RunRequest

    #: Limits by budget, named as in the run's final status; None is no limit.
    Budgets = Mapping[str, float | None]

KIND = "raised"
_KEYS = {
    "max_iterations": "loop.max_iterations",
    "max_minutes": "loop.max_minutes",
    "max_calls": "max_calls",
    "max_tokens": "max_tokens",
    "budget_usd": "budget_usd",
}
ROWS = tuple(row for row in (*LOOP, *BUDGET) if row.key in _KEYS.values())


def budgets_set(settings: Settings, flags: Mapping[str, Any]) -> dict[str, float | None]:
    """The budgets that the command line sets."""
    return {name: settings.values[key] for name, key in _KEYS.items() if key in flags}


def recorded(record: Record) -> list[Budgets]:
    """The increases of a run so far, in order. Raises DamagedError."""
    increases: list[Budgets] = []
    while (increase := record.find(KIND, _step(len(increases)), {})) is not None:
        if not increase.keys() <= _KEYS.keys() or not all(map(_is_limit, increase.values())):
            raise DamagedError(
                f"its record for {_step(len(increases))} is not what a run writes",
                where=record.path,
                hint="restore it from a copy, or start a new run",
            )
        increases.append(increase)
    return increases


def carried(record: Record, more: Budgets) -> tuple[int, dict[str, float | None]]:
    """The number of increases, ``more`` included, and the current limit of each budget."""
    increases = [*recorded(record), *([more] if more else [])]
    limits = {name: value for increase in increases for name, value in increase.items()}
    return len(increases), limits


def keep(record: Record, more: Budgets) -> None:
    """Record the increase ``more``."""
    if more:
        record.fact(KIND, _step(len(recorded(record))), {}, lambda: more)


def apply(settings: Settings, more: Budgets) -> None:
    """Apply the limits ``more`` to the settings."""
    for name, value in more.items():
        key = _KEYS[name]
        settings.values[key], settings.sources[key] = value, "rlm-ci resume"


def require(manifest: Manifest, more: Budgets, request: RunRequest, journal: str) -> None:
    """Raise UsageError if ``more`` does not let the run continue.

    ``journal`` is the path of its record, which may be missing.
    """
    if manifest.pipeline_id not in (*BUILT_IN, BENCH):
        raise UsageError(
            f"a run of {manifest.pipeline_id} has no budgets",
            where=manifest.run_id,
            hint="leave them out",
        )
    if manifest.pipeline_id not in (WITH_GOAL, EPISODE, BENCH):
        return  # their budgets are not recorded: each process uses its own settings
    limits = _limits(request, journal, manifest)
    ended = manifest.spent_budget
    if ended and ended not in more:
        what = f"the run was ended by {ended}, and has no more of that"
        raise UsageError(what, where=manifest.run_id, hint=more_of(manifest))
    for name, value in more.items():
        limit = limits.get(name)
        if name in limits and (limit is None or (value is not None and value <= limit)):
            shown = "no limit" if limit is None else f"{limit:,g}"
            raise UsageError(
                f"that is not more than the run has: {shown}",
                where=flag_of(name),
                hint="name more, or leave it out",
            )


def _limits(request: RunRequest, journal: str, manifest: Manifest) -> dict[str, float | None]:
    """The current budgets of a run, as far as its folder has them."""
    limits: dict[str, float | None] = {}
    for name in ("max_calls", "max_tokens", "budget_usd"):
        if name in request.flags:
            with suppress(TypeError, ValueError):  # reading the settings reports it
                limits[name] = float(request.flags[name])
    if not os.path.lexists(journal):
        return limits
    with Record.open(journal, redact=str, replay_only=True) as record:
        mode = record.find("mode", "start", {})
        # Without a context it became a fix loop, which a budget may have ended.
        is_question = mode is not None and mode.get("name") == "symbolic"
        if is_question and manifest.spent_budget is None:
            raise UsageError(
                "a question keeps its budgets",
                where=manifest.run_id,
                hint="ask it again with other budgets",
            )
        terms = record.find("terms", "start", {}) or {}
        for name in ("max_iterations", "max_minutes"):
            if _is_limit(terms.get(name, "")):
                limits[name] = terms[name]
        for increase in recorded(record):
            limits |= increase
    return limits


def _step(number: int) -> str:
    return f"raised-{number + 1}"


def _is_limit(value: object) -> bool:
    return value is None or (type(value) in (int, float) and 0 <= float(str(value)) < 1e15)
