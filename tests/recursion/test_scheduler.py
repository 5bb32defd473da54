"""So many ask a model at once, and no more than the budget allows."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path

from rlm_ci.models import Completion
from rlm_ci.models.budget import Ledger
from rlm_ci.models.openai.client import OpenAIModel
from rlm_ci.models.record.record import Record
from rlm_ci.recursion.nodes import COMPLETED, PARTIAL, Node
from rlm_ci.recursion.scheduler import Constraints
from rlm_ci.recursion.tree_split import TreeShape
from testing.loopback_model.fixture import llm
from testing.loopback_model.replies import Answer
from testing.loopback_model.server import Asked, ModelServer
from testing.model_clients import client_of, question
from testing.solver_cases import solve

__all__ = ["llm"]


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


def test_a_recursion_keeps_to_both_and_asks_for_nothing_again(
    tmp_path: Path, llm: ModelServer
) -> None:
    busy = Busy()
    llm.script(busy)
    files = {f"f{place:02}": b"x\n" for place in range(24)}
    constraints = Constraints(concurrency=4, shape=TreeShape(leaf_files=1, most_parts=32))

    for calls, used, status in ((10, 10, PARTIAL), (100, 15, COMPLETED)):
        ledger = Ledger(max_calls=calls)
        with (
            client_of(llm) as client,
            Record.open(str(tmp_path / "calls.jsonl"), redact=str) as record,
        ):

            def of(
                node: Node,
                record: Record = record,
                ledger: Ledger = ledger,
                client: OpenAIModel = client,
            ) -> Callable[..., Completion]:
                def ask(step: str, _messages: object) -> Completion:
                    return record.complete(client, ledger, question(node.id), f"{node.id}/{step}")

                return ask

            result = solve(tmp_path / "rlm", files, constraints=constraints, ask=of)  # type: ignore[arg-type]  # as much of one as is used
        assert (result.status, ledger.spent.calls) == (status, used)
    assert busy.most <= 4
    asked = [json.dumps(one.messages) for one in llm.completions]
    assert len(asked) == len(set(asked)) == llm.bill.calls == 25
