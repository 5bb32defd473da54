"""The lists of a review: JSON, made piece by piece."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest

from rlm_ci.recursion.nodes import COMPLETED, NodeResult
from rlm_ci.report.findings import (
    Coverage,
    Finding,
    Location,
    Part,
    Report,
    Severity,
    Subject,
    fingerprints,
)
from rlm_ci.review.results import json_lists


def found(number: int, length: int = 20) -> Finding:
    place = Location(f"src/{number:05}.py", 1, 1, blob="0" * 40, quote=f"x = {number}")
    message = f"{number} is wrong " * length
    return Finding("review/wrong", Severity.LOW, message, None, (place,), "quality", 0.5)


def listed(count: int, length: int = 20) -> tuple[Any, ...]:
    findings = [found(number, length) for number in range(count)]
    report = Report(
        Subject("acme/shop"), Severity.HIGH, (Part("review", "", findings=tuple(findings)),),
        coverage=Coverage(3, 2, (("logo.png", "binary"),)),
    )  # fmt: skip
    told = [
        json_lists.ListedFinding(one, mark, ("leaf",))
        for one, mark in zip(findings, fingerprints(findings), strict=True)
    ]
    groups = json_lists.clusters(findings)
    return NodeResult("leaf", COMPLETED, "", 1.0, notes=("é",)), report, told, groups


@pytest.mark.parametrize("count", [0, 3])
def test_each_finding_is_a_line(count: int) -> None:
    result, report, told, groups = listed(count)
    text = "".join(json_lists.findings(result, report, told, groups))
    assert [json.loads(text)["findings"][n]["fingerprint"] for n in range(count)] == [
        one.mark for one in told
    ]
    assert sum('"fingerprint"' in line for line in text.splitlines()) == count
    text = "".join(json_lists.code_quality(told))
    assert [one["fingerprint"] for one in json.loads(text)] == [one.mark for one in told]
    assert len(text.splitlines()) == (count + 2 if count else 1)


def test_a_finding_is_held_no_longer_than_it_takes_to_write_it() -> None:
    result, report, told, groups = listed(400, 500)
    pieces = json_lists.findings(result, report, told, groups)
    whole = most = 0
    tracemalloc.start()
    try:
        for piece in pieces:
            whole += len(piece)
            most = max(most, tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()
    assert whole > 2_000_000
    assert most < whole / 5
