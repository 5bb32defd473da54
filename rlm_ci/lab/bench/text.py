"""Benchmarks for people: aligned columns, plain words."""

from __future__ import annotations

from rlm_ci.text.neutralise import clip
from rlm_ci.text.printable import count, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from rlm_ci.lab.bench.summary import StoredBenchmark

#: Characters of a name, and of a note, in a table; of an answer.
_NAME, _NOTE, _ANSWER = 32, 60, 300


def columns(rows: Sequence[Sequence[str]], right: str = "") -> Iterator[str]:
    """Rows with their columns below each other; ``right`` has an ``r`` for one set to the right."""
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    for row in rows:
        cells = (
            cell.rjust(width) if right[at : at + 1] == "r" else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join(cells).rstrip()


def presets(outlines: Sequence[Mapping[str, Any]], benchmarks: Sequence[StoredBenchmark]) -> str:
    """The presets there are, and the benchmarks that were run."""
    rows = [("preset", "cases", "scored by", "what it is")]
    rows += [
        (
            _short(outline["preset"]),
            str(outline["total_cases"]),
            ", ".join(outline["scorers"]),
            printable(outline["description"]),
        )
        for outline in outlines
    ]
    lines = list(columns(rows, " r"))
    if benchmarks:
        lines += ["", *columns([_HEADS, *map(_benchmark, benchmarks)], "    rrr")]
    return "\n".join((*lines, ""))


_HEADS = ("benchmark", "suite", "preset", "mode", "completed", "score", "cost", "model")


def _benchmark(benchmark: StoredBenchmark) -> tuple[str, ...]:
    record = benchmark.record
    ended = f"{_integer(record, 'completed_cases')}/{_integer(record, 'total_cases')}"
    return (
        printable(benchmark.id)[:_NAME],
        printable(record["suite_hash"])[:8],
        _short(record["preset"]),
        _short(record["mode"]),
        f"{ended}{' cancelled' if record.get('cancelled') else ''}",
        f"{_figure(record, 'avg_score'):.3f}",
        _usd(record.get("cost_usd")),
        _short(record["model"]),
    )


def answers(record: Mapping[str, Any]) -> str:
    """What was expected of each attempt, and what was answered."""
    lines = []
    for entry in record["case_results"]:
        expected = "hidden tests" if entry["scorer"] == "tests" else entry["expected_answer"]
        lines += [
            _short(entry["case_id"]),
            f"  expected: {clip(printable(str(expected)), _ANSWER)}",
            f"  answered: {clip(printable(entry['final_response']), _ANSWER)}",
        ]
    return "\n".join((*lines, "", ""))


def result(record: Mapping[str, Any]) -> str:
    """A benchmark that has just been run: its attempts, and its sums beside the baseline's."""
    entries, beside = record["case_results"], record["direct"]
    baseline = beside["case_results"] if beside else []
    heads = ["case", "score", "completed", "steps", "seconds", "tokens", "cost"]
    rows = [[*heads, *(["direct"] if beside else []), "note"]]
    for at, entry in enumerate(entries):
        name = _short(entry["case_id"])
        name += f" #{entry['repeat']}" if record["options"]["repeats"] > 1 else ""
        direct = [f"{baseline[at]['score']:.2f}" if at < len(baseline) else "–"] if beside else []
        rows.append(
            [
                name,
                f"{entry['score']:.2f}",
                "yes" if entry["completed"] else "no",
                str(entry["steps"]),
                f"{entry['seconds']:.1f}",
                f"{_tokens(entry):,}",
                _usd(entry["cost_usd"]),
                *direct,
                _note(entry, baseline[at] if at < len(baseline) else None),
            ]
        )
    lines = [*columns(rows, " r rrrrr"), "", *_sums(record)]
    if record["cancelled"]:
        lines += ["", f"It ended early: {printable(record['cancelled_reason'])}"]
    return "\n".join((*lines, ""))


def _sums(record: Mapping[str, Any]) -> Iterator[str]:
    sides = [(record["mode"], record)]
    if record["direct"]:
        sides.append(("direct-llm (baseline)", record["direct"]))
    rows = [("", "completed", "score", "seconds p50, p95", "tokens", "cost")]
    for name, side in sides:
        seconds, intervals = side["latency_seconds"], side["intervals"]
        rows.append(
            (
                name,
                f"{side['completion_rate']:.0%}{_between(intervals['completion_rate'])}",
                f"{side['avg_score']:.3f}{_between(intervals['avg_score'])}",
                f"{seconds['p50']:.1f}, {seconds['p95']:.1f}",
                f"{_total(side):,}",
                _usd(side["cost_usd"]),
            )
        )
    yield from columns(rows)
    yield "In brackets: 95 % intervals, of the score over the repeats."


def _note(entry: Mapping[str, Any], baseline: Mapping[str, Any] | None) -> str:
    notes = [entry["error"] or entry["score_note"]]
    for side, whose in ((entry, ""), (baseline, "direct: ")):
        left_out = side.get("context_bytes_left_out", 0) if side else 0
        if left_out:
            notes.append(f"{whose}{count(left_out, 'byte')} of the context did not fit")
        if side and whose and side["error"]:
            notes.append(f"{whose}{side['error']}")
    return "; ".join(printable(note)[:_NOTE] for note in notes if note)


def _between(interval: Sequence[float] | None) -> str:
    return f" [{interval[0]:.2f}, {interval[1]:.2f}]" if interval else ""


def _tokens(entry: Mapping[str, Any]) -> int:
    usage = entry["usage"] or {}
    return int(usage.get("prompt_tokens", 0)) + int(usage.get("completion_tokens", 0))


def _total(side: Mapping[str, Any]) -> int:
    usage = side["usage_totals"]
    return int(usage["prompt_tokens"]) + int(usage["completion_tokens"])


def _usd(value: object) -> str:
    return f"${value:.4f}" if isinstance(value, (int, float)) else "–"


def _short(text: object) -> str:
    return printable(str(text))[:_NAME]


def _figure(record: Mapping[str, Any], name: str) -> float:
    value = record.get(name)
    return float(value) if isinstance(value, (int, float)) else 0.0


def _integer(record: Mapping[str, Any], name: str) -> int:
    return int(_figure(record, name))
