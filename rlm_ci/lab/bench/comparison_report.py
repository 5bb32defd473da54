"""A comparison as a report: a table, and a finding for each gate that failed."""

from __future__ import annotations

from rlm_ci.report.findings import Document, Finding, Part, Report, Severity, Subject
from rlm_ci.report.wording import BENCH
from rlm_ci.text.printable import count, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rlm_ci.lab.bench.compare import CaseChange, Comparison

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
