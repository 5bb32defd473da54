"""Where commands run that are not trusted: validators, agents, what a model wrote.

That is bubblewrap, if a probe shows that it holds here, or an error that says what to do. Commands
run without a sandbox only if the user asks for ``none``.
"""

from __future__ import annotations

from rlm_ci.errors import ConfigError
from rlm_ci.sandbox.job import HOME, JobLimits, Mount, Probe, SandboxJob
from rlm_ci.sandbox.self_test import probe, proven
from rlm_ci.sandbox.toolchains import toolchain_mounts, toolchain_variables
from rlm_ci.system import process_stream
from rlm_ci.system.process import Clipped, StreamResult

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from rlm_ci.sandbox.job import Sandbox

__all__ = (
    "HOME", "Clipped", "JobLimits", "Mount", "Probe", "SandboxJob", "StreamResult",
    "choose", "probe", "toolchain_mounts", "toolchain_variables",
)  # fmt: skip


def choose(name: str, environ: Mapping[str, str]) -> Sandbox:
    """The sandbox for commands: none for ``none``, else bubblewrap.

    ``environ`` is ours: it says where programs are, and what a command must not see. Raises
    ConfigError, with the way out on this machine, where bubblewrap does not hold.
    """
    if name == "monty":
        raise ConfigError(
            "monty runs only the code of a REPL, and no commands",
            where="sandbox",
            hint="use --sandbox bubblewrap, or ask a question with --environment repl",
        )
    if name == "none":
        from rlm_ci.sandbox.none import Unsandboxed

        process_stream.require_open_files()
        return Unsandboxed()
    return proven(environ)
