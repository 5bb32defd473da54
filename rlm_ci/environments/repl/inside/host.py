"""The worker's end of the channel: blocks come from the host, calls go to it."""

from __future__ import annotations

import _thread
import builtins
import json
import os
import sys
from _queue import SimpleQueue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Callable, Iterable
    from typing import Any, ClassVar

#: Before each frame: the bytes of its JSON, and those of its payload.
SIZES = 8


def frame(header: dict[str, Any], payload: Iterable[bytes] = ()) -> list[bytes]:
    """The pieces of a frame. Raises ValueError, TypeError: not everything is JSON."""
    text = json.dumps(header, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    data = text.encode("utf-8", "replace")
    pieces = list(payload)
    size = sum(map(len, pieces))
    return [len(data).to_bytes(4, "big") + size.to_bytes(4, "big") + data, *pieces]


class Host:
    """The other side of the channel: sends blocks, and answers calls."""

    def __init__(self, channel: socket) -> None:
        self._channel = channel
        self._sending = _thread.allocate_lock()
        self._calls: dict[int, list[Any]] = {}
        self._count = 0
        self._process = os.getpid()
        self.descriptor = -1
        self.orders: SimpleQueue[tuple[dict[str, Any], memoryview]] = SimpleQueue()
        self.most_bytes = 1 << 20

    def send(self, header: dict[str, Any], payload: Iterable[bytes] = ()) -> None:
        if os.getpid() != self._process:  # a child that went on to the end of its block
            os._exit(0)
        pieces = frame(header, payload)
        with self._sending:
            for piece in pieces:
                self._channel.sendall(piece)

    def call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What the host answers; raises what it refuses."""
        if os.getpid() != self._process:
            raise RuntimeError(f"{name} cannot be called in a child process: use threads")
        self._count += 1
        number = self._count
        header = {"type": "call", "id": number, "name": name, "args": args, "kwargs": kwargs}
        try:
            pieces = frame(header)
        except (TypeError, ValueError, RecursionError) as error:
            raise TypeError(f"{name} takes what JSON can say: {error}") from None
        if len(pieces[0]) > self.most_bytes:
            raise ValueError(
                f"{name} got {len(pieces[0]):,} bytes; a call may have {self.most_bytes:,}"
            )
        waiting = _thread.allocate_lock()
        waiting.acquire()
        slot = self._calls[number] = [waiting, None]
        with self._sending:
            self._channel.sendall(pieces[0])
        waiting.acquire()
        told = slot[1]
        if "error" in told:
            raise getattr(builtins, told["kind"])(told["error"])
        return told["value"]

    def listen(self) -> None:
        """Take in frames until the host is gone; then end."""
        try:
            self._take_descriptor()
            while True:
                sizes = self._read(SIZES)
                header = json.loads(bytes(self._read(int.from_bytes(sizes[:4], "big"))))
                payload = self._read(int.from_bytes(sizes[4:], "big"))
                if header["type"] == "answer":
                    slot = self._calls.pop(header["id"])
                    slot[1] = header
                    slot[0].release()
                else:
                    self.orders.put((header, payload))
        finally:
            os._exit(3)

    def _take_descriptor(self) -> None:
        """The first byte brings the file of the context, if there is one."""
        from _socket import CMSG_SPACE  # not on Windows, where the host reads this module too

        _, found, _, _ = self._channel.recvmsg(1, CMSG_SPACE(4))
        for _, _, data in found:
            self.descriptor = int.from_bytes(data[:4], sys.byteorder)

    def _read(self, size: int) -> memoryview:
        data = memoryview(bytearray(size))
        done = 0
        while done < size:
            count = self._channel.recv_into(data[done:])
            if not count:
                raise EOFError
            done += count
        return data


class HostCall:
    """A function of the host, as the code sees it."""

    host: ClassVar[Host]

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.host.call(self.__name__, args, kwargs)

    def __repr__(self) -> str:
        return f"<function {self.__name__}>"

    def __reduce__(self) -> tuple[Callable[[str], object], tuple[str]]:
        return HostCall, (self.__name__,)
