"""Lines of a client, however they come in; what is written to it."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from rlm_ci.delegation.server import ClientOutput, lines

if TYPE_CHECKING:
    from collections.abc import Iterable

LIMIT = 5


def read(chunks: Iterable[bytes]) -> list[bytes | None]:
    """What is found in a pipe that gets one chunk after the other."""
    source, target = os.pipe()

    def write() -> None:
        for chunk in chunks:
            os.write(target, chunk)
        os.close(target)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        return list(lines(source, LIMIT))
    finally:
        writer.join()
        os.close(source)


@given(st.lists(st.text("ab\n", max_size=12).map(str.encode)))
def test_lines_are_whole_and_bounded(chunks: list[bytes]) -> None:
    *ended, rest = b"".join(chunks).split(b"\n")
    expected = [*ended, rest] if rest else ended
    assert read(chunks) == [one if len(one) <= LIMIT else None for one in expected]


def test_a_reader_that_is_gone_breaks_the_output() -> None:
    source, target = os.pipe()
    output = ClientOutput(target)
    output.put(b"one")
    output.finish(60)
    assert os.read(source, 99) == b"one\n"
    os.close(source)
    output.put(b"two")
    output.finish(60)
    output.wait_for_room()
    assert output.is_broken
    os.close(target)
