"""Python that a model wrote, run in the sandbox in an empty folder, or by the caller's engine."""

from __future__ import annotations

import os
import sys

from rlm_ci.lab.connectors import CodeResult
from rlm_ci.sandbox import JobLimits, SandboxJob, toolchain_mounts, toolchain_variables
from rlm_ci.system import files
from rlm_ci.text.printable import clip
from rlm_ci.workspace.trees.shown_tree import ShownTree, redirected

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Protocol

    from rlm_ci.sandbox.job import Sandbox

    class Interpreter(Protocol):
        """Runs a piece of Python, each in an interpreter of its own."""

        def run(self, code: str, seconds: float) -> CodeResult:
            """Run it, for so many seconds at most."""


#: Bytes of one stream that are recorded.
_KEEP = 64 << 10
_OUT = "/tmp/rlm-ci-out"  # noqa: S108 - in the sandbox's own file system
#: What one piece of code may use.
_MEMORY = 2 << 30
_WRITTEN = 16 << 20
_PROCESSES = 128


class SandboxedPython:
    """Runs code by this Python, in ``sandbox``; nothing of the machine's own files is there."""

    def __init__(self, sandbox: Sandbox, environ: Mapping[str, str]) -> None:
        self._sandbox = sandbox
        prefix = os.path.dirname(os.path.dirname(sys.executable))
        programs = os.path.join(prefix, "bin")
        variables = {**environ, "PATH": programs}
        if os.path.isfile(os.path.join(prefix, "pyvenv.cfg")):
            variables["VIRTUAL_ENV"] = prefix
        self._mounts = toolchain_mounts(variables, "/dev")
        self._env = {**toolchain_variables(variables), "PYTHONDONTWRITEBYTECODE": "1"}

    def run(self, code: str, seconds: float) -> CodeResult:
        """See ``Interpreter``. Raises UnavailableError, ConfigError for the sandbox."""
        with files.scratch("rlm-ci-code-") as folder:
            out = os.path.realpath(folder)
            job = SandboxJob(
                redirected((sys.executable, "-I", "-"), "stdout"),
                env=self._env,
                stdin=code.encode("utf-8", "surrogateescape"),
                limits=JobLimits(
                    wall=seconds, memory=_MEMORY, file_size=_WRITTEN, processes=_PROCESSES
                ),
                keep=_KEEP,
            )
            ended = ShownTree(out, _OUT, self._mounts, writable=True).run(self._sandbox, job)
            data = files.read_or_none(os.path.join(out, "stdout"), _WRITTEN) or b""
        stdout = clip(data[: 4 * _KEEP].decode("utf-8", "replace"), _KEEP)
        stderr = ended.output.text()
        timed_out = ended.reason == "timeout"
        if ended.reason:
            what = f"after {seconds:g} seconds" if timed_out else f": {ended.reason}"
            stderr = f"{stderr}\n[stopped {what}]".lstrip()
        return CodeResult(
            stdout,
            stderr,
            failed=bool(ended.returncode or ended.reason),
            timed_out=timed_out,
            seconds=round(ended.seconds, 3),
        )
