"""``python -m testing.loopback_model [--delay S]``: a cheap model as a process of its own.

It answers every question with the same bytes, ``S`` seconds after the question's last byte came,
as many at once as are asked: what is measured beside it on the same machine is its client. It
prints its base URL, and ends with its standard input.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys

_LENGTH = b"content-length:"


def answer(text: str = "fine") -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}}
    body = {
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1_700_000_000, "model": "m-1",
        "choices": [{**choice, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 40, "completion_tokens": 2, "total_tokens": 42},
    }  # fmt: skip
    data = json.dumps(body).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n"
    return head.encode() + b"\r\n" + data


class Connection(asyncio.Protocol):
    """One question after the other."""

    def __init__(self, delay: float, said: bytes) -> None:
        self._delay = delay
        self._said = said
        self._pieces: list[bytes] = []
        self._missing = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if not self._missing:
            come = b"".join((*self._pieces, data))
            head, end, body = come.partition(b"\r\n\r\n")
            self._pieces = [come]
            if not end:
                return
            at = head.lower().index(_LENGTH) + len(_LENGTH)
            self._missing, data = int(head[at:].split(b"\r\n", 1)[0]), body
        self._missing -= len(data)
        if self._missing <= 0:
            self._pieces.clear()
            asyncio.get_running_loop().call_later(self._delay, self._transport.write, self._said)


async def serve(delay: float) -> None:
    said, loop = answer(), asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(delay, said), "127.0.0.1", 0, backlog=256)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="loopback_model")
    parser.add_argument("--delay", type=float, default=0, help="seconds before each answer")
    asyncio.run(serve(parser.parse_args().delay))
