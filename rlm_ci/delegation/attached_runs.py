"""Runs that end with their server, however that ends: a small process watches for it.

It reads the names of runs from a pipe. When the pipe ends, because the server has closed it or was
killed, it interrupts those that are left, as a signal would: they can be resumed.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import suppress

from rlm_ci.errors import RlmCiError
from rlm_ci.redaction.redactor import Redactor
from rlm_ci.runs import cancel, manifest
from rlm_ci.system import process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: Seconds that a run has to be there: the server may end while it is being started.
_START = 30.0
_LOOK = 0.05


class AttachedRuns:
    """The runs of one server that must not outlive it."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        # The mark of a run would let its end kill the watcher.
        self._environ = {name: value for name, value in environ.items() if name != cancel.MARK}
        self._lock = threading.Lock()
        self._runs: dict[str, str] = {}
        self._pipe = -1

    def add(self, path: str, out: str) -> None:
        """Attach the run in the folder ``path``, which need not be there yet.

        ``out`` is the folder of all tasks' summaries. Raises OSError.
        """
        with self._lock:
            self._runs[path] = out
            if self._pipe < 0 or not self._tell((path,)):
                self._begin()
                self._tell(self._runs)

    def remove(self, path: str) -> None:
        """Let the run in the folder ``path`` live: it has ended, or another cares for it."""
        with self._lock:
            if self._runs.pop(path, None) is not None:
                self._tell((path,))

    def close(self) -> None:
        """Have those that are left interrupted."""
        with self._lock:
            if self._pipe >= 0:
                os.close(self._pipe)
                self._pipe = -1

    def _tell(self, paths: Iterable[str]) -> bool:
        """Send how it stands with each path; whether the watcher is there to read it."""
        lines = (f"{path}\0{self._runs.get(path, '')}\n" for path in paths)
        try:
            os.write(self._pipe, "".join(lines).encode("utf-8", "surrogateescape"))
        except BrokenPipeError:
            return False
        return True

    def _begin(self) -> None:
        """Start the watcher, in a session of its own; one before it is gone."""
        if self._pipe >= 0:
            os.close(self._pipe)
        source, self._pipe = os.pipe()
        nothing = os.open(os.devnull, os.O_RDWR)
        # As no child of ours: who kills us with all that we started must not kill it, too. A
        # shell gives a command in the background no input but what is opened under another number.
        aside = 'exec 3<&0; "$@" <&3 3<&- &'
        argv = ["/bin/sh", "-c", aside, "sh", sys.executable, "-P", "-m", __name__]
        try:
            pid = process.spawn(argv, self._environ, (source, nothing, nothing), session=True)
        finally:
            os.close(source)
            os.close(nothing)
        os.waitpid(pid, 0)


def watch() -> None:
    """Read the pipe to its end, then interrupt what is left."""
    left: dict[str, str] = {}
    with open(0, encoding="utf-8", errors="surrogateescape", newline="\n") as names:
        for line in names:
            path, _, out = line.rstrip("\n").partition("\0")
            left.pop(path, None)
            if out:
                left[path] = out
    threads = [threading.Thread(target=_interrupt, args=item) for item in left.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _interrupt(path: str, out: str) -> None:
    until = time.monotonic() + _START
    while not os.path.lexists(os.path.join(path, manifest.NAME)):
        if time.monotonic() > until:
            return
        time.sleep(_LOOK)
    with suppress(RlmCiError):
        cancel.interrupt(path, redactor=Redactor({}), out=out)


if __name__ == "__main__":
    watch()
