"""Episodes of a model in an environment, and benchmarks of models and environments."""

from __future__ import annotations

from rlm_ci.environments.rewards import RLMRewardProfile
from rlm_ci.lab.event_bus import RLMEventBus, RLMRuntimeEvent
from rlm_ci.lab.observability import RLMObservability
from rlm_ci.lab.readiness import EnvironmentDoctorCheck
from rlm_ci.lab.results import (
    BenchmarkCase,
    RLMBenchmarkComparison,
    RLMBenchmarkResult,
    RLMRunResult,
)
from rlm_ci.lab.runner import RLMRunner

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
