"""What an episode, a benchmark and a comparison return; a case of a benchmark.

These are dataclasses, unlike the other records of the package, because callers of the API may use
``dataclasses.asdict`` and the like on them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlm_ci.errors import RlmCiError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rlm_ci.lab.run import EpisodeJob
    from rlm_ci.runs.run import Run


@dataclass(slots=True)
class RLMRunResult:
    """``usage_summary`` has ``total_calls``, ``prompt_tokens`` and ``completion_tokens``."""

    run_id: str
    run_path: Path
    completed: bool
    steps: int
    total_reward: float
    final_response: str
    started_at: str
    finished_at: str
    environment: str
    task: str
    usage_summary: dict[str, int] | None = None


def of_episode(run: Run, job: EpisodeJob, task: str, environment: str) -> RLMRunResult:
    """The result of the episode that ``job`` has carried out in ``run``."""
    end, report = job.end, job.report
    if end is None or report is None:
        raise RlmCiError("the run was replaced by stages of the repository", where=run.id)
    usage = report.usage
    return RLMRunResult(
        run_id=run.id,
        run_path=Path(run.path_of("rlm", "trajectory.jsonl")),
        completed=end.completed,
        steps=end.steps,
        total_reward=end.reward,
        final_response=end.answer,
        started_at=run.manifest.started_at,
        finished_at=str(run.manifest.completed_at),
        environment=environment,
        task=task,
        usage_summary={
            "total_calls": usage.calls,
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
        },
    )


@dataclass(slots=True)
class RLMBenchmarkResult:
    """``mode`` is ``native``, ``harness`` or ``direct-llm``."""

    benchmark_id: str
    summary_path: Path
    preset: str
    mode: str
    started_at: str
    finished_at: str
    total_cases: int
    completed_cases: int
    avg_reward: float
    avg_steps: float
    cancelled: bool
    case_results: list[dict[str, Any]]


@dataclass(slots=True)
class RLMBenchmarkComparison:
    """``deltas`` are candidate less baseline; ``passed`` when all ``gates`` are."""

    candidate_id: str
    baseline_id: str
    candidate_path: Path
    baseline_path: Path
    candidate_metrics: dict[str, float]
    baseline_metrics: dict[str, float]
    deltas: dict[str, float]
    case_summary: dict[str, int]
    gates: dict[str, bool]
    passed: bool


@dataclass(slots=True)
class BenchmarkCase:
    """One case of a pack.

    ``context`` is a text, or a table: ``{"path": …}``, or ``{"generator": …}`` with its arguments.
    ``scorer`` names what compares an answer with ``expected_answer``; a judge goes by ``rubric``.
    It is completed when the model has answered in time, with a score of at least ``pass_score``.
    """

    case_id: str
    description: str
    task: str
    environment: str = "generic"
    max_steps: int = 4
    exec_timeout: int = 30
    context: str | dict[str, Any] | None = None
    expected_answer: Any = None
    scorer: str = "exact"
    rubric: str | None = None
    pass_score: float = 1.0
