"""The reward of an action, by a profile that its user may tune.

A dataclass, unlike the other records of the package, because it is part of the API.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from rlm_ci.errors import ConfigError
from rlm_ci.text.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self

#: Rewards that no profile changes.
UNSUPPORTED_ACTION = -0.2
MISSING_ARGUMENT = -0.3
REFUSED_PATH = -0.4
TESTS_TIMED_OUT = -0.4
CYCLE = -0.25
TOO_DEEP = -0.3
NO_CHILDREN = -0.3
QUERY = 0.25
NO_ANSWER = 0.05
FAILED_QUERY = -0.3
QUERY_BATCH = 0.3
FINAL = 1.0
_MOST = 1000


@dataclass(frozen=True, slots=True)
class RLMRewardProfile:
    """What an action earns. The names and defaults are those of rlm-code."""

    global_scale: float = 1.0
    run_python_base: float = 0.1
    run_python_success_bonus: float = 0.7
    run_python_failure_penalty: float = 0.3
    run_python_stderr_penalty: float = 0.1
    dspy_pattern_match_bonus: float = 0.03
    dspy_pattern_bonus_cap: float = 0.2
    verifier_base: float = 0.15
    verifier_score_weight: float = 0.5
    verifier_compile_bonus: float = 0.2
    verifier_compile_penalty: float = 0.35
    verifier_pytest_bonus: float = 0.25
    verifier_pytest_penalty: float = 0.25
    verifier_validation_bonus: float = 0.15
    verifier_validation_penalty: float = 0.3
    verifier_warning_penalty_per_warning: float = 0.03
    verifier_warning_penalty_cap: float = 0.15

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any] | None, where: str = "reward_profile") -> Self:
        """The defaults with ``values`` in their place. Raises ConfigError for a wrong one."""
        names = [field.name for field in fields(cls)]
        table: Any = values or {}
        if not isinstance(table, Mapping):
            shown = printable(repr(values)[:100])
            raise ConfigError(
                f"a reward profile is a table of numbers, not {shown}",
                where=where,
                hint=f"known: {', '.join(names)}",
            )
        for name, value in (values or {}).items():
            setting = f"{where}.{printable(str(name)[:100])}"
            if name not in names:
                raise ConfigError(
                    "there is no such reward", where=setting, hint=f"known: {', '.join(names)}"
                )
            is_number = not isinstance(value, bool) and isinstance(value, int | float)
            if not is_number or not abs(value) <= _MOST:  # NaN is none
                shown = printable(repr(value)[:100])
                raise ConfigError(
                    f"a reward is a number of at most {_MOST}, not {shown}",
                    where=setting,
                    hint="such as 0.25",
                )
        return cls(**{name: float(value) for name, value in (values or {}).items()})

    def to_dict(self) -> dict[str, float]:
        return asdict(self)

    def apply_global_scale(self, reward: float) -> float:
        """``reward`` times ``global_scale``, from -1 to 1."""
        return max(-1.0, min(1.0, reward * self.global_scale))

    def python(self, *, succeeded: bool, has_stderr: bool, patterns: int = 0) -> float:
        """For code that ran; ``patterns`` are the constructs of DSPy in it."""
        reward = self.run_python_base
        if succeeded:
            reward += self.run_python_success_bonus
            reward += min(self.dspy_pattern_bonus_cap, patterns * self.dspy_pattern_match_bonus)
        else:
            reward -= self.run_python_failure_penalty
        return reward - self.run_python_stderr_penalty * has_stderr

    def verifier(
        self,
        *,
        score: float,
        compiles: bool | None,
        tests: bool | None,
        valid: bool | None,
        warnings: int,
    ) -> float:
        """For a change that was checked; None for what was not looked at."""
        reward = self.verifier_base + self.verifier_score_weight * score
        for passed, bonus, penalty in (
            (compiles, self.verifier_compile_bonus, self.verifier_compile_penalty),
            (tests, self.verifier_pytest_bonus, self.verifier_pytest_penalty),
            (valid, self.verifier_validation_bonus, self.verifier_validation_penalty),
        ):
            if passed is not None:
                reward += bonus if passed else -penalty
        return reward - min(
            self.verifier_warning_penalty_cap, warnings * self.verifier_warning_penalty_per_warning
        )
