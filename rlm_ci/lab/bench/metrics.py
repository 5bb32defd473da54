"""Figures of many attempts: means with their intervals, latency, tokens, cost."""

from __future__ import annotations

from rlm_ci.lab.bench import confidence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    Entry = Mapping[str, Any]
    Entries = Sequence[Entry]

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
        return confidence.mean([float(entry[name]) for entry in entries])

    return {
        "attempted_cases": len(entries),
        "completed_cases": completed,
        "completion_rate": completed / len(entries) if entries else 0.0,
        "avg_score": average("score"),
        "avg_reward": average("total_reward"),
        "avg_steps": average("steps"),
        "latency_seconds": {
            "avg": confidence.mean(seconds),
            "p50": confidence.percentile(seconds, 0.5),
            "p95": confidence.percentile(seconds, 0.95),
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
            "avg_score": confidence.bootstrap(values(entries, "score")),
            "completion_rate": confidence.wilson(completed, len(entries)),
        },
    }
