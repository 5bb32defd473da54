"""So many ask a model at once; who waits for the disk is not one of them."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rlm_ci.errors import LimitError
from rlm_ci.models import Completion, concurrency
from rlm_ci.models.budget import Ledger
from rlm_ci.models.concurrency import ConcurrencyLimit
from rlm_ci.models.openai.client import OpenAIModel
from rlm_ci.models.record.record import Record
from rlm_ci.recursion.limits import Constraints
from rlm_ci.recursion.nodes import COMPLETED, PARTIAL, Node
from rlm_ci.recursion.split.tree import TreeShape
from testing.loopback_model.replies import Answer
from testing.loopback_model.server import Asked, ModelServer
from testing.model_clients import client_of, question
from testing.solver_cases import solve

PATIENCE = 20


@pytest.fixture
def client(llm: ModelServer) -> Iterator[OpenAIModel]:
    with client_of(llm) as made:
        yield made


def test_an_answer_that_is_not_on_the_disk_yet_makes_room_for_the_next_call(
    tmp_path: Path, llm: ModelServer, client: OpenAIModel
) -> None:
    both = threading.Event()

    def reply(_asked: Asked) -> Answer:
        if len(llm.asked) == 2:
            both.set()
        return Answer("yes")

    def redact(text: str) -> str:  # before an answer is written
        assert text != "yes" or both.wait(PATIENCE)
        return text

    llm.script(reply)
    one_at_a_time, ledger = ConcurrencyLimit(1), Ledger(max_calls=2)
    with Record.open(str(tmp_path / "calls.jsonl"), redact=redact) as record:

        def ask(place: str) -> str:
            with one_at_a_time.one():
                text: str = record.complete(client, ledger, question(place), place).text
                return text

        with ThreadPoolExecutor(2) as threads:
            assert list(threads.map(ask, "ab")) == ["yes", "yes"]
    assert llm.bill.calls == 2


class Busy:
    """Answers after a moment, and counts who is there at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._now = 0
        self.most = 0

    def __call__(self, _asked: Asked) -> Answer:
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)
        threading.Event().wait(0.005)
        with self._lock:
            self._now -= 1
        return Answer("yes")


def test_no_more_are_asked_at_once_and_no_more_than_the_budget(
    tmp_path: Path, llm: ModelServer, client: OpenAIModel
) -> None:
    busy = Busy()
    llm.script(busy)
    at_once, ledger = ConcurrencyLimit(2), Ledger(max_calls=21)
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
    assert busy.most <= 2
    assert (llm.bill.calls, ledger.spent.calls) == (21, 21)


def test_a_recursion_keeps_to_both_and_asks_for_nothing_again(
    tmp_path: Path, llm: ModelServer, client: OpenAIModel
) -> None:
    busy = Busy()
    llm.script(busy)
    files = {f"f{place:02}": b"x\n" for place in range(24)}
    constraints = Constraints(concurrency=4, shape=TreeShape(leaf_files=1, most_parts=32))

    for calls, used, status in ((10, 10, PARTIAL), (100, 15, COMPLETED)):
        ledger = Ledger(max_calls=calls)
        with Record.open(str(tmp_path / "calls.jsonl"), redact=str) as record:

            def of(
                node: Node, record: Record = record, ledger: Ledger = ledger
            ) -> Callable[..., Completion]:
                def ask(place: str, _messages: object) -> Completion:
                    return record.complete(client, ledger, question(node.id), f"{node.id}/{place}")

                return ask

            result = solve(tmp_path / "rlm", files, constraints=constraints, ask=of)  # type: ignore[arg-type]  # as much of one as is used
        assert (result.status, ledger.spent.calls) == (status, used)
    assert busy.most <= 4
    asked = [json.dumps(one.messages) for one in llm.completions]
    assert len(asked) == len(set(asked)) == llm.bill.calls == 25


def test_who_goes_on_is_before_who_begins() -> None:
    """One turn, and three threads: one holds it, one begins, one had it before."""
    some = ConcurrencyLimit(1)
    order: list[str] = []
    gave, may_go_on, may_end = threading.Event(), threading.Event(), threading.Event()

    def again() -> None:
        with some.one():
            concurrency.give()
            gave.set()
            assert may_go_on.wait(PATIENCE)
            concurrency.take()
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
    concurrency.take()
    concurrency.give()
    with ConcurrencyLimit(1).one():
        concurrency.take()
        concurrency.give()
        concurrency.give()
