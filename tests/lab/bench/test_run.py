"""Benchmarks by ``RLMRunner``: each case an episode of its own, all under one budget."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.console.progress import Progress
from rlm_ci.errors import ConfigError
from rlm_ci.evaluation import RLMRunner
from rlm_ci.lab.bench.benchmark import BenchOptions
from rlm_ci.lab.bench.packs import pack
from rlm_ci.lab.bench.run import carry_out
from rlm_ci.lab.connectors import ConnectorModel
from rlm_ci.lab.terms import EpisodeCaller
from rlm_ci.pipelines import stored_runs
from rlm_ci.runs import manifest
from testing.mending_model import mending
from testing.repositories import events

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from testing.repositories.git_repo import GitRepo

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
        if "`python3 -m unittest` fails" in prompt:
            return mending(prompt)
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


def test_a_runner_runs_lists_and_compares_benchmarks(
    runner: Callable[[], RLMRunner], tmp_path: Path
) -> None:
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
    ).gates == {"completion": True, "reward": True, "steps": True}
    assert made.compare_benchmarks(min_score_delta=-0.5).gates["score"] is False
    listed = made.list_benchmark_runs(limit=1)
    assert [one["benchmark_id"] for one in listed] == [second.benchmark_id]
    assert "case_results" not in listed[0]
    old = tmp_path / ".rlm_code" / "rlm" / "benchmarks"
    old.mkdir(parents=True)
    (old / "bench_1.json").write_text('{"benchmark_id": "bench_1", "case_results": [{}]}')
    (old / "bench_2.json").write_text("{")
    assert made.list_benchmark_runs()[-1]["benchmark_id"] == "bench_1"
    assert len(made.list_benchmark_runs()) == 3
    assert {"sums", "dspy_quick"} <= {one["preset"] for one in made.benchmark_presets()}
    assert "needle" in made.benchmark_pack_aliases()
    assert made.run_benchmark(preset="sums", mode="direct-llm", limit=1).avg_reward == 1.0


def test_a_case_of_code_in_another_environment_has_no_patch(
    runner: Callable[[], RLMRunner],
) -> None:
    """Its hidden tests judge the code as it was."""
    result = runner().run_benchmark(preset="dspy_quick", environment="generic", limit=1)
    [case] = result.case_results
    assert (case["environment"], case["score"]) == ("generic", 0.0)


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


@pytest.mark.full
@pytest.mark.parametrize("mode", ["native", "harness"])
def test_the_default_preset_is_solved_by_a_model_that_can(
    tmp_path: Path, repo: GitRepo, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """In a job for a pull request, of which the generated files know nothing."""
    base = repo.write("a.txt", "a\n").commit()
    head = repo.write("a.txt", "b\n").commit()
    event = events.write_event(tmp_path, events.pull_request(base, head))
    for name, value in events.actions_environment("pull_request", event).items():
        monkeypatch.setenv(name, value)
    made = RLMRunner(Connector(), None, workdir=repo.path)
    is_harness = mode == "harness"
    strategy = "codemode" if is_harness else "tool_call"
    result = made.run_benchmark(
        mode=mode, limit=1, include_mcp=is_harness, harness_strategy=strategy
    )
    [entry] = result.case_results
    assert (entry["score_note"], entry["steps"]) == ("25 of 25 tests pass", 3)
    assert entry["completed"]
    lines = made.load_run_events(entry["run_id"])
    assert [one["action"]["action"] for one in lines if one["type"] == "step"] == [
        "write", "run_tests", "final"
    ]  # fmt: skip
    assert lines[1]["observation"]["pytest"] is not None, lines[1]
    beside = json.loads(result.summary_path.read_text())["direct"]["case_results"]
    assert [one["score"] for one in beside] == [1.0]
    if is_harness:
        assert entry["harness_tool_calls"] == 3
        assert (entry["mcp_enabled"], entry["mcp_tool_calls"]) == (False, 0)


@pytest.mark.full
def test_the_harness_has_the_context_as_a_file(tmp_path: Path) -> None:
    class Reader:
        def generate_response(self, prompt: str) -> str:
            if "exactly one JSON object" not in prompt:
                return "unknown"
            found = re.search(r"The number is (\d)\.", prompt)
            if found:
                return json.dumps({"action": "final", "final_response": found[1]})
            return json.dumps({"action": "read", "path": "context.txt"})

    case = {"id": "c", "task": "Which number?", "expected": 7, "context": "The number is 7.\n"}
    (tmp_path / "numbers.json").write_text(json.dumps([case]))
    made = RLMRunner(Reader(), None, workdir=tmp_path)
    result = made.run_benchmark(preset=str(tmp_path / "numbers.json"), mode="harness")
    assert (result.completed_cases, result.avg_steps) == (1, 2.0)
    assert result.case_results[0]["harness_tool_calls"] == 2


def test_another_model_may_be_the_judge(tmp_path: Path) -> None:
    """By the option of the command; its calls are under the same budget."""
    asked: list[tuple[str | None, bool]] = []

    class Judged:
        model = "echo"

        def generate_response(self, prompt: str, model: str | None = None) -> str:
            asked.append((model, "Rubric:" in prompt))
            return '{"score": 0.5, "reason": "half"}' if "Rubric:" in prompt else "a poem"

    (tmp_path / "poems.json").write_text(
        json.dumps([{"id": "poem", "task": "A poem.", "rubric": "It rhymes.", "pass_score": 0.5}])
    )
    options = BenchOptions(mode="direct-llm", judge_model="judge")
    settings = stored_runs.settings_of({"repo": str(tmp_path), "max_calls": "2"})
    caller = EpisodeCaller(ConnectorModel(Judged(), metered=False))
    with Progress({}, quiet=True) as progress:
        result, failure = carry_out(
            pack.choose(str(tmp_path / "poems.json")),
            options,
            settings,
            stored_runs.StoredRuns(settings),
            progress=progress,
            caller=caller,
        )
    assert failure is None
    assert asked == [(None, False), ("judge", True)]
    [entry] = result.case_results
    assert (entry["score"], entry["score_note"], entry["completed"]) == (0.5, "half", True)


def test_a_case_never_changes_the_user_s_own_files(tmp_path: Path) -> None:
    """A pack may ask for the coding environment without files of its own."""

    class Writer:
        def generate_response(self, prompt: str) -> str:
            if "exactly one JSON object" not in prompt:
                return "1"
            if "[assistant]\n" in prompt:
                return json.dumps({"action": "final", "final_response": "1"})
            return json.dumps({"action": "write", "path": "own.txt", "content": "theirs"})

    (tmp_path / "own.txt").write_text("mine")
    case = {"id": "c", "task": "Say 1.", "expected": 1, "environment": "coding"}
    (tmp_path / "pack.json").write_text(json.dumps([case]))
    made = RLMRunner(Writer(), None, workdir=tmp_path)
    assert made.run_benchmark(preset=str(tmp_path / "pack.json")).completed_cases == 1
    assert (tmp_path / "own.txt").read_text() == "mine"


@pytest.mark.full
def test_the_longest_answer_is_a_result(tmp_path: Path) -> None:
    """A million characters, each of six bytes in JSON."""

    class Long:
        def generate_response(self, prompt: str) -> str:
            return "```repl\nFINAL(chr(1) * 1_000_000)\n```" if "```repl" in prompt else "1"

    case = {"id": "c", "task": "Say it.", "expected": "1", "context": "text"}
    (tmp_path / "pack.json").write_text(json.dumps([case]))
    made = RLMRunner(Long(), None, workdir=tmp_path)
    [entry] = made.run_benchmark(preset=str(tmp_path / "pack.json")).case_results
    assert entry["final_response"].startswith("\x01" * 9_000)
