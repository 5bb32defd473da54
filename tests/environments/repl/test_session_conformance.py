"""The same blocks give the same in CPython in bubblewrap and in pydantic-monty."""

from __future__ import annotations

import os
import threading
from contextlib import closing
from time import monotonic
from typing import TYPE_CHECKING

import pytest

from rlm_ci.environments.repl.pool import SessionPool
from rlm_ci.environments.repl.session import SessionLimits
from rlm_ci.errors import ConfigError, LimitError
from testing.repl_blocks import blocks

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LIMITS = SessionLimits(memory=256 << 20)


def ask(args: list[object], named: dict[str, object]) -> object:
    if args == ["refuse"]:
        raise LimitError("the budget is used up", budget="max_calls")
    if args == ["wrong"]:
        raise ValueError("no such file")
    return {"args": args, "named": named}


@pytest.fixture(scope="module", params=["bubblewrap", "monty"])
def pool(request: pytest.FixtureRequest) -> Iterator[SessionPool]:
    with SessionPool(request.param, environ=os.environ, limits=LIMITS, ahead=False) as found:
        assert (found.name, found.isolated) == (request.param, True)
        yield found


def test_blocks_do_the_same_and_the_variables_come_back(pool: SessionPool, tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(b"line 0\n\n" * 250 + b"\xff")
    states = []
    with closing(pool.open(context=str(path), functions={"ask": ask})) as session:
        for head, code, output in blocks("conformance"):
            error = head.get("error", "")
            result = session.execute(code, seconds=20)
            states.append(result.state)
            told = (result.output.rstrip("\n"), result.answer, result.restarted)
            assert told == (output, head.get("answer"), ""), (code, result)
            assert bool(result.error) == bool(error), (code, result)
            assert error in result.error, (code, result)
        last = session.execute("last = 1", seconds=20)
        states.append(last.state)
        shown = {name: (kind, size) for name, kind, size in last.variables}
        assert shown["rows"] == ("list", 252)
        assert shown["total"][0] == "int"
        assert not {"ask", "context", "answer", "FINAL"} & shown.keys()
        lost = session.execute(
            "rows.append('lost')\nprint('so far')\nwhile True: pass", seconds=0.3
        )
        assert lost.restarted == "The block ran for more than 0.3 s and was stopped"
        assert lost.state == b""
        check = "print(count('line'), rows is same, point.x, total, len(context), random.random())"
        after = session.execute(check, seconds=20)
    with closing(pool.open(context=str(path), functions={"ask": ask}, states=states)) as again:
        assert again.execute(check, seconds=20).output == after.output
    assert after.output.startswith("251 True 4 7 2001 0.")
    with pytest.raises(ConfigError, match="was made by"):
        SessionPool("none", environ={}, ahead=False).open(
            states=[states[0].replace(b'"maker": "', b'"maker": "x')]
        )


def test_names_of_builtins_may_be_taken(pool: SessionPool) -> None:
    with closing(pool.open()) as session:
        taken = "x = 7\nlen = str = list = print = type = isinstance = 3"
        assert session.execute(taken, seconds=20).error == ""
        result = session.execute("FINAL_VAR('x')", seconds=20)
        assert (result.error, result.answer) == ("", "7")
        assert ("x", "int") in [one[:2] for one in result.variables]


@pytest.mark.full
def test_the_time_that_an_answer_takes_is_not_the_blocks(pool: SessionPool) -> None:
    waits = threading.Event()
    with closing(pool.open(functions={"ask": lambda _args, _: waits.wait(2.5)})) as session:
        result = session.execute("print(ask())", seconds=2)
        assert (result.output, result.restarted) == ("False\n", "")


def test_a_fault_of_a_function_is_ours_and_a_closed_session_ends(pool: SessionPool) -> None:
    def broken(_args: list[object], _named: dict[str, object]) -> object:
        raise KeyError("a fault of ours")

    with closing(pool.open(functions={"ask": broken})) as session:
        session.execute("x = 1", seconds=20)
        with pytest.raises(KeyError, match="a fault of ours"):
            session.execute("x = 2\nask()\nwhile True: pass", seconds=20)
        assert session.execute("print(x)", seconds=20).output == "1\n"
        begun = monotonic()
        threading.Timer(0.2, session.close).start()
        closed = session.execute("while True: pass", seconds=60)
        assert closed.restarted == "The session is closed"
        assert monotonic() - begun < 30


@pytest.mark.full
def test_a_state_that_was_changed_does_no_harm(pool: SessionPool) -> None:
    with closing(pool.open()) as session:
        state = session.execute("x = [1]\ndef f():\n    return x", seconds=20).state
    head = state.index(b"\n") + 1
    for at in range(head, len(state), max(1, len(state) // 8)):
        changed = bytearray(state)
        changed[at] ^= 1 << (at % 8)
        with closing(pool.open(states=[bytes(changed)])) as again:
            again.execute("y = 1", seconds=5)
            assert again.execute("print(1 + 1)", seconds=5).output in ("2\n", "")
