"""What a worker says of a block is taken only in the form and the order that it must have."""

from __future__ import annotations

import os
from contextlib import closing
from socket import socketpair
from typing import TYPE_CHECKING, Any, cast

import pytest

from rlm_ci.environments.repl.cpython import ENDED, Block
from rlm_ci.environments.repl.inside.host import frame
from rlm_ci.environments.repl.session import SessionLimits
from rlm_ci.environments.repl.worker_process import Channel

if TYPE_CHECKING:
    from rlm_ci.environments.repl.worker_process import WorkerProcess

LIMITS = SessionLimits(error=100, answer=100, request=1 << 16, state=100, saving=0.1)
DONE: dict[str, Any] = {"type": "done", "error": "", "answer": None, "variables": [["a", "int", 1]]}
STATE: dict[str, Any] = {"type": "state", "parts": [[1, 2]], "removed": [0], "problem": ""}


class Sent:
    """A worker that has said all that it will say."""

    is_ready = True

    def __init__(self, *sent: bytes, is_open: bool = True) -> None:
        ours, self._its = socketpair()
        self._end = ours
        self.channel = Channel(ours, most_json=LIMITS.request, most_payload=LIMITS.state)
        self.output, self._printing = os.pipe()
        self.alarm, self._wake = os.pipe()
        os.set_blocking(self.output, False)
        self.calls: dict[int, str] = {}
        self._its.sendall(b"".join(sent))
        if not is_open:
            self._its.close()

    def close(self) -> None:
        self._end.close()
        self._its.close()
        for number in (self.output, self._printing, self.alarm, self._wake):
            os.close(number)


def said(*frames: tuple[dict[str, Any], bytes], is_open: bool = True) -> tuple[str, Block]:
    data = [b"".join(frame(header, [payload])) for header, payload in frames]
    with closing(Sent(*data, is_open=is_open)) as worker:
        block = Block(cast("WorkerProcess", worker), {0: b"x" * 150}, LIMITS)
        return block.run("1", 1, 0.1), block


def test_what_is_done_and_what_is_kept() -> None:
    lost, block = said((DONE, b""), (STATE, b"ab"))
    assert lost == ""
    assert block.done == ("", None, (("a", "int", 1),))
    assert block.saved == ({1: b"ab"}, [0], "")


def test_a_result_stands_though_its_variables_are_lost() -> None:
    lost, block = said((DONE, b""))
    assert (lost, block.done is not None) == ("The variables could not be kept within 0.1 s", True)
    lost, block = said((DONE, b""), is_open=False)
    assert (lost, block.done is not None, block.saved) == (ENDED, True, None)


@pytest.mark.parametrize(
    "frames",
    [
        [({**DONE, "error": "x" * 1000}, b"")],
        [({**DONE, "answer": "x" * 101}, b"")],
        [({**DONE, "variables": [["a", "int", 1]] * 201}, b"")],
        [({**DONE, "variables": [["a", "int", -1]]}, b"")],
        [({**DONE, "variables": [["a", "int", True]]}, b"")],
        [({**DONE, "variables": [["a" * 300, "int", 1]]}, b"")],
        [({**DONE, "variables": [["a", "int"]]}, b"")],
        [({**DONE, "variables": [{"a": 1}]}, b"")],
        [(DONE, b""), (DONE, b"")],
        [(STATE, b"ab")],
        [(DONE, b""), (STATE, b"abc")],
        [(DONE, b""), (STATE, b"a")],
        [(DONE, b""), ({**STATE, "parts": [[1, 1], [1, 1]]}, b"ab")],
        [(DONE, b""), ({**STATE, "parts": [[-1, 2]]}, b"ab")],
        [(DONE, b""), ({**STATE, "parts": [[1 << 60, 2]]}, b"ab")],
        [(DONE, b""), ({**STATE, "parts": ["12"]}, b"ab")],
        [(DONE, b""), ({**STATE, "removed": [None]}, b"ab")],
        [(DONE, b""), ({**STATE, "problem": "x" * 20_001}, b"ab")],
        [(DONE, b""), ({**STATE, "removed": []}, b"ab")],  # too much, with that of before
        [({"type": "ready"}, b"")],
    ],
)
def test_anything_else_ends_the_worker(frames: list[tuple[dict[str, Any], bytes]]) -> None:
    lost, block = said(*frames)
    assert lost.startswith("The block broke the protocol of the session (")
    assert (block.done, block.saved) == (None, None)
