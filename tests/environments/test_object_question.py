"""A question whose answer is one object: what is asked, and what is asked once more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.environments.object_question import ask_object
from rlm_ci.models import Completion
from rlm_ci.models.json_question import answer_form

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rlm_ci.models import Message

FORM = answer_form("wiki-support.schema.json")


class Scripted:
    """Answers ``texts`` in turn; a text that ends with an ellipsis is cut off."""

    model = "scripted"
    max_bytes, repair, is_taught = 10_000, 900, False

    def __init__(self, *texts: str, **more: Any) -> None:
        self.texts = list(texts)
        self.more = more
        self.asked: list[tuple[str, list[Message], Message | None]] = []

    def __call__(
        self,
        step: str,
        messages: Sequence[Message],
        *,
        response_format: Message | None = None,
        tools: Sequence[Message] = (),
    ) -> Completion:
        assert not tools
        self.asked.append((step, list(messages), response_format))
        text = self.texts.pop(0)
        reason = "length" if text.endswith("…") else "stop"
        return Completion(text, (), reason, "scripted").replace(**self.more)

    def calls_left(self) -> int | None:
        return None


def odd(found: Mapping[str, Any]) -> str:
    return "" if found.get("supported") else "supported is empty"


def put(ask: Scripted, **more: Any) -> dict[str, Any] | None:
    return ask_object(ask, "support-1", "Which?", odd, FORM, **more)[0]


def test_a_question_and_its_repair_have_the_schema_of_the_answer() -> None:
    ask = Scripted("no object", '{"supported": [1]}')
    assert put(ask) == {"supported": [1]}
    assert [(place, form) for place, _, form in ask.asked] == [
        ("support-1", FORM),
        ("support-1-repair", FORM),
    ]


def test_a_repair_begins_with_the_question_and_says_what_is_wrong() -> None:
    ask = Scripted('{"supported": []}', '{"supported": [1]}', extra={"signature": "s"})
    before = [{"role": "user", "content": "A?"}, {"role": "assistant", "content": "a"}]
    assert put(ask, before=before) == {"supported": [1]}
    (_, first, _), (_, second, _) = ask.asked
    question = {"role": "user", "content": "Which?"}
    assert first == [*before, question]
    answer = {"signature": "s", "role": "assistant", "content": '{"supported": []}'}
    assert second[:-1] == [*first, answer]
    assert "supported is empty" in second[-1]["content"]


def test_a_long_answer_has_a_part_of_what_a_repair_may_have() -> None:
    ask = Scripted("x" * 5_000, '{"supported": [1]}')
    assert put(ask)
    shown = ask.asked[1][1][1]["content"]
    assert shown.count("x") <= 600
    assert len(shown) < 700


UNREADABLE = "could not be read, twice"
CUT_OFF = f"{UNREADABLE}: it was cut off at the limit of an answer (models.max_completion_tokens)"


@pytest.mark.parametrize(
    ("texts", "why"),
    [
        (("{", "{"), UNREADABLE),
        (("{…", "{"), UNREADABLE),
        (("{", "{…"), CUT_OFF),
        (("{", '{"supported": [1]}'), ""),
    ],
)
def test_an_answer_that_its_limit_cut_off_says_so(texts: tuple[str, str], why: str) -> None:
    assert ask_object(Scripted(*texts), "support-1", "Which?", odd)[1] == why


def test_an_answer_that_was_cut_off_is_asked_for_in_less_words() -> None:
    ask = Scripted('{"supported": [1]} …', '{"supported": [1]}')
    assert put(ask)
    assert "the answer was cut off: write less" in ask.asked[1][1][-1]["content"]


def test_an_empty_answer_that_calls_a_tool_is_no_object() -> None:
    call = {"id": "c", "name": "read", "arguments": "{}"}
    ask = Scripted("", '{"supported": [1]}', tool_calls=(call,))
    assert put(ask) == {"supported": [1]}
    assert ask.asked[1][1][1] == {"role": "assistant", "content": "(nothing)"}


def test_what_is_wrong_twice_is_no_answer() -> None:
    ask = Scripted("no", "no", '{"supported": [1]}')
    assert put(ask) is None
    assert len(ask.asked) == 2
