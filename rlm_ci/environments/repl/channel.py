"""Frames from and to a worker. What comes from there is hostile: its form and size are checked.

A frame is the sizes of its two parts, JSON, and a payload of bytes.
"""

from __future__ import annotations

import json

from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from socket import socket
    from typing import Any

_SIZES = 8
_CHUNK = 1 << 20
#: The fields of each kind of frame, with their types.
_FIELDS: dict[str, dict[str, tuple[type, ...]]] = {
    "ready": {},
    "call": {"id": (int,), "name": (str,), "args": (list,), "kwargs": (dict,)},
    "done": {"error": (str,), "answer": (str, type(None)), "variables": (list,)},
    "state": {"parts": (list,), "removed": (list,), "problem": (str,)},
}
#: JSON of one frame, but for calls, which may have more.
_MOST_JSON = 16 << 20
_HIGHEST = 1 << 53


class BrokenFrameError(Exception):
    """What came from the worker is no frame, or none that it may send now."""


class Frame(Value):
    kind: str
    fields: dict[str, Any]
    payload: bytes = b""


class Channel:
    """The host's end of a socket, which never waits."""

    def __init__(self, end: socket, *, most_json: int, most_payload: int) -> None:
        end.setblocking(False)  # noqa: FBT003 - it has no name
        self._end = end
        self._most_json = max(most_json, _MOST_JSON)
        self._most_payload = most_payload
        self._taken = bytearray()
        self._waiting: list[memoryview] = []

    def fileno(self) -> int:
        return self._end.fileno()

    def send(self, header: dict[str, Any], *payload: bytes) -> None:
        """Send a frame, as far as the other side takes it; the rest by ``flush``."""
        data = json.dumps(header).encode("ascii")
        sizes = len(data).to_bytes(4, "big") + sum(map(len, payload)).to_bytes(4, "big")
        self._waiting += map(memoryview, (sizes + data, *payload))
        self.flush()

    def flush(self) -> bool:
        """Send more of what waits; whether some still does."""
        try:
            while self._waiting:
                left = self._waiting[0][self._end.send(self._waiting[0][:_CHUNK]) :]
                self._waiting[:1] = [left] if left else []
        except BlockingIOError:
            return True
        except OSError:  # it is gone: what is to be read says so
            self._waiting.clear()
        return False

    def receive(self) -> Iterator[Frame]:
        """The next of the frames that have come: only so many, since there is no end to them.

        Raises BrokenFrameError, and EOFError when it is closed.
        """
        try:
            chunk = self._end.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            raise EOFError from None
        if not chunk:
            raise EOFError
        self._taken += chunk
        yield from self._frames()

    def _frames(self) -> Iterator[Frame]:
        while len(self._taken) >= _SIZES:
            length = int.from_bytes(self._taken[:4], "big")
            size = int.from_bytes(self._taken[4:_SIZES], "big")
            if length > self._most_json or size > self._most_payload:
                raise BrokenFrameError("a frame is too large")
            if len(self._taken) < _SIZES + length + size:
                return
            data = bytes(self._taken[_SIZES : _SIZES + length])
            payload = bytes(memoryview(self._taken)[_SIZES + length : _SIZES + length + size])
            del self._taken[: _SIZES + length + size]
            yield _parsed(data, payload)


def _parsed(data: bytes, payload: bytes) -> Frame:
    try:
        fields = json.loads(data.decode("utf-8"), parse_constant=_refuse)
        if b"\\u" in data:  # a lone half of a pair cannot be written anywhere
            json.dumps(fields, ensure_ascii=False).encode("utf-8")
    except (ValueError, RecursionError):
        raise BrokenFrameError("a frame is not JSON") from None
    kind = fields.pop("type", None) if isinstance(fields, dict) else None
    expected = _FIELDS.get(kind) if isinstance(kind, str) else None
    if expected is None or fields.keys() != expected.keys():
        raise BrokenFrameError("a frame is of no known kind")
    if not all(type(fields[name]) in kinds for name, kinds in expected.items()):
        raise BrokenFrameError("a field of a frame has another type")
    if payload and kind != "state":
        raise BrokenFrameError("a frame has a payload, which only a state may have")
    return Frame(str(kind), fields, payload)


def _refuse(name: str) -> None:
    raise ValueError(name)


def is_count(value: object) -> bool:
    """Whether a field is a number from 0 up, of a size that JSON readers agree on."""
    return type(value) is int and 0 <= value <= _HIGHEST
