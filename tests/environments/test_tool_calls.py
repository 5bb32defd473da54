"""What is wrong with the arguments of a call, in words for its model."""

from __future__ import annotations

from typing import Any

import pytest

from rlm_ci.environments.tool_calls import checker

ANY: dict[str, Any] = {"type": "object", "properties": {"rows": {}}}


@pytest.mark.parametrize(
    "rows",
    [[{"a": 1}, {"b": [2.5, None]}], [1, 2, 3], [[["x"]], True], {"a": {"b": ["c"]}}, 7, None],
)
def test_a_value_of_any_form_is_sound(rows: object) -> None:
    assert checker(ANY)({"rows": rows}) == ""


@pytest.mark.parametrize("rows", [["a\0"], [{"a": "\0"}], {"\0": 1}, [[["\0"]]], "\0"])
def test_a_nul_is_found_at_any_depth(rows: object) -> None:
    assert checker(ANY)({"rows": rows}) == "'rows' has a NUL character"


def test_half_of_a_surrogate_pair_is_found_at_any_depth() -> None:
    assert checker(ANY)({"rows": [{"a": ["\ud800"]}]}) == "'rows' has half of a surrogate pair"


def test_depth_is_no_limit() -> None:
    rows: Any = "\0"
    for _ in range(900):
        rows = [rows]
    assert checker(ANY)({"rows": rows}) == "'rows' has a NUL character"


@pytest.mark.parametrize(
    ("others", "problem"),
    [
        ({}, "'more' was unexpected"),
        ({"additionalProperties": False}, "'more' was unexpected"),
        ({"additionalProperties": True}, ""),
        ({"additionalProperties": {"type": "integer"}}, "'x' is not of type 'integer'"),
    ],
)
def test_what_is_not_named_is_wrong_unless_the_tool_takes_it(
    others: dict[str, Any], problem: str
) -> None:
    told = checker({**ANY, **others})({"rows": 1, "more": "x"})
    assert (problem in told) if problem else told == ""
