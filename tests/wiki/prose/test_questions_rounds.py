"""Questions in rounds: the same prompts whatever the threads, and none in vain."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from rlm_ci.errors import LimitError, RemoteError
from rlm_ci.models import PROMPT_TOO_LONG
from rlm_ci.wiki.prose.questions import asked_in_rounds
from testing.wiki_sentences import Scripted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from rlm_ci.models.json_question import Ask

    Reply = Callable[[str, int], Mapping[str, Any] | None]


class Rounds:
    """Windows that are numbers, each asked about by ``reply``; what came of each, by number."""

    def __init__(self, windows: Sequence[int], reply: Reply, concurrency: int = 4) -> None:
        self.ask = Scripted(lambda _step, _prompt: "")
        self.left, self.reply = list(windows), reply
        self.steps: dict[str, int] = {}
        self.lock = threading.Lock()
        self.outcomes: list[tuple[int, object]] = []
        answers = asked_in_rounds(
            self.ask, "tell", lambda: list(self.left), self._question, concurrency
        )
        for window, (answer, wrong, error) in answers:
            self.left.remove(window)
            self.outcomes.append((window, answer or error or wrong))

    def _question(self, _ask: Ask, step: str, window: int) -> tuple[Mapping[str, Any] | None, str]:
        with self.lock:
            self.steps[step] = window
        answer = self.reply(step, window)
        return answer, "" if answer else "nothing"


def said(_step: str, window: int) -> Mapping[str, Any]:
    return {"of": window}


@pytest.mark.parametrize("concurrency", [1, 3, 8])
def test_each_window_has_the_same_step_however_many_are_asked_at_once(concurrency: int) -> None:
    rounds = Rounds(range(20), said, concurrency)
    assert rounds.steps == {f"tell-{number + 1}": number for number in range(20)}
    assert rounds.outcomes == [(number, {"of": number}) for number in range(20)]


@pytest.mark.parametrize(
    "error", [RemoteError("the key was refused"), LimitError("spent", budget="calls")]
)
@pytest.mark.parametrize(("at", "asked"), [(0, 1), (4, 9), (12, 17)])
def test_behind_a_refusal_no_other_round_is_asked(error: Exception, at: int, asked: int) -> None:
    def refuses(step: str, window: int) -> Mapping[str, Any]:
        if window == at:
            raise error
        return said(step, window)

    rounds = Rounds(range(20), refuses)
    assert len(rounds.steps) == asked
    failed = [window for window, outcome in rounds.outcomes if outcome is error]
    assert failed == [at, *range(asked, 20)]  # each window that is left says why


def test_an_answer_of_no_use_stops_nothing() -> None:
    rounds = Rounds(range(12), lambda step, window: said(step, window) if window % 2 else None)
    assert [outcome for _, outcome in rounds.outcomes[::2]] == ["nothing"] * 6
    assert len(rounds.steps) == 12


def test_what_is_too_long_is_cut_again_until_it_cannot_be() -> None:
    def long(_step: str, _window: int) -> Mapping[str, Any]:
        if rounds_ask.max_bytes > 25_000:
            rounds_ask.max_bytes //= 2
            raise RemoteError(f"{PROMPT_TOO_LONG}: 9 tokens")
        return {"of": 1}

    rounds_ask = Scripted(lambda _step, _prompt: "")
    left, steps = [1], []

    def question(_ask: Ask, step: str, window: int) -> tuple[Mapping[str, Any] | None, str]:
        steps.append(step)
        return long(step, window), ""

    answers = asked_in_rounds(rounds_ask, "tell", lambda: list(left), question, 2)
    for window, (answer, _, error) in answers:
        assert (answer, error) == ({"of": 1}, None)
        left.remove(window)
    assert steps == ["tell-1", "tell-2", "tell-3"]
    # One that the endpoint refuses without becoming shorter is refused for good.
    refused = RemoteError(f"{PROMPT_TOO_LONG}: 9 tokens")

    def never(_ask: Ask, step: str, _window: int) -> tuple[Mapping[str, Any] | None, str]:
        steps.append(step)
        raise refused

    left.extend((1, 2))
    outcomes = []
    for window, answer in asked_in_rounds(rounds_ask, "ask", lambda: list(left), never, 2):
        outcomes.append(answer.error)
        left.remove(window)
    assert outcomes == [refused, refused]
    assert steps[3:] == ["ask-1"]
