"""A model that writes code for a REPL, by where the conversation stands."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rlm_ci.context.builder.build import build
from rlm_ci.context.context import Context
from rlm_ci.environments.delegation import ChildSlots, Delegation
from rlm_ci.environments.repl.episode import ReplEpisodes
from rlm_ci.environments.repl.host.model_functions import fingerprint
from rlm_ci.environments.repl.host.options import ReplOptions, ReplServices, RunFiles
from rlm_ci.models.budget import Ledger
from rlm_ci.models.record.record import Record
from testing.ask_stage import prompt_of
from testing.scripted_model import ScriptedModel
from testing.scripted_questions import REDACT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from rlm_ci.environments.repl.episode import ReplEnd
    from rlm_ci.environments.repl.pool import SessionPool
    from rlm_ci.models import ModelRequest
    from testing.loopback_model.replies import Reply
    from testing.loopback_model.server import Asked
    from testing.scripted_model import Answer

    Script = Iterable[Answer] | Callable[[ModelRequest], Answer]

TEXT = "".join(f"{n:03d} berth {n % 7} is free\n" for n in range(300))
_QUESTION = re.compile(r"The question:\n\n(.*)\n")


def repl(code: str) -> str:
    """An answer with one block."""
    return f"```repl\n{code}\n```"


def final(text: str) -> str:
    return repl(f"FINAL({text!r})")


class Coder:
    """Says ``turns`` one by one, the last of them again and again.

    A question in ``children`` has turns of its own; all prompts of ``llm_query`` are answered by
    ``subcall``.
    """

    def __init__(
        self,
        *turns: Reply,
        children: Mapping[str, Sequence[Reply]] | None = None,
        subcall: Callable[[str], Reply] = lambda prompt: f"{len(prompt)} characters",
    ) -> None:
        self.turns = turns
        self.children = children or {}
        self.subcall = subcall

    def __call__(self, asked: Asked) -> Reply:
        if not is_turn(asked):
            return self.subcall(prompt_of(asked))
        found = _QUESTION.search(asked.messages[1]["content"])
        assert found, asked.messages[1]
        turns = self.children.get(found[1], self.turns)
        said = sum(one["role"] == "assistant" for one in asked.messages)
        turn: Reply = turns[min(said, len(turns) - 1)]
        return turn


def is_turn(asked: Asked) -> bool:
    """Whether code is asked for; else it is an ``llm_query``."""
    return bool(asked.messages[0]["role"] == "system")


class Episodes:
    """Episodes over a small text with a scripted model, on a real record and in real sessions."""

    def __init__(
        self, folder: Path, pool: SessionPool, answer: Script, *, text: str = "", depth: int = 2
    ) -> None:
        self.folder = folder
        self.model = ScriptedModel(answer)
        self.pool = pool
        self.depth = depth
        self.ledger = Ledger()
        self.left: int | None = None
        self.options = ReplOptions(
            "big", "small", 500, models=("other",), subcall_bytes=2000, concurrency=3, max_turns=8
        )
        place = folder / "object"
        if not place.exists():
            source = folder / "text.log"
            source.write_text(text or TEXT)
            build(str(source), str(place)).close()
        self.context = Context.open(str(place))

    def run(self, question: str = "How many?") -> ReplEnd:
        files = RunFiles(str(self.folder / "run"))
        (self.folder / "run").mkdir(exist_ok=True)
        with Record.open(str(self.folder / "run/calls.jsonl"), redact=REDACT) as record:
            services = ReplServices(
                complete=lambda request, place: record.complete(
                    self.model, self.ledger, request, place
                ),
                fact=record.fact,
                redact=REDACT,
                files=files,
                open=self.pool.open,
                left=lambda: self.left,
                scratch=str(self.folder / "scratch"),
            )
            episodes = ReplEpisodes(self.options, services)
            delegation = Delegation(
                episodes.run_child,
                slots=ChildSlots(2),
                lineage=(fingerprint(question, self.context.object_id),),
                max_depth=self.depth,
                max_children=100,
                parallelism=2,
            )
            return episodes.run(question, self.context, delegation, "rlm/repl")

    def shown(self, turn: int) -> str:
        """What was new in the prompt of a turn."""
        return (self.folder / f"run/rlm/repl/turn-{turn}/prompt.txt").read_text()
