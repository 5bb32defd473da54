"""The names of environments. The specification has several for one."""

from __future__ import annotations

from rlm_ci.errors import ConfigError
from rlm_ci.text.printable import printable

GENERIC, CODING, REPL = "generic", "coding", "repl"
#: What is asked for, and which it is.
ENVIRONMENTS = {
    "generic": GENERIC,
    "rlm": GENERIC,
    "coding": CODING,
    "dspy": CODING,
    "dspy-coding": CODING,
    "framework": CODING,
    "repl": REPL,
    "pure_rlm": REPL,
    "pure-rlm": REPL,
}


def supported_environments() -> tuple[str, ...]:
    """All names, those of one environment together."""
    return tuple(ENVIRONMENTS)


def environment_of(name: str, where: str = "environment") -> str:
    """Which environment ``name`` is. Raises ConfigError for an unknown one."""
    target = ENVIRONMENTS.get(name)
    if target is None:
        raise ConfigError(
            f"there is no environment '{printable(name[:100])}'",
            where=where,
            hint=f"known: {', '.join(ENVIRONMENTS)}",
        )
    return target
