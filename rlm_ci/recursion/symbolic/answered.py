"""What models answered in a run, as its journal has it: to hold what else tells of it against."""

from __future__ import annotations

import re
from hashlib import sha256

from rlm_ci.models.facts import COMPLETION
from rlm_ci.runs.journal import replay

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

NAME = "calls.jsonl"
TERMS = "terms"
_PLAN = re.compile(r"plan/([0-9]{1,9})/([0-9]{1,9})")


class Answers:
    """The answers in a journal, by the place in the run that asked; of texts only the digests.

    ``last_plan`` is the text of the last answer that a planner gave, ``plans`` are iteration
    and attempt of each; ``terms`` is what was agreed on when the run began, None without it.
    """

    def __init__(self) -> None:
        self.last_plan = ""
        self.plans: set[tuple[int, int]] = set()
        self.terms: Mapping[str, Any] | None = None
        self._last = (0, 0)
        self._known: dict[str, list[dict[str, Any]]] = {}

    @classmethod
    def read(cls, path: str) -> Answers:
        """Raises DamagedError, StorageError."""
        answers = cls()
        for record in replay(path):
            if record.get("type") != "fact":
                continue
            if record.get("kind") == TERMS:
                answers.terms = record["value"]
            elif record.get("kind") == COMPLETION:
                value = record["value"]
                answers._note_plan(record["place"], value["text"])
                told = {name: value[name] for name in ("model", "finish_reason", "usage")}
                answers._known.setdefault(record["place"], []).append(
                    {**told, "output": digest(value["text"].encode())}
                )
        return answers

    def _note_plan(self, place: str, text: str) -> None:
        """Of one place the last answer counts: one that was lost is asked for again."""
        if found := _PLAN.fullmatch(place):
            number = int(found[1]), int(found[2])
            self.plans.add(number)
            if number >= self._last:
                self._last, self.last_plan = number, text

    def has(self, place: str, told: Mapping[str, Any]) -> bool:
        """Whether ``told``, with the fields of a meta.json, was answered at ``place``."""
        return any(
            all(told[name] == answer[name] for name in answer)
            for answer in self._known.get(place, ())
        )


def digest(data: bytes) -> dict[str, Any]:
    """The size and SHA-256 of a file, as a meta.json has them."""
    return {"bytes": len(data), "sha256": sha256(data).hexdigest()}
