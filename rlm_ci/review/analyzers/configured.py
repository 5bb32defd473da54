"""The analyzers that the settings name."""

from __future__ import annotations

from rlm_ci.errors import ConfigError, UnavailableError
from rlm_ci.review.analyzers import programs
from rlm_ci.review.analyzers.programs import Analyzer
from rlm_ci.system import installation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any


def builtin(ruff: str, extend: Sequence[str]) -> Analyzer | None:
    """The built-in ruff, with the rules of ``extend``. Raises ConfigError, UnavailableError."""
    try:
        analyzer = programs.builtin(extend)
    except ValueError as error:
        raise ConfigError(
            f"no rule of the ruff that is installed is called {str(error)[:80]!r}",
            where="review.ruff.extend",
            hint="write codes as ruff does: D103, or D for all that begin with it",
        ) from None
    if analyzer is None and ruff == "on":
        raise UnavailableError(
            "ruff is not installed",
            where="review.ruff",
            hint=f'{installation.command("review")}; or let it be: review.ruff = "auto"',
        )
    return analyzer


def configured(row: Mapping[str, Any], number: int, sandbox: str) -> Analyzer:
    """The analyzer of a row of the settings. Raises ConfigError for one that cannot work."""
    where = f"[[review.analyzers]] number {number}"
    name, command = row["name"], tuple(row.get("command") or ())
    plain = name.replace("-", "").replace("_", "")
    if not (plain.isascii() and plain.isalnum() and name == name.casefold() and len(name) <= 40):
        raise ConfigError(
            f"an analyzer cannot be called {name[:80]!r}",
            where=where,
            hint="use small letters, digits and hyphens",
        )
    if not command or not all(isinstance(word, str) and word for word in command):
        raise ConfigError(
            f"the analyzer {name} has no command",
            where=where,
            hint='say what to run: command = ["tool", "--format", "sarif", "{files}"]',
        )
    if not any(word == "{files}" or "{folder}" in word for word in command):
        raise ConfigError(
            f"the command of the analyzer {name} names no files",
            where=where,
            hint="put {files}, as a word of its own, or {folder} where it takes them",
        )
    return Analyzer(
        name,
        command,
        tuple(row.get("files") or ()),
        row.get("domain") or "quality",
        row.get("max_severity") or "high",
        network=bool(row.get("network")),
        sandbox=sandbox,
    )
