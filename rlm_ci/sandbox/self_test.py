"""Does a sandbox hold here, today? Hostile attempts from inside, run the way that jobs are run.

Outside are a listener of each kind and a secret in a file and in our environment; inside,
``probe_script`` tries to reach them. No result is kept: a machine changes. Where bubblewrap does
not hold, a hint says what to do on this very machine.
"""

from __future__ import annotations

import marshal
import os
import socket
import sys
from contextlib import ExitStack, contextmanager, suppress

from rlm_ci.errors import ConfigError, RlmCiError, UnavailableError
from rlm_ci.sandbox import seccomp
from rlm_ci.sandbox.job import HOME, JobLimits, Mount, Probe, SandboxJob, is_below
from rlm_ci.system import files
from rlm_ci.text.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from rlm_ci.sandbox.bubblewrap import Bubblewrap
    from rlm_ci.sandbox.job import Sandbox


#: Each attempt, and what a reader of ``doctor`` sees of it.
TITLES = {
    "start": "a command starts",
    "workplace": "its work folder can be written",
    "localhost": "a server on localhost can be reached inside",
    "tcp": "no TCP to services of this machine",
    "udp": "no UDP to services of this machine",
    "internet": "no way to the internet",
    "unix": "no Unix socket of this machine",
    "abstract": "no abstract socket of this machine",
    "outside": "nothing outside can be written",
    "read_only": "a read-only folder inside its work folder stays as it is",
    "secret": "files in your home folder cannot be read",
    "environment": "its environment has only what it was given",
    "environments": "no other process's environment can be read",
    "processes": "no process of this machine can be seen",
    "descriptors": "no file that was left open to us is open in it",
    "namespace": "no further user namespace can be made",
    "privileges": "no privileges",
    "user": "its user is not root",
    "kernel": "no setting of the kernel can be changed",
    "keys": "no key of the kernel's can be read, and none left behind",
    "sockets": "no socket to the host of a virtual machine",
    "calls": "no call of the kernel that only attacks need",
    "limits": "limits of the kernel are set",
    "wall": "a limit on time holds, whatever signals are ignored",
    "cpu": "a limit on processor time holds",
    "memory": "a limit on memory holds",
    "file_size": "a limit on the size of files holds",
    "scratch": "a limit on the scratch folder holds",
    "number": "a limit on processes holds",
    "output": "output without end is bounded",
    "daemon": "a daemon dies with its command",
}
#: Files that change a kernel, and are tried before each run; ``doctor`` tries all.
_SETTINGS = (
    "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/kernel/hotplug",
    "/proc/sys/kernel/poweroff_cmd", "/proc/sys/kernel/usermodehelper/bset",
    "/proc/sys/vm/drop_caches", "/proc/sys/net/ipv4/ip_forward",
    "/proc/sys/fs/binfmt_misc/register", "/proc/sysrq-trigger", "/proc/irq/default_smp_affinity",
    "/proc/pressure/cpu", "/proc/acpi/wakeup", "/proc/scsi/scsi", "/proc/mtrr",
    "/proc/dynamic_debug/control", "/sys/kernel/uevent_helper", "/sys/power/state",
)  # fmt: skip
#: An address for documentation, of no real machine.
_NOWHERE = "192.0.2.1"
_LIMITS = JobLimits(
    wall=20.0, cpu=10, memory=256 << 20, file_size=8 << 20, processes=64, open_files=64,
    scratch=16 << 20,
)  # fmt: skip


def probe(environ: Mapping[str, str]) -> tuple[Probe, ...]:
    """All attempts on bubblewrap, those that use up resources included: about two seconds."""
    from rlm_ci.sandbox.bubblewrap import Bubblewrap

    try:
        sandbox = Bubblewrap.locate(environ)
    except RlmCiError as error:
        return (Probe("start", TITLES["start"], passed=False, detail=str(error)),)
    first = attempts(sandbox, environ, all_settings=True)
    return (*first, *exhaustion(sandbox)) if first[0].passed else first


def proven(environ: Mapping[str, str]) -> Bubblewrap:
    """The bubblewrap of this machine, which a probe has shown to hold. Raises ConfigError."""
    from rlm_ci.sandbox.bubblewrap import Bubblewrap

    try:
        sandbox = Bubblewrap.locate(environ)
    except UnavailableError as error:
        raise missing(str(error)) from None
    failed = [attempt for attempt in attempts(sandbox, environ) if not attempt.passed]
    if failed:
        raise refused(failed[0])
    return sandbox


