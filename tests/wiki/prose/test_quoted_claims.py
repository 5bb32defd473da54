"""What a sentence rests on: several quotes, all of them there, and the functions that it names."""

from __future__ import annotations

from typing import Any

import pytest

from rlm_ci.recursion.nodes import LeafText
from rlm_ci.wiki.prose.quoted_claims import QuotedClaims

OVEN = LeafText("oven.py", "0" * 40, b"def heat_up(to):\n    check(to, LIMIT)\n    return to * 2\n")
CHECK = LeafText(
    "check.py", "1" * 40, b"def check(to):\n    if to > 300:\n        raise ValueError(to)\n"
)
TWO = LeafText("two.py", "2" * 40, b"def open(a):\n    return a\n\n\ndef close(a):\n    return a\n")


def quote(path: str, at: int, text: str) -> dict[str, Any]:
    end = at + text.count("\n")
    return {"path": path, "line_start": at, "line_end": end, "quote": text}


CALL = quote("oven.py", 2, "    check(to, LIMIT)")
RAISE = quote("check.py", 3, "        raise ValueError(to)")


@pytest.mark.parametrize(
    ("quotes", "places"),
    [
        ([CALL, RAISE], [("oven.py", 2, 2), ("check.py", 3, 3)]),
        ([RAISE, CALL, RAISE], [("check.py", 3, 3), ("oven.py", 2, 2)]),
        ([CALL, quote("check.py", 1, "        raise ValueError(to)")],
         [("oven.py", 2, 2), ("check.py", 3, 3)]),  # shifted
        ([CALL, quote("check.py", 3, "raise ValueError(to)")],
         [("oven.py", 2, 2), ("check.py", 3, 3)]),  # dedented
        ([CALL, quote("check.py", 3, "        raise TypeError(to)")], None),
        ([CALL, quote("check.py", 1, "def check(to):\n…\n        raise ValueError(to)")],
         None),  # elided
        ([CALL, quote("nowhere.py", 3, "        raise ValueError(to)")], None),
        ([CALL, quote("check.py", 3, "raise")], None),  # too little
        ([], None),
        ([CALL] * 7, None),
    ],
)  # fmt: skip
def test_a_sentence_stands_by_all_of_its_quotes(
    quotes: list[dict[str, Any]], places: list[tuple[str, int, int]] | None
) -> None:
    claims = QuotedClaims([OVEN, CHECK])
    found = claims.kept([{"text": "Too much heat is refused.", "quotes": quotes}])
    told = [[tuple(one)[:3] for one in said.quotes] for said in found]
    assert told == ([] if places is None else [places])
    assert claims.counts().rejected == (places is None)
    assert {one.quote for said in found for one in said.quotes} == claims.quoted.keys()


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("`check` raises.", [("check.py", "check")]),
        ("check() raises.", [("check.py", "check")]),
        ("heat_up asks `check(to)` first.", [("oven.py", "heat_up"), ("check.py", "check")]),
        ("It will check all.", []),  # a word of English
        ("`oven.check` raises.", [("check.py", "check")]),
        ("`ValueError` and `nobody` are no functions of ours.", []),
    ],
)
def test_the_functions_that_a_sentence_names_are_known(
    words: str, named: list[tuple[str, str]]
) -> None:
    [said] = QuotedClaims([OVEN, CHECK, TWO]).kept([{"text": words, "quotes": [CALL]}])
    assert [(one.path, one.name) for one in said.named] == named


def test_the_example_of_the_prompt_is_no_sentence() -> None:
    claims = QuotedClaims([OVEN, CHECK])
    text = "One sentence in plain English: names of code in backticks."
    assert claims.kept([{"text": text, "quotes": [CALL]}]) == []
    assert claims.counts().rejected == 1
