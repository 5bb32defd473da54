"""Questions of one kind in rounds: the first alone, as it shows what a prompt costs, then several.

How many belong to a round does not depend on threads or settings, and what the endpoint teaches
counts from the next round on. So a resumed run, and a replay, make the same prompts.
"""

from __future__ import annotations

from functools import partial

from rlm_ci.errors import LimitError, RemoteError
from rlm_ci.models.context_length import is_too_long
from rlm_ci.models.gateway import ask_together
from rlm_ci.values import Row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any, TypeVar

    from rlm_ci.models.json_question import Ask

    W = TypeVar("W")
    #: From a way to a model and the name of the question to its answer, or what is wrong with it.
    Question = Callable[[Ask, str, W], tuple[Mapping[str, Any] | None, str]]

#: Questions of a round behind the first.
_ROUND = 8


class RoundAnswer(Row):
    """The answer about a window; else ``wrong`` says what it is, or ``error`` why there is none."""

    answer: Mapping[str, Any] | None = None
    wrong: str = ""
    error: LimitError | RemoteError | None = None


def asked_in_rounds(
    ask: Ask,
    step: str,
    cut: Callable[[], Sequence[W]],
    question: Question[W],
    concurrency: int,
) -> Iterator[tuple[W, RoundAnswer]]:
    """Each window with what came of it; ``concurrency`` questions are asked at once at most.

    ``cut`` gives the windows that are left, for prompts of the present size: one that came has been
    taken from them. A window whose prompt was too long for the endpoint is cut and asked again.
    Who has refused, or is spent, is not asked in another round.
    """
    number, size, failure = 0, 1, None
    while windows := cut():
        batch = windows[:size]
        if failure is not None:
            yield from ((window, RoundAnswer(error=failure)) for window in windows)
            return
        before = ask.max_bytes
        tasks = [
            partial(_answered, question, f"{step}-{number + at}", window)
            for at, window in enumerate(batch, 1)
        ]
        answers = ask_together(ask, tasks, concurrency)
        number, size = number + len(batch), _ROUND
        for window, answer in zip(batch, answers, strict=True):
            error = answer.error if answer is not None else None
            if answer is None or (error and is_too_long(error) and ask.max_bytes < before):
                continue
            failure = failure or error
            yield window, answer


def _answered(question: Question[W], step: str, window: W, ask: Ask) -> RoundAnswer:
    try:
        answer, wrong = question(ask, step, window)
    except (LimitError, RemoteError) as error:
        return RoundAnswer(error=error)
    return RoundAnswer(answer, wrong)