def interpreter() -> tuple[str, tuple[Mount, ...]]:
    """Our own Python without its packages: its program, and what it needs to be mounted."""
    from rlm_ci.sandbox.bubblewrap import SYSTEM

    # Not the environment's: that may be a copy, which lies beside what is mounted.
    executable = getattr(sys, "_base_executable", "") or sys.executable
    program, prefix = os.path.realpath(executable), os.path.realpath(sys.base_prefix)
    if any(is_below(prefix, folder) for folder in SYSTEM):
        return program, ()
    return program, (Mount(prefix, prefix),)


def attempts(
    sandbox: Sandbox, environ: Mapping[str, str], *, all_settings: bool = False
) -> tuple[Probe, ...]:
    """What a command inside can reach of us and of this machine; a tenth of a second.

    The first says whether it could be tried at all; if not, it is the only one. ``all_settings`` of
    the kernel are tried, else some.
    """
    with ExitStack() as stack:
        outside = stack.enter_context(_outside(environ))
        work = stack.enter_context(files.scratch("rlm-ci-probe-"))
        os.mkdir(os.path.join(work, "kept"))
        trials, datagrams = _trials(stack, outside)
        trials["kernel"] += () if all_settings else _SETTINGS
        program, mounts = interpreter()
        inside = os.path.join(os.path.dirname(__file__), "probe_script.py")
        script = files.read(inside, 1 << 20).decode()
        job = SandboxJob(
            (program, "-I", "-S", "-c", script),
            cwd="/trial",
            stdin=marshal.dumps(trials),
            mounts=(
                *mounts,
                Mount(work, "/trial", writable=True),
                Mount(os.path.join(work, "kept"), "/trial/kept"),
            ),
            limits=_LIMITS,
        )
        try:
            ended = sandbox.run(job)
            results = _results(ended.output.text(), trials) if ended.returncode == 0 else None
        except (RlmCiError, ValueError) as error:
            return (_probe("start", str(error), passed=False),)
        if results is None:
            printed = printable(ended.output.text().strip())[-300:]
            detail = f"it ended with {ended.reason or ended.returncode}: {printed}"
            return (_probe("start", detail, passed=False),)
        with suppress(BlockingIOError):
            datagrams.recv(64)
            results["udp"] = (False, "a datagram arrived")
        if not os.path.exists(os.path.join(work, "result")):
            results["workplace"] = (False, "what it wrote did not arrive")
    start = _probe("start", f"in {ended.seconds * 1000:.0f} ms", passed=True)
    return (start, *(_probe(name, results[name][1], passed=results[name][0]) for name in trials))


def _results(printed: str, names: Iterable[str]) -> dict[str, tuple[bool, str]]:
    """How each attempt ended. Raises ValueError where one is missing or was not asked for."""
    rows = [line.split(" ", 2) for line in printed.split("\n")[:-1]]
    results = {name: (passed == "1", detail) for name, passed, detail in rows}
    if results.keys() != set(names):
        raise ValueError("the results of its attempts are not those of all")
    return results


def _probe(name: str, detail: str, *, passed: bool) -> Probe:
    return Probe(name, TITLES[name], passed, printable(detail))


@contextmanager
def _outside(environ: Mapping[str, str]) -> Iterator[str]:
    """A folder that no command may see: below the user's home, where that can be written."""
    home = environ.get("HOME", "")
    usable = os.path.isabs(home) and os.access(home, os.W_OK)
    with files.scratch(".rlm-ci-probe-", home if usable else None) as path:
        yield path


