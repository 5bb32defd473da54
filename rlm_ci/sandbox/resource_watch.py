"""Watches what the kernel's limits leave open: all processes of a job together, and disks.

A limit on processes does not hold for root, one on memory is for each process alone, and none is
for the disk. So we look ten times a second.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rlm_ci.sandbox.job import JobLimits

#: Free space (bytes) that no job may use up, whatever its limit is.
_RESERVE = 64 << 20
#: Memory that no file on a disk backs; and the same, divided by the processes that share it.
_RESIDENT = ("status", (b"RssAnon:", b"RssShmem:"))
_SHARE = ("smaps_rollup", (b"Pss_Anon:", b"Pss_Shmem:"))
#: Processes that hold the job, and are none of it.
_OURS = 2


class ResourceWatch:
    """Says why a job must be stopped. It may fill the folders ``writable`` of the machine."""

    def __init__(self, limits: JobLimits, writable: Sequence[str]) -> None:
        self._limits = limits
        #: One folder of each disk that the job may write to, with what was free there.
        self._disks = {os.stat(folder).st_dev: (folder, _free(folder)) for folder in writable}
        self._writable = tuple(writable)
        self._since = time.time()

    def __call__(self, root: int) -> str:
        """The reason to stop the job whose processes descend from ``root``; or nothing."""
        pids, threads = [], 0
        for pid, number in tree(root):
            pids.append(pid)
            threads += number
            if threads > self._limits.processes + _OURS:
                return "processes"
        # Count what processes share once; the kernel takes much longer for that sum.
        limit = self._limits.memory
        if _memory(pids, *_RESIDENT) > limit < _memory(pids, *_SHARE):
            return "memory"
        return "disk" if any(map(self._is_filled, self._disks.values())) else ""

    def _is_filled(self, disk: tuple[str, int]) -> bool:
        folder, before = disk
        free = _free(folder)
        if before - free <= self._limits.scratch and (free >= _RESERVE or before - free < _RESERVE):
            return False
        # Somebody has filled this disk. Was it the job?
        return free < _RESERVE or self._written() > self._limits.scratch

    def _written(self) -> int:
        """Bytes in files below the writable mounts that were changed since the start."""
        total = 0
        for top in self._writable:
            for folder, _, names in os.walk(top):
                for name in names:
                    with suppress(OSError):  # gone in the meantime
                        status = os.lstat(os.path.join(folder, name))
                        if status.st_ctime >= self._since - 1:
                            total += status.st_blocks * 512
        return total


def tree(root: int) -> Iterator[tuple[int, int]]:
    """The process ``root`` and all that descend from it, each with its number of threads."""
    waiting = [root]
    while waiting:
        pid = waiting.pop()
        try:
            threads = os.listdir(f"/proc/{pid}/task")
        except OSError:  # it has ended
            continue
        for thread in threads:
            with suppress(OSError), open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                waiting.extend(map(int, file.read().split()))
        yield pid, len(threads)


def _memory(pids: list[int], name: str, fields: tuple[bytes, ...]) -> int:
    """The bytes of these fields of a file of each process."""
    total = 0
    for pid in pids:
        with suppress(OSError, ValueError), open(f"/proc/{pid}/{name}", "rb") as file:
            total += sum(int(line.split()[1]) << 10 for line in file if line.startswith(fields))
    return total


def _free(folder: str) -> int:
    status = os.statvfs(folder)
    return status.f_bavail * status.f_frsize
