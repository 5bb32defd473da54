"""Start an agent's program once with ``--version`` in the sandbox, as a fix loop would find it."""

from __future__ import annotations

import os

from rlm_ci.agents.external import last_error
from rlm_ci.errors import RlmCiError
from rlm_ci.sandbox import JobLimits, Mount, SandboxJob, toolchain_mounts, toolchain_variables
from rlm_ci.sandbox.toolchains import withheld
from rlm_ci.system.transcript import transcribe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from rlm_ci.sandbox.job import Sandbox

#: Seconds for an answer.
_SECONDS = 30.0


def try_out(
    name: str, path: str, sandbox: Sandbox, environ: Mapping[str, str], root: str | None
) -> tuple[str, str]:
    """What the program at ``path`` says its version is, and why it does not start.

    One of the two is "". ``root`` is the repository, if there is one.
    """
    if folder := withheld(path, environ):
        return "", f"{path} is not shown in the sandbox: {folder} may hold keys"
    job = SandboxJob(
        (name, "--version"),
        env=toolchain_variables(environ),
        mounts=(
            *toolchain_mounts(environ, root or os.devnull),
            *((Mount(root, root),) if root else ()),
        ),
        limits=JobLimits(wall=_SECONDS),
    )
    try:
        ended = sandbox.run(job)
    except RlmCiError as error:
        return "", error.what
    lines = transcribe(ended.output, str).lines
    if ended.reason or ended.returncode:
        how = f"{ended.reason} after {_SECONDS:.0f} s" if ended.reason else f"{ended.returncode}"
        return "", f"it ends with {how}: {last_error(lines) or 'it said nothing'}"
    return next((line.strip() for line in lines if any(map(str.isdigit, line))), "it starts"), ""
