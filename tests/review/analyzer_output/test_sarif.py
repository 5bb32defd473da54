"""SARIF from anybody: read or refused, never a crash."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm_ci.review.analyzer_output.sarif import AnalyzerOutput, SarifError, read

KEYS = (
    "runs", "results", "tool", "driver", "extensions", "rules", "id", "name", "properties", "tags",
    "ruleId", "ruleIndex", "rule", "index", "message", "text", "arguments", "messageStrings",
    "kind", "level", "locations", "physicalLocation", "artifactLocation", "uri", "region",
    "startLine", "endLine", "endColumn", "suppressions", "status", "justification", "invocations",
    "executionSuccessful", "toolExecutionNotifications", "security-severity", "helpUri",
    "defaultConfiguration", "version",
)  # fmt: skip
LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 10**20), st.floats(), st.text(max_size=5),
    st.sampled_from(["fail", "pass", "error", "a.py", "accepted", "security", "nan", "1e999"]),
)  # fmt: skip
JSON = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.sampled_from(KEYS), inner, max_size=6)
    ),
    max_leaves=30,
)


@given(st.dictionaries(st.sampled_from(KEYS), JSON, max_size=6))
def test_whatever_a_result_holds_is_read_or_rejected(result: dict[str, Any]) -> None:
    log = {"runs": [{"results": [result], "tool": result.get("tool")}, result]}
    found = read(json.dumps(log).encode(), lambda _address: 0)
    assert isinstance(found, AnalyzerOutput)
    for one in found.results:
        assert one.message
        assert one.spots
        assert one.message.isprintable() or not one.message.isascii()


@given(st.one_of(JSON.map(lambda value: json.dumps(value).encode()), st.binary(max_size=60)))
def test_whatever_is_printed_is_read_or_refused(data: bytes) -> None:
    try:
        found = read(data, lambda _address: None)
    except SarifError:
        return
    assert found.results == ()


def test_words_of_a_rule_are_filled_in() -> None:
    rule = {"id": "R1", "messageStrings": {"default": {"text": "{0} is not {1}"}}}
    result = {
        "ruleIndex": 0,
        "message": {"id": "default", "arguments": ["this", 7]},
        "locations": [{"physicalLocation": {"artifactLocation": {"uri": "a"}}}],
    }
    log = {"runs": [{"tool": {"driver": {"rules": [rule]}}, "results": [result] * 2}]}
    (one, _) = read(json.dumps(log).encode(), lambda _address: 3).results
    assert (one.rule, one.message, one.level) == ("R1", "this is not 7", "warning")
    assert tuple(one.spots[0]) == (3, None, None, 0)


@pytest.mark.parametrize(
    "runs", [[], [{}], [{"results": None}], [None], [{"results": []}, {"tool": {}}]]
)
def test_a_tool_that_gives_no_results_did_not_look(runs: list[Any]) -> None:
    told = read(json.dumps({"runs": runs}).encode(), lambda _address: 0)
    assert told.failed.startswith("it did not look")
    assert not told.results


def test_a_tool_that_found_nothing_says_so_by_an_empty_list() -> None:
    assert read(b'{"runs": [{"results": []}]}', lambda _address: 0).failed == ""


@pytest.mark.parametrize("kind", ["pass", "notApplicable", "open", "informational"])
def test_what_is_no_failure_is_no_finding(kind: str) -> None:
    result = {
        "kind": kind,
        "message": {"text": "fine"},
        "locations": [{"physicalLocation": {"artifactLocation": {"uri": "a"}}}],
    }
    log = json.dumps({"runs": [{"results": [result]}]}).encode()
    assert read(log, lambda _address: 0) == AnalyzerOutput((), 0)


def test_a_region_that_ends_before_a_line_does_not_reach_it() -> None:
    def spots(**region: int) -> tuple[Any, ...]:
        place = {"physicalLocation": {"artifactLocation": {"uri": "a"}, "region": region}}
        result = {"message": {"text": "x"}, "locations": [place]}
        log = json.dumps({"runs": [{"results": [result]}]}).encode()
        return tuple(read(log, lambda _address: 0).results[0].spots[0])[1:3]

    assert spots(startLine=3, endLine=5, endColumn=1) == (3, 4)
    assert spots(startLine=3, endLine=5, endColumn=2) == (3, 5)
    assert spots(startLine=3, endLine=2) == (3, 3)
    assert spots(startLine=3) == (3, 3)
    assert spots(startLine=3, endLine=4000) == (3, 3)  # a whole class is no place
