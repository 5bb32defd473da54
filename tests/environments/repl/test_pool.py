"""Sessions as an environment uses them: blocks on the same variables, in a real sandbox."""

from __future__ import annotations

import os
import re
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from rlm_ci.environments.repl.cpython import CPythonSession, CPythonWorkers
from rlm_ci.environments.repl.pool import SessionPool, Sessions
from rlm_ci.environments.repl.session import SessionLimits
from rlm_ci.errors import ConfigError, DamagedError, LimitError, UnavailableError
from rlm_ci.system.process import Clipped, StreamResult

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rlm_ci.sandbox.job import SandboxJob


@pytest.fixture(scope="module")
def pool() -> Iterator[SessionPool]:
    with SessionPool("bubblewrap", environ=os.environ, ahead=False) as found:
        yield found


def test_variables_last_from_block_to_block_and_over_a_lost_process(
    pool: SessionPool, tmp_path: Path
) -> None:
    (tmp_path / "text").write_bytes(b"a line\n" * 3 + b"\xff")
    session = pool.open(context=str(tmp_path / "text"))
    try:
        first = session.execute(
            "import re, random\nrandom.seed(7)\nfound = [re.findall('line', context)]\n"
            "same = found\ndef count():\n    return len(found[0]) + more\nmore = 1\n"
            "open_now = (one for one in found)\nlen(context), context[-1]",
            seconds=20,
        )
        assert first.output == "(22, '\N{REPLACEMENT CHARACTER}')\n"
        assert (first.error, first.answer) == ("", None)
        assert ("found", "list", 1) in first.variables
        assert first.state_error == "open_now is not kept: cannot pickle 'generator' object"
        drawn = session.execute("random.random()", seconds=20)
        lost = session.execute("more = 5\nprint('so far')\nwhile True: pass", seconds=0.3)
        assert lost.output == "so far\n"
        assert lost.restarted == "The block ran for more than 0.3 s and was stopped"
        assert lost.error.startswith(lost.restarted)
        assert lost.state == b""
        after = session.execute(
            "same[0].append('line')\nprint(count(), same is found, random.random())", seconds=20
        )
        states = (first.state, drawn.state, lost.state, after.state)
    finally:
        session.close()
    again = pool.open(context=str(tmp_path / "text"), states=states)
    try:
        once = again.execute("print(count(), same is found, random.random())", seconds=20)
    finally:
        again.close()
    counted, same, number = after.output.split()
    assert (counted, same) == ("5", "True")
    assert once.output.split()[:2] == ["5", "True"]
    assert float(once.output.split()[2]) not in (float(number), float(drawn.output))
    assert session.execute("1", seconds=1).restarted == "The session is closed"


def test_functions_of_the_host_answer_and_refuse(pool: SessionPool) -> None:
    def ask(args: list[object], named: dict[str, object]) -> object:
        if not args:
            raise LimitError("the budget is used up", budget="max_calls")
        return {"args": args, "named": named}

    session = pool.open(functions={"llm_query": ask})
    try:
        ended = session.execute(
            "print(llm_query('ä\\ud800', [1.5], n=None))\n"
            "try: llm_query()\nexcept RuntimeError as error: print(error)\n"
            "try: llm_query(ask := object())\nexcept TypeError as error: print('no JSON')\n"
            "answer['content'] = {'a': 1}\nanswer['ready'] = True\nllm_query = None",
            seconds=20,
        )
        after = session.execute("llm_query(2)['args']", seconds=20)
    finally:
        session.close()
    assert ended.error == ""
    assert ended.output.splitlines() == [
        "{'args': ['ä?', [1.5]], 'named': {'n': None}}",
        "the budget is used up",
        "no JSON",
    ]
    assert (ended.answer, after.answer) == ("{'a': 1}", None)
    assert after.output == "[2]\n"


def test_bad_input_is_refused(pool: SessionPool, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="context cannot be read"):
        pool.open(context=str(tmp_path / "missing"))
    for states in ([b"x"], [b"rlm-ci-repl 1 {}\n"]):
        with pytest.raises(DamagedError):
            pool.open(states=states)
    with pytest.raises(ValueError, match="SUBMIT"):
        pool.open(functions={"SUBMIT": lambda args, _: args})


def test_threads_are_answered_side_by_side(pool: SessionPool) -> None:
    meeting = threading.Barrier(3)

    def ask(args: list[object], _named: dict[str, object]) -> object:
        meeting.wait(20)  # until all three ask
        return args

    code = (
        "from concurrent.futures import ThreadPoolExecutor\n"
        "with ThreadPoolExecutor(3) as threads: print(list(threads.map(ask, 'abc')))"
    )
    with ThreadPoolExecutor(3) as threads:
        session = pool.open(functions={"ask": ask}, submit=threads.submit)
        try:
            assert session.execute(code, seconds=20).output == "[['a'], ['b'], ['c']]\n"
        finally:
            session.close()


def test_a_python_that_does_not_start_says_so() -> None:
    class Broken:
        name, isolated = "broken", True

        def run(
            self, _job: SandboxJob, *, on_output: object = None, stop: int = -1
        ) -> StreamResult:
            assert (on_output, stop >= 0) == (None, True)
            return StreamResult(1, "", Clipped(b"no such\x1b[31m library"), 0.1)

    session = CPythonSession(
        CPythonWorkers(Broken(), SessionLimits(), ahead=False),
        context=None, context_name="context", functions={}, parts={}, submit=None,
    )  # fmt: skip
    with pytest.raises(ConfigError, match=r"did not start: no such\\x1b\[31m library") as raised:
        session.execute("1", seconds=20)
    assert "doctor" in raised.value.hint
    session.close()


@pytest.mark.parametrize("installed", [True, False])
def test_auto_takes_monty_where_bubblewrap_is_not(
    installed: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    environ = {"PATH": str(tmp_path)}
    if installed:
        with SessionPool("auto", environ=environ) as found:
            assert found.name == "monty"
        return
    monkeypatch.setitem(sys.modules, "pydantic_monty", None)
    for name, hint in (("auto", r"pydantic-monty: .*\[monty\]"), ("bubblewrap", "--sandbox none")):
        with pytest.raises(ConfigError, match="there is no sandbox") as raised:
            SessionPool(name, environ=environ)
        assert re.search(hint, raised.value.hint), raised.value.hint
    with pytest.raises(UnavailableError, match="pydantic-monty is not installed"):
        SessionPool("monty", environ=environ)
    with pytest.raises(ConfigError, match="no sandbox 'docker'"):
        SessionPool("docker", environ=environ)


def test_a_record_cannot_turn_the_sandbox_off() -> None:
    with pytest.raises(ConfigError, match="began without a sandbox"):
        Sessions("auto", os.environ, replay=False).keep_to("none", "a-run")
    asked = Sessions("none", os.environ, replay=False)
    asked.keep_to("none", "a-run")
    kept = Sessions("auto", os.environ, replay=False)
    kept.keep_to("bubblewrap", "a-run")
    assert (asked.sandbox, kept.sandbox) == ("none", "bubblewrap")
