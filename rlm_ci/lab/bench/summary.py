"""The summary of a benchmark on disk: written after each case, found again by its start.

It has figures of many attempts: means with their intervals, latency, tokens, cost.
"""

from __future__ import annotations

import json
import math
import os
import random

from rlm_ci.decoding import DecodeError
from rlm_ci.errors import ConfigError, DamagedError
from rlm_ci.runs import find
from rlm_ci.system import files
from rlm_ci.text.printable import encodable, printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    from rlm_ci.runs.store import RunStore

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


KIND = "rlm-ci benchmark"
VERSION = 1
#: Its place in the folder of a run.
NAME = "benchmark.json"
INSIDE = ("rlm", NAME)
_LIMIT = 256 << 20
LATEST, PREVIOUS = "latest", "previous"


class StoredBenchmark(Value):
    """A summary that was read, and its file."""

    path: str
    record: Mapping[str, Any]

    @property
    def id(self) -> str:
        return str(self.record["benchmark_id"])

    def outline(self) -> dict[str, Any]:
        """The summary without its single cases."""
        beside = self.record.get("direct")
        if isinstance(beside, dict):
            beside = {key: value for key, value in beside.items() if key != "case_results"}
        fields = {key: value for key, value in self.record.items() if key != "case_results"}
        return {**fields, "direct": beside, "summary_path": self.path}

    @property
    def planned(self) -> list[str]:
        """The cases that it set out to run."""
        total, options = self.record.get("total_cases"), self.record.get("options")
        repeats = options.get("repeats") if isinstance(options, dict) else None
        names = list(self.record["suite"])
        if not (isinstance(total, int) and isinstance(repeats, int) and total > 0 < repeats):
            return names
        return names[: total // repeats]

    @property
    def order(self) -> tuple[str, str]:
        return str(self.record["started_at"]), self.id


class ComparedResult(Value):
    """What a comparison needs of a case; older summaries lack what has a default."""

    _ignores = True

    case_id: str
    score: float
    total_reward: float
    steps: float
    seconds: float
    completed: bool
    cost_usd: float | None = None
    usage: Mapping[str, Any] = {}


class ComparedBenchmark(Value):
    """What a comparison needs of a summary."""

    _ignores = True

    benchmark_id: str
    preset: str
    mode: str
    model: str
    started_at: str
    suite_hash: str
    suite: Mapping[str, Any]
    case_results: tuple[ComparedResult, ...]


def record(
    head: Mapping[str, Any],
    finished_at: str,
    results: Sequence[Mapping[str, Any]],
    baseline: Sequence[Mapping[str, Any]] | None,
    *,
    cancelled: str,
    budget: str = "",
) -> dict[str, Any]:
    """The summary; ``cancelled`` is why it ended early, by which ``budget``; "" if it did not."""
    beside = None
    if baseline is not None:
        beside = {**summed(baseline), "case_results": list(baseline)}
    return {
        "kind": KIND,
        "version": VERSION,
        **head,
        "finished_at": finished_at,
        "cancelled": bool(cancelled),
        "cancelled_reason": cancelled,
        "cancelled_budget": budget,
        **summed(results),
        "case_results": list(results),
        "direct": beside,
    }


def write(path: str, summary: Mapping[str, Any]) -> None:
    """Write a summary, at once or not at all. Raises StorageError."""
    files.make_folder(os.path.dirname(path), 0o700)
    text = json.dumps(summary, indent=2, ensure_ascii=True)
    files.write(path, f"{text}\n".encode(), 0o600)


def read(path: str) -> StoredBenchmark:
    """The summary at ``path``. Raises DamagedError."""
    try:
        record = json.loads(files.read(path, _LIMIT))
    except files.UnreadableError as error:
        raise _damaged(path, str(error)) from None
    except (ValueError, RecursionError):
        raise _damaged(path, "it is not JSON") from None
    if not isinstance(record, dict) or record.get("kind") != KIND:
        raise _damaged(path, "it is no summary of a benchmark")
    if record.get("version") != VERSION:
        raise _damaged(path, "another version of rlm-ci has written it")
    try:
        ComparedBenchmark.from_dict(record)
    except DecodeError as error:
        raise _damaged(path, f"a comparison cannot use it: {error}") from None
    for entry in record["case_results"]:
        entry |= {"usage": {}, "error": "", **entry}
    return StoredBenchmark(path, record)


def _damaged(path: str, why: str) -> DamagedError:
    return DamagedError(why, where=printable(path), hint="name another benchmark")


def readable(paths: Iterable[str]) -> list[StoredBenchmark]:
    """The summaries among ``paths``, the one that was started last first."""
    benchmarks = []
    for path in paths:
        try:
            benchmarks.append(read(path))
        except DamagedError:  # of another program, or half removed
            continue
    return sorted(benchmarks, key=lambda benchmark: benchmark.order, reverse=True)


def of_store(store: RunStore) -> list[StoredBenchmark]:
    """The benchmarks among the runs of a repository, the one that was started last first."""
    places = (os.path.join(entry.path, *INSIDE) for entry in find.entries(store))
    return readable(path for path in places if os.path.isfile(path))


def of_folder(folder: str) -> list[StoredBenchmark]:
    """The benchmarks in a folder of them, each in a folder of its own, or a file of its own."""
    inside = [os.path.join(folder, name) for name in files.names_in(folder)]
    places = [path if path.endswith(".json") else os.path.join(path, NAME) for path in inside]
    return readable(path for path in places if os.path.isfile(path))


def of_rlm_code(folder: str) -> list[dict[str, Any]]:
    """The summaries that rlm-code left in ``folder``, without their cases, the newest first.

    They have no suite, so they are listed only.
    """
    outlines = []
    for name in reversed(files.names_in(folder)):
        data = files.read_or_none(os.path.join(folder, name), _LIMIT) or b""
        try:
            record = json.loads(data) if name.endswith(".json") else None
        except (ValueError, RecursionError):
            continue
        if isinstance(record, dict) and "benchmark_id" in record and "kind" not in record:
            fields = {key: value for key, value in record.items() if key != "case_results"}
            outlines.append({**fields, "summary_path": os.path.join(folder, name)})
    return outlines


def choose(
    benchmarks: Sequence[StoredBenchmark], word: str, *, of: StoredBenchmark | None = None
) -> StoredBenchmark:
    """The benchmark that ``word`` means: an id or its beginning, a file, ``latest``, ``previous``.

    ``previous`` is the last one of the same suite that was started before ``of``. Raises
    ConfigError, DamagedError.
    """
    if word == LATEST and benchmarks:
        return benchmarks[0]
    if word == PREVIOUS and of is not None:
        same = [
            benchmark
            for benchmark in benchmarks
            if benchmark.order < of.order and _is_like(benchmark, of)
        ]
        if same:
            return same[0]
        raise ConfigError(
            f"there is no earlier benchmark of the suite of {of.id}",
            where=PREVIOUS,
            hint=f"run it again: rlm-ci bench run {printable(str(of.record['preset']))}",
        )
    if os.path.isfile(word) or os.sep in word:
        return read(word)
    fitting = (
        [benchmark for benchmark in benchmarks if benchmark.id.startswith(word)] if word else []
    )
    exact = [benchmark for benchmark in fitting if benchmark.id == word]
    if len(exact or fitting) == 1:
        return (exact or fitting)[0]
    what = "several benchmarks begin with" if fitting else "there is no benchmark"
    ids = ", ".join(benchmark.id for benchmark in benchmarks[:5])
    raise ConfigError(
        f"{what} {printable(encodable(word))[:80]!r}",
        where="BENCHMARK",
        hint=f"name one of {ids}" if ids else "run one first: rlm-ci bench run PACK",
    )


def _is_like(benchmark: StoredBenchmark, other: StoredBenchmark) -> bool:
    return bool(benchmark.record["suite_hash"] == other.record["suite_hash"])
