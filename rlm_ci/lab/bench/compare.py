"""Compare two benchmarks of one suite, judge the candidate by gates, and report."""

from __future__ import annotations

from pathlib import Path

from rlm_ci.errors import ConfigError
from rlm_ci.lab.bench import summary
from rlm_ci.lab.results import RLMBenchmarkComparison
from rlm_ci.report.findings import Document, Finding, Part, Report, Severity, Subject
from rlm_ci.report.wording import BENCH
from rlm_ci.text.printable import count, first_of, printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from rlm_ci.lab.bench.summary import StoredBenchmark


#: Rounding of floats must not fail a gate.
_EPSILON = 1e-9


class Gates(Value):
    """What a candidate is held to; None switches a gate off.

    The first three are the least that candidate less baseline may be; of steps, cost and seconds
    it is the most, absolute for steps, as a share of the baseline for the other two.
    """

    min_reward_delta: float | None = 0.0
    min_completion_delta: float | None = 0.0
    min_score_delta: float | None = 0.0
    max_steps_increase: float | None = 0.0
    max_cost_increase: float | None = None
    max_latency_increase: float | None = None
    fail_on_completion_regression: bool = True


class CaseChange(Value):
    """A case on both sides; a side that lacks it has None. Rates and means are over the repeats.

    ``attempts`` are how many of them candidate and baseline have.
    """

    case_id: str
    candidate: Mapping[str, float] | None
    baseline: Mapping[str, float] | None
    attempts: tuple[int, int] = (1, 1)

    @property
    def is_missing(self) -> bool:
        return self.candidate is None or self.baseline is None

    @property
    def missing_repeats(self) -> int:
        """How many repeats one side has less than the other, if both have the case."""
        candidate, baseline = self.attempts
        return 0 if self.is_missing else abs(candidate - baseline)

    @property
    def is_completion_regression(self) -> bool:
        """Lacking a repeat on one side, or completed by most before and not any more."""
        if self.candidate is None or self.baseline is None or self.missing_repeats:
            return True
        return self.baseline["completed"] >= 0.5 > self.candidate["completed"]

    @property
    def is_score_regression(self) -> bool:
        if self.candidate is None or self.baseline is None:
            return True
        return self.candidate["score"] < self.baseline["score"] - _EPSILON

    @property
    def is_reward_regression(self) -> bool:
        if self.candidate is None or self.baseline is None:
            return True
        return self.candidate["total_reward"] < self.baseline["total_reward"] - _EPSILON


class Comparison(Value):
    """``result`` is that of the API; the rest is for the report."""

    result: RLMBenchmarkComparison
    candidate: StoredBenchmark
    baseline: StoredBenchmark
    cases: tuple[CaseChange, ...]
    intervals: Mapping[str, tuple[float, float] | None]
    tolerances: Mapping[str, float]


def compare(
    benchmarks: Sequence[StoredBenchmark],
    candidate: str = summary.LATEST,
    baseline: str = summary.PREVIOUS,
    gates: Gates | None = None,
) -> Comparison:
    """Compare two of the ``benchmarks`` benchmarks, the newest first.

    Raises ConfigError where the suites differ, or a name means none or several.
    """
    benchmark = summary.choose(benchmarks, candidate)
    stored = summary.choose(benchmarks, baseline, of=benchmark)
    _require_like(benchmark, stored)
    cases = tuple(_changes(benchmark, stored))
    limits = gates or Gates()
    # Means over other cases would not be comparable.
    common = {case.case_id for case in cases if not case.is_missing}
    if not common:
        raise ConfigError(
            "no case has a score in both benchmarks, so there is nothing to compare",
            where=f"{benchmark.id}, {stored.id}",
            hint="see why in the two summaries, and run the one that lacks scores again",
        )
    mine, other = (
        [entry for entry in _scored(benchmark) if entry["case_id"] in common]
        for benchmark in (benchmark, stored)
    )
    figures, before = _figures(mine), _figures(other)
    deltas = {name: figures[name] - before[name] for name in figures if name in before}
    deltas["avg_steps_increase"] = deltas["avg_steps"]
    regressions = sum(case.is_completion_regression for case in cases)
    results, tolerances = _judged(limits, figures, before, regressions)
    result = RLMBenchmarkComparison(
        candidate_id=benchmark.id,
        baseline_id=stored.id,
        candidate_path=Path(benchmark.path),
        baseline_path=Path(stored.path),
        candidate_metrics=figures,
        baseline_metrics=before,
        deltas=deltas,
        case_summary={
            "common_cases": sum(not case.is_missing for case in cases),
            "missing_cases": sum(case.is_missing for case in cases),
            "missing_repeats": sum(case.missing_repeats for case in cases),
            "completion_regressions": regressions,
            "score_regressions": sum(case.is_score_regression for case in cases),
            "reward_regressions": sum(case.is_reward_regression for case in cases),
        },
        gates=results,
        passed=all(results.values()),
    )
    intervals = {
        name: summary.bootstrap_difference(
            summary.values(mine, field), summary.values(other, field)
        )
        for name, field in _FIELDS.items()
    }
    return Comparison(result, benchmark, stored, cases, intervals, tolerances)


