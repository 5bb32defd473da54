"""One result of many answers, by machine."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rlm_ci.environments.symbolic.map_reduce.reduce import ReduceError, reduced


def result(how: str, *answers: str, field: str = "") -> Any:
    named = [(f"c{number}", text) for number, text in enumerate(answers, 1)]
    return json.loads(reduced(how, field, named))


def test_items_of_lists_are_counted_united_and_ranked() -> None:
    answers = ('```json\n["a", {"x": 1, "y": 0.10}, "b"]\n```', '["b", {"y": 0.1, "x": 1.0}]', "7")
    assert result("count", *answers, "null", "false", "[]") == {"count": 6}
    united = {"count": 4, "values": ["a", {"x": 1, "y": 0.1}, "b", 7]}
    assert result("union", *answers, "null", "false") == united
    ranked = [[{"x": 1, "y": 0.1}, 2], ["b", 2], ["a", 1], [7, 1]]
    assert result("most_frequent", *answers) == {"count": 4, "values": ranked}
    assert result("union") == {"count": 0, "values": []}


def test_numbers_are_added_exactly_also_by_key() -> None:
    assert result("sum", "0.1", "[0.2, 3]", "null") == {"sum": 3.3}
    by_key = reduced("sum", "", [("c1", '{"mon": 1, "tue": [2, 0.5]}'), ("c2", '{"tue": 4}')])
    assert by_key == '{"sum": {"tue": 6.5, "mon": 1}}'
    assert result("sum", '{"n": 2, "m": "x"}', '{"m": 1}', field="n") == {"sum": 2}
    assert result("union", '{"who": ["a"]}', '{"who": "b"}', field="who")["values"] == ["a", "b"]


def test_texts_are_joined_under_their_names() -> None:
    assert reduced("concat", "", [("c1", " a\n"), ("c2", "b")]) == "c1:\na\n\nc2:\nb"


@pytest.mark.parametrize(
    ("how", "answer", "field", "told"),
    [
        ("sum", '"5"', "", "c1 has something that is no number"),
        ("sum", "true", "", "no number"),
        ("union", "nothing", "", "c1 is not JSON"),
        ("union", "1e999999999", "", "not JSON with plain numbers"),
        ("count", "[NaN]", "", "not JSON with plain numbers"),
        ("sum", "9" * 5000, "", "not JSON with plain numbers"),
        ("union", "[" * 100_000, "", "nested too deeply"),
        ("count", "[1]", "users", "c1 has no member users"),
    ],
)
def test_an_answer_that_does_not_fit_is_named(how: str, answer: str, field: str, told: str) -> None:
    with pytest.raises(ReduceError, match=told):
        reduced(how, field, [("c1", answer)])


def test_numbers_beside_objects_are_refused() -> None:
    with pytest.raises(ReduceError, match="c2 is no object, as others are"):
        reduced("sum", "", [("c1", '{"a": 1}'), ("c2", "1")])


def test_half_a_character_can_be_written() -> None:
    assert reduced("union", "", [("c1", r'"\ud800"')]).encode()
