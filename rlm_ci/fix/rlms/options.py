"""What ``[loop.rlms]`` says of analyses before a role's turn."""

from __future__ import annotations

from rlm_ci.errors import ConfigError
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_PREFIX = "loop.rlms."


#: The largest that a limit may be.
_MOST = {"max_depth": 8, "max_steps": 10_000, "max_subcalls": 100_000, "timeout_seconds": 86_400}


class RlmsOptions(Value):
    """When an analysis runs, and within which limits; ``roles`` are the switches that are on.

    ``context`` is what is measured and analysed: see ``measure.context_files``.
    """

    enabled: bool
    mode: str
    request_keyword: str
    context: str
    max_lines: int
    max_estimated_tokens: int
    max_files: int
    roles: tuple[str, ...]
    force_on: bool = False
    force_off: bool = False
    max_steps: int = 40
    max_depth: int = 2
    timeout_seconds: int = 240
    max_subcalls: int = 80
    require_citations: bool = True
    fail_mode: str = "warn_and_continue"

    #: Names of the settings in the section, and in each of its parts.
    plain = ("enabled", "mode", "request_keyword", "context")
    thresholds = ("max_lines", "max_estimated_tokens", "max_files")
    limits = ("max_steps", "max_depth", "timeout_seconds", "max_subcalls")
    forces = ("force_on", "force_off")
    switches = ("planner", "implementer", "tester", "reviewer")

    @classmethod
    def of(cls, values: Mapping[str, Any], sources: Mapping[str, str]) -> RlmsOptions:
        """Those of the settings with these values, from these sources.

        Raises ConfigError for settings that contradict each other, or cannot work.
        """
        options = cls(
            **{name: values[f"{_PREFIX}{name}"] for name in cls.plain},
            **{name: values[f"{_PREFIX}auto.{name}"] for name in cls.thresholds},
            **{name: values[f"{_PREFIX}limits.{name}"] for name in cls.limits},
            **{name: values[f"{_PREFIX}policy.{name}"] for name in (*cls.forces, "fail_mode")},
            require_citations=values[f"{_PREFIX}output.require_citations"],
            roles=tuple(name for name in cls.switches if values[f"{_PREFIX}roles.{name}"]),
        )
        if options.force_on and options.force_off:
            raise ConfigError(
                "loop.rlms.policy.force_on and loop.rlms.policy.force_off are both true",
                where=", ".join(
                    dict.fromkeys(sources[f"{_PREFIX}policy.{name}"] for name in cls.forces)
                ),
                hint="remove one of them",
            )
        for name, limit in _MOST.items():
            if getattr(options, name) > limit:
                raise ConfigError(
                    f"{_PREFIX}limits.{name} is {getattr(options, name):,}, more than {limit:,}",
                    where=sources[f"{_PREFIX}limits.{name}"],
                    hint="lower it, or leave it out",
                )
        keyword = options.request_keyword
        if keyword.split() != [keyword]:
            raise ConfigError(
                f"loop.rlms.request_keyword must be one word, not {keyword[:80]!r}",
                where=sources[f"{_PREFIX}request_keyword"],
                hint="use a word that nobody writes by chance, such as RLMS_REQUEST",
            )
        return options

    @property
    def fails_role(self) -> bool:
        """Whether a failed analysis ends the run."""
        return self.fail_mode == "fail_role"
