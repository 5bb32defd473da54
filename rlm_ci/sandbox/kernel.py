"""What of the kernel a job sees: to read what others may read, and nothing to change.

Capabilities do not protect the files below ``/proc``: they belong to root, and who runs as root
opens them for writing, in a user namespace too. So all that belongs to no process is mounted
read-only over itself, and what only root may read is hidden.
"""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import contextmanager, suppress
from functools import cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

#: The devices of the machine that bubblewrap shows.
_DEVICES = tuple(f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty"))
#: What the kernel tells of the keys of a user: they belong to no namespace.
_KEYS = ("keys", "key-users")


def covered() -> Iterator[str]:
    """The options of bubblewrap that cover what ``--proc`` shows of the machine."""
    for entry in sorted(os.scandir("/proc"), key=lambda entry: entry.name):
        if entry.name.isdigit() or entry.is_symlink():  # what belongs to a process, and links there
            continue
        mode = entry.stat(follow_symlinks=False).st_mode
        if entry.name in _KEYS or not mode & stat.S_IROTH:
            yield from ("--ro-bind", os.devnull, entry.path)
        elif stat.S_ISDIR(mode) or mode & 0o222:
            yield from ("--ro-bind", entry.path, entry.path)


@contextmanager
def devices() -> Iterator[tuple[str, ...]]:
    """The options of bubblewrap, after ``--dev``, that give a job of root's devices of its own.

    It could change the mode of the machine's for everybody: no mount forbids that, as what
    bubblewrap makes read-only is no device any more. Where none can be made, a job gets the
    machine's, and when it has ended, their modes are put back.
    """
    if os.getuid() != 0:
        yield ()
        return
    modes = _modes()
    with tempfile.TemporaryDirectory(prefix="rlm-ci-dev-") as folder:
        own = _made(folder, modes)
        try:
            yield own
        finally:
            for place, mode in () if own else modes.items():
                with suppress(OSError):  # nobody can change it there, then
                    if stat.S_IMODE(os.stat(place).st_mode) != mode:
                        os.chmod(place, mode)


@cache  # as they were before any job
def _modes() -> dict[str, int]:
    return {
        place: stat.S_IMODE(os.stat(place).st_mode) for place in _DEVICES if os.path.exists(place)
    }


def _made(folder: str, modes: dict[str, int]) -> tuple[str, ...]:
    words: list[str] = []
    try:
        for place, mode in modes.items():
            own = os.path.join(folder, os.path.basename(place))
            os.mknod(own, stat.S_IFCHR, os.stat(place).st_rdev)
            os.chmod(own, mode)
            words += ("--dev-bind", own, place)
        os.close(os.open(os.path.join(folder, os.path.basename(os.devnull)), os.O_RDONLY))
    except OSError:  # root may not in many a container, nor where /tmp is mounted nodev
        return ()
    return tuple(words)
