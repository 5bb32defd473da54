"""The words of a form are told from what was filled in, whatever its case and punctuation."""

from __future__ import annotations

import pytest

from rlm_ci.text.placeholders import repeats

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
