"""What comes from a worker is a frame of a known form, or ends the worker."""

from __future__ import annotations

import json
from socket import socketpair

import pytest

from rlm_ci.environments.repl.inside.host import frame
from rlm_ci.environments.repl.worker_process import BrokenFrameError, Channel

CALL = {"type": "call", "id": 9, "name": "ask", "args": [], "kwargs": {}}


def received(*pieces: bytes) -> list[object]:
    ours, its = socketpair()
    with ours, its:
        channel = Channel(ours, most_json=1 << 20, most_payload=100)
        found: list[object] = []
        for piece in pieces:
            its.sendall(piece)
            found += channel.receive()
        its.close()
        with pytest.raises(EOFError):
            list(channel.receive())
        return found


def framed(data: bytes, payload: bytes = b"") -> bytes:
    return len(data).to_bytes(4, "big") + len(payload).to_bytes(4, "big") + data + payload


def test_a_frame_comes_in_any_pieces() -> None:
    state = {"type": "state", "parts": [[1, 3]], "removed": [], "problem": "\ud800ä"}
    data = b"".join(frame(state, [b"a", b"bc"])) + b"".join(frame(CALL))
    for cut in range(1, len(data), 7):
        first, second = received(data[:cut], data[cut:])
        assert first.payload == b"abc"  # type: ignore[attr-defined]
        assert first.fields["problem"] == "?ä"  # type: ignore[attr-defined]
        assert second.fields == {"id": 9, "name": "ask", "args": [], "kwargs": {}}  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "sent",
    [
        framed(b'{"type":"quit"}'),
        framed(b'{"type":["call"]}'),
        framed(b'{"type":"ready","more":1}'),
        framed(b'{"type":"ready"}', b"payload"),
        framed(json.dumps({**CALL, "id": True}).encode()),
        framed(json.dumps({**CALL, "args": {}}).encode()),
        framed(json.dumps({**CALL, "args": [float("nan")]}).encode()),
        framed(json.dumps({**CALL, "args": ["\ud800"]}).encode()),
        framed(json.dumps({**CALL, "args": [0]}).replace("0", "1" * 5000).encode()),
        framed(b'{"type":"\xff"}'),
        framed(b"[" * 100_000),
        framed(b"[]"),
        framed(b""),
        (1 << 31).to_bytes(4, "big") + bytes(4),
        bytes(3) + b"\x02" + b"\xff" * 4 + b"{}",
        bytes(range(256)) * 100,
    ],
)
def test_anything_else_is_refused(sent: bytes) -> None:
    with pytest.raises(BrokenFrameError):
        received(sent)
