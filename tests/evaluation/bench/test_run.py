"""Benchmarks by ``RLMRunner``: each case an episode of its own, all under one budget."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.errors import ConfigError
from rlm_ci.evaluation import RLMRunner
from rlm_ci.runs import manifest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CASES = [
    {"id": "first", "task": "Say 1.", "expected_answer": 1},
    {"id": "second", "task": "Say 2.", "expected_answer": 2},
]


class Connector:
    """Says what it is told; an episode asks for actions, the baseline for an answer."""

    model = "echo"

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.wrong = False

    def generate_response(self, prompt: str) -> str:
        self.asked.append(prompt)
        said: str = re.findall(r"Say (\d)\.", prompt)[-1]
        if "exactly one JSON object" not in prompt:
            return said
        said = "9" if self.wrong else said
        return json.dumps({"action": "final", "final_response": said})


class Engine:
    def execute_code(self, code: str) -> tuple[str, str | None]:
        return code, None


@pytest.fixture
def runner(tmp_path: Path) -> Callable[[], RLMRunner]:
    pack = tmp_path / "sums.json"
    pack.write_text(json.dumps({"presets": {"sums": CASES}}))
    return lambda: RLMRunner(Connector(), Engine(), workdir=tmp_path, benchmark_pack_paths=[pack])


def test_a_runner_runs_lists_and_compares_benchmarks(runner: Callable[[], RLMRunner]) -> None:
    made = runner()
    first = made.run_benchmark(preset="sums")
    assert (first.total_cases, first.completed_cases, first.avg_steps) == (2, 2, 1.0)
    assert [one["final_response"] for one in first.case_results] == ["1", "2"]
    assert first.avg_reward == first.case_results[0]["total_reward"] == 1.0
    for one in first.case_results:
        held = manifest.read(str(first.summary_path.parents[2] / one["run_id"]))
        assert (held.parent_run_id, held.status) == (first.benchmark_id, "succeeded")
    of_bench = manifest.read(str(first.summary_path.parents[1]))
    assert [one.status for one in of_bench.child_runs] == ["succeeded", "succeeded"]
    made.llm_connector.wrong = True
    second = made.run_benchmark(preset="sums", repeats=2)
    assert (second.total_cases, second.completed_cases) == (4, 0)
    compared = made.compare_benchmarks()
    assert (compared.candidate_id, compared.baseline_id) == (
        second.benchmark_id, first.benchmark_id
    )  # fmt: skip
    assert not compared.passed
    assert compared.deltas["completion_rate"] == -1.0
    assert compared.case_summary["completion_regressions"] == 2
    assert made.compare_benchmarks(
        min_completion_delta=-1.0, fail_on_completion_regression=False
    ).gates == {"score": False, "completion": True, "reward": True, "steps": True}
    listed = made.list_benchmark_runs(limit=1)
    assert [one["benchmark_id"] for one in listed] == [second.benchmark_id]
    assert "case_results" not in listed[0]
    assert {"sums", "dspy_quick"} <= {one["preset"] for one in made.benchmark_presets()}
    assert "needle" in made.benchmark_pack_aliases()
    assert made.run_benchmark(preset="sums", mode="direct-llm", limit=1).avg_reward == 1.0


def test_one_budget_holds_for_all_cases(
    runner: Callable[[], RLMRunner], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three calls: the first case and its baseline, and the second case."""
    monkeypatch.setenv("RLM_CI_MAX_CALLS", "3")
    made = runner()
    result = made.run_benchmark(preset="sums", repeats=5)
    assert result.cancelled
    assert len(made.llm_connector.asked) == 3
    assert len(result.case_results) == 2
    monkeypatch.setenv("RLM_CI_MAX_CALLS", "2")
    again = made.run_benchmark(preset="sums", repeats=5)
    # An attempt that had no room is no failure of its case.
    assert (again.cancelled, len(again.case_results), again.completed_cases) == (True, 1, 1)
    assert len(made.llm_connector.asked) == 5


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"preset": "sum"}, "no preset 'sum'"),
        ({"preset": "sums", "mode": "nativ"}, "no mode 'nativ'"),
        ({"preset": "sums", "environment": "nowhere"}, "no environment 'nowhere'"),
    ],
)
def test_what_is_unknown_is_an_error_before_anything_is_asked(
    runner: Callable[[], RLMRunner], more: dict[str, Any], told: str
) -> None:
    made = runner()
    with pytest.raises(ConfigError, match=told):
        made.run_benchmark(**more)
    assert made.llm_connector.asked == []
