"""One object among prose, braces of code and other objects: taken where it is the only one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.models.strict_json import read_object

if TYPE_CHECKING:
    from collections.abc import Mapping

GOOD = '{"findings": []}'


def misfit(value: Mapping[str, Any]) -> str:
    return "" if isinstance(value.get("findings"), list) else "findings must be a list"


PROSE = {
    "a set": "Use {x} here.",
    "a lone brace": "It opens with { and no more.",
    "a lone end": "It ends with } alone.",
    "code": "if (a) { return {}; }",
    "a format": 'It says f"{name}: {value!r}" there.',
    "a set of numbers": "{1, 2}",
    "a key without quotes": "{x: 1}",
    "nothing": "Use {} here.",
    "many": "{a} {b} {{c}} ${d} {",
}


@pytest.mark.parametrize("wanted", [None, misfit])
@pytest.mark.parametrize("form", ["{0}\n{1}", "{1}\n{0}", "{0}\n```json\n{1}\n```\n{0}"])
@pytest.mark.parametrize("prose", PROSE.values(), ids=PROSE)
def test_braces_of_prose_are_no_object(prose: str, form: str, wanted: Any) -> None:
    text = form.replace("{0}", prose).replace("{1}", GOOD)
    assert read_object(text, wanted) == {"findings": []}
    assert read_object(text.replace("[]}", "[],}"), wanted) == {"findings": []}


OTHERS = {
    "an example": 'Such as {"a": 1}:',
    "a broken one": '{"a": 1, "b": }',
    "a Python one": "{'a': 1}",
    "two": '{"a": 1} {"b": [{"c": 2}]}',
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_of_several_objects_the_one_that_was_asked_for_is_taken(other: str) -> None:
    for text in (f"{other}\n{GOOD}", f"{GOOD}\n{other}"):
        assert read_object(text, misfit) == {"findings": []}
        with pytest.raises(ValueError, match="not one JSON object"):
            read_object(text)


@pytest.mark.parametrize("text", [GOOD * 2, f'{GOOD} or {{"findings": [1]}}', "{x}", "{ and {"])
def test_two_that_fit_or_none_are_no_answer(text: str) -> None:
    with pytest.raises(ValueError, match="not one JSON object"):
        read_object(text, misfit)
