"""The answers of models in a run's journal, to which its other files are compared."""

from __future__ import annotations

import os
import re

from rlm_ci.environments.repl.environment import EXECUTION
from rlm_ci.environments.symbolic.artifacts import ARTIFACTS, digest
from rlm_ci.environments.symbolic.counts import COUNT
from rlm_ci.environments.symbolic.map_reduce.maps import MAP
from rlm_ci.errors import DamagedError
from rlm_ci.models.record import fact_schemas
from rlm_ci.models.record.index import COMPLETION
from rlm_ci.runs.journal.journal import replay

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


NAME = "calls.jsonl"
TERMS = "terms"
CONTEXT = "context"
#: The refuted places of an answer.
STANDING = "standing"
_PLAN = re.compile(r"plan/([0-9]{1,9})/([0-9]{1,9})")


class MisshapenError(DamagedError):
    """A record with a valid checksum that no run has written."""


class RecordedAnswers:
    """The answers in a journal, by the place in the run that asked; texts as digests.

    ``last_plan`` is the planner's last answer, ``plans`` are the iteration and the attempt of
    each; ``terms`` are the options of the run, None if they are missing. ``files`` are the
    digests of a question's files, by its place and their names; ``results`` are those of
    counts, and the forecasts of maps; ``refuted`` are the places of the answer that do not hold in
    the repository, with the reasons; ``notes`` are those on the context. ``blocks`` are those of
    code, by place; ``keys`` the hashes of what was asked at a place.
    """

    def __init__(self) -> None:
        self.last_plan = ""
        self.plans: set[tuple[int, int]] = set()
        self.terms: Mapping[str, Any] | None = None
        self.files: dict[str, Mapping[str, Any]] = {}
        self.refuted: Mapping[str, str] = {}
        self.notes: tuple[str, ...] = ()
        self.results: dict[str, Mapping[str, Any]] = {}
        self.blocks: dict[str, Mapping[str, Any]] = {}
        self.keys: dict[str, set[str]] = {}
        self._last = (0, 0)
        self._known: dict[str, list[dict[str, Any]]] = {}

    @classmethod
    def read(cls, folder: str) -> RecordedAnswers:
        """Read the journal beside ``folder``, the ``rlm/`` of a run.

        Raises DamagedError; MisshapenError for a record that no run has written.
        """
        path = os.path.join(os.path.dirname(os.path.abspath(folder)), NAME)
        answers = cls()
        for record in replay(path):
            try:
                if record["type"] == "fact":
                    fact_schemas.require(record["kind"], record["value"])
                    answers._note(record["kind"], record["place"], record["value"], record["key"])
            except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError):
                raise MisshapenError(
                    f"record {record.get('seq')} is not one of a run's calls",
                    where=path,
                    hint="restore it from a copy",
                ) from None
        return answers

    def _note(self, kind: str, place: str, value: Mapping[str, Any], key: str) -> None:
        if kind == TERMS:
            self.terms = value
        elif kind == CONTEXT:
            self.notes = tuple(value.get("notes", ()))
        elif kind == STANDING:
            self.refuted = value["refuted"]
        elif kind in (COUNT, MAP):
            self.results[place] = value
        elif kind == ARTIFACTS:
            self.files[place] = value
        elif kind == EXECUTION:
            self.blocks[place] = value
        elif kind == COMPLETION:
            self.keys.setdefault(place, set()).add(key)
            self._note_plan(place, value["text"])
            fields = {name: value[name] for name in ("model", "finish_reason", "usage")}
            fields["output"] = digest(value["text"].encode())
            self._known.setdefault(place, []).append(fields)

    def _note_plan(self, place: str, text: str) -> None:
        """The last answer of a place counts: a lost one was asked for again."""
        if found := _PLAN.fullmatch(place):
            number = int(found[1]), int(found[2])
            self.plans.add(number)
            if number >= self._last:
                self._last, self.last_plan = number, text

    def has(self, place: str, meta: Mapping[str, Any]) -> bool:
        """Whether the journal has the answer in ``meta``, a meta.json, at ``place``."""
        return any(
            all(meta[name] == answer[name] for name in answer)
            for answer in self._known.get(place, ())
        )
