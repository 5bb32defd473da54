"""Episodes of a model in an environment, and benchmarks of models and environments."""

from __future__ import annotations

from rlm_ci.environments.rewards import RLMRewardProfile
from rlm_ci.evaluation.event_bus import RLMEventBus, RLMRuntimeEvent
from rlm_ci.evaluation.observability import RLMObservability
from rlm_ci.evaluation.readiness import EnvironmentDoctorCheck
from rlm_ci.evaluation.results import (
    BenchmarkCase,
    RLMBenchmarkComparison,
    RLMBenchmarkResult,
    RLMRunResult,
)
from rlm_ci.evaluation.runner import RLMRunner

__all__ = [
    "BenchmarkCase",
    "EnvironmentDoctorCheck",
    "RLMBenchmarkComparison",
    "RLMBenchmarkResult",
    "RLMEventBus",
    "RLMObservability",
    "RLMRewardProfile",
    "RLMRunResult",
    "RLMRunner",
    "RLMRuntimeEvent",
]
