"""Holds one command that runs without a sandbox: a script, which imports nothing of ours.

It is the parent of all that the command leaves behind, and ends it: when the command has ended, at
SIGTERM, and when its own parent is gone.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys
import time
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

#: Numbers of Linux's prctl.
_DEATH_SIGNAL = 1
_SUBREAPER = 36
#: Where the child finds its orders.
_ORDERS = 3
#: Seconds in which all must be dead; the rest, which forks faster than we kill, stays.
_PATIENCE = 8.0
_TOLD = 143
_UNKNOWN = 127


class StopRequest(BaseException):
    """A signal asked us to end it."""


def main() -> None:
    signal.signal(signal.SIGTERM, _tell)
    code, pid = _TOLD, 0
    try:
        with open(_ORDERS, "rb") as file:
            orders = json.load(file)
        _hold(orders["parent"])
        _limit(orders["limits"])
        os.chdir(orders["cwd"])
        pid = _start(orders["program"], orders["argv"], orders["env"])
        # Who waits at the other side must see when the command closes them.
        os.closerange(_ORDERS + 1, _ORDERS + 1 + orders["inherited"])
        code = _wait(pid) if pid else _UNKNOWN
    except StopRequest:
        pass
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        _end_all(pid)
    if code < 0:  # end as it did, so that our parent sees it
        with suppress(OSError):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


def _tell(_number: int, _frame: FrameType | None) -> None:
    raise StopRequest


def _hold(parent: int) -> None:
    """Become the parent of orphans, and get a signal when our own parent dies. Linux only."""
    if sys.platform != "linux":
        return
    prctl = ctypes.CDLL(None).prctl
    prctl(_SUBREAPER, 1, 0, 0, 0)
    prctl(_DEATH_SIGNAL, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:  # it died before we asked
        raise StopRequest


def _limit(limits: dict[str, int]) -> None:
    """Set limits, soft and hard, as far down as asked for and as far up as allowed."""
    for name, value in limits.items():
        number = getattr(resource, f"RLIMIT_{name}")
        highest = resource.getrlimit(number)[1]
        allowed = value if highest == resource.RLIM_INFINITY else min(value, highest)
        with suppress(OSError, ValueError):  # not every system has every limit
            resource.setrlimit(number, (allowed, allowed))


def _start(program: str, argv: list[str], env: dict[str, str]) -> int:
    """Start the command, in a group of its own; 0 when that cannot be done."""
    try:
        return os.posix_spawn(
            program, argv, env, setpgroup=0, setsigdef=[signal.SIGTERM, signal.SIGPIPE]
        )
    except OSError as error:
        os.write(2, f"{program}: {error.strerror}\n".encode("utf-8", "backslashreplace"))
        return 0


def _wait(pid: int) -> int:
    """The exit code of the command, negative for a signal."""
    while True:
        ended, status = os.wait()
        if ended == pid:
            return os.waitstatus_to_exitcode(status)


def _end_all(pid: int) -> None:
    """Kill the command and all that descends from us, until there is nothing left."""
    until = time.monotonic() + _PATIENCE
    groups = {pid}
    while time.monotonic() < until:
        # A group dies at once; one by one, or looked for first, a bomb forks faster than we kill.
        for group in groups - {0, os.getpgid(0)}:
            with suppress(OSError):
                os.killpg(group, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.001)
        groups = _groups()


def _groups() -> set[int]:
    """The process groups of all that descend from us."""
    groups: set[int] = set()
    waiting = [os.getpid()]
    while waiting:
        pid = waiting.pop()
        with suppress(OSError):  # it has ended
            groups.add(os.getpgid(pid))
            for thread in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                    waiting += map(int, file.read().split())
    return groups


if __name__ == "__main__":
    main()
