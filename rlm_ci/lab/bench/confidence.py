"""Means with their confidence: bootstrap intervals, Wilson intervals, percentiles."""

from __future__ import annotations

import math
import random

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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
