"""What of the kernel a job sees: to read what others may read, and nothing to change.

Capabilities do not protect the files below ``/proc``: they belong to root, and who runs as root
opens them for writing, in a user namespace too. So all that belongs to no process is mounted
read-only over itself, and what only root may read is hidden.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

#: The machine's own devices, which bubblewrap shows as they are.
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


class Devices:
    """The devices of the machine that a job uses. Root's could change their mode for everybody.

    No mount forbids that: what bubblewrap makes read-only is no device any more. So whoever has
    let a job run (``with``) gives them back the mode that they had in the beginning.
    """

    def __init__(self) -> None:
        self._modes = {}
        for place in _DEVICES if os.getuid() == 0 else ():
            with suppress(OSError):
                self._modes[place] = stat.S_IMODE(os.stat(place).st_mode)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_error: object) -> None:
        for place, mode in self._modes.items():
            with suppress(OSError):  # nobody can change it there, then
                if stat.S_IMODE(os.stat(place).st_mode) != mode:
                    os.chmod(place, mode)
