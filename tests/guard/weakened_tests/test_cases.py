"""What tells one test from another, and what is a reason."""

from __future__ import annotations

import pytest

from rlm_ci.guard.weakened_tests.cases import Case, Facts, has_reason, telling, words_of


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("skip(reason='no server in CI')", True), ('Skip("see #412")', True), ("skip('x')", False),
        ("skip()", False), ("skip('flaky')", False), ("skip('https://x.org/1')", True),
        ("skip(reason='')", False),
    ],
)  # fmt: skip
def test_one_word_is_no_reason(text: str, expected: bool) -> None:
    assert has_reason(text) is expected


def test_words_are_the_same_in_other_quotes_and_layouts() -> None:
    assert words_of("f( 'a b',12 )") == words_of('f("a b",\n   12)')
    assert words_of("'1, 2'")["2"] == 1
    assert telling(words_of("assert total(1) == 2")) == {"total", "1", "2"}


def test_the_body_of_a_test_has_neither_its_name_nor_comments() -> None:
    def case(name: str, text: str) -> Case:
        return Case(name, 1, text, Facts)

    one = case("T.test_a", "def test_a():\n    # why\n    assert f() == 1")
    other = case("test_b", "def test_b():\n    assert f()  == 1")
    assert one.body == other.body
