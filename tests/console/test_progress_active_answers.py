"""How much there is of answers that are being written, and how fast it comes."""

from __future__ import annotations

from rlm_ci.console.progress import ActiveAnswers


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_words_are_counted_over_the_borders_of_tokens() -> None:
    answer = ActiveAnswers().begin(None)
    for number, piece in enumerate(["The te", "st is", " wrong", ":\n", "", "\n« é", " »"], 1):
        answer.add(piece, number)
    assert (answer.words, answer.tokens) == (7, 7)


def test_what_is_shown_of_one_answer_and_of_several() -> None:
    clock = Clock()
    answers = ActiveAnswers(clock)
    first, second = answers.begin(None), answers.begin(30)
    assert answers.shown() == "", "nothing has come yet"
    first.add("two words", 3)
    clock.now += 4
    assert answers.shown() == "3 tokens so far, 0.5 words a second"
    second.add("one", 1)
    first.add(" and six more of them now", 1_010)
    assert answers.shown() == "2 answers: 1,011 tokens so far, 3.0 words a second"
    clock.now += 11
    assert answers.shown() == "2 answers: 1,011 tokens so far, none for 11s"
    assert (first.flowed(), second.flowed(), second.limit) == (4, 0, 30)
    for answer in (first, second):
        answers.end(answer)
    assert answers.shown() == ""
