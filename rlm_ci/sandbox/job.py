"""A command for a sandbox: what it may see, and how much it may use."""

from __future__ import annotations

import os

from rlm_ci.errors import ConfigError
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Protocol

    from rlm_ci.system.process import StreamResult

    class Sandbox(Protocol):
        """A place to run a command that is not trusted.

        ``name`` is its name in the settings. ``isolated`` is false where only limits protect
        the machine from the command: manifest, report and comment say so.
        """

        name: str
        isolated: bool

        def run(
            self,
            job: SandboxJob,
            *,
            on_output: Callable[[bytes], object] | None = None,
            stop: int = -1,
        ) -> StreamResult:
            """Run ``job``; nothing that it started lives when this returns.

            It is stopped once ``stop``, a descriptor, can be read: ``reason`` is ``stopped``.
            Raises UnavailableError for the program, ConfigError for a mount.
            """


#: In a job of ours, this folder is its own: HOME, empty at the start, gone at the end.
HOME = "/tmp/home"  # noqa: S108 - a folder of the sandbox's own file system
#: Where programs are looked for, unless the job says so.
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Mount(Value):
    """A file or folder of the machine, ``source``, as the command sees it: at ``target``.

    Both are absolute. One inside of another is laid over it, whatever their order.
    """

    source: str
    target: str
    writable: bool = False


class JobLimits(Value):
    """How much a command may use. Times are seconds, sizes bytes.

    ``cpu``, ``file_size`` and ``open_files`` hold for each process, ``wall``, ``memory`` and
    ``processes`` (threads count) for all together; ``scratch`` for what they leave in their
    temporary folder, and again for what they add to the writable mounts.
    """

    wall: float = 600.0
    cpu: int = 3600
    memory: int = 4 << 30
    file_size: int = 1 << 30
    processes: int = 1024
    open_files: int = 4096
    scratch: int = 2 << 30

    def of_a_process(self) -> dict[str, int]:
        """Those that the kernel holds a process to, by their names after ``RLIMIT_``."""
        # Not the address space: node and others reserve far more of it than they ever use.
        return {
            "CORE": 0,
            "CPU": self.cpu,
            "DATA": self.memory,
            "FSIZE": self.file_size,
            "NOFILE": self.open_files,
        }


class SandboxJob(Value):
    """One command: what it is, what it sees, what it may use.

    ``cwd`` is a folder of the sandbox. ``env`` is all of its environment, but for HOME, PATH and
    TMPDIR, which have defaults. Of its output, at most ``keep`` bytes are kept, a fifth of them
    from the beginning, and as many of its standard error with ``errors_apart``. ``inherited`` are
    open descriptors that the command gets, each by the variable that holds its number inside.
    With another ``home``, the names of user and machine are those outside.
    """

    argv: tuple[str, ...]
    cwd: str = "/"
    env: Mapping[str, str] = {}
    stdin: bytes = b""
    network: bool = False
    mounts: tuple[Mount, ...] = ()
    limits: JobLimits = JobLimits()
    keep: int = 5 << 20
    errors_apart: bool = False
    inherited: Mapping[str, int] = {}
    home: str = HOME

    def environment(self, home: str) -> dict[str, str]:
        """All of the command's environment, where ``home`` is its scratch folder."""
        elsewhere = {} if home == self.home else {"TMPDIR": os.path.dirname(home)}
        return {"HOME": home, "PATH": PATH, **elsewhere, **self.env}


def ordered(mounts: tuple[Mount, ...]) -> tuple[Mount, ...]:
    """``mounts``, outer before inner; of two at the same place the last.

    Raises ConfigError for one that is not there, is a link, or would be led elsewhere by a
    link of the mount that it lies in.
    """
    placed: dict[str, Mount] = {}
    for mount in mounts:
        for path in (mount.source, mount.target):
            if not os.path.isabs(path) or os.path.normpath(path) != path or "\0" in path:
                raise _refused(path, "a path of a mount must be absolute, without . and ..")
        if os.path.islink(mount.source):
            raise _refused(mount.source, "a link cannot be mounted, only what it leads to")
        if not os.path.exists(mount.source):
            raise _refused(mount.source, "it is to be mounted in the sandbox, and is not there")
        placed[mount.target] = mount
    result = tuple(sorted(placed.values(), key=lambda mount: mount.target.count("/")))
    for number, mount in enumerate(result):
        for outer in result[:number]:
            if is_below(mount.target, outer.target):
                _require_no_link(outer, mount)
    return result


def is_below(path: str, folder: str) -> bool:
    """Whether ``path`` lies below ``folder``, or is it; both are absolute and normal."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def source_of(path: str, mounts: Sequence[Mount]) -> str | None:
    """Where on the machine is what the command sees at ``path``; None if it is in no mount."""
    for mount in reversed(mounts):
        if is_below(path, mount.target):
            return mount.source + path[len(mount.target.rstrip("/")) :]
    return None


def _require_no_link(outer: Mount, inner: Mount) -> None:
    path = outer.source
    for part in os.path.relpath(inner.target, outer.target).split("/"):
        path = os.path.join(path, part)
        if os.path.islink(path):
            raise _refused(path, f"a link is where {inner.target} should be mounted")


def _refused(path: str, why: str) -> ConfigError:
    return ConfigError(why, where=path, hint="mount a file or folder that is there, as it is")


class Probe(Value):
    """One attempt from inside: what was tried, whether it was held, and how that showed."""

    name: str
    title: str
    passed: bool
    detail: str
