"""Questions whose answer is one JSON object, and the schema that goes with them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import jsonschema_rs
import pytest

from rlm_ci.models import is_wish
from rlm_ci.models.json_question import answer_form, list_form, repeats
from rlm_ci.resources import loader

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rlm_ci.models import Message

CLAIM = "review-claim.schema.json"
#: What engines that write by a grammar read of a schema.
KEYWORDS = {"type", "properties", "required", "items", "enum", "const"}


def test_the_form_of_an_answer_is_a_wish() -> None:
    assert is_wish(answer_form("wiki-support.schema.json"))


def schemas_in(value: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    below = [*value.get("properties", {}).values(), *filter(None, [value.get("items")])]
    return [value, *(inner for one in below for inner in schemas_in(one))]


@pytest.mark.parametrize(
    "form",
    [
        list_form("findings", schema=CLAIM),
        list_form("about", "groups", schema="review-description-sentence.schema.json"),
        answer_form("review-reproduction.schema.json"),
        answer_form("review-architecture.schema.json"),
    ],
)
def test_a_schema_has_only_what_every_endpoint_knows(form: Message) -> None:
    schema = form["json_schema"]["schema"]
    jsonschema_rs.validator_for(schema)
    for one in schemas_in(schema):
        assert one.keys() <= KEYWORDS
        assert set(one.get("required", ())) <= one.get("properties", {}).keys()
        assert one.get("type") != "array" or "items" in one


def test_what_fits_the_shipped_schema_fits_the_simple_one() -> None:
    place = {"path": "a.py", "line_start": 1, "line_end": 1, "quote": "x = 1"}
    claim = {
        **place, "domain": "quality", "severity": "low", "confidence": 0.5, "rule": "r",
        "message": "m", "also": [place], "suggested_fix": None,
    }  # fmt: skip
    assert loader.misfit(claim, CLAIM) == ""
    schema = list_form("findings", schema=CLAIM)["json_schema"]["schema"]
    assert jsonschema_rs.is_valid(schema, json.loads(json.dumps({"findings": [claim]})))
    assert not jsonschema_rs.is_valid(schema, {"findings": [{**claim, "severity": "bad"}]})
    test = {"kind": "test", "breaks": "b", "path": "t.py", "content": "c", "expects": "e"}
    schema = answer_form("review-reproduction.schema.json")["json_schema"]["schema"]
    assert test.keys() <= schema["properties"].keys(), "a grammar writes no other members"


# -- the example of a prompt, and other words --

FORM = "what breaks, in one line, then why"


@pytest.mark.parametrize(
    "text",
    [
        FORM,
        "What breaks: in one line; then why!",
        "The function: what breaks in one line, then why it does",
        "what breaks, in one line",
        "what-breaks-in-one-line-then-why",
    ],
)
def test_a_form_is_recognized(text: str) -> None:
    assert repeats(text, ["something else", FORM])


@pytest.mark.parametrize(
    "text", ["", "what breaks", "The sum breaks in one line of ten.", "then why in one line?", "…"]
)
def test_other_words_are_none_of_it(text: str) -> None:
    assert not repeats(text, [FORM])


@pytest.mark.parametrize(
    ("text", "is_it"),
    [("One sentence.", True), ("`one sentence`", True), ("One sentence more.", False), ("", False)],
)
def test_a_short_form_stands_alone(text: str, *, is_it: bool) -> None:
    assert repeats(text, ["one sentence"]) is is_it
