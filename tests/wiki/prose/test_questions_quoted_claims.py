"""What a sentence rests on: several quotes, all of them there, and the functions that it names."""

from __future__ import annotations

from typing import Any

import pytest

from rlm_ci.recursion.nodes import LeafText
from rlm_ci.wiki.prose.questions import QuotedClaims
from rlm_ci.wiki.update import kept_prose

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
    found = claims.accepted([{"text": "Too much heat is refused.", "quotes": quotes}])
    told = [[tuple(one)[:3] for one in said.quotes] for said in found]
    assert told == ([] if places is None else [places])
    assert claims.counts().rejected == (places is None)
    assert {one.quote for said in found for one in said.quotes} == claims.quoted.keys()


EXAMPLE = "One sentence in plain English: names of code in backticks."


@pytest.mark.parametrize(
    ("claim", "why"),
    [
        ({"text": EXAMPLE, "quotes": [CALL]}, kept_prose.COPIED),
        ({"text": "No quote."}, kept_prose.MALFORMED),
        ("no object", kept_prose.MALFORMED),
        ({"text": "Short.", "quotes": [quote("check.py", 3, "raise")]}, kept_prose.SHORT_QUOTE),
        ({"text": "Long.", "quotes": [quote("oven.py", 1, "return to * 2\n" * 41)]},
         kept_prose.LONG_QUOTE),
        ({"text": "Away.", "quotes": [quote("far.py", 1, "def check(to):")]}, kept_prose.NOT_SHOWN),
        ({"text": "Lie.", "quotes": [CALL, quote("check.py", 3, "raise TypeError(to)")]},
         kept_prose.NOT_THERE),
    ],
)  # fmt: skip
def test_what_does_not_stand_goes_with_its_own_reason(claim: Any, why: tuple[str, str]) -> None:
    claims = QuotedClaims([OVEN, CHECK])
    assert claims.accepted([claim]) == []
    assert [row[1] for row in claims.rejected] == [list(why)]


def test_a_sentence_that_its_flow_does_not_hold_goes_for_that() -> None:
    claims = QuotedClaims([OVEN, CHECK])
    assert claims.accepted([{"text": "It calls.", "quotes": [CALL]}], lambda _said: False) == []
    assert [row[1] for row in claims.rejected] == [list(kept_prose.STEPS_GONE)]


GAPS = LeafText(
    "gaps.py", "3" * 40,
    b"def heat(to):\n    first = to + 1\n\n\n    second = first * 2\n\n    return second\n",
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("    first = to + 1\n    second = first * 2", (2, 5)),  # as a listing shows them
        ("first = to + 1\n\n\nsecond = first * 2", (2, 5)),
        ("first = to + 1\n\nsecond = first * 2\nreturn second", (2, 7)),
        ("    second = first * 2\n\n\n    return second\n", (5, 7)),  # with others than there are
        ("first = to + 1\nreturn second", None),  # a line between them is left out
        ("second = first * 2\nfirst = to + 1", None),
    ],
)
def test_blank_lines_of_a_quote_do_not_matter(text: str, lines: tuple[int, int] | None) -> None:
    claims = QuotedClaims([GAPS])
    found = claims.accepted([{"text": "It doubles.", "quotes": [quote("gaps.py", 2, text)]}])
    told = [(said.line_start, said.line_end) for said in found]
    assert told == ([] if lines is None else [lines])


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
    [said] = QuotedClaims([OVEN, CHECK, TWO]).accepted([{"text": words, "quotes": [CALL]}])
    assert [(one.path, one.name) for one in said.named_definitions] == named
