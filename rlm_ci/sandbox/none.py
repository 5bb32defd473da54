"""No sandbox: for users who ask for it and trust what will run.

Limits hold, the output is bounded, the environment is the job's own, and all that the command has
started dies with it. But it reads what you read, writes what you write, and has the network.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile

from rlm_ci.errors import ConfigError
from rlm_ci.sandbox.job import HOME, SandboxJob, is_below, ordered, source_of
from rlm_ci.sandbox.resource_watch import ResourceWatch
from rlm_ci.system import files, process_stream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rlm_ci.sandbox.job import Mount
    from rlm_ci.system.process import StreamResult

#: Seconds that the supervisor has to end what the command has started.
_GRACE = 10.0


class Unsandboxed:
    """Runs jobs on the machine itself, each under a supervisor that lets nothing outlive it."""

    name = "none"
    isolated = False

    def run(
        self,
        job: SandboxJob,
        *,
        on_output: Callable[[bytes], object] | None = None,
        stop: int = -1,
    ) -> StreamResult:
        """Run ``job`` where its mounts come from: ``target`` is only a name for ``source``.

        What is to lie below HOME is linked to from there.
        """
        mounts = ordered(job.mounts)
        writable = [mount.source for mount in mounts if mount.writable]
        head = job.keep // 5
        with files.scratch("rlm-ci-home-") as scratch:
            home = os.path.join(scratch, "home")
            os.mkdir(home)
            for mount in mounts:
                link = home + mount.target.removeprefix(HOME)
                if is_below(mount.target, HOME) and not os.path.lexists(link):
                    os.makedirs(os.path.dirname(link), exist_ok=True)
                    os.symlink(mount.source, link)
            numbers = {name: str(4 + at) for at, name in enumerate(job.inherited)}
            below = is_below(job.cwd, HOME)
            cwd = home + job.cwd.removeprefix(HOME) if below else _outside(job.cwd, mounts)
            if not os.path.isdir(cwd):
                raise ConfigError(
                    "the folder to work in is not there", where=cwd, hint="name a folder that is"
                )
            environment = {**job.environment(home), **numbers}
            program = _outside(job.argv[0], mounts)
            program = process_stream.find(program, environment["PATH"], cwd)
            spec = {
                "argv": job.argv,
                "program": program,
                "env": environment,
                "cwd": cwd,
                "parent": os.getpid(),
                "limits": job.limits.of_a_process(),
                "inherited": len(job.inherited),
            }
            supervisor = os.path.join(os.path.dirname(__file__), "supervisor.py")
            with tempfile.TemporaryFile() as orders:
                orders.write(json.dumps(spec).encode("ascii"))
                orders.seek(0)
                return process_stream.stream(
                    [sys.executable, "-I", "-S", supervisor],
                    env={},
                    stdin=job.stdin,
                    timeout=job.limits.wall,
                    clip=process_stream.Clip(head, job.keep - head),
                    errors=process_stream.Clip(head, job.keep - head) if job.errors_apart else None,
                    on_output=on_output,
                    watch=ResourceWatch(job.limits, [*writable, scratch]),
                    descriptors=(orders.fileno(), *job.inherited.values()),
                    grace=_GRACE,
                    stop=stop,
                )


def _outside(path: str, mounts: Sequence[Mount]) -> str:
    return (os.path.isabs(path) and source_of(os.path.normpath(path), mounts)) or path
