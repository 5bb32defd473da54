"""Episodes of a model in an environment, and benchmarks of models and environments."""

from __future__ import annotations

from rlm_ci.evaluation.results import (
    BenchmarkCase,
    RLMBenchmarkComparison,
    RLMBenchmarkResult,
    RLMRunResult,
)

__all__ = [
    "BenchmarkCase",
    "RLMBenchmarkComparison",
    "RLMBenchmarkResult",
    "RLMRunResult",
]
