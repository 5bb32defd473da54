"""A planner on a real record, with answers of a script, and what it keeps."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from rlm_ci.environments.symbolic.planner.plan import Plan, PlanLimits, Read
from rlm_ci.environments.symbolic.planner.planner import Planner
from rlm_ci.environments.symbolic.subcalls import ModelAccess
from rlm_ci.models.budget import Ledger
from rlm_ci.models.record.record import Record
from rlm_ci.system import files
from testing.planner_steps import CHUNK, CONTEXT
from testing.scripted_model import ScriptedModel

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from rlm_ci.environments.symbolic.iteration import Iteration
    from rlm_ci.environments.symbolic.planner.planner import AcceptedPlan
    from rlm_ci.models import Completion, Model, ModelRequest

GOOD = json.dumps(
    {
        "schema_version": 1,
        "intent": "continue",
        "reads": [{"pointer": CHUNK, "bytes": 10**6, "reason": "begin"}],
    }
)
PLAN = Plan("continue", reads=(Read(CHUNK, 0, 8192, "begin"),))
FINAL = json.dumps({"schema_version": 1, "intent": "final", "final_answer": "It is 7."})


def same(text: str) -> str:
    return text


def flaw(pointer: str) -> str | None:
    return None if pointer == CHUNK else "there is no such chunk"


class Studio:
    """A planner on the record of a run in ``path``; what it keeps is written there as well."""

    def __init__(
        self,
        path: Path,
        answers: Sequence[Any] | Callable[[ModelRequest], Any],
        *,
        replay: bool = False,
        redact: Callable[[str], str] = same,
        asks: Model | None = None,
        model: str = "m",
        left: Callable[[], int | None] = lambda: None,
        **limits: int,
    ) -> None:
        self.path = path
        self.model = ScriptedModel(answers, name="scripted")
        calls = str(path / "calls.jsonl")
        self.record = Record.open(calls, redact=redact, replay_only=replay)
        self.asks = asks or self.model
        self.ledger = Ledger()
        self.places: list[str] = []
        access = ModelAccess(
            complete=self._complete,
            fact=self.record.fact,
            write=self._write,
            redact=redact,
            limits=PlanLimits(**limits),
            model=model,
            max_tokens=500,
        )
        self.planner = Planner(access, flaw, left)

    def _complete(self, request: ModelRequest, step: str) -> Completion:
        self.places.append(step)
        return self.record.complete(self.asks, self.ledger, request, step)

    def _write(self, path: str, data: bytes) -> None:
        target = self.path / path
        files.make_folder(str(target.parent), 0o700)
        files.write(str(target), data, 0o600)

    def plan(self, iteration: int = 0, *steps: Iteration, goal: str = "How many?") -> AcceptedPlan:
        return self.planner.plan(iteration, goal, CONTEXT, steps)

    def kept(self, name: str, iteration: int = 0, attempt: int = 1) -> bytes:
        folder = self.path / "rlm" / "planner" / str(iteration) / f"attempt-{attempt}"
        return (folder / name).read_bytes()

    def meta(self, iteration: int = 0, attempt: int = 1) -> dict[str, Any]:
        meta: dict[str, Any] = json.loads(self.kept("meta.json", iteration, attempt))
        return meta

    def asked(self, number: int) -> str:
        """The contents of all messages of a request, one after the other."""
        return "".join(one["content"] for one in self.model.requests[number].messages)

    def files(self) -> dict[str, bytes]:
        found = (self.path / "rlm").rglob("*")
        return {str(one.relative_to(self.path)): one.read_bytes() for one in found if one.is_file()}
