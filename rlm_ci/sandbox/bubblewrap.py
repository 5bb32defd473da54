"""Commands in bubblewrap: namespaces of their own, a root of their own, and limits.

A command sees a system to read (/usr, some of /etc), an empty /tmp with its HOME, its own /proc,
and the mounts of the job. ``bwrap`` has no environment: as process 1 it shows its own inside.
"""

from __future__ import annotations

import os
import re
import signal
import stat
import struct
import sys
from contextlib import ExitStack, contextmanager, suppress
from itertools import product

from rlm_ci.errors import ConfigError, StorageError, UnavailableError
from rlm_ci.sandbox import kernel_files, seccomp
from rlm_ci.sandbox.job import HOME, PATH, SandboxJob, is_below, ordered, source_of
from rlm_ci.sandbox.resource_watch import ResourceWatch
from rlm_ci.system import files, process, process_stream
from rlm_ci.values import Closing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from rlm_ci.sandbox.job import JobLimits, Mount

#: Folders of the system: what programs and libraries need, and nothing private.
SYSTEM = ("/usr", "/opt", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store")
#: What of /etc programs cannot do without. No keys, no passwords, no names of users.
_ETC = (
    "alternatives", "ca-certificates", "ca-certificates.conf", "crypto-policies", "fonts",
    "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "magic", "maven",
    "mime.types", "os-release", "pki/ca-trust", "pki/tls/certs", "protocols",
    "services", "ssl/cert.pem", "ssl/certs", "ssl/openssl.cnf", "timezone",
)  # fmt: skip
#: Only where the job has a network.
_ETC_NETWORK = ("gai.conf", "resolv.conf")
#: Names are looked up in files first: a service of the machine that knows them is out of reach.
_LOOKUP = {
    "host.conf": b"multi on\n",  # both addresses of localhost
    "nsswitch.conf": b"passwd: files\ngroup: files\nhosts: files dns\n",
}
#: The user inside, if root starts us.
_USER = 1000
#: ::1, as the kernel writes it.
_LOOPBACK_6 = b"0" * 31 + b"1"
#: Files of /etc up to so many bytes are copied, where so many files may be open: each takes two.
_COPIED = 128 << 10
_ROOMY = 512
#: /dev/shm and the other small file systems in memory.
_SMALL = 64 << 20
#: Seconds of processor time between the signal and the end of one that takes too much.
_LAST = 5
#: The first that runs inside: it says so, and goes on once it gets an answer. If we die before
#: bwrap has asked the kernel to watch us, there is no answer.
#: Some shells count in the environment how deep they are.
_WAITS = (
    "echo >&7 && read -r _ <&7 && exec 7>&- || exit; "
    '[ -z "${SHLVL+x}" ] || set -- /usr/bin/env -u SHLVL "$@"; exec "$@"'
)
#: The kernel's record of a sender: process, user, group.
_CREDENTIALS = struct.Struct("3i")
#: Where a message of bwrap begins that says what it could not do.
_SIGN = "bwrap: "


class Bubblewrap:
    """Runs jobs by the program ``bwrap``, which has to be 0.8 or later."""

    name = "bubblewrap"
    isolated = True

    def __init__(self, program: str) -> None:
        self._program = program

    @classmethod
    def locate(cls, environ: Mapping[str, str]) -> Bubblewrap:
        """The one on this machine, not tried yet. Raises UnavailableError, ConfigError."""
        process_stream.require_open_files()
        path = environ.get("PATH", PATH)
        return cls(process_stream.find("bwrap", path, "/"))

    def run(
        self,
        job: SandboxJob,
        *,
        on_output: Callable[[bytes], object] | None = None,
        stop: int = -1,
    ) -> process.StreamResult:
        """Run ``job``; when this returns, its namespace is gone and all in it dead."""
        mounts = ordered(job.mounts)
        environment = job.environment(job.home)
        require_program(job, mounts, environment["PATH"])
        head = job.keep // 5
        with ExitStack() as stack, _Gate(job.limits) as gate, kernel_files.devices() as devices:
            uid, gid = os.getuid() or _USER, os.getgid() or _USER
            user, machine_name = _names(job, uid)
            passwd = _in_memory(stack, f"{user}:x:{uid}:{gid}::{job.home}:/bin/sh\n".encode())
            group = _in_memory(stack, f"{user}:x:{gid}:\n".encode())
            info, its_info = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
            stack.callback(os.close, info)
            stack.callback(os.close, its_info)
            machine = seccomp.machine()
            # In the child they are 3 and so on, in the order of the list.
            others = [_in_memory(stack, seccomp.program(machine))] if machine else []
            words = [
                *("--json-status-fd", "6", "--uid", str(uid), "--gid", str(gid)),
                *(("--seccomp", "8") if others else ()),
                *_namespaces(job),
                *("--hostname", machine_name),
                *_system(job, devices),
                *_etc(job, machine_name, stack, others),
                *_inherited(job, others),
                *("--perms", "0444", "--file", "4", "/etc/passwd"),
                *("--perms", "0444", "--file", "5", "/etc/group"),
                *_places(job, mounts, environment),
            ]
            arguments = _in_memory(stack, os.fsencode("".join(f"{word}\0" for word in words)))
            inside = _Inside(info)
            writable = [mount.source for mount in mounts if mount.writable]
            ended = process_stream.stream(
                [self._program, "--args", "3", "--", "/bin/sh", "-c", _WAITS, "sh", *job.argv],
                env={},
                stdin=job.stdin,
                timeout=job.limits.wall,
                clip=process_stream.Clip(head, job.keep - head),
                errors=process_stream.Clip(head, job.keep - head) if job.errors_apart else None,
                on_output=on_output,
                watch=_Watch(job.limits, writable, inside),
                descriptors=(arguments, passwd, group, its_info, gate.its, *others),
                gate=(gate.parent_fd, gate.open),
                stop=stop,
            )
            inside.wait()
            has_run = inside.has_run()
        errors = ended.errors if job.errors_apart else ended.output
        message = errors.text().strip() if ended.returncode == 1 else ""
        if message.startswith(_SIGN) and "\n" not in message and not has_run:
            raise ConfigError(
                f"the sandbox could not be set up: {message[:300]}",
                where="bwrap",
                hint="run rlm-ci doctor to see what is missing",
            )
        return ended


def _names(job: SandboxJob, uid: int) -> tuple[str, str]:
    """The names of the user and of the machine inside."""
    if job.home == HOME:
        return "sandbox", "sandbox"
    from pwd import getpwuid

    user = "user"
    with suppress(KeyError):
        user = getpwuid(uid).pw_name
    return user, os.uname().nodename


def _namespaces(job: SandboxJob) -> Iterator[str]:
    yield from ("--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent")
    yield from ("--new-session", "--cap-drop", "ALL")
    if job.network:
        yield "--share-net"


def _system(job: SandboxJob, devices: tuple[str, ...]) -> Iterator[str]:
    """The system, read only, and what programs expect of an empty machine."""
    for folder in ("/etc", "/run", "/var"):
        yield from ("--perms", "0755", "--dir", folder)
    for folder in SYSTEM:
        if os.path.islink(folder):
            yield from ("--symlink", os.readlink(folder), folder)
        elif os.path.isdir(folder):
            yield from ("--ro-bind", folder, folder)
    yield from ("--proc", "/proc", *kernel_files.covered())
    yield from ("--dev", "/dev", *devices)
    yield from ("--size", str(_SMALL), "--tmpfs", "/dev/shm")  # noqa: S108
    yield from ("--size", str(job.limits.scratch), "--perms", "1777", "--tmpfs", "/tmp")  # noqa: S108
    yield from ("--symlink", "../tmp", "/var/tmp")  # noqa: S108
    if job.home == HOME:
        yield from ("--dir", HOME)
    else:
        yield from ("--size", str(job.limits.scratch), "--perms", "0700", "--tmpfs", job.home)


def _etc(job: SandboxJob, machine_name: str, stack: ExitStack, others: list[int]) -> Iterator[str]:
    """What of /etc a job sees; ``others`` are the descriptors from 8 on.

    Small files are copied: a mount takes ten times as long.
    """
    for name, content in {**_LOOKUP, "hosts": _hosts(machine_name, network=job.network)}.items():
        yield from ("--perms", "0444", "--file", str(8 + len(others)), f"/etc/{name}")
        others.append(_in_memory(stack, content))
    is_roomy = os.sysconf("SC_OPEN_MAX") >= _ROOMY
    names = os.listdir("/etc")
    shown = (*_ETC, *(_ETC_NETWORK if job.network else ()))
    java = (name for name in names if name.startswith("java-"))
    for name in sorted({*java, *shown}):
        if name.partition("/")[0] not in names:
            continue
        path = f"/etc/{name}"
        descriptor = _small(stack, path) if is_roomy else None
        if descriptor is not None:
            yield from ("--perms", "0444", "--file", str(8 + len(others)), path)
            others.append(descriptor)
        elif os.path.exists(path):
            yield from ("--ro-bind", os.path.realpath(path), path)


def _hosts(machine_name: str, *, network: bool) -> bytes:
    """The names that a job can always look up, with the machine's own where it has a network."""
    lines = [f"127.0.0.1 localhost {machine_name}".encode()]
    with suppress(OSError), open("/proc/net/if_inet6", "rb") as addresses:
        if _LOOPBACK_6 in addresses.read() or not network:
            lines.append(b"::1 localhost ip6-localhost ip6-loopback")
    if network:
        with suppress(files.UnreadableError):
            machine = files.read("/etc/hosts", _COPIED).splitlines()
            lines += (line for line in machine if b"localhost" not in line.split())
    return b"".join(line + b"\n" for line in lines)


def _inherited(job: SandboxJob, others: list[int]) -> Iterator[str]:
    for name, descriptor in job.inherited.items():
        yield from ("--setenv", name, str(8 + len(others)))
        others.append(descriptor)


def _places(
    job: SandboxJob, mounts: Sequence[Mount], environment: Mapping[str, str]
) -> Iterator[str]:
    for mount in mounts:
        yield from ("--bind" if mount.writable else "--ro-bind", mount.source, mount.target)
    for tool_folder in _tool_folders(mounts):
        yield from ("--size", str(_SMALL), "--tmpfs", tool_folder)
    # The root and /dev are file systems in memory too, without a limit.
    yield from ("--remount-ro", "/dev", "--remount-ro", "/", "--chdir", job.cwd)
    for name, value in environment.items():
        yield from ("--setenv", name, value)


def _tool_folders(mounts: Sequence[Mount]) -> Iterator[str]:
    """Where a tool must be able to write in read-only folders of dependencies, as seen inside.

    Vite writes its configuration, compiled, to the nearest node_modules, and stops where it
    cannot. Vitest before 3 fails where it cannot write down how long tests take. A mount needs a
    folder to lie on: an empty one is left there, as both do.
    """
    modules = [
        mount
        for mount in mounts
        if not mount.writable and os.path.basename(mount.source) == "node_modules"
    ]
    tools = (os.path.join(module.source, name) for module in modules for name in ("vite", "vitest"))
    if not any(map(os.path.isdir, tools)):
        return
    for mount, name in product(modules, (".vite-temp", ".vite", ".vitest")):
        folder = os.path.join(mount.source, name)
        with suppress(OSError):
            os.mkdir(folder)
        if os.path.isdir(folder) and not os.path.islink(folder):
            yield os.path.join(mount.target, name)


def limits(job_limits: JobLimits) -> Iterator[tuple[int, int, int]]:
    """Resources with their soft and hard limit; none of them above what we may have ourselves."""
    import resource

    for name, limit in {**job_limits.of_a_process(), "NPROC": job_limits.processes}.items():
        number = getattr(resource, f"RLIMIT_{name}")
        highest = resource.getrlimit(number)[1]
        # After the soft limit comes a signal that gives the reason, after the hard one the end.
        last = limit + _LAST if name == "CPU" else limit
        roof = sys.maxsize if highest == resource.RLIM_INFINITY else highest
        yield number, min(limit, roof), min(last, roof)


def require_program(job: SandboxJob, mounts: Sequence[Mount], path: str) -> None:
    """Raise UnavailableError when the program of ``job`` is not to be seen inside."""
    name = job.argv[0]
    if "/" in name:
        places = [os.path.normpath(os.path.join(job.cwd, name))]
    else:
        places = [os.path.join(folder, name) for folder in path.split(":") if os.path.isabs(folder)]
    if not any(_is_visible(program, mounts) for program in places):
        raise UnavailableError(
            f"{name} could not be started: there is no such program in the sandbox",
            hint=f"install {name}; a program outside of {', '.join(SYSTEM[:2])} must be on PATH; "
            "rlm-ci doctor names what is withheld",
        )


def _is_visible(path: str, mounts: Sequence[Mount]) -> bool:
    """Whether there is a program at ``path`` inside, with all links followed."""
    for _ in range(40):  # as many links as the kernel follows
        outside = _outside(path, mounts)
        if outside is None:
            return False
        if not os.path.islink(outside):
            if not (os.path.isfile(outside) and os.access(outside, os.X_OK)):
                return False
            # A folder above may be a link: then its target must be visible too.
            real = os.path.realpath(outside)
            sources = (*(mount.source for mount in mounts), *SYSTEM)
            return any(is_below(real, os.path.realpath(source)) for source in sources)
        path = os.path.normpath(os.path.join(os.path.dirname(path), os.readlink(outside)))
    return False


def _outside(path: str, mounts: Sequence[Mount]) -> str | None:
    if source := source_of(path, mounts):
        return source
    return path if any(is_below(path, folder) for folder in SYSTEM) else None


def _in_memory(stack: ExitStack, content: bytes) -> int:
    """A file without a path that holds ``content``. Raises StorageError: ulimit -f holds for it."""
    try:
        descriptor = os.memfd_create("rlm-ci", os.MFD_CLOEXEC)
        stack.callback(os.close, descriptor)
        data = memoryview(content)
        while data:
            data = data[os.write(descriptor, data) :]
        os.lseek(descriptor, 0, os.SEEK_SET)
    except OSError as error:
        raise StorageError(
            f"the options of the sandbox cannot be written: {error.strerror}",
            where="memory",
            hint="raise the limit of the size of files: ulimit -f",
        ) from None
    return descriptor


def _small(stack: ExitStack, path: str) -> int | None:
    """The file at ``path``, if it is one, and small enough to be copied."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    stack.callback(os.close, descriptor)
    status = os.fstat(descriptor)
    return descriptor if stat.S_ISREG(status.st_mode) and status.st_size <= _COPIED else None


class _Gate(Closing):
    """A socket at which the first process inside waits until its limits are set.

    The kernel tells which process has written to it.
    """

    def __init__(self, job_limits: JobLimits) -> None:
        from socket import SO_PASSCRED, SOL_SOCKET, socketpair

        self._limits = job_limits
        self._ours, self._its = socketpair()
        self._ours.setsockopt(SOL_SOCKET, SO_PASSCRED, 1)
        self.parent_fd, self.its = self._ours.fileno(), self._its.fileno()

    def close(self) -> None:
        self._ours.close()
        self._its.close()

    def open(self) -> None:
        """Raises ConfigError when a limit cannot be set; then the command does not begin."""
        import resource
        from socket import CMSG_SPACE

        data, sender, _, _ = self._ours.recvmsg(1, CMSG_SPACE(_CREDENTIALS.size))
        if not data or not sender:  # it has ended
            return
        pid, _, _ = _CREDENTIALS.unpack(sender[0][2])
        try:
            for number, soft, hard in limits(self._limits):
                resource.prlimit(pid, number, (soft, hard))
        except ProcessLookupError:
            return
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"the limits of a command cannot be set: {error}",
                where="prlimit",
                hint="run rlm-ci doctor to see what is missing",
            ) from None
        with suppress(OSError):  # it has been killed
            self._ours.send(b"\n")


class _Watch(ResourceWatch):
    """Kills process 1 at once: to end bwrap first would give a fork bomb a second more."""

    def __init__(self, job_limits: JobLimits, writable: Sequence[str], inside: _Inside) -> None:
        super().__init__(job_limits, writable)
        self._inside = inside

    def __call__(self, root: int) -> str:
        if reason := super().__call__(root):
            self._inside.kill()
        return reason


class _Inside:
    """What bwrap writes to a pipe: process 1 of the sandbox, and then how its command ended."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe
        self._told = b""

    def _listen(self) -> bytes:
        with suppress(BlockingIOError):
            while chunk := os.read(self._pipe, 4096):
                self._told += chunk
        return self._told

    def has_run(self) -> bool:
        """Whether its command has run: what was printed may be bwrap's own words else."""
        return b'"exit-code"' in self._listen()

    @contextmanager
    def _process(self) -> Iterator[int]:
        """A descriptor of process 1; -1 if it is dead already."""
        # With the brace the number is whole.
        match = re.search(rb'"child-pid":\s{0,9}(\d{1,9})[^}]{0,999}}', self._listen())
        handle = -1
        with suppress(OSError):
            handle = os.pidfd_open(int(match[1])) if match else -1
        try:
            yield handle
        finally:
            if handle >= 0:
                os.close(handle)

    def kill(self) -> None:
        """Kill process 1: the kernel kills all others, and starts no more."""
        with self._process() as handle, suppress(OSError):
            if handle >= 0:
                signal.pidfd_send_signal(handle, signal.SIGKILL)

    def wait(self) -> None:
        """Return when it is dead, and with it all others: the kernel sees to that order."""
        from select import poll

        with self._process() as handle:
            if handle >= 0:
                waiting = poll()
                waiting.register(handle)
                waiting.poll(10_000)
