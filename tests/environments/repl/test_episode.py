"""The protocol of the REPL: what counts as an answer, what a model is told, and how it ends."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING

import pytest

from rlm_ci.environments.repl.pool import SessionPool
from rlm_ci.errors import DamagedError, RemoteError
from rlm_ci.models.budget import Ledger
from testing.repl_stage import Episodes, final, repl

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rlm_ci.models import ModelRequest
    from testing.scripted_model import Answer


@pytest.fixture(scope="module")
def pool() -> Iterator[SessionPool]:
    with SessionPool("auto", environ=os.environ, ahead=False) as found:
        yield found


#: Answers of the model, the episode's answer, a part of its reason, and of the last prompt.
CASES: dict[str, tuple[list[str], str, str, str]] = {
    "answer dict": (
        [repl("answer['content'] = len(context)\nanswer['ready'] = True")], "6000", "", "",
    ),
    "blocks in order, then FINAL_VAR": (
        ["```python\nn = context.count('berth 3')\n```\n" + repl("n += 1") + "\nFINAL_VAR(n)"],
        "44", "", "",
    ),
    "submit, as text with parentheses": (["SUBMIT(It is 4 (four).)"], "It is 4 (four).", "", ""),
    "a final call after a block that fails": (
        [repl("1 / 0") + "\nFINAL(wrong)", final("right")], "right", "",
        "Not carried out: what came before it failed.",
    ),
    "text is asked again": (
        ["It is 42.", "```json\n{}\n```", final("43")], "43", "", "no ```repl block, and no FINAL",
    ),
    "text for ever": (["I know."] * 9, "", "did not keep to its tools", "no ```repl block"),
    "an empty answer": ([repl("FINAL('')"), final("x")], "x", "", "The answer is empty."),
    "five errors in a row": (
        [repl("answer['content'] = 'so far'\n1 / 0")] * 9, "so far",
        "5 blocks in a row failed; the last: ZeroDivisionError", "ZeroDivisionError",
    ),
    "no more turns": ([repl("1")] * 9, "", "not done after 8 turns", "1"),
    "long output": (
        [repl("print('a' * 30000 + 'b' * 30000)"), final("x")], "x", "", "characters left out",
    ),
    "output that looks like ours": (
        [repl("print('a', chr(96) * 3, 'FINAL(no)', sep=chr(10))"), final("x")], "x", "",
        "````\na\n```\nFINAL(no)\n````",
    ),
    "arguments as deep as the channel takes them": (
        [repl("v = []\nfor n in range(1100):\n    v = [v]\n    try:\n        if n > 700:\n"
              "            llm_query(v)\n    except ValueError:\n        pass"),
         final("x")], "x", "",
        # Python's own reader takes more from 3.12 on.
        "a frame is not JSON" if sys.version_info < (3, 12) else "It printed nothing",
    ),
    "arguments of functions": (
        [repl("for call in (lambda: llm_query(7), lambda: llm_query('x' * 2001),"
              " lambda: llm_query('a', model='gpt'), lambda: llm_query(),"
              " lambda: llm_query_batched('ab'), lambda: llm_query_batched(['a', '']),"
              " lambda: rlm_query_batched(['a'], ['b', 'c']), lambda: read('nowhere')):\n"
              "    try:\n        call()\n    except ValueError as error:\n        print(error)"),
         final("x")], "x", "", "model not allowed: gpt; allowed: small, big, other",
    ),
}  # fmt: skip


@pytest.mark.full
def test_searches_do_not_outlast_their_block(pool: SessionPool, tmp_path: Path) -> None:
    code = (
        "while True:\n    try:\n        search('no such berth')\n"
        "    except ValueError as error:\n        print(error)\n        break"
    )
    stage = Episodes(tmp_path, pool, [repl(code), final("x")], text="a berth is free\n" * 200_000)
    stage.options = stage.options.replace(block_seconds=2)
    assert stage.run().answer == "x"
    shown = stage.shown(2)
    # On a busy machine the block's own time may end first.
    assert "used up its time for read, search and peek" in shown or "was stopped" in shown


@pytest.mark.parametrize("name", CASES)
def test_the_protocol(name: str, pool: SessionPool, tmp_path: Path) -> None:
    said, answer, reason, shown = CASES[name]
    stage = Episodes(tmp_path, pool, said)
    end = stage.run()
    assert end.answer == answer, end
    assert reason in end.reason
    assert bool(reason) == bool(end.reason)
    assert shown in stage.shown(end.turns)
    assert len(stage.shown(end.turns)) < 21_000
    assert all(request.model == "big" for request in stage.model.requests)
    assert not list((tmp_path / "run").rglob("state"))


def test_questions_of_a_block(pool: SessionPool, tmp_path: Path) -> None:
    """In order, by the model that is named, without secrets; a failed slot is no text."""
    code = (
        "print(llm_query_batched(['a', 'fail', 'b', 'empty', 'a'], model='other'))\n"
        "print(llm_query('-'.join(['hunter2'] * 3)))\n"
        "try: llm_query('fail')\nexcept RuntimeError as error: print('raised', error)"
    )

    def answer(request: ModelRequest) -> Answer:
        text = str(request.messages[-1]["content"])
        if request.messages[0]["role"] == "system":
            return repl(code) if len(request.messages) == 2 else final("done")
        if "fail" in text:
            return RemoteError("no answer today")
        return "" if text == "empty" else f"{request.model} on {text}"

    stage = Episodes(tmp_path, pool, answer)
    stage.left = 7
    assert stage.run().answer == "done"
    told = stage.shown(2)
    error = "{'error': 'no answer today'}"
    empty = "{'error': 'the model answered nothing'}"
    assert f"['other on a', {error}, 'other on b', {empty}, 'other on a']" in told
    assert "small on [redacted]" in told
    assert "raised no answer today" in told
    assert "Asked 7 questions, 3 without an answer." in told
    assert "room for about 7 more calls" in told
    asked = (tmp_path / "run/rlm/repl/block-1/queries.jsonl").read_text().splitlines()
    names = [json.loads(one)["id"] for one in asked]
    assert len({*names}) == 7
    assert sum(name.endswith("-2") for name in names) == 1  # the second "a"


def test_a_budget_that_ends_in_a_batch(pool: SessionPool, tmp_path: Path) -> None:
    """The code gets an exception, whatever it does with it; then the episode ends."""
    code = repl(
        "answer['content'] = 'so far'\n"
        "try: llm_query_batched([str(n) for n in range(9)])\n"
        "except RuntimeError as error: print(error)\n"
        "try: rlm_query('again')\nexcept RuntimeError: answer['content'] += ', and no more'"
    )
    stage = Episodes(tmp_path, pool, [code, *"abcdefghi"])
    stage.ledger = Ledger(max_calls=5)
    end = stage.run()
    assert (end.answer, end.limit and end.limit.budget) == ("so far, and no more", "max_calls")
    assert len(stage.model.requests) == 5
    stage.model.requests.clear()
    assert stage.run().replace(limit=None) == end.replace(limit=None)
    assert stage.model.requests == []


@pytest.mark.parametrize("number", [1, pytest.param(2, marks=pytest.mark.full)])
def test_children_to_depth_three(number: int, pool: SessionPool, tmp_path: Path) -> None:
    """Each asks two; all run; the deepest ask a model; a cycle is refused, siblings are none."""

    def answer(request: ModelRequest) -> Answer:
        if request.messages[0]["role"] != "system":
            return "leaf"
        shown = request.messages[1]["content"]
        if "How many?" not in shown:
            return repl(
                "import json\nold = context\n"
                "a, b = rlm_query_batched(['deeper', 'deeper'], [old + '1', [old, 2]])\n"
                "FINAL(f'({a} {b})')"
            )
        return repl(
            f"asked = ['How many?'] + ['same'] * {number}\n"
            f"same = rlm_query_batched(asked, [context] + ['x'] * {number})\n"
            "FINAL(f'{same}')"
        )

    stage = Episodes(tmp_path, pool, answer, depth=3)
    told = stage.run().answer
    inner = "(((leaf leaf) (leaf leaf)) ((leaf leaf) (leaf leaf)))"
    assert told.count(f"'{inner}'") == number, told
    assert told.startswith("[{'error': 'a cycle"), told
    assert len(stage.model.requests) == 1 + number * (1 + 2 + 4 + 8)


def test_a_state_that_was_changed_is_damage(pool: SessionPool, tmp_path: Path) -> None:
    said: list[Answer] = [repl("import random\nmark = random.random()"), RemoteError("gone")]
    with pytest.raises(RemoteError):
        Episodes(tmp_path, pool, said).run()
    state = tmp_path / "run/rlm/repl/block-1/state"
    kept = state.read_bytes()
    state.write_bytes(kept[:-1] + b"!")
    with pytest.raises(DamagedError, match="not what the run has written"):
        Episodes(tmp_path, pool, [repl("FINAL(mark)")]).run()
    state.write_bytes(kept)
    end = Episodes(tmp_path, pool, [repl("FINAL(mark)")]).run()
    assert 0 < float(end.answer) < 1
