"""A question to a model whose answer is one JSON object: asked once more where it is not."""

from __future__ import annotations

import sys

from rlm_ci.environments.answer_formats import ValueAnswer
from rlm_ci.environments.conversation import Conversation
from rlm_ci.environments.turn_loop import NoTools, TurnLimits, TurnLoop
from rlm_ci.models.json_question import read_answer
from rlm_ci.resources import loader
from rlm_ci.text.printable import clip, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from rlm_ci.environments.tool_calls import ToolCall
    from rlm_ci.environments.turn_loop import Complete
    from rlm_ci.models import Completion, Message, ModelRequest
    from rlm_ci.models.json_question import Ask
    from rlm_ci.models.strict_json import Misfit

#: The shares of the bytes of a repair: of the answer, cut down, and of what was wrong.
_ANSWER, _WRONG = 2 / 3, 1 / 4
_LIMITS = TurnLimits(turns=2, repairs=1)
#: Why an answer is of no use, and what more there is to it where its limit is the cause.
UNREADABLE = "could not be read, twice"
_CUT_OFF = ": it was cut off at the limit of an answer (models.max_completion_tokens)"


class ObjectAnswer(ValueAnswer):
    """One JSON object with nothing wrong with it; if ``native``, after calls of tools.

    What asks for it once more has ``repair`` bytes with the answer.
    """

    def __init__(self, misfit: Misfit, repair: int, *, native: bool) -> None:
        super().__init__(self._object, native=native)
        self._misfit = misfit
        self._repair = repair
        #: Whether the last answer ended at its limit.
        self.is_cut_off = False

    def _object(self, completion: Completion) -> tuple[dict[str, Any] | None, str]:
        self.is_cut_off = completion.finish_reason == "length"
        value, wrong = read_answer(completion, self._misfit)
        if value is not None:
            return value, ""
        shown = wrong[: int(self._repair * _WRONG)].split("\n")
        render = loader.load_template("prompts/review-repair.md.j2")
        return None, render({"wrong": "\n".join(map(printable, shown))})


class _Shortened(Conversation):
    """A conversation in which an answer that is wrong has a part of ``repair`` bytes."""

    def __init__(self, repair: int) -> None:
        super().__init__(sys.maxsize)
        self._answer = int(repair * _ANSWER)

    def answer(
        self, text: str, calls: Sequence[ToolCall] = (), extra: Mapping[str, Any] | None = None
    ) -> None:
        shown = clip(text, self._answer)
        if shown != text:  # its parts have the whole
            extra = {name: value for name, value in (extra or {}).items() if name != "content"}
        super().answer(shown or "(nothing)", calls, extra)


def completing(ask: Ask, form: Message | None = None) -> Complete:
    """The completions of a loop that asks by ``ask``, with ``form`` as their response format."""

    def complete(request: ModelRequest, step: str) -> Completion:
        return ask(step, request.messages, response_format=form, tools=request.tools)

    return complete


def ask_object(  # noqa: PLR0917 - the question and its answer
    ask: Ask,
    step: str,
    prompt: str,
    misfit: Misfit,
    form: Message | None = None,
    before: Sequence[Message] = (),
) -> tuple[dict[str, Any] | None, str]:
    """The object that a model answers, or None and what its answer is: wrong, twice.

    ``form`` is its response format, ``before`` the conversation so far. Raises what ``ask`` raises.
    """
    history = _Shortened(ask.repair)
    for message in (*before, {"role": "user", "content": prompt}):
        history.prompt(message["content"], message["role"])
    answers = ObjectAnswer(misfit, ask.repair, native=False)
    loop = TurnLoop(
        completing(ask, form),
        NoTools(),
        model=ask.model,
        bounds=_LIMITS,
        answers=answers,
        place_of=lambda key, turn: key if turn == 1 else f"{key}-repair",
    )
    value: dict[str, Any] | None = loop.run(history, step).value
    why = _CUT_OFF if answers.is_cut_off else ""
    return value, "" if value is not None else f"{UNREADABLE}{why}"
