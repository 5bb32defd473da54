"""Regular expressions of others: what they find, and that none takes all time or memory."""

from __future__ import annotations

from itertools import repeat

import pytest

from rlm_ci.text import patterns
from rlm_ci.text.patterns import LinePattern, PatternError


def test_it_finds_what_is_in_a_line() -> None:
    found = [one.group() for one in LinePattern(r"w\w+").matches("wer wagt gewinnt, Wer")]
    assert found == ["wer", "wagt", "winnt"]
    assert LinePattern("ÄRGER", fold=True).is_in("viel ärger")
    assert not LinePattern("^b").is_in("ab")
    assert LinePattern("(a)(?:b)(c)").groups == 2


@pytest.mark.parametrize(
    "wrong", ["(", "a\nb", "[z-a]", r"\p{Nothing}", "(?P<a>b)(?P<a", "x" * 300 + "{999}",
              "(?:a{1000}){1000}", "(?x)a{ 9 9 9 9 9 9 9 }", "a{99999999999999999999}",
              "(?r)a"],
)  # fmt: skip
def test_a_wrong_expression_is_refused_before_it_fills_the_memory(wrong: str) -> None:
    with pytest.raises(PatternError, match="no regular expression"):
        LinePattern(wrong)


def test_an_identifier_in_groups_does_not_repeat_too_much() -> None:
    pattern = LinePattern(r"id=([0-9a-f]{8})-([0-9a-f]{4})-[0-9a-f]{4}-[0-9a-f]{4}-([0-9a-f]{12})")
    assert pattern.is_in("id=01234567-89ab-cdef-0123-456789abcdef")


def test_no_line_and_no_number_of_lines_takes_all_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "SECONDS", 0.1)
    slow = r"^(a|aa|a?)+\1$"
    with pytest.raises(
        PatternError, match="takes more than 0 seconds for a line, or 60 in all: use a simpler"
    ):
        LinePattern(slow, seconds=60).is_in("a" * 400 + "!")
    quick = LinePattern("a", seconds=0.01)
    with pytest.raises(PatternError, match="takes more than"):
        all(map(quick.is_in, repeat("aaa")))
    with pytest.raises(PatternError, match="takes more than"):
        list(LinePattern("a?", seconds=0.05).matches("a" * 10_000_000))


@pytest.mark.full
def test_a_match_that_needs_too_much_memory_is_refused() -> None:
    with pytest.raises(PatternError, match=r"too much memory|takes more than"):
        LinePattern("((a)|(b))*$").is_in("ab" * 8_000_000)
