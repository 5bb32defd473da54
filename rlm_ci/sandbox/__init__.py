"""Where commands run that nobody vouches for: validators, agents, what a model wrote.

``auto`` is bubblewrap, if a probe shows that it holds here, or an error that says what to do.
Without a sandbox nothing runs, unless somebody asked for exactly that by the name ``none``.
"""

from __future__ import annotations

from rlm_ci.errors import ConfigError
from rlm_ci.sandbox.job import HOME, JobLimits, Mount, Probe, SandboxJob
from rlm_ci.sandbox.self_test import probe
from rlm_ci.sandbox.toolchains import toolchain_mounts, toolchain_variables
from rlm_ci.system import process_stream
from rlm_ci.system.process import Clipped, StreamResult

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from rlm_ci.sandbox.job import Sandbox

__all__ = (
    "HOME", "NAMES", "Clipped", "JobLimits", "Mount", "Probe", "SandboxJob", "StreamResult",
    "choose", "probe", "toolchain_mounts", "toolchain_variables",
)  # fmt: skip

#: What the setting may say.
NAMES = ("auto", "bubblewrap", "monty", "none")


def choose(name: str, environ: Mapping[str, str]) -> Sandbox:
    """The sandbox for commands that ``name`` stands for.

    ``environ`` is ours: it tells where programs lie, and what must not be seen inside. Raises
    ConfigError, with what fixes it on this machine, when it does not hold here.
    """
    if name == "none":
        from rlm_ci.sandbox.none import Unsandboxed

        process_stream.require_open_files()
        return Unsandboxed()
    if name == "monty":
        raise ConfigError(
            "monty runs Python that a model wrote, not commands",
            where="sandbox monty",
            hint="for commands use bubblewrap, or auto",
        )
    if name not in NAMES:
        from difflib import get_close_matches

        close = get_close_matches(name, NAMES, 1)
        raise ConfigError(
            f"unknown sandbox {name[:80]!r}",
            where="sandbox",
            hint=f"{f'did you mean {close[0]}? ' if close else ''}known are: {', '.join(NAMES)}",
        )
    from rlm_ci.sandbox import self_test

    return self_test.proven(environ)
