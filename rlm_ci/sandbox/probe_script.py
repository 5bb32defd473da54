"""What the probe tries inside a sandbox: a script of its own, which imports nothing of ours.

It reads what to try, and writes for each attempt a line: its name, whether the sandbox held, how.
It runs before whatever needs a sandbox, so it imports only what is written in C: ``json`` and
``socket`` would take as long as all the rest.
"""

from __future__ import annotations

import _socket
import ctypes
import errno
import marshal
import os
import resource
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

#: bwrap, a launcher, and we.
_OWN_PROCESSES = 3
#: AF_VSOCK, also where Python does not know it.
_VSOCK = 40


def reached(family: int, kind: int, address: Any) -> tuple[bool, str]:
    """Whether a peer outside cannot be spoken to."""
    peer = _socket.socket(family, kind)
    peer.settimeout(2)
    try:
        peer.connect(address)
        peer.send(b"from inside")
    except OSError as error:
        return True, word(error)
    finally:
        peer.close()
    # No peer refuses a datagram: whether it arrived is checked outside.
    return kind == _socket.SOCK_DGRAM, "sent, but it did not arrive"


def written(*paths: str) -> tuple[bool, str]:
    """Whether none of ``paths`` can be written, made, or taken away."""
    refusal = ""
    attempts: tuple[Callable[[str], object], ...] = (
        lambda path: os.open(path, os.O_WRONLY | os.O_CREAT, 0o600),
        lambda path: os.rename(path, f"{path}.moved"),
        lambda path: os.mkdir(os.path.join(path, "made")),
    )
    for path in paths:
        for attempt in attempts:
            try:
                attempt(path)
            except OSError as error:
                refusal = refusal or word(error)
            else:
                return False, f"{path} was changed"
    return True, refusal


def secret(path: str, canary: str) -> tuple[bool, str]:
    try:
        with open(path, encoding="utf-8") as file:
            is_read = canary in file.read()
    except OSError as error:
        return True, word(error)
    return not is_read, f"{path} was read"


def own_environment(*allowed: str) -> tuple[bool, str]:
    surplus = sorted(set(blocks("self")) - set(allowed))
    return not surplus, f"it has {', '.join(surplus)}" if surplus else "only what it was given"


def environments(*allowed: str) -> tuple[bool, str]:
    """Whether no process that can be seen was started with a variable that is none of ours."""
    surplus: set[str] = set()
    pids = processes()
    for pid in pids:
        surplus |= set(blocks(pid)) - set(allowed)
    if surplus:
        return False, f"{len(surplus)} variables of others, such as {min(surplus)}"
    return True, f"{len(pids)} processes, none has more"


def blocks(pid: str) -> list[str]:
    """The names of the variables that a process was started with."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            rows = file.read().split(b"\0")
    except OSError:
        return []
    return [os.fsdecode(row.partition(b"=")[0]) for row in rows if row]


def processes() -> list[str]:
    return [name for name in os.listdir("/proc") if name.isdigit()]


def visible() -> tuple[bool, str]:
    number = len(processes())
    return number <= _OWN_PROCESSES, f"{number} to be seen"


def descriptors(number: int) -> tuple[bool, str]:
    """Whether an open file of our parent is not open here."""
    try:
        os.fstat(number)
    except OSError as error:
        return True, word(error)
    return False, f"{number} is open"


def namespace() -> tuple[bool, str]:
    """Whether no further user namespace can be made: with one begin most ways out."""
    libc = ctypes.CDLL(None, use_errno=True)
    new_user = 0x10000000
    if libc.unshare(new_user) == 0:
        return False, "one was made"
    return True, os.strerror(ctypes.get_errno())


def privileges() -> tuple[bool, str]:
    with open("/proc/self/status", encoding="ascii") as file:
        rows = {line.partition(":")[0]: line.partition(":")[2].strip() for line in file}
    passed = int(rows["CapEff"], 16) == 0 and int(rows["CapBnd"], 16) == 0
    passed = passed and rows["NoNewPrivs"] == "1"
    return passed, "none, and none can be gained" if passed else "there are some"


def kernel(*sample: str) -> tuple[bool, str]:
    """Whether the covering mounts are there, and no file of the kernel can be written."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        rows = [line.split() for line in file]
    options = {row[4]: row[5].split(",") for row in rows}  # of those at one place, the last
    for folder in ("/proc", *(option for option in options if option.startswith("/proc/"))):
        if "ro" not in options.get(folder, ()):
            return False, f"{folder} is not mounted read-only"
    number = 0
    for path in sample or settings():
        try:
            if not stat.S_ISREG(os.lstat(path).st_mode):
                continue
            number += 1
            os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW))
        except OSError:
            continue
        return False, f"{path} opens for writing"
    return True, f"read-only; {number} files tried"


