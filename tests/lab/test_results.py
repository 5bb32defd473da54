"""The results have the fields of the published API, in its order, without a ``__dict__``."""

from __future__ import annotations

from dataclasses import fields

import pytest

from rlm_ci.evaluation import (
    BenchmarkCase,
    RLMBenchmarkComparison,
    RLMBenchmarkResult,
    RLMRunResult,
)

FIELDS = {
    RLMRunResult: "run_id run_path completed steps total_reward final_response started_at "
    "finished_at environment task usage_summary",
    RLMBenchmarkResult: "benchmark_id summary_path preset mode started_at finished_at total_cases "
    "completed_cases avg_reward avg_steps cancelled case_results",
    RLMBenchmarkComparison: "candidate_id baseline_id candidate_path baseline_path "
    "candidate_metrics baseline_metrics deltas case_summary gates passed",
}


@pytest.mark.parametrize("result", FIELDS)
def test_a_result_has_the_fields_of_the_api(result: type) -> None:
    assert [field.name for field in fields(result)] == FIELDS[result].split()
    assert result.__slots__ == tuple(FIELDS[result].split())  # type: ignore[attr-defined]


def test_a_case_has_the_published_defaults() -> None:
    case = BenchmarkCase("sum", "adds", "What is 1 + 1?")
    assert (case.environment, case.max_steps, case.exec_timeout) == ("generic", 4, 30)