def _trials(stack: ExitStack, outside: str) -> tuple[dict[str, list[object]], socket.socket]:
    """What to try, with the listeners for it; and the one that datagrams would arrive at."""
    canary = os.urandom(16).hex()
    secret = os.path.join(outside, "secret")
    with open(secret, "x", encoding="ascii") as file:
        file.write(canary)

    def listen(family: int, kind: int, address: str | tuple[str, int]) -> socket.socket:
        listener = stack.enter_context(socket.socket(family, kind))
        listener.bind(address)
        if kind == socket.SOCK_STREAM:
            listener.listen()
        listener.settimeout(0)
        return listener

    tcp = listen(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0))
    udp = listen(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0))
    # A home folder may have a longer name than the address of a socket may have.
    folder = stack.enter_context(files.scratch("rlm-ci-", "/tmp"))  # noqa: S108 - short
    listen(socket.AF_UNIX, socket.SOCK_STREAM, f"{folder}/socket")
    listen(socket.AF_UNIX, socket.SOCK_STREAM, f"\0rlm-ci-{canary}")
    allowed: list[object] = [*SandboxJob(()).environment(HOME), "PWD"]
    kind = seccomp.machine()

    def numbers(names: tuple[str, ...]) -> list[object]:
        """Where no filter is known there is nothing to try, and nothing that holds."""
        return [{name: kind.number(name) for name in names} if kind else {}]

    trials: dict[str, list[object]] = {
        "workplace": ["/trial/result"],
        "localhost": [],
        "tcp": [tcp.getsockname()[1]],
        "udp": [udp.getsockname()[1]],
        "internet": [_NOWHERE],
        "unix": [f"{folder}/socket"],
        "abstract": [f"rlm-ci-{canary}"],
        "outside": [secret, "/usr/rlm-ci", "/etc/rlm-ci", "/rlm-ci"],
        "read_only": ["/trial/kept/file", "/trial/kept"],
        "secret": [secret, canary],
        "environment": allowed,
        "environments": allowed,
        "processes": [],
        "descriptors": [_left_open(stack, secret)],
        "namespace": [],
        "privileges": [],
        "user": [],
        "kernel": [],
        "keys": numbers(seccomp.KEYS),
        "sockets": [],
        "calls": numbers(seccomp.ODD),
        "limits": [{**_LIMITS.of_a_process(), "NPROC": _LIMITS.processes}],
    }
    return trials, udp


def _left_open(stack: ExitStack, path: str) -> int:
    """A descriptor that a careless caller has left open to us."""
    import fcntl  # not on Windows, where nothing is tried

    with open(path, "rb") as file:
        number = fcntl.fcntl(file, fcntl.F_DUPFD, 40)
    stack.callback(os.close, number)
    return number


#: What uses something up, the limits that it meets, and what it may then say.
_GREEDY = {
    "wall": "import signal, time\n"
    "for number in (1, 2, 15): signal.signal(number, signal.SIG_IGN)\n"
    "time.sleep(60)",
    "cpu": "while True: pass",
    "memory": "try: held = bytearray(1 << 30)\nexcept MemoryError: raise SystemExit(77)",
    "file_size": "try:\n with open('/trial/large', 'wb') as file: file.write(bytes(16 << 20))\n"
    "except OSError: raise SystemExit(77)",
    "scratch": "import os\ntry:\n for number in range(4):\n"
    "  with open(f'/tmp/{number}', 'wb') as file: file.write(bytes(7 << 20))\n"
    "except OSError: raise SystemExit(77)",
    "number": "import os, time\ntry:\n"
    " for number in range(200): os.posix_spawn('/bin/sleep', ['sleep', '20'], {})\n"
    "except OSError: raise SystemExit(77)\ntime.sleep(20)",
    "output": "import os\nfor number in range(640): os.write(1, bytes(100_000))",
    "daemon": "import os\nos.posix_spawn('/bin/sh', ['sh', '-c', 'exec <&- >&- 2>&-; sleep 0.3; "
    "echo alive >/trial/alive'], {}, setsid=True)",
}
_SIGXCPU = 24
#: What they end with when they are refused something.
_REFUSED = 77


