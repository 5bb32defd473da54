"""What a journal from anywhere may say of an answer: numbers that a report can hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rlm_ci.errors import DamagedError
from rlm_ci.models.record import fact_schemas
from rlm_ci.models.record.record import Record
from rlm_ci.runs.journal.journal import Journal

if TYPE_CHECKING:
    from pathlib import Path

USAGE = {"prompt_tokens": 1, "completion_tokens": 2, "cached_tokens": 0, "estimated": False}
ANSWER = {
    "text": "a", "tool_calls": [], "finish_reason": "stop", "model": "m", "usage": USAGE,
    "cost": "0.25",
}  # fmt: skip


def test_a_plain_answer_is_one() -> None:
    fact_schemas.require("completion", ANSWER)


@pytest.mark.parametrize("cost", ["1e999999", "Infinity", "NaN", "-1", "9" * 40, "x", 0.5])
def test_a_price_beyond_all_numbers_is_none(cost: object) -> None:
    with pytest.raises(TypeError):
        fact_schemas.require("completion", {**ANSWER, "cost": cost})
    with pytest.raises(TypeError):
        fact_schemas.require("charge", {"usage": USAGE, "cost": cost})


def test_what_a_lost_answer_cost_is_looked_at_too(tmp_path: Path) -> None:
    path = str(tmp_path / "calls.jsonl")
    error = {"what": "lost", "where": "", "hint": "", "code": 8, "budget": None}
    with Journal.open(path) as journal:
        journal.append({
            "v": 1, "type": "failed", "kind": "completion", "place": "a", "key": "b",
            "error": error, "charge": {"usage": USAGE, "cost": "NaN"},
        })  # fmt: skip
    with pytest.raises(DamagedError):
        Record.open(path, redact=str)


@pytest.mark.parametrize("count", [10**400, -1, 1.5, True])
def test_a_count_beyond_all_numbers_is_none(count: object) -> None:
    with pytest.raises(TypeError):
        fact_schemas.require("completion", {**ANSWER, "usage": {**USAGE, "prompt_tokens": count}})