#: A figure of a comparison, and the field of an attempt that it is the mean of. Each case counts
#: once, however many repeats it has.
_FIELDS = {
    "avg_score": "score",
    "completion_rate": "completed",
    "avg_reward": "total_reward",
    "avg_steps": "steps",
    "avg_seconds": "seconds",
}


def _figures(entries: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    figures = {
        name: summary.mean_of_cases(summary.values(entries, field))
        for name, field in _FIELDS.items()
    }
    if summary.cost(entries) is None:
        return figures
    return {
        **figures,
        "avg_cost_usd": summary.mean_of_cases(summary.values(entries, "cost_usd")),
    }


def _judged(
    gates: Gates, candidate: Mapping[str, float], baseline: Mapping[str, float], regressions: int
) -> tuple[dict[str, bool], dict[str, float]]:
    """Each gate that is on with its result, and its tolerance."""
    results: dict[str, bool] = {}
    tolerances: dict[str, float] = {}
    minimums = (
        ("score", "avg_score", gates.min_score_delta),
        ("completion", "completion_rate", gates.min_completion_delta),
        ("reward", "avg_reward", gates.min_reward_delta),
    )
    for gate, figure, limit in minimums:
        if limit is not None:
            results[gate] = candidate[figure] - baseline[figure] >= limit - _EPSILON
            tolerances[gate] = limit
    if gates.max_steps_increase is not None:
        increase = candidate["avg_steps"] - baseline["avg_steps"]
        results["steps"] = increase <= gates.max_steps_increase + _EPSILON
        tolerances["steps"] = gates.max_steps_increase
    shares = (
        ("cost", "avg_cost_usd", gates.max_cost_increase),
        ("latency", "avg_seconds", gates.max_latency_increase),
    )
    for gate, figure, limit in shares:
        if limit is not None:
            # A cost that is not known cannot be held to anything: the gate fails, and says so.
            is_known = figure in candidate and figure in baseline
            results[gate] = (
                is_known and candidate[figure] <= baseline[figure] * (1 + limit) + _EPSILON
            )
            tolerances[gate] = limit
    if gates.fail_on_completion_regression:
        results["completion_regressions"] = regressions == 0
        tolerances["completion_regressions"] = 0
    return results, tolerances


def _changes(benchmark: StoredBenchmark, stored: StoredBenchmark) -> list[CaseChange]:
    """Each case of the suite that a side has scored, or that the candidate has not come to."""
    mine, other = (summary.by_case(_scored(benchmark)) for benchmark in (benchmark, stored))
    tried = {
        entry["case_id"]
        for benchmark in (benchmark, stored)
        for entry in benchmark.record["case_results"]
    }
    tried.update(benchmark.planned if benchmark.record.get("cancelled") else ())
    return [
        CaseChange(
            name,
            _means(mine.get(name)),
            _means(other.get(name)),
            (len(mine.get(name, ())), len(other.get(name, ()))),
        )
        for name in benchmark.record["suite"]
        if name in tried
    ]


def _scored(stored: StoredBenchmark) -> list[Mapping[str, Any]]:
    """The attempts that the model has answered: the others say nothing about it."""
    return [entry for entry in stored.record["case_results"] if not entry["error"]]


def _means(entries: Sequence[Mapping[str, Any]] | None) -> dict[str, float] | None:
    if not entries:
        return None
    return {
        field: summary.mean([float(entry[field]) for entry in entries])
        for field in _FIELDS.values()
    }


def _require_like(benchmark: StoredBenchmark, stored: StoredBenchmark) -> None:
    """Raise ConfigError for another suite, which says how the two differ."""
    mine, other = benchmark.record["suite"], stored.record["suite"]
    # The hash of the whole may have been edited: that of the cases decides.
    if mine == other and benchmark.record["suite_hash"] == stored.record["suite_hash"]:
        return
    parts = []
    for names, what in (
        ([name for name in mine if name not in other], "only the candidate has"),
        ([name for name in other if name not in mine], "only the baseline has"),
        ([name for name in mine if name in other and mine[name] != other[name]], "these differ:"),
    ):
        if names:
            parts.append(f"{what} {first_of(names, 'case')}")
    presets = f"{printable(benchmark.record['preset'])} and {printable(stored.record['preset'])}"
    raise ConfigError(
        f"the benchmarks are of different suites ({presets}): {'; '.join(parts) or 'their hashes'}",
        where=f"{benchmark.id}, {stored.id}",
        hint="compare two of the same preset, seed, length and versions of packages; "
        f"rlm-ci bench list shows {count(2, 'suite')} by their hash",
    )


PART = BENCH
_ACCEPT = "find what made it worse; or give its gate a tolerance"
RULES = dict.fromkeys(
    ("score", "completion", "reward", "steps", "cost", "latency", "completion-regression"),
    Severity.HIGH,
)
_TITLES = {
    "avg_score": "score",
    "completion_rate": "completed",
    "avg_reward": "reward",
    "avg_steps": "steps",
    "avg_seconds": "seconds",
    "avg_cost_usd": "cost, USD",
}
_GATES = {
    "score": "avg_score",
    "completion": "completion_rate",
    "reward": "avg_reward",
    "steps": "avg_steps",
    "cost": "avg_cost_usd",
    "latency": "avg_seconds",
}
#: Cases of the table of those that changed.
_SHOWN = 20


def build(comparison: Comparison) -> Report:
    """The report: its verdict is ``findings`` where a gate failed, else ``clean``."""
    result = comparison.result
    failed = [name for name, passed in result.gates.items() if not passed]
    gates = count(len(result.gates), "gate")
    outcome = (
        f"{len(failed)} of {gates} failed: {', '.join(failed)}" if failed else f"{gates} passed"
    )
    part = Part(
        PART,
        f"{result.candidate_id} against {result.baseline_id}: {outcome}",
        {
            "candidate": result.candidate_id,
            "baseline": result.baseline_id,
            "suite": comparison.candidate.record["suite_hash"],
            "gates": result.gates,
            "candidate_metrics": result.candidate_metrics,
            "baseline_metrics": result.baseline_metrics,
            "deltas": result.deltas,
            "intervals": comparison.intervals,
            "cases": result.case_summary,
        },
        tuple(_findings(comparison)),
    )
    document = Document("benchmark.md", "\n".join(_table(comparison)), shown=True)
    return Report(Subject(), Severity.HIGH, (part,), documents=(document,))


def _findings(comparison: Comparison) -> Iterator[Finding]:
    result = comparison.result
    for gate, figure in _GATES.items():
        if not result.gates.get(gate, True):
            message = _sentence(comparison, gate, figure)
            yield Finding(f"{PART}/{gate}", RULES[gate], message, hint=_ACCEPT, subject=gate)
    if not result.gates.get("completion_regressions", True):
        for case in comparison.cases:
            if case.is_completion_regression:
                rule = "completion-regression"
                yield Finding(f"{PART}/{rule}", RULES[rule], _lost(case), subject=case.case_id)


def _sentence(comparison: Comparison, gate: str, figure: str) -> str:
    result, title = comparison.result, _TITLES[figure]
    before, now = result.baseline_metrics.get(figure), result.candidate_metrics.get(figure)
    allowed = comparison.tolerances[gate]
    if before is None or now is None:
        return f"the {title} is not known on one side, so its gate cannot pass"
    verb = "fell" if now < before else "rose" if now > before else "stayed"
    change = now - before
    if gate in ("cost", "latency"):
        share = f"{change / before:.0%}" if before else "from nothing"
        return (
            f"the {title} {verb} from {before:.4g} to {now:.4g} ({share}, allowed: {allowed:.0%})"
        )
    return (
        f"the {title} {verb} from {before:.3g} to {now:.3g} ({change:+.3g}, allowed: {allowed:+g})"
    )


def _lost(case: CaseChange) -> str:
    name = printable(case.case_id)
    if case.candidate is None or case.baseline is None:
        return f"{name}: the {'candidate' if case.candidate is None else 'baseline'} lacks it"
    if case.missing_repeats:
        side = "candidate" if case.attempts[0] < case.attempts[1] else "baseline"
        return f"{name}: the {side} has {min(case.attempts)} of {max(case.attempts)} repeats"
    scores = f"score {case.baseline['score']:.2f} before, {case.candidate['score']:.2f} now"
    return f"{name} is not completed any more ({scores})"


def _table(comparison: Comparison) -> Iterator[str]:
    result = comparison.result
    candidate, baseline = comparison.candidate.record, comparison.baseline.record
    for side, stored in (("Candidate", candidate), ("Baseline", baseline)):
        attempts = count(len(stored["case_results"]), "attempt")
        ended = ", cancelled" if stored.get("cancelled") else ""
        yield printable(
            f"{side}: {stored['benchmark_id']}, {stored['preset']}, {stored['mode']}, "
            f"{stored['model']}, {attempts}{ended}"
        )
    yield ""
    missing = result.case_summary["missing_cases"]
    if missing:
        yield f"Figures are of the {count(result.case_summary['common_cases'], 'case')} of both."
        yield ""
    for number, side in enumerate(("candidate", "baseline")):
        fewer = [
            change for change in comparison.cases if change.attempts[number] < max(change.attempts)
        ]
        lacking = sum(change.missing_repeats for change in fewer)
        if lacking:
            yield f"The {side} lacks {count(lacking, 'repeat')}: its sample is smaller."
            yield ""
    rows = [("figure", "baseline", "candidate", "change", "95 % interval", "gate")]
    gates = {figure: gate for gate, figure in _GATES.items()}
    for figure, title in _TITLES.items():
        before, now = result.baseline_metrics.get(figure), result.candidate_metrics.get(figure)
        passed = result.gates.get(gates[figure])
        rows.append(
            (
                title,
                _number(before),
                _number(now),
                "–" if before is None or now is None else f"{now - before:+.4g}",
                _interval(comparison.intervals.get(figure)),
                "–" if passed is None else "passed" if passed else "failed",
            )
        )
    yield from table(rows)
    changed = [
        case
        for case in comparison.cases
        if case.is_score_regression or _is_better(case) or case.missing_repeats
    ]
    if changed:
        yield ""
        yield "Cases whose score changed, or that one side lacks, or has not repeated as often:"
        yield ""
        yield from table([("case", "baseline", "candidate", ""), *map(_row, changed[:_SHOWN])])
    if len(changed) > _SHOWN:
        yield f"\nand {count(len(changed) - _SHOWN, 'more case')}"


def _row(case: CaseChange) -> tuple[str, ...]:
    candidate, baseline = case.attempts
    scores = (
        "lacks it"
        if side is None
        else f"{side['score']:.2f}{f' ({number})' if case.missing_repeats else ''}"
        for side, number in ((case.baseline, baseline), (case.candidate, candidate))
    )
    word = (
        "regression" if case.is_completion_regression else "better" if _is_better(case) else "worse"
    )
    return (printable(case.case_id)[:60], *scores, word)


def _is_better(case: CaseChange) -> bool:
    if case.candidate is None or case.baseline is None:
        return False
    return case.candidate["score"] > case.baseline["score"]


def _number(value: float | None) -> str:
    return "not known" if value is None else f"{value:.4g}"


def _interval(interval: tuple[float, float] | None) -> str:
    return "–" if interval is None else f"{interval[0]:+.3g} to {interval[1]:+.3g}"


def table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Rows as a Markdown table whose columns stand below each other."""
    cells = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    widths = [max(len(row[at]) for row in cells) for at in range(len(rows[0]))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        for row in cells
    ]
    yield lines[0]
    yield "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    yield from lines[1:]
