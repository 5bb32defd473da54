"""Figures of many attempts: means with their intervals, latency, tokens, cost."""

from __future__ import annotations

import math
import random

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    Entry = Mapping[str, Any]
    Entries = Sequence[Entry]
    Interval = tuple[float, float]


#: The quantile of the normal distribution for 95 %.
_Z = 1.959964
_ROUNDS = 2000
_SEED = 20_260_101


def mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else 0.0


def percentile(values: Sequence[float], share: float) -> float:
    """The least value that ``share`` of the values do not exceed; 0 for none."""
    if not values:
        return 0.0
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def wilson(successes: int, trials: int) -> Interval | None:
    """The 95 % interval of a proportion; None without a trial."""
    if not trials:
        return None
    share, z2 = successes / trials, _Z * _Z
    centre = share + z2 / (2 * trials)
    spread = _Z * math.sqrt(share * (1 - share) / trials + z2 / (4 * trials * trials))
    scale = 1 + z2 / trials
    return max(0.0, (centre - spread) / scale), min(1.0, (centre + spread) / scale)


def bootstrap(groups: Sequence[Sequence[float]]) -> Interval | None:
    """The 95 % interval of the mean over all cases; each group has the repeats of one case.

    Repeats are drawn again within each case, so it shows how much a repeated run may differ on
    the same cases. None where no case was repeated.
    """
    return _interval(groups, ())


def bootstrap_difference(
    candidate: Sequence[Sequence[float]], baseline: Sequence[Sequence[float]]
) -> Interval | None:
    """The same for ``candidate`` less ``baseline``, each case once. None without repeats."""
    return _interval(candidate, baseline, mean_of_cases)


def mean_of_cases(groups: Sequence[Sequence[float]]) -> float:
    """The mean of the means of groups, which may have different numbers of repeats."""
    return mean([mean(group) for group in groups])


def _mean_of_all(groups: Sequence[Sequence[float]]) -> float:
    return mean([value for group in groups for value in group])


def _interval(
    candidate: Sequence[Sequence[float]],
    baseline: Sequence[Sequence[float]],
    figure: Callable[[Sequence[Sequence[float]]], float] = _mean_of_all,
) -> Interval | None:
    if not any(len(group) > 1 for group in (*candidate, *baseline)):
        return None
    # Only a chance that is the same each time makes the same figures each time.
    chance = random.Random(_SEED)  # noqa: S311 - no secret depends on it
    differences = sorted(
        figure(_drawn(candidate, chance)) - figure(_drawn(baseline, chance)) for _ in range(_ROUNDS)
    )
    return percentile(differences, 0.025), percentile(differences, 0.975)


def _drawn(groups: Sequence[Sequence[float]], chance: random.Random) -> list[list[float]]:
    return [[chance.choice(group) for _ in group] for group in groups]


_TOKENS = ("total_calls", "prompt_tokens", "completion_tokens")


def by_case(entries: Entries) -> dict[str, list[Entry]]:
    """The attempts at each case, in order."""
    groups: dict[str, list[Entry]] = {}
    for entry in entries:
        groups.setdefault(entry["case_id"], []).append(entry)
    return groups


def values(entries: Entries, name: str) -> list[list[float]]:
    """A figure of each attempt, grouped by case."""
    return [[float(entry[name]) for entry in group] for group in by_case(entries).values()]


def cost(entries: Entries) -> float | None:
    """USD of all attempts; None where the price of one is not known."""
    costs = [entry["cost_usd"] for entry in entries]
    return None if not costs or None in costs else sum(costs)


def summed(entries: Entries) -> dict[str, Any]:
    """The figures of all attempts, as a summary and a comparison have them."""
    completed = sum(entry["completed"] for entry in entries)
    seconds = [float(entry["seconds"]) for entry in entries]
    total = cost(entries)

    def average(name: str) -> float:
        return mean([float(entry[name]) for entry in entries])

    return {
        "attempted_cases": len(entries),
        "completed_cases": completed,
        "completion_rate": completed / len(entries) if entries else 0.0,
        "avg_score": average("score"),
        "avg_reward": average("total_reward"),
        "avg_steps": average("steps"),
        "latency_seconds": {
            "avg": mean(seconds),
            "p50": percentile(seconds, 0.5),
            "p95": percentile(seconds, 0.95),
            "max": max(seconds, default=0.0),
        },
        "usage_totals": {
            name: sum(int((entry["usage"] or {}).get(name, 0)) for entry in entries)
            for name in _TOKENS
        },
        "cost_usd": total,
        "avg_cost_usd": None if total is None else total / len(entries),
        "failed_cases": sum(bool(entry["error"]) for entry in entries),
        # Of the score over the repeats of the same cases; of the completion rate over all attempts.
        "intervals": {
            "avg_score": bootstrap(values(entries, "score")),
            "completion_rate": wilson(completed, len(entries)),
        },
    }