def settings() -> Iterator[str]:
    """All files that the kernel shows of itself, and of no process."""
    for top in ("/proc", "/sys"):
        for folder, inner, names in os.walk(top):
            if folder == "/proc":
                inner[:] = [name for name in inner if not name.isdigit()]
            yield from (os.path.join(folder, name) for name in names)


def user() -> tuple[bool, str]:
    return os.getuid() != 0 and os.getgid() != 0, f"user {os.getuid()}, group {os.getgid()}"


def refused(numbers: dict[str, int]) -> tuple[bool, str]:
    """Whether the kernel refuses these calls, or does not know them."""
    if not numbers:
        return False, f"no filter is known for this machine, {os.uname().machine}"
    libc = ctypes.CDLL(None, use_errno=True)
    code = ""
    for name, number in numbers.items():
        ctypes.set_errno(0)
        libc.syscall(number, 0, 0, 0, 0, 0)
        code = errno.errorcode.get(ctypes.get_errno(), "0")
        if code not in ("EPERM", "ENOSYS"):
            return False, f"{name}: {code}"
    return True, code


def sockets() -> tuple[bool, str]:
    """Whether there is none of the kinds that know no network namespace."""
    try:
        _socket.socket(_VSOCK, _socket.SOCK_STREAM).close()
    except OSError as error:
        return True, word(error)
    return False, "one was made"


def limits(maxima: dict[str, int]) -> tuple[bool, str]:
    """Whether the kernel holds us to at most what was asked for."""
    loose = []
    for name, value in maxima.items():
        soft, hard = resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))
        if resource.RLIM_INFINITY in (soft, hard) or soft > value:
            loose.append(name)
    return not loose, f"no limit on {', '.join(loose)}" if loose else "all set"


def workplace(path: str) -> tuple[bool, str]:
    """The opposite: what must be possible, or the rest would prove nothing."""
    try:
        with open(path, "w", encoding="ascii") as file:
            file.write("written inside")
    except OSError as error:
        return False, word(error)
    return True, "can be written"


def localhost() -> tuple[bool, str]:
    """As for ``workplace``: many tests start a server, and speak to it."""
    # Bytes: a text would load a codec first.
    infos = _socket.getaddrinfo(b"localhost", 0, type=_socket.SOCK_STREAM)
    for family, kind, _, _, address in infos:
        server, client = _socket.socket(family, kind), _socket.socket(family, kind)
        server.bind(address)
        server.listen()
        client.connect(server.getsockname())
        client.close()
        server.close()
    return True, " and ".join(str(address[0]) for *_, address in infos)


def word(error: OSError) -> str:
    return "no answer" if error.errno is None else errno.errorcode.get(error.errno, str(error))


ATTEMPTS: dict[str, Callable[..., tuple[bool, str]]] = {
    "tcp": lambda port: reached(_socket.AF_INET, _socket.SOCK_STREAM, ("127.0.0.1", port)),
    "udp": lambda port: reached(_socket.AF_INET, _socket.SOCK_DGRAM, ("127.0.0.1", port)),
    "internet": lambda host: reached(_socket.AF_INET, _socket.SOCK_STREAM, (host, 9)),
    "unix": lambda path: reached(_socket.AF_UNIX, _socket.SOCK_STREAM, path),
    "abstract": lambda name: reached(_socket.AF_UNIX, _socket.SOCK_STREAM, f"\0{name}"),
    "outside": written,
    "read_only": written,
    "secret": secret,
    "environment": own_environment,
    "environments": environments,
    "processes": visible,
    "descriptors": descriptors,
    "namespace": namespace,
    "privileges": privileges,
    "user": user,
    "kernel": kernel,
    "keys": refused,
    "calls": refused,
    "sockets": sockets,
    "limits": limits,
    "workplace": workplace,
    "localhost": localhost,
}


def main() -> None:
    with open(0, "rb", closefd=False) as file:
        trials = marshal.load(file)  # noqa: S302 - our own process wrote it
    lines = []
    for name, arguments in trials.items():
        try:
            passed, detail = ATTEMPTS[name](*arguments)
        except Exception as error:  # noqa: BLE001 - an attempt that fails in any way says so
            passed, detail = False, f"{type(error).__name__}: {error}"
        lines.append(f"{name} {int(passed)} {' '.join(detail.split())}\n")
    os.write(1, "".join(lines).encode("utf-8", "replace"))


if __name__ == "__main__":
    main()
