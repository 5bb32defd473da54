"""So many ask a model at once; who waits for the disk is not one of them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from llm.replies import Answer
from llm.server import Asked, ModelServer
from models.asking import client_of, question

from rlm_ci.errors import LimitError
from rlm_ci.models import turns
from rlm_ci.models.ledger import Ledger
from rlm_ci.models.openai_api import OpenAIModel
from rlm_ci.models.recorded import Record
from rlm_ci.models.turns import Turns

PATIENCE = 20


@pytest.fixture
def client(llm: ModelServer) -> Iterator[OpenAIModel]:
    with client_of(llm) as made:
        yield made


def test_an_answer_that_is_not_on_the_disk_yet_makes_room_for_the_next_call(
    tmp_path: Path, llm: ModelServer, client: OpenAIModel
) -> None:
    asked = threading.Semaphore(0)

    def reply(_asked: Asked) -> Answer:
        asked.release()
        return Answer("yes")

    def redact(text: str) -> str:  # before an answer is written
        if text == "yes" and not both.is_set():
            assert all(asked.acquire(timeout=PATIENCE) for _ in range(2))
            both.set()
        return text

    both = threading.Event()
    llm.script(reply)
    one_at_a_time, ledger = Turns(1), Ledger(max_calls=2)
    with Record.open(str(tmp_path / "calls.jsonl"), redact=redact) as record:

        def ask(place: str) -> str:
            with one_at_a_time.one():
                text: str = record.complete(client, ledger, question(place), place).text
                return text

        with ThreadPoolExecutor(2) as threads:
            assert list(threads.map(ask, "ab")) == ["yes", "yes"]
    assert both.is_set()
    assert llm.bill.calls == 2


def test_no_more_are_asked_at_once_and_no_more_than_the_budget(
    tmp_path: Path, llm: ModelServer, client: OpenAIModel
) -> None:
    lock = threading.Lock()
    now, most = 0, 0

    def reply(_asked: Asked) -> Answer:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        threading.Event().wait(0.005)
        with lock:
            now -= 1
        return Answer("yes")

    llm.script(reply)
    at_once, ledger = Turns(2), Ledger(max_calls=21)
    with Record.open(str(tmp_path / "calls.jsonl"), redact=str) as record:

        def ask(place: str) -> int:
            """Two questions, the second of which needs a turn again."""
            with at_once.one():
                for number in range(2):
                    try:
                        record.complete(client, ledger, question(place), f"{place}/{number}")
                    except LimitError:
                        return number
                return 2

        with ThreadPoolExecutor(4) as threads:
            assert sum(threads.map(ask, "abcdefghijkl")) == 21
    assert most <= 2
    assert (llm.bill.calls, ledger.spent.calls) == (21, 21)


def test_who_goes_on_is_before_who_begins() -> None:
    """One turn, and three threads: one holds it, one begins, one had it before."""
    some = Turns(1)
    order: list[str] = []
    gave, may_go_on, may_end = threading.Event(), threading.Event(), threading.Event()

    def again() -> None:
        with some.one():
            turns.give()
            gave.set()
            assert may_go_on.wait(PATIENCE)
            turns.take()
            order.append("again")

    def hold() -> None:
        with some.one():
            may_go_on.set()
            assert may_end.wait(PATIENCE)

    def fresh() -> None:
        with some.one():
            order.append("fresh")

    threads = [threading.Thread(target=one, daemon=True) for one in (again, hold, fresh)]
    threads[0].start()
    assert gave.wait(PATIENCE)
    threads[1].start()
    assert may_go_on.wait(PATIENCE)
    threads[2].start()
    pause = threading.Event()
    while not (some._again and some._fresh):
        pause.wait(0.001)
    may_end.set()
    for thread in threads:
        thread.join(PATIENCE)
    assert order == ["again", "fresh"]


def test_who_never_had_a_turn_waits_for_nobody() -> None:
    turns.take()
    turns.give()
    with Turns(1).one():
        turns.take()
        turns.give()
        turns.give()
