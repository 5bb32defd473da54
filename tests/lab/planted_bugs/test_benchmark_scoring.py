"""What counts as found, and what as a false alarm."""

from __future__ import annotations

from typing import Any

import pytest

from rlm_ci.lab.planted_bugs.benchmark import (
    ArmTotals,
    CaseScore,
    Claimed,
    of_answer,
    of_report,
    scored,
)
from rlm_ci.lab.planted_bugs.generate import PlantedBug

BUGS = (PlantedBug("boundary", "a.py", 10, ""), PlantedBug("lost-not", "b.py", 3, ""))


@pytest.mark.parametrize(
    ("places", "found", "alarms"),
    [
        ([], 0, 0),
        ([("a.py", 10, 10)], 1, 0),
        ([("a.py", 12, 14)], 1, 0),
        ([("a.py", 1, 40)], 1, 0),
        ([("a.py", 13, 14)], 0, 1),
        ([("c.py", 10, 10)], 0, 1),
        ([("a.py", 10, 10), ("a.py", 9, 9)], 1, 0),
        ([("a.py", 10, 10), ("b.py", 3, 3), ("b.py", 30, 30)], 2, 1),
    ],
)
def test_a_bug_is_found_at_its_line(places: list[Any], found: int, alarms: int) -> None:
    score = scored("x", BUGS, [Claimed((place,), proven=True) for place in places])
    told = (score.bugs, score.found, score.findings, score.false_alarms, score.proven)
    assert told == (2, found, len(places), alarms, len(places))


def test_findings_of_a_model_that_count() -> None:
    place = {"path": "a.py", "line_start": 10, "line_end": None}
    rows: list[dict[str, Any]] = [
        {
            "source": "model:m",
            "suppression": None,
            "evidence": [place],
            "proof": {"level": "proven"},
        },
        {"source": "model:m", "suppression": None, "evidence": [place]},
        {"source": "model:m", "suppression": "why", "evidence": [place]},
        {"source": "analyzer:ruff", "suppression": None, "evidence": [place]},
    ]
    assert of_report({"findings": rows}) == [
        Claimed((("a.py", 10, 10),), proven=True), Claimed((("a.py", 10, 10),)),
    ]  # fmt: skip
    odd = {"findings": [place, "x", {"path": 3}, {"path": "a", "line_start": True}]}
    assert [len(one.places) for one in of_answer(odd)] == [1, 0, 0]
    assert of_answer({}) == []


def test_sums_and_shares() -> None:
    totals = ArmTotals.of([
        CaseScore("a", 2, 1, 4, 3, 1, 5, 100, 10, 0.5), CaseScore("b", 2, error="no answer"),
    ]).to_dict()  # fmt: skip
    assert (totals["recall"], totals["precision"], totals["proven_share"]) == (0.25, 0.25, 0.25)
    assert (totals["false_alarms_per_change"], totals["failed"], totals["cost_usd"]) == (
        1.5,
        1,
        0.5,
    )
    nothing = ArmTotals.of([]).to_dict()
    assert nothing["recall"] is nothing["precision"] is nothing["cost_usd"] is None
