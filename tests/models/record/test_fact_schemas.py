"""What a journal from anywhere may say of an answer: numbers that a report can hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.decoding import DecodeError
from rlm_ci.errors import DamagedError
from rlm_ci.models.record import fact_schemas
from rlm_ci.models.record.record import Record
from rlm_ci.runs.journal.journal import Journal

if TYPE_CHECKING:
    from pathlib import Path

USAGE = {"prompt_tokens": 1, "completion_tokens": 2, "cached_tokens": 0, "estimated": False}
FIELDS: dict[str, Any] = {
    "enabled": True, "mode": "auto", "request_keyword": "ASK", "context": "all", "max_lines": 1,
    "max_estimated_tokens": 2, "max_files": 3, "roles": ("planner",),
}  # fmt: skip
LIMITS = {
    "force_on": False, "force_off": False, "max_steps": 1, "max_depth": 1, "timeout_seconds": 1,
    "max_subcalls": 1, "require_citations": True, "fail_mode": "fail_role",
}  # fmt: skip
ANSWER = {
    "text": "a", "tool_calls": [], "finish_reason": "stop", "model": "m", "usage": USAGE,
    "cost": "0.25",
}  # fmt: skip


def test_a_plain_answer_is_one() -> None:
    fact_schemas.require("completion", ANSWER)


@pytest.mark.parametrize("cost", ["1e999999", "Infinity", "NaN", "-1", "9" * 40, "x", 0.5])
def test_a_price_beyond_all_numbers_is_none(cost: object) -> None:
    with pytest.raises(DecodeError):
        fact_schemas.require("completion", {**ANSWER, "cost": cost})
    with pytest.raises(DecodeError):
        fact_schemas.require("charge", {"usage": USAGE, "cost": cost})


def test_what_a_lost_answer_cost_is_looked_at_too(tmp_path: Path) -> None:
    path = str(tmp_path / "calls.jsonl")
    error = {"what": "lost", "where": "", "hint": "", "code": 8, "budget": None}
    with Journal.open(path) as journal:
        journal.append({
            "v": 1, "type": "failed", "kind": "completion", "place": "a", "key": "b",
            "error": error, "charge": {"usage": USAGE, "cost": "NaN"},
        })  # fmt: skip
    with pytest.raises(DamagedError, match=r"of a run's calls: cost: expected"):
        Record.open(path, redact=str)


@pytest.mark.parametrize("count", [10**400, -1, 1.5, True])
def test_a_count_beyond_all_numbers_is_none(count: object) -> None:
    with pytest.raises(DecodeError):
        fact_schemas.require("completion", {**ANSWER, "usage": {**USAGE, "prompt_tokens": count}})


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("analysis", {"result": {}, "files": {"a": "b"}}),
        ("decision", {"run": True, "reason": "force_on"}),
        (
            "share",
            {
                "rest": {"max_calls": 1, "max_tokens": None, "budget_usd": "0.5"},
                "used": {"calls": 1, "prompt_tokens": 2, "completion_tokens": 3, "usd": "0"},
            },
        ),
        ("terms", {"rlms": {**FIELDS, **LIMITS, "roles": ["planner"]}}),
    ],
)
def test_a_fact_of_an_analysis_has_all_its_members(kind: str, value: dict[str, Any]) -> None:
    fact_schemas.require(kind, value)
    for name, inner in value.items():
        wrong: list[Any] = [[], "x", 7.5]
        if isinstance(inner, dict) and kind in ("share", "terms"):
            wrong += [{**inner, member: [[]]} for member in inner]
        for one in wrong:
            if type(one) is not type(inner) or isinstance(inner, dict):
                with pytest.raises(DecodeError):
                    fact_schemas.require(kind, {**value, name: one})


def test_a_stamp_is_in_nanoseconds() -> None:
    told = {"object_id": None, "stamp": {"ctime_ns": 1_795_888_307_475_204_132}}
    fact_schemas.require("context", told)
    with pytest.raises(DecodeError, match=r"stamp\.ctime_ns: expected an int"):
        fact_schemas.require("context", {**told, "stamp": {"ctime_ns": "now"}})


@pytest.mark.parametrize("kind", sorted(fact_schemas._SHAPES))
def test_every_shape_refuses_what_it_is_not(kind: str) -> None:
    with pytest.raises(DecodeError):
        fact_schemas.require(
            kind, {"branch_width": [], "file": 3, "decided": []} | dict.fromkeys("ab", 3)
        )
