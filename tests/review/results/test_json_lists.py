"""The lists of a review: JSON as its library writes it, made piece by piece."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest

from rlm_ci.recursion.nodes import COMPLETED, NodeResult
from rlm_ci.report.findings import Coverage, Finding, Location, Part, Report, Severity, Subject
from rlm_ci.review.results import json_lists
from rlm_ci.review.results.clusters import clusters

VALUE: dict[str, Any] = {
    "z": None, "a": [], "b": {}, "c": [1, 2.5, True, [[]], {"d": ["é\udcff\x7f\"\n", -0.0, 1e300]}],
    "é\n": "text", "tuple": (1, ("a",)), "false": False,
}  # fmt: skip


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
    told = list(zip(findings, json_lists.marks(findings), [("leaf",)] * count, strict=True))
    return NodeResult("leaf", COMPLETED, "", 1.0, notes=("é",)), report, told, clusters(findings)


@pytest.mark.parametrize("value", [VALUE, {}, [VALUE, VALUE], [], ["a"]])
def test_it_is_written_as_the_library_writes_it(value: Any) -> None:
    expected = json.dumps(value, indent=1, sort_keys=True)
    assert json_lists._text(value, "\n") == expected
    if isinstance(value, list):
        assert "".join(json_lists._pieces(iter(value))) == f"{expected}\n"
    elif value:
        assert "".join(json_lists._pieces(value)) == f"{expected}\n"


@pytest.mark.parametrize("count", [0, 3])
def test_the_lists_are_what_the_library_would_write(count: int) -> None:
    result, report, told, groups = listed(count)
    for pieces in (
        json_lists.findings(result, report, told, groups),
        json_lists.clusters(groups),
        json_lists.code_quality(told),
    ):
        text = "".join(pieces)
        assert text == json.dumps(json.loads(text), indent=1, sort_keys=True) + "\n"


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