def exhaustion(sandbox: Sandbox) -> tuple[Probe, ...]:
    """What a command can use up: one run each, beside each other; about two seconds."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(4) as pool:
        return tuple(pool.map(lambda name: _exhaust(sandbox, name), _GREEDY))


def _exhaust(sandbox: Sandbox, name: str) -> Probe:
    from time import sleep

    program, mounts = interpreter()
    limits = _LIMITS.replace(wall=0.5 if name == "wall" else _LIMITS.wall, cpu=1)
    with files.scratch("rlm-ci-probe-") as work:
        job = SandboxJob(
            (program, "-I", "-S", "-c", _GREEDY[name]),
            mounts=(*mounts, Mount(work, "/trial", writable=True)),
            limits=limits,
            keep=1 << 20,
        )
        try:
            ended = sandbox.run(job)
        except RlmCiError as error:
            return _probe(name, str(error), passed=False)
        if name == "daemon":
            sleep(0.6)
            alive = os.path.exists(os.path.join(work, "alive"))
            detail = "it lives on" if alive else "gone"
            return _probe(name, detail, passed=ended.returncode == 0 and not alive)
    is_stopped = {
        "wall": ended.reason == "timeout",
        "cpu": ended.returncode == 128 + _SIGXCPU,
        "output": ended.returncode == 0 and ended.output.omitted > 0,
    }.get(name, ended.reason in ("processes", "memory", "disk") or ended.returncode == _REFUSED)
    if name == "output":
        return _probe(name, f"{ended.output.omitted >> 20} MiB left out", passed=is_stopped)
    return _probe(
        name, f"{'stopped' if is_stopped else 'not'} after {ended.seconds:.1f} s", passed=is_stopped
    )


#: Of /etc/os-release: what installs bubblewrap there.
_INSTALL = {
    "debian": "apt-get install bubblewrap",
    "ubuntu": "apt-get install bubblewrap",
    "fedora": "dnf install bubblewrap",
    "rhel": "dnf install bubblewrap",
    "alpine": "apk add bubblewrap",
    "arch": "pacman -S bubblewrap",
    "suse": "zypper install bubblewrap",
}
_WITHOUT = "or run without a sandbox, if you trust what will run: --sandbox none"
_PROFILE = "bwrap-userns-restrict"
_EXTRA = "/usr/share/apparmor/extra-profiles"
_APPARMOR = (
    "AppArmor keeps programs without a profile from user namespaces. Give bwrap one: "
    f"sudo apt-get install apparmor-profiles && sudo cp {_EXTRA}/{_PROFILE} /etc/apparmor.d/ && "
    f"sudo apparmor_parser -r /etc/apparmor.d/{_PROFILE}; or lift it for the whole machine: "
    "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
)
#: Settings of the kernel that take user namespaces away: the value that does, what fixes it.
_SYSCTLS = (
    ("kernel/apparmor_restrict_unprivileged_userns", "1", _APPARMOR),
    (
        "kernel/unprivileged_userns_clone",
        "0",
        "allow user namespaces: sudo sysctl -w kernel.unprivileged_userns_clone=1",
    ),
    (
        "user/max_user_namespaces",
        "0",
        "allow user namespaces: sudo sysctl -w user.max_user_namespaces=15000",
    ),
)
_CONTAINER = (
    "this is a container: start it with --security-opt seccomp=unconfined --security-opt "
    "apparmor=unconfined --security-opt systempaths=unconfined, so that it may make namespaces"
)


def missing(what: str, root: str = "/") -> ConfigError:
    """The error of a machine without bubblewrap; ``what`` says which program is missing."""
    return ConfigError(f"there is no sandbox: {what}", where="sandbox bubblewrap", hint=_how(root))


def refused(probe: Probe, root: str = "/") -> ConfigError:
    """The error of a machine where bubblewrap is installed, and ``probe`` failed."""
    return ConfigError(
        f"the sandbox does not work: {probe.title}: {probe.detail}",
        where="sandbox bubblewrap",
        hint=f"{mend(probe.detail, root)}; {_WITHOUT}",
    )


def mend(message: str, root: str = "/", *, privileged: bool | None = None) -> str:
    """What makes bubblewrap work here, by its ``message``, which says what it could not do."""
    if "nknown option" in message:
        return "bubblewrap 0.8 or later is needed: take it from a newer release of the system"
    is_root = os.geteuid() == 0 if privileged is None else privileged
    for name, bad, cure in _SYSCTLS:
        # Root may still make namespaces, unless there may be none at all.
        if _read(root, f"proc/sys/{name}") == bad and (not is_root or name.startswith("user/")):
            return cure
    if any(
        os.path.exists(os.path.join(root, name)) for name in (".dockerenv", "run/.containerenv")
    ):
        return _CONTAINER
    return "see what bwrap says, and https://rlm-ci.github.io/rlm-ci/sandbox.html"


def _how(root: str) -> str:
    if sys.platform != "linux":
        return (
            "bubblewrap is a program of Linux: run rlm-ci in a container or a virtual machine "
            f"with Linux, {_WITHOUT}"
        )
    fields = dict(
        line.split("=", 1) for line in _read(root, "etc/os-release").splitlines() if "=" in line
    )
    likes = f"{fields.get('ID', '')} {fields.get('ID_LIKE', '')}".replace('"', "").split()
    command = next((_INSTALL[name] for name in likes if name in _INSTALL), None)
    return f"{command or 'install bubblewrap and util-linux'}, {_WITHOUT}"


def _read(root: str, name: str) -> str:
    with suppress(OSError), open(os.path.join(root, name), encoding="utf-8") as file:
        return file.read(1 << 16).strip()
    return ""
