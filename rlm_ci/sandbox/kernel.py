"""What of the kernel a job sees: to read what others may read, and nothing to change.

Capabilities do not protect the files below ``/proc``: they belong to root, and who runs as root
opens them for writing, in a user namespace too. So all that belongs to no process is mounted
read-only over itself, and what only root may read is hidden.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import weakref
from contextlib import suppress

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


class Devices:
    """What stands in /dev for jobs of root's, who could change the modes of the machine's devices.

    No mount forbids that: what bubblewrap makes read-only is no device any more. So jobs get
    devices of their own. Where none can be made, they get the machine's. Whoever has let a job
    run (``with``) gives them back the mode that they had in the beginning.
    """

    def __init__(self) -> None:
        self._places: dict[str, str] = {}
        self._modes: dict[str, int] = {}
        if os.getuid() == 0:
            found = [place for place in _DEVICES if os.path.exists(place)]
            self._places = self._made(found) or dict(zip(found, found, strict=True))
            self._modes = {place: _mode(place) for place in self._places.values()}

    def _made(self, found: list[str]) -> dict[str, str]:
        folder = tempfile.mkdtemp(prefix="rlm-ci-dev-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        places = {place: os.path.join(folder, os.path.basename(place)) for place in found}
        try:
            for place, own in places.items():
                os.mknod(own, stat.S_IFCHR, os.stat(place).st_rdev)
                os.chmod(own, _mode(place))
            os.close(os.open(places[os.devnull], os.O_RDONLY))
        except OSError:  # root may not in many a container, nor where /tmp is mounted nodev
            return {}
        return places

    def words(self) -> Iterator[str]:
        """The options of bubblewrap that show them, after ``--dev``."""
        for place, own in self._places.items():
            if place != own:
                yield from ("--dev-bind", own, place)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_error: object) -> None:
        for place, mode in self._modes.items():
            with suppress(OSError):  # nobody can change it there, then
                if _mode(place) != mode:
                    os.chmod(place, mode)


def _mode(place: str) -> int:
    return stat.S_IMODE(os.stat(place).st_mode)
