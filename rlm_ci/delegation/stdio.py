"""The lines of a client on standard input, and those to it on standard output, both bounded.

The SDK's own reader takes lines of any length into memory. While the server runs, descriptor 0 is
the null device and descriptor 1 is standard error: nothing that prints, and no child, reaches the
client.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

#: Bytes of one message; longer ones are refused.
LINE_LIMIT = 4 << 20
_CHUNK = 1 << 16
#: Bytes that wait to be read by the client; meanwhile none of its messages are read.
_WAITING = 8 << 20


def claim() -> tuple[int, int]:
    """Descriptors of the client's input and output, which no child inherits."""
    source, target = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # standard error is closed
        os.dup2(nothing, 1)
    os.close(nothing)
    return source, target


def lines(descriptor: int, limit: int = LINE_LIMIT) -> Iterator[bytes | None]:
    """Each line without its end; None for one above ``limit``, which is read and dropped."""
    pending, is_dropped = bytearray(), False
    while True:
        try:
            chunk = os.read(descriptor, _CHUNK)
        except OSError:  # the other side is gone
            return
        if not chunk:
            break
        *ended, remainder = chunk.split(b"\n")
        for part in ended:
            pending += part
            yield None if is_dropped or len(pending) > limit else bytes(pending)
            pending, is_dropped = bytearray(), False
        pending += remainder
        if len(pending) > limit:
            pending, is_dropped = bytearray(), True
    if is_dropped or pending:
        yield None if is_dropped else bytes(pending)


class ClientOutput:
    """Writes lines in a thread, so that a client that does not read stops nothing but itself."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._held: deque[bytes] = deque()
        self._size = 0
        self._changed = threading.Condition()
        self.is_broken = False
        threading.Thread(target=self._write, name="output", daemon=True).start()

    def put(self, line: bytes) -> None:
        with self._changed:
            self._held.append(line + b"\n")
            self._size += len(line) + 1
            self._changed.notify_all()

    def wait_for_room(self) -> None:
        """Return when the client has read enough, or is gone."""
        with self._changed:
            self._changed.wait_for(lambda: self._size <= _WAITING or self.is_broken)

    def finish(self, seconds: float) -> None:
        """Wait until everything is written, at most so long."""
        with self._changed:
            self._changed.wait_for(lambda: not self._size or self.is_broken, seconds)

    def _write(self) -> None:
        while not self.is_broken:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._held))
                line = self._held.popleft()
            unsent = memoryview(line)
            with suppress(OSError):
                while unsent:
                    unsent = unsent[os.write(self._descriptor, unsent) :]
            with self._changed:
                self._size -= len(line)
                self.is_broken = bool(unsent)
                self._changed.notify_all()
