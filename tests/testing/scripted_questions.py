"""A small run of the symbolic mode, played by a scripted model on a real record."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from rlm_ci.context.builder.build import build
from rlm_ci.environments.symbolic.loop import PlanExecutor
from rlm_ci.environments.symbolic.planner.plan import PlanLimits
from rlm_ci.environments.symbolic.planner.planner import Planner
from rlm_ci.environments.symbolic.planner.prompt import ContextMetadata
from rlm_ci.environments.symbolic.subcalls import ModelAccess, Subcalls
from rlm_ci.environments.symbolic.visible_context import VisibleContext
from rlm_ci.errors import RemoteError
from rlm_ci.models.budget import Ledger
from rlm_ci.models.record.record import AbsentModel, Record
from rlm_ci.redaction.redactor import Redactor
from testing.scripted_model import ScriptedModel

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from rlm_ci.context.context import Context
    from rlm_ci.environments.symbolic.iteration import Iteration
    from rlm_ci.models import Completion, Model, ModelRequest

#: Models that plans may name.
MODELS = (
    "broken", "tiny", "bad", "no-such-thing", "other", "slow", "fast", "x", "\\udfff", *"012345",
)  # fmt: skip
GOAL = "Why does the harbour gate stay shut?"
SECRET = "hunter2-hunter2-hunter2"
REDACT = Redactor({"HARBOUR_PASSWORD": SECRET}).text


def harbour(folder: Path, lines: int = 60) -> Context:
    """A context of three files: some English, something that is not, and a secret."""
    tree = folder / "tree"
    tree.mkdir(parents=True)
    log = [
        f"{n:04d} the gate reports pressure {n * 37 % 101} at berth {n % 7}" for n in range(lines)
    ]
    log[40] = f"0040 login of the keeper with {SECRET} refused"
    (tree / "gate.log").write_text("\n".join(log) + "\n")
    (tree / "keeper.md").write_text("# Kai\n\nDas Tor öffnet erst über 90 – sonst nie.\n" * 8)
    (tree / "odd.bin.txt").write_bytes(b"caf\xe9 au lait, br\xfbl\xe9 \xff\xfe gate\n" * 4)
    return build(
        str(tree), str(folder / "object"), target_bytes=512, overlap_bytes=64, root=str(tree)
    )


class Told:
    """A model that notes where in the run each question to it comes from."""

    def __init__(self, model: Model, place: str, asked: list[str]) -> None:
        self.name = model.name
        self._model, self._place, self._asked = model, place, asked

    def complete(self, request: ModelRequest) -> Completion:
        self._asked.append(self._place)
        return self._model.complete(request)


class Stage:
    """What a run stands on: its folder, its record, and who answers."""

    def __init__(
        self,
        folder: Path,
        context: Context,
        answer: Callable[[ModelRequest], Any] | None,
        *,
        ledger: Ledger | None = None,
        redact: Callable[[str], str] = REDACT,
        max_tokens: int = 500,
        goal: str = GOAL,
        models: Sequence[str] = MODELS,
        **limits: int,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.goal = goal
        self.context = context
        self.limits = PlanLimits(**{"counts": 4, "maps": 2, "map_parts": 100, **limits})
        self.asked: list[str] = []
        self.told: list[str] = []
        self.model: Model = AbsentModel("scripted") if answer is None else ScriptedModel(answer)
        self.ledger = ledger or Ledger()
        self.record = Record.open(
            str(folder / "calls.jsonl"), redact=redact, replay_only=answer is None
        )
        access = ModelAccess(
            complete=self.complete, fact=self.record.fact, write=self.write, redact=redact,
            limits=self.limits, model="m", max_tokens=max_tokens, models=tuple(models),
            foresee=self.ledger.foresee, tell=self.told.append,
        )  # fmt: skip
        self.window = VisibleContext(context, redact)
        subcalls = Subcalls(access, self.window, goal)
        self.symbolic = PlanExecutor(self.window, subcalls, access)
        self.planner = Planner(access, self.window.flaw)

    def complete(self, request: ModelRequest, step: str) -> Completion:
        completion = self.record.complete(
            Told(self.model, step, self.asked), self.ledger, request, step
        )
        self.ledger.note(request, completion.usage)
        return completion

    def write(self, path: str, data: bytes) -> None:
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)

    def play(self) -> list[Iteration]:
        """Plan and act until the planner is done; leaves ``rlm/state.json`` behind."""
        budgets = {name: getattr(self.limits, name) for name in PlanLimits._fields}
        budgets.pop("max_iterations")  # an agreement of its own
        terms = {"goal": self.goal, "limits": budgets, "subcall_models": [*MODELS]}
        self.record.fact("terms", "start", {}, lambda: terms)
        steps: list[Iteration] = []
        turns: list[dict[str, Any]] = []
        while True:
            planned = self.planner.plan(
                len(steps), self.goal, ContextMetadata.of(self.context), steps
            )
            step = self.symbolic.act(planned.plan, len(steps))
            steps.append(step)
            turns.append({**step.to_dict(), "planner_prompt_bytes": planned.prompt_bytes})
            if planned.plan.intent == "final":
                break
        state = {
            "version": 1,
            "mode": "symbolic",
            "goal": self.goal,
            "context": {"object_id": self.context.object_id},
            "budgets": budgets,
            "symbolic_iterations": turns,
        }
        self.write("rlm/state.json", json.dumps(state, indent=2).encode())
        self.record.close()
        return steps

    def files(self) -> dict[str, bytes]:
        """All that the run left in ``rlm/``."""
        root = self.folder / "rlm"
        return {
            str(path.relative_to(root)): path.read_bytes()
            for path in sorted(root.rglob("*"))
            if path.is_file()
        }


def plans(context: Context) -> list[dict[str, Any]]:
    """A run of three iterations with every kind of action; two sub-calls fail."""
    first, second = context.pointer(0), context.pointer(1)
    sub = {"max_input_bytes": 4000}
    return [
        {
            "schema_version": 1,
            "intent": "continue",
            "searches": [{"query": "GATE", "top_k": 2}, {"query": "öffnet"}],
            "counts": [
                {"pattern": "(gate|login)[^0-9]*([0-9])?", "files": ["*.log"], "top_k": 3},
                {"pattern": "caf. au|with (h\\S*)", "by": "chunk", "hits": 5},
                {"pattern": "(", "reason": "wrong"},
            ],
            "reads": [{"pointer": first, "bytes": 90, "reason": "the beginning"}],
            "subcalls": [
                {"purpose": "summarize", "pointers": [first, second], **sub},
                {"purpose": "extract", "pointers": [second], "expected_output": "JSON list", **sub},
                {"purpose": "verify", "pointers": [first], "model": "broken", **sub},
            ],
        },
        {
            "schema_version": 1,
            "intent": "continue",
            "reads": [{"pointer": "subcall:0:sc0001", "bytes": 20, "offset": 4}],
            "subcalls": [
                {"purpose": "classify", "pointers": ["subcall:0:sc0001", first], **sub},
                {"purpose": "extract", "pointers": [first], "expected_output": "json", **sub},
            ],
            "maps": [
                {
                    "purpose": "extract",
                    "prompt": "Which berths?",
                    "chunks": "c000002-c000004",
                    "schema": {"type": "array", "items": {"type": "integer"}},
                    "reduce": "union",
                },
                {"purpose": "classify", "prompt": "Nothing", "chunks": "c009999"},
            ],
        },
        {"schema_version": 1, "intent": "final", "final_answer": f"It is shut. {first}"},
    ]


def berths(prompt: str) -> Any:
    """The berths of one part of the log; one part fails, another is answered wrongly at first."""
    found = sorted({int(one) for one in re.findall("at berth ([0-9])", prompt)})
    if "0010 the gate" in prompt:
        return RemoteError("the part is refused", where="somewhere")
    if "0020 the gate" in prompt and "was not of the JSON Schema" not in prompt:
        return json.dumps({"berths": found})
    return json.dumps(found)


def player(context: Context) -> Any:
    """Answers by what is asked, so that the same question has the same answer."""
    script = plans(context)

    def answer(request: ModelRequest) -> Any:
        text = request.messages[-1]["content"]
        if (turn := re.search(r"This is iteration (\d+)", text)) is not None:
            return json.dumps(script[int(turn[1])])
        if request.model == "broken":
            return RemoteError(f"no model {request.model}", where="somewhere")
        if 'Task: "Which berths?"' in text:
            return berths(text)
        if 'Expected output: "JSON list"' in text and "was not JSON" in text:
            return '["berth 3"]'
        if "Expected output: " in text:
            return f"Sure! [1, 2], with {SECRET}"
        return f"Zusammenfassung über {len(text)} Zeichen: das Tor."

    return answer
