"""What of the kernel a job sees: to read what others may read, and nothing to change.

Files below ``/proc`` belong to root, which opens them for writing in a user namespace too. So
``/proc`` is mounted read-only, and what only root may read there is hidden.
"""

from __future__ import annotations

import os
import stat
import threading
from contextlib import contextmanager, suppress
from functools import cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

#: The devices of the machine that bubblewrap shows, and their numbers, which never change.
_DEVICES = {
    "/dev/null": (1, 3), "/dev/zero": (1, 5), "/dev/full": (1, 7), "/dev/random": (1, 8),
    "/dev/urandom": (1, 9), "/dev/tty": (5, 0),
}  # fmt: skip
#: Those of root's jobs: only root writes to /dev, and it is never mounted ``nodev``.
_OWN = "/dev/rlm-ci"
#: Who owns them (nobody): no job is run as this user, so none can change their mode.
_OWNER = 65534
#: The kernel's lists of the keys of a user: keys belong to no namespace.
_KEYS = ("keys", "key-users")


def covered() -> Iterator[str]:
    """The options of bubblewrap, after ``--proc``, that cover what it shows of the machine."""
    for entry in sorted(os.scandir("/proc"), key=lambda entry: entry.name):
        if entry.name.isdigit() or entry.is_symlink():  # what belongs to a process, and links there
            continue
        if entry.name in _KEYS or not entry.stat().st_mode & stat.S_IROTH:
            yield from ("--ro-bind", os.devnull, entry.path)
    # Not each file by itself: a mount costs a tenth of a millisecond.
    yield from ("--remount-ro", "/proc")


@contextmanager
def devices() -> Iterator[tuple[str, ...]]:
    """The options of bubblewrap, after ``--dev``, that give a job of root's other devices.

    It could change the mode of the machine's: no mount forbids that. Where none can be made, a job
    gets the machine's, and their modes are put back when it has ended.
    """
    if os.getuid() != 0:
        yield ()
        return
    modes = _modes()
    options = _options()
    try:
        yield options
    finally:
        for device, mode in () if options else modes.items():
            with suppress(OSError):  # then no job can change it either
                if stat.S_IMODE(os.stat(device).st_mode) != mode:
                    os.chmod(device, mode)


@cache  # as they were before any job
def _modes() -> dict[str, int]:
    return {
        device: stat.S_IMODE(os.stat(device).st_mode)
        for device in _DEVICES
        if os.path.exists(device)
    }


def _options() -> tuple[str, ...]:
    """The options for root's own devices, which are made where they are missing; or none."""
    words: list[str] = []
    try:
        for device, number in _DEVICES.items():
            node = os.path.join(_OWN, os.path.basename(device))
            if not _is_right(node, number):
                _make(node, number)
            words += ("--dev-bind", node, device)
        # A mount may forbid devices, and a container those that it did not get.
        os.close(os.open(os.path.join(_OWN, os.path.basename(os.devnull)), os.O_RDWR))
    except OSError:  # root may not in many a container
        return ()
    return tuple(words)


def _is_right(node: str, number: tuple[int, int]) -> bool:
    try:
        status = os.lstat(node)
    except FileNotFoundError:
        return False
    is_open = status.st_mode == stat.S_IFCHR | 0o666
    return is_open and status.st_uid == _OWNER and status.st_rdev == os.makedev(*number)


def _make(node: str, number: tuple[int, int]) -> None:
    """Make a device, all at once: another run may be about to use it, or to make it as well."""
    with suppress(FileExistsError):
        os.mkdir(_OWN, 0o700)
    new = f"{node}.{os.getpid()}.{threading.get_native_id()}"
    try:
        os.mknod(new, stat.S_IFCHR, os.makedev(*number))
        os.chown(new, _OWNER, _OWNER)
        os.chmod(new, 0o666)  # noqa: S103 - as everywhere: they hold nothing
        os.rename(new, node)
    except OSError:
        with suppress(OSError):
            os.unlink(new)
        raise
