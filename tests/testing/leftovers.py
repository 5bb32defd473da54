"""What a job, a run or a test may have left on this machine."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def eventually(ask: Callable[[], bool], seconds: float = 20) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if ask():
            return True
        time.sleep(0.01)
    return ask()


def is_running(pid: int) -> bool:
    """Whether ``pid`` is a live process; one that only waits to be reaped is not.

    Its first thread may be gone while others of it hold its files open for a moment.
    """
    return _state(pid)[0] not in "ZX" or len(_threads(pid)) > 1


def _threads(pid: int) -> list[str]:
    try:
        return os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []


def sleepers(seconds: str) -> list[int]:
    """The live processes of this machine that sleep for just so long."""
    return [
        pid
        for pid, words in _of_each("cmdline")
        if words[:1] == [b"sleep"] and seconds.encode() in words and is_running(pid)
    ]


def mentioning(text: str) -> list[int]:
    """The live processes in whose command line ``text`` stands."""
    return [
        pid
        for pid, words in _of_each("cmdline")
        if text.encode() in b" ".join(words) and is_running(pid)
    ]


def processes_of(run_id: str) -> list[int]:
    """The commands of a run that are alive, by what their environment says."""
    mark = f"CODEX_ORCHESTRATOR_RUN_ID={run_id}".encode()
    return [pid for pid, words in _of_each("environ") if mark in words and is_running(pid)]


class Belongings:
    """The descriptors and children of this process, to see what a test adds to them.

    A worker may have others: those of a server that a later test needs too, or what an earlier
    test left, which may close meanwhile.
    """

    def __init__(self) -> None:
        self._descriptors = _descriptors()
        self._children = _children()

    def added(self) -> tuple[set[str], set[int]]:
        """The descriptors that are new, and the children, those that nobody reaped among them."""
        return _descriptors() - self._descriptors, _children() - self._children

    def are_all(self) -> bool:
        return not any(self.added())


def _descriptors() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


def _children() -> set[int]:
    own = str(os.getpid())
    return {pid for pid in _processes() if _state(pid)[1] == own}


def _processes() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdigit())


def _state(pid: int) -> tuple[str, str]:
    """The state of a process by its letter, and who its parent is; ``X`` and no one once gone."""
    try:
        state, parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
    except (FileNotFoundError, ProcessLookupError):
        return "X", ""
    return state, parent


def _of_each(name: str) -> Iterator[tuple[int, list[bytes]]]:
    for pid in _processes():
        try:
            yield pid, Path(f"/proc/{pid}/{name}").read_bytes().split(b"\0")
        except OSError:
            continue
