"""A benchmark: its cases beside the baseline, what ends it early, and what it keeps."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci import sandbox
from rlm_ci.errors import ConfigError, LimitError, RemoteError
from rlm_ci.lab.bench import benchmark, summary
from rlm_ci.lab.bench.benchmark import BenchOptions, BenchServices, CaseRun
from rlm_ci.lab.bench.generators.seeded import KnownCall
from rlm_ci.lab.bench.packs import pack
from rlm_ci.lab.bench.scoring import hidden_tests
from rlm_ci.lab.bench.scoring.scorers import Reply
from rlm_ci.lab.results import BenchmarkCase, RLMRunResult

if TYPE_CHECKING:
    from collections.abc import Callable

    from rlm_ci.lab.bench.prepare import PreparedCase
    from rlm_ci.lab.results import RLMBenchmarkResult

#: What the published API has of each case.
FIELDS = (
    "case_id", "description", "task", "mode", "environment", "run_id", "completed", "steps",
    "total_reward", "usage", "final_response",
)  # fmt: skip


def preset(*answers: Any, **more: Any) -> pack.Preset:
    cases = tuple(
        BenchmarkCase(f"c{number}", "a sum", f"Say {answer}", expected_answer=answer, **more)
        for number, answer in enumerate(answers, 1)
    )
    return pack.Preset("sums", "", cases, "sums.json", ".")


def episode(said: Callable[[PreparedCase], str], **more: Any) -> benchmark.RunCase:
    """An environment whose model says this in two steps."""

    def run_case(prepared: PreparedCase, options: BenchOptions) -> CaseRun:
        text = said(prepared)
        result = RLMRunResult(
            "run-1", Path("run.jsonl"), bool(text), 2, 0.7, text, "", "",
            prepared.case.environment, prepared.case.task,
            {"total_calls": 2, "prompt_tokens": 10, "completion_tokens": 5},
        )  # fmt: skip
        extra = {"harness_tool_calls": 3} if options.mode == "harness" else {}
        return CaseRun(result, 0.01, harness=extra, **more)

    return run_case


def echo(prompt: str) -> Reply:
    """A model that says what it is told to."""
    return Reply(prompt.rpartition("Say ")[2], 7, 1, 0.002)


def run(tmp_path: Path, given: pack.Preset, **more: Any) -> tuple[RLMBenchmarkResult, Any]:
    services = {name: more.pop(name) for name in BenchServices._fields if name in more}
    path = tmp_path / "bench" / "benchmark.json"
    held = BenchServices(**{"model": "m", "ask": echo, **services})
    result = benchmark.run(given, BenchOptions(**more), held, "b-1", str(path))
    return result, json.loads(path.read_text())


def test_each_case_is_run_beside_the_baseline(tmp_path: Path) -> None:
    wrong_first = episode(lambda case: "9" if case.case.case_id == "c1" else "2")
    result, kept = run(
        tmp_path, preset(1, 2), run_case=wrong_first, environment="generic", max_steps=7
    )
    assert (result.total_cases, result.completed_cases, result.cancelled) == (2, 1, False)
    assert (result.avg_reward, result.avg_steps) == (0.7, 2.0)
    assert result.benchmark_id == "b-1"
    assert result.case_results == kept["case_results"]
    for entry in kept["case_results"]:
        assert entry.keys() >= set(FIELDS)
    assert [one["score"] for one in kept["case_results"]] == [0.0, 1.0]
    assert [one["score"] for one in kept["direct"]["case_results"]] == [1.0, 1.0]
    assert kept["direct"]["completion_rate"] == 1.0
    assert kept["cost_usd"] == pytest.approx(0.02)
    assert kept["usage_totals"]["prompt_tokens"] == 20
    assert kept["options"]["max_steps"] == 7


def test_an_answer_after_the_last_step_is_no_completion(tmp_path: Path) -> None:
    result, kept = run(tmp_path, preset(""), run_case=episode(lambda _case: ""))
    assert kept["case_results"][0]["score"] == 1.0
    assert result.completed_cases == 0


def test_harness_has_its_counters_and_direct_runs_once(tmp_path: Path) -> None:
    _, kept = run(tmp_path, preset(1), run_case=episode(lambda _case: "1"), mode="harness")
    assert kept["case_results"][0]["harness_tool_calls"] == 3
    result, kept = run(tmp_path, preset(1), mode="direct-llm")
    assert kept["direct"] is None
    assert (result.avg_reward, result.avg_steps) == (1.0, 1.0)


def test_repeats_have_intervals(tmp_path: Path) -> None:
    said = iter(["1", "9", "1", "1"] * 2)
    result, kept = run(
        tmp_path, preset(1, 1), ask=lambda _prompt: Reply(next(said)), mode="direct-llm", repeats=4
    )
    assert (result.total_cases, result.completed_cases) == (8, 6)
    low, high = kept["intervals"]["avg_score"]
    assert low < 0.75 < high
    assert [one["repeat"] for one in kept["case_results"]] == [1, 2, 3, 4] * 2


def test_a_budget_that_is_used_up_keeps_what_there_is(tmp_path: Path) -> None:
    def ask(prompt: str) -> Reply:
        if prompt == "Say 3":
            raise LimitError("the budget of 2 calls is used up", budget="max_calls")
        return echo(prompt)

    result, kept = run(tmp_path, preset(1, 2, 3, 4), ask=ask, mode="direct-llm")
    assert result.cancelled
    assert "2 calls" in kept["cancelled_reason"]
    assert [one["case_id"] for one in kept["case_results"]] == ["c1", "c2"]
    assert kept["total_cases"] == 4
    # An episode that ends by a budget ends the benchmark too, and is no failure of its case.
    result, kept = run(tmp_path, preset(1), run_case=episode(lambda _: "", limit="no money"))
    assert (result.cancelled, kept["case_results"]) == (True, [])


def test_an_interrupt_keeps_what_there_is(tmp_path: Path) -> None:
    def ask(prompt: str) -> Reply:
        if prompt == "Say 2":
            raise KeyboardInterrupt
        return echo(prompt)

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, preset(1, 2), ask=ask, mode="direct-llm")
    kept = summary.read(str(tmp_path / "bench" / "benchmark.json")).record
    assert (kept["cancelled"], kept["cancelled_reason"]) == (True, "it was interrupted")
    assert len(kept["case_results"]) == 1


def test_a_model_that_refuses_a_case_fails_it_and_three_in_a_row_end_all(tmp_path: Path) -> None:
    refused = []

    def ask(prompt: str) -> Reply:
        if prompt in ("Say 1", "Say 3", "Say 4", "Say 5"):
            refused.append(prompt)
            raise RemoteError("the prompt is too long")
        return echo(prompt)

    with pytest.raises(RemoteError):
        run(tmp_path, preset(1, 2, 3, 4, 5, 6), ask=ask, mode="direct-llm")
    kept = summary.read(str(tmp_path / "bench" / "benchmark.json")).record
    assert refused == ["Say 1", "Say 3", "Say 4", "Say 5"]
    assert [bool(one["error"]) for one in kept["case_results"]] == [True, False, True, True]
    assert kept["failed_cases"] == 3


def test_a_context_goes_into_the_prompt_as_far_as_it_fits(tmp_path: Path) -> None:
    asked: list[str] = []

    def ask(prompt: str) -> Reply:
        asked.append(prompt)
        return Reply("1")

    given = preset(1, 1, context="q" * 10_000)
    _, kept = run(tmp_path, given, ask=ask, mode="direct-llm", context_tokens=2048)
    [left_out, _] = [one["context_bytes_left_out"] for one in kept["case_results"]]
    assert 6_200 < left_out < 6_400, "three quarters of 2,048 tokens are 3,840 bytes"
    assert asked[0].count("q") == 10_000 - left_out
    assert f"{left_out:,} bytes that do not fit" in asked[0]
    _, kept = run(tmp_path, given, ask=ask, mode="direct-llm")
    assert kept["case_results"][0]["context_bytes_left_out"] == 0


def test_what_is_unknown_is_an_error(tmp_path: Path) -> None:
    for wrong, told in (
        ({"mode": "nativ"}, "there is no mode"),
        ({"harness_strategy": "tools"}, "there is no harness_strategy"),
        ({"limit": 0}, "limit is 0"),
        ({"repeats": -1}, "repeats is -1"),
    ):
        with pytest.raises(ConfigError, match=told):
            run(tmp_path, preset(1), **wrong)
    with pytest.raises(ConfigError, match="nothing runs the mode native"):
        run(tmp_path, preset(1))


def mending(prepared: PreparedCase) -> str:
    """An agent that writes the right program: the function of the generator itself."""
    from rlm_ci.lab.bench.generators import programs

    assert prepared.workdir is not None
    for program in programs.PROGRAMS:
        name = program.function.__name__
        if prepared.module.startswith(f"{name}_"):
            source = inspect.getsource(program.function)
            Path(prepared.workdir, f"{prepared.module}.py").write_text(source)
    return "done"


def test_files_are_judged_by_hidden_tests(tmp_path: Path) -> None:
    """The agent mends its copy; the baseline has one of its own, and answers with nothing."""
    result, kept = run(
        tmp_path,
        pack.choose("fix-the-test"),
        run_case=episode(mending),
        limit=1,
        sandbox=lambda: sandbox.choose("auto", {}),
    )
    assert kept["case_results"][0]["score_note"] == "25 of 25 tests pass"
    assert result.completed_cases == 1
    assert kept["direct"]["case_results"][0]["score"] == 0.0


def test_a_module_cannot_forge_what_its_hidden_tests_return(tmp_path: Path) -> None:
    """It may print, end the process, or say that it is equal to everything: it has no answer."""
    (tmp_path / "json.py").write_text("raise SystemExit\n")
    (tmp_path / "agent.py").write_text(
        "import os, sys\n"
        "class Same(int):\n"
        "    def __eq__(self, other): return True\n"
        "    __hash__ = int.__hash__\n"
        "for fd in range(1, 12):\n"
        "    try: os.write(fd, b'[0, 2]\\n[1, null]\\n[[[[\\n[1, 2, 3]\\n')\n"
        "    except OSError: pass\n"
        "def right(x): return x + 1\n"
        "def same(x): return Same(x)\n"
        "def true(x): return True\n"
        "def loud(x): print('[3, 8]', flush=True); return 9\n"
        "def end(x): os._exit(0)\n"
    )
    calls = [
        KnownCall("same", [1], 5), KnownCall("true", [1], 1), KnownCall("loud", [1], 8),
        KnownCall("missing", [1], 2),
        KnownCall("right", [4], 5), KnownCall("end", [1], 2), KnownCall("right", [1], 2),
    ]  # fmt: skip
    found = hidden_tests.verify(
        sandbox.choose("auto", {}), str(tmp_path), "agent", calls, seconds=20
    )
    assert found == [False, False, False, False, True, False, False]
