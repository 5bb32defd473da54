"""A session holds, whatever its code does: in bubblewrap, and what holds without a sandbox."""

from __future__ import annotations

import os
import socket
import threading
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

import pytest

from rlm_ci.environments.repl.pool import SessionPool
from rlm_ci.environments.repl.session import SessionLimits
from testing.leftovers import eventually, sleepers
from testing.repl_blocks import blocks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from rlm_ci.environments.repl.session import ReplSession

LIMITS = SessionLimits(
    memory=512 << 20, scratch=64 << 20, processes=48, request=1 << 20, state=32 << 20, saving=2.0
)
SECRET = "a-secret-of-the-host-8157"
SLEEP = "8157.25"


#: Writes frames of its own: the channel is the one socket that the process has.
CHANNEL = """
import os, stat
[channel] = [n for n in range(64) if os.path.exists(f"/proc/self/fd/{n}")
             and stat.S_ISSOCK(os.fstat(n).st_mode)]
def send(data, payload=b"", sizes=None):
    sizes = sizes or (len(data), len(payload))
    os.write(channel, sizes[0].to_bytes(4, "big") + sizes[1].to_bytes(4, "big") + data + payload)
"""


def descriptors() -> list[str]:
    return sorted(os.listdir("/proc/self/fd"))


@pytest.fixture(scope="module", params=["bubblewrap", "none"])
def pool(request: pytest.FixtureRequest) -> Iterator[SessionPool]:
    with SessionPool(request.param, environ=os.environ, limits=LIMITS, ahead=False) as found:
        yield found


AFTER = "print(same is kept, kept, context, len(ask('x')), bool(SHOW_VARS()))"


def has_at_most(number: int) -> bool:
    return len(descriptors()) <= number


def attacked(
    session: ReplSession, rows: Sequence[tuple[dict[str, str], str, str]], *, before: str = ""
) -> list[str]:
    """The output of each row; after each the session is as it was."""
    outputs = []
    first = session.execute(f"kept = [1]\nsame = kept\n{before}", seconds=20)
    assert first.error == ""
    for head, code, _ in rows:
        name, expected = head["title"], head.get("error", "")
        held = len(descriptors())
        result = session.execute(code, seconds=0.3 if "ran for" in expected else 30)
        outputs.append(result.output)
        assert any(one in result.error for one in expected.split(" or ")), (name, result)
        assert result.answer is None, name
        assert len(result.output) <= LIMITS.output + 200, name
        after = session.execute(AFTER, seconds=20)
        if "processes" in after.restarted:  # the watch saw a moment later what a block had left
            after = session.execute(AFTER, seconds=20)
        assert (after.error, after.restarted) == ("", ""), (name, after)
        # A child that was left behind may print at any time.
        assert "True [1] a text 3 True\n" in after.output, (name, after)
        # The end of a worker that was lost, and the start of the next, have a moment.
        assert eventually(partial(has_at_most, held)), name
    return outputs


@pytest.fixture
def session(pool: SessionPool, tmp_path: Path) -> Iterator[ReplSession]:
    (tmp_path / "text").write_text("a text")
    held, threads = descriptors(), threading.active_count()
    found = pool.open(
        context=str(tmp_path / "text"), functions={"ask": lambda args, _: [*args, 1, 2]}
    )
    with closing(found):
        yield found
    assert eventually(lambda: len(descriptors()) == len(held))
    assert eventually(lambda: threading.active_count() == threads)


def test_a_block_cannot_read_what_is_the_hosts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", SECRET)
    (tmp_path / "secret").write_text(SECRET)
    (tmp_path / "text").write_text("a text")
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        SessionPool("bubblewrap", environ=os.environ, limits=LIMITS, ahead=False) as pool,
        closing(
            pool.open(
                context=str(tmp_path / "text"), functions={"ask": lambda args, _: [*args, 1, 2]}
            )
        ) as session,
    ):
        port = listener.getsockname()[1]
        rows = blocks("reading", SECRET_PLACE=tmp_path / "secret", PORT=port)
        for row, output in zip(rows, attacked(session, rows), strict=True):
            assert SECRET not in output, row
            assert "written" not in output, row


@pytest.mark.full
def test_what_breaks_a_process_ends_with_its_block(session: ReplSession) -> None:
    attacked(session, blocks("breaking", SLEEP=SLEEP), before=CHANNEL)
    session.close()
    assert eventually(lambda: not sleepers(SLEEP))


@pytest.mark.full
def test_what_is_greedy_is_stopped(session: ReplSession) -> None:
    rows = blocks("greedy")
    if not session.isolated:  # as there, and it takes ten seconds
        rows = [row for row in rows if row[0]["title"] != "ten gigabytes"]
    attacked(session, rows, before=CHANNEL)
