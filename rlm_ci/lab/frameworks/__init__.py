"""Agent frameworks that may have the loop of an episode; each is an optional extra."""

from __future__ import annotations

from rlm_ci.environments.turn_loop import LoopEnd
from rlm_ci.errors import ConfigError, UnavailableError
from rlm_ci.lab.frameworks.episode import EpisodeEnded, FrameworkEpisode
from rlm_ci.system import installation
from rlm_ci.text.printable import printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    class Framework(Protocol):
        """A module of this package, named as the framework."""

        def run(self, episode: FrameworkEpisode) -> str:
            """The answer of one episode. What the episode raises passes through."""


#: The frameworks: what is imported, and the extra that installs it.
_FRAMEWORKS = {
    "dspy": ("dspy", "dspy"),
    "pydantic_ai": ("pydantic_ai", "pydantic-ai"),
    "google_adk": ("google.adk", "google-adk"),
}


class FrameworkStatus(Value):
    """Whether a framework is installed; ``install`` is the command that installs it."""

    name: str
    is_installed: bool
    install: str


def supported_frameworks() -> tuple[str, ...]:
    """The names of all frameworks, installed or not."""
    return tuple(_FRAMEWORKS)


def statuses() -> tuple[FrameworkStatus, ...]:
    """All frameworks, and how to install each."""
    return tuple(
        FrameworkStatus(name, _is_installed(module), installation.command(extra))
        for name, (module, extra) in _FRAMEWORKS.items()
    )


def require(name: str, where: str = "framework") -> str:
    """The name of a framework that is installed. Raises ConfigError, UnavailableError."""
    framework = name.replace("-", "_")
    if framework not in _FRAMEWORKS:
        raise ConfigError(
            f"there is no framework '{printable(name[:100])}'",
            where=where,
            hint=f"known: {', '.join(_FRAMEWORKS)}",
        )
    module, extra = _FRAMEWORKS[framework]
    if not _is_installed(module):
        raise _missing(framework, extra, "is not installed", where)
    return framework


def run(name: str, episode: FrameworkEpisode, where: str = "framework") -> LoopEnd:
    """One episode by a framework. Raises what the model raises, and as ``require``."""
    from importlib import import_module

    package = require(name, where)
    try:
        framework: Framework = import_module(f"{__name__}.{package}")
    except (ImportError, AttributeError) as error:  # another version than the extra's
        problem = f"cannot be used: {printable(str(error)[:300])}"
        raise _missing(package, _FRAMEWORKS[package][1], problem, where) from None
    try:
        episode.answer(framework.run(episode))
    except BaseException as error:
        episode.close()
        if episode.error is not None:
            raise episode.error from None
        if episode.end is not None:
            return episode.end
        if not isinstance(error, Exception):
            raise
        problem = f"{package} gave up: {type(error).__name__}: {error}"
        return LoopEnd("", printable(problem[:500]), episode.turns)


def _is_installed(module: str) -> bool:
    from importlib.util import find_spec

    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def _missing(name: str, extra: str, problem: str, where: str) -> UnavailableError:
    hint = f"install it: {installation.command(extra)}"
    return UnavailableError(f"the framework {name} {problem}", where=where, hint=hint)


__all__ = (
    "EpisodeEnded", "FrameworkEpisode", "FrameworkStatus", "require", "run", "statuses",
    "supported_frameworks",
)  # fmt: skip
