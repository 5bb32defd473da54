"""Somebody else's JSON is changed in place, and is as it was once the change is taken back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm_ci.agent_hooks import json_edit

OURS = {"hooks": [{"type": "command", "command": "rlm-ci agent-hook stop"}]}
PATH = ("hooks", "Stop")


def removed(text: str) -> str:
    """``text`` without the last element at the path."""
    hooks = json_edit.parse(text).value["hooks"]["Stop"]
    return json_edit.remove(text, (*PATH, len(hooks) - 1))


#: As an editor or a program wrote them; each comes back to the byte.
TEXTS = {
    "empty": "{}",
    "empty, at the end of a line": "{}\n",
    "other keys": '{\n  "model": "x"\n}\n',
    "no end of line": '{\n  "model": "x"\n}',
    "tabs": '{\n\t"model": "x",\n\t"hooks": {\n\t\t"Start": [1]\n\t}\n}\n',
    "Windows": '{\r\n    "model": "x"\r\n}\r\n',
    "one line": '{"hooks":{"Stop":[{"a":1}]},"z":2}',
    "others' hooks": '{"hooks": {\n  "Stop": [\n    {"a": "}]"},\n    {"b": 2}\n  ]\n}}\n',
    "comments": '// mine\n{ /* { */ "hooks": { // "Stop"\n    "Stop": [ 1 ] /* ] */\n  }\n}\n',
    "a comment at the end": '{\n  "a": 1 // "b": 2\n}\n',
    "a comment alone": '{\n  // "a": 1\n}\n',
    "escapes": '{"a\\"b": "\\u00e9\\\\", "hooks": {"Stop": [null, -1.5e3, true]}}',
    "a trailing comma": '{\n  "a": [1, 2,],\n}\n',
    "a trailing comma in the list": '{\n  "hooks": {\n    "Stop": [\n      1,\n    ],\n  },\n}\n',
    "a mark": "\ufeff{}\n",
    "the same key twice": '{"hooks": 1, "hooks": {"Stop": [1]}}',
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_it_is_added_last_and_taken_back_to_the_byte(text: str) -> None:
    before = json_edit.parse(text).value
    added = json_edit.add(text, PATH, OURS)
    after = json_edit.parse(added).value
    assert after["hooks"]["Stop"] == [*before.get("hooks", {}).get("Stop", []), OURS]
    del after["hooks"]["Stop"][-1]
    before.setdefault("hooks", {}).setdefault("Stop", [])
    assert after == before
    assert removed(added) == text
    # What is added stands in one piece between bytes that are all there still.
    same = next((at for at, pair in enumerate(zip(text, added, strict=False)) if len({*pair}) > 1),
                len(text))  # fmt: skip
    assert added.endswith(text[same:])


def test_it_reads_as_somebody_would_write_it() -> None:
    added = json_edit.add(TEXTS["other keys"], PATH, {"command": "x"})
    assert added == (
        '{\n  "model": "x",\n  "hooks": {\n    "Stop": [\n      {\n        "command": "x"\n'
        "      }\n    ]\n  }\n}\n"
    )
    assert '"Start": [1, 2]\n' in json_edit.add(TEXTS["tabs"], ("hooks", "Start"), 2)
    added = json_edit.add(TEXTS["tabs"], PATH, OURS)
    assert '\n\t\t"Stop": [\n\t\t\t{\n\t\t\t\t"hooks": [\n' in added
    added = json_edit.add(TEXTS["Windows"], PATH, OURS)
    assert added.count("\n") == added.count("\r\n") > 5
    assert json_edit.add("{\n}\n", ("a",), 1) == '{\n  "a": [\n    1\n  ]\n}\n'


#: What somebody wrote around ours since, and what is left of it.
@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("[0, 1]", "[1]"),
        ("[0,\n  // mine\n  1]", "[// mine\n  1]"),
        ("[0 /* a */, 1]", "[ /* a */1]"),
        ("[0, // a\n  ]", "[ // a\n  ]"),
        ("[\n  // a\n  0,\n]", "[\n  // a\n]"),
        ("[ // a\n 0]", "[ // a\n ]"),
    ],
)
def test_comments_around_it_stay(text: str, left: str) -> None:
    assert json_edit.remove(text, (0,)) == left
    json_edit.parse(left)


def test_comments_before_a_later_element_stay() -> None:
    left = json_edit.remove("[1, // about 1\n  2]", (1,))
    assert left == "[1 // about 1\n  ]"
    assert json_edit.parse(left).value == [1]


def test_of_equal_keys_the_last_goes() -> None:
    assert json_edit.remove('{"a": [1, 2], "b": 0, "a": [3]}', ("a", 0)) == '{"a": [1, 2], "b": 0}'
    assert json_edit.remove("[1]", (2,)) == json_edit.remove("[1]", ("a", "b")) == "[1]"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no value, line 1"),
        ("{", "no name in quotes"),
        ("[1", "no comma and no ]"),
        ('{\n"a" 1}', "no colon, line 2"),
        ('{"a": }', "no value"),
        ('{"a": "b}', "no end of a text"),
        ("{} {}", "text after the value"),
        ("{1: 2}", "no name in quotes"),
        ("[1 2]", "no comma"),
        ("nul", "'nul' is no value"),
        ("[1] /* ", "text after the value"),
        ("[" * 200 + "]" * 200, "more than 100 levels"),
        ("[" + "9" * 5000 + "]", "is no value"),
    ],
)
def test_what_is_no_json_is_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        json_edit.add(text, PATH, OURS)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('{"hooks": []}', "hooks is not an object"),
        ('{"hooks": {"Stop": {}}}', "hooks.Stop is not a list"),
        ("[]", "the whole is not an object"),
        ('"x"', "the whole is not an object"),
    ],
)
def test_what_is_of_another_type_is_left_alone(text: str, what: str) -> None:
    with pytest.raises(ValueError, match=what):
        json_edit.add(text, PATH, OURS)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=3), VALUES, max_size=4), st.sampled_from([None, 1, 2, 4]))
def test_any_object_comes_back(value: dict[str, Any], indent: int | None) -> None:
    text = json.dumps(value, indent=indent)
    assert json_edit.parse(text).value == value
    added = json_edit.add(text, PATH, OURS)
    assert json.loads(added)["hooks"]["Stop"][-1] == OURS
    assert removed(added) == text
