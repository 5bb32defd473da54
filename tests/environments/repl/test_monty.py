"""A session of pydantic-monty holds, whatever its code does."""

from __future__ import annotations

import os
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from rlm_ci.environments.repl.pool import SessionPool
from rlm_ci.environments.repl.session import SessionLimits
from testing.leftovers import eventually
from testing.repl_blocks import blocks

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

SECRET = "a-secret-of-the-host-8157"
LIMITS = SessionLimits(memory=64 << 20)


@pytest.mark.full
def test_a_block_ends_and_the_next_finds_the_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", SECRET)
    (tmp_path / "secret").write_text(SECRET)
    (tmp_path / "text").write_text("a text")
    with SessionPool("monty", environ=os.environ) as pool, closing(pool.open()) as first:
        first.execute("1", seconds=20)  # what the library opens once and for all
    held = os.listdir("/proc/self/fd")
    with (
        SessionPool("monty", environ=os.environ, limits=LIMITS) as pool,
        closing(
            pool.open(
                context=str(tmp_path / "text"), functions={"ask": lambda args, _: [*args, 1, 2]}
            )
        ) as session,
    ):
        assert session.execute("kept = [1]\nsame = kept", seconds=20).error == ""
        for head, code, _ in blocks("monty", SECRET_PLACE=tmp_path / "secret"):
            title, expected = head["title"], head.get("error", "")
            seconds = 0.2 if "ran for" in expected else 30
            result = session.execute(code, seconds=seconds)
            assert expected in result.error, (title, result)
            assert bool(expected) == bool(result.error), (title, result)
            assert (result.answer, SECRET in result.output) == (None, False), title
            assert len(result.output) <= LIMITS.output + 200, title
            check = "print(same is kept, kept, context, len(ask('x')), len(SHOW_VARS()) > 9)"
            after = session.execute(check, seconds=20)
            told = (after.error, after.output)
            assert told == ("", "True [1] a text 3 True\n"), (title, after)
        assert (tmp_path / "secret").read_text() == SECRET
    assert eventually(lambda: len(os.listdir("/proc/self/fd")) <= len(held))
