"""The turn loop: a model asks for tools, an environment answers, until the model is done.

The same completions lead to the same requests, byte for byte: no clock, no random id, nothing of
this process is in a message. So a run that was killed finds its answers again.
"""

from __future__ import annotations

import json

from rlm_ci.environments import tool_calls, written_calls
from rlm_ci.environments.conversation import shortened, size_of
from rlm_ci.environments.rewards import MISSING_ARGUMENT, UNSUPPORTED_ACTION
from rlm_ci.errors import RemoteError
from rlm_ci.models import ModelRequest
from rlm_ci.text.printable import count, printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Protocol

    from rlm_ci.environments.answer_formats import AnswerFormat
    from rlm_ci.environments.conversation import Conversation
    from rlm_ci.environments.tool_calls import ToolCall
    from rlm_ci.models import Completion
    from rlm_ci.models.context_length import ContextFit

    #: ``complete(request, place)``: the answer, journalled and paid for. Raises LimitError.
    Complete = Callable[[ModelRequest, str], Completion]

    class Environment(Protocol):
        """How a model may act."""

        def tools(self) -> tuple[dict[str, Any], ...]:
            """Its tools, each as OpenAI describes a function; the same at every call."""

        def act(self, name: str, arguments: Mapping[str, Any]) -> Observation:
            """Carry out one call whose arguments fit the tool's schema."""

    #: A call by the names that the environment has.
    Translate = Callable[[ToolCall], ToolCall]


class Observation(Value):
    """The result of a call; ``final`` ends the loop, ``blocked`` by giving up.

    ``reward`` is before the global scale; ``failed``: it did not do what it was for. ``details``
    are figures for the trajectory, as JSON has them.
    """

    text: str
    final: bool = False
    blocked: bool = False
    reward: float = 0.0
    failed: bool = False
    details: Mapping[str, Any] = {}


class LoopAction(Value):
    """A call in a loop: of the answer ``completion``, in turn ``turn``; the ``number``-th of all.

    ``arguments`` are None where the call has a mistake. ``origin`` is that of the call.
    """

    number: int
    turn: int
    name: str
    arguments: Mapping[str, Any] | None
    completion: Completion
    origin: str = ""


class LoopWatcher:
    """What a loop tells of its actions; override what you want to know."""

    def before(self, action: LoopAction) -> None:
        """Called before an action is carried out."""

    def after(self, action: LoopAction, observation: Observation) -> None:
        """Called with its result; a call with a mistake comes here at once, ``failed``."""

    def answered(self, turn: int, completion: Completion) -> None:
        """Called after the actions of an answer."""


class TurnLimits(Value):
    """Limits of a loop: answers, mistakes in a row, tokens of an answer.

    An answer gets ``usual_tokens``, or what a budget leaves, and ``max_tokens`` after one that was
    cut off.
    """

    turns: int = 60
    mistakes: int = 3
    max_tokens: int = 8192
    usual_tokens: int = 4096


class LoopEnd(Value):
    """The end of a loop: ``reason`` is empty if the model said that it was done.

    ``blocked``: it said that the goal cannot be reached. ``exhausted``: its turns were over.
    """

    text: str
    reason: str
    turns: int
    blocked: bool = False
    exhausted: bool = False


#: Calls of one answer that are carried out.
CALLS_LIMIT = 32
#: Bytes of a call's arguments that are looked at.
ARGUMENTS_LIMIT = 2 << 20


class Actions:
    """Carries out the calls of a model in one environment, and tells a watcher of each."""

    def __init__(self, environment: Environment, watcher: LoopWatcher | None = None) -> None:
        self.tools = environment.tools()
        self.schemas = tool_calls.schemas_of(self.tools)
        self._checks = {name: tool_calls.checker(one) for name, one in self.schemas.items()}
        self._environment = environment
        self._watcher = watcher or LoopWatcher()
        self._number = 0

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._checks)

    def carry_out(
        self, call: ToolCall, turn: int, completion: Completion
    ) -> tuple[Observation, bool]:
        """The result of a call, and whether it was a sound one."""
        arguments, error = self.checked(call)
        self._number += 1
        action = LoopAction(self._number, turn, call.name, arguments, completion, call.origin)
        if arguments is None:
            reward = MISSING_ARGUMENT if call.name in self._checks else UNSUPPORTED_ACTION
            observation = Observation(error, reward=reward, failed=True)
        else:
            self._watcher.before(action)
            observation = self._environment.act(call.name, arguments)
        self._watcher.after(action, observation)
        return observation, arguments is not None

    def checked(self, call: ToolCall) -> tuple[dict[str, Any] | None, str]:
        """The arguments of a call; None with what is wrong with it."""
        check = self._checks.get(call.name)
        if check is None:
            known = ", ".join(self._checks)
            name = printable(call.name[:100])
            return None, f"Error: there is no tool '{name}'; call one of: {known}."
        if call.index >= CALLS_LIMIT:
            return None, f"Error: not carried out: an answer may have {CALLS_LIMIT} calls."
        if len(call.arguments) > ARGUMENTS_LIMIT:
            return None, f"Error: the arguments have more than {ARGUMENTS_LIMIT:,} characters."
        try:
            arguments = json.loads(call.arguments or "{}", parse_float=_number)
        except (ValueError, RecursionError) as error:
            return None, f"Error: the arguments are not JSON ({error}); was the answer cut off?"
        if wrong := check(arguments):
            return None, f"Error: {call.name}: {wrong}"
        return arguments, ""


class TurnLoop:
    """One model in one environment; ``answers`` reads its calls.

    With ``takes_words``, an answer in plain words, without a call, ends the loop as its result.
    """

    def __init__(
        self,
        complete: Complete,
        environment: Environment,
        *,
        model: str,
        bounds: TurnLimits,
        answers: AnswerFormat,
        watcher: LoopWatcher | None = None,
        translate: Translate | None = None,
        takes_words: bool = False,
        fit: ContextFit | None = None,
    ) -> None:
        """``fit``: what the model reads; None for any length."""
        self._complete = complete
        self._takes_words = takes_words
        self._watcher = watcher or LoopWatcher()
        self._actions = Actions(environment, self._watcher)
        self._model = model
        self._bounds = bounds
        self._answers = answers
        self._translate = translate
        self._fit = fit
        self._is_cut_off = False

    def request(self, history: Conversation) -> ModelRequest:
        """The next request to the model, with as much of ``history`` as it reads."""
        tools = self._actions.tools if self._answers.native else ()
        cap = answer_cap(self._bounds, self._fit, is_cut_off=self._is_cut_off)
        room = None if self._fit is None else self._fit.room(cap) - size_of(tools)
        return ModelRequest(self._model, history.messages(room), cap, tools)

    def ask(self, history: Conversation, place: str) -> Completion:
        """The answer to the next request; one that is too long for the model is made shorter.

        Raises what ``complete`` raises.
        """
        return fitted(self._complete, lambda: self.request(history), place, self._fit)

    def run(self, history: Conversation, place: str) -> LoopEnd:
        """Continue ``history``, which ends with a prompt.

        ``place`` makes each request's place unique. Raises what ``complete`` raises.
        """
        mistakes = 0
        for turn in range(1, self._bounds.turns + 1):
            completion = self.ask(history, f"{place}/turn-{turn}")
            calls = self.calls(completion, turn)
            self._is_cut_off = self._is_cut_off or completion.finish_reason == "length"
            history.answer(completion.text, calls if self._answers.native else (), completion.extra)
            if self._translate is not None:
                calls = list(map(self._translate, calls))
            understood, wrong, done = self._act_on(history, completion, calls, turn)
            if not calls and self._is_result(completion):
                self._watcher.answered(turn, completion)
                return LoopEnd(completion.text, "", turn)
            if not calls:
                wrong = self._nothing_called(completion)
                history.correct(wrong)
            self._watcher.answered(turn, completion)
            if done is not None:
                return LoopEnd(done.text, "", turn, done.blocked)
            mistakes = 0 if understood else mistakes + 1
            if mistakes > self._bounds.mistakes:
                reason = f"the model did not keep to its tools: {printable(wrong[:300])}"
                return LoopEnd(completion.text, reason, turn)
        reason = f"not done after {count(self._bounds.turns, 'turn')}"
        return LoopEnd("", reason, self._bounds.turns, exhausted=True)

    def _act_on(
        self, history: Conversation, completion: Completion, calls: list[ToolCall], turn: int
    ) -> tuple[bool, str, Observation | None]:
        """Carry out the calls of an answer: was one understood, the first mistake, the end."""
        understood, all_well, wrong = False, True, ""
        done: Observation | None = None
        for call in calls:
            if done is not None:  # a call without its result would end the conversation
                self._answers.tell(history, call, "Not carried out: you were done.")
                continue
            if call.if_all_well and not all_well:
                self._answers.tell(history, call, "Not carried out: what came before it failed.")
                continue
            observation, is_sound = self._actions.carry_out(call, turn, completion)
            understood = understood or is_sound
            wrong = wrong or ("" if is_sound else observation.text)
            all_well = all_well and not observation.failed
            done = observation if observation.final else None
            text = "Done." if done is not None else observation.text
            self._answers.tell(history, call, text if self._fit is None else self._fit.clip(text))
        return understood, wrong, done

    def calls(self, completion: Completion, turn: int) -> list[ToolCall]:
        """The calls of an answer, as its format has them."""
        if self._answers.native:
            return tool_calls.of_completion(completion, turn, self._actions.schemas)
        return self._answers.calls(completion, turn)

    def checked(self, call: ToolCall) -> tuple[dict[str, Any] | None, str]:
        """See ``Actions.checked``."""
        return self._actions.checked(call)

    def _is_result(self, completion: Completion) -> bool:
        is_whole = completion.finish_reason != "length"
        return self._takes_words and is_whole and written_calls.is_plain(completion.text)

    def _nothing_called(self, completion: Completion) -> str:
        wrong, remedy = self._answers.missing(self._actions.names)
        cut_off = completion.finish_reason == "length"
        return f"{wrong} {'It was cut off: be shorter. ' if cut_off else ''}{remedy}"


def answer_cap(bounds: TurnLimits, fit: ContextFit | None, *, is_cut_off: bool) -> int:
    """The tokens that an answer may have: more after one that was cut off."""
    if is_cut_off:
        return bounds.max_tokens if fit is None else fit.longest(bounds.max_tokens)
    usual = bounds.usual_tokens if fit is None else fit.answer(bounds.usual_tokens)
    return min(usual, bounds.max_tokens)


def fitted(
    complete: Complete, compose: Callable[[], ModelRequest], place: str, fit: ContextFit | None
) -> Completion:
    """The answer to what ``compose`` makes: anew and shorter while it is refused as too long.

    Raises what ``complete`` raises.
    """
    request = compose()
    while True:
        try:
            completion = complete(request, place)
        except RemoteError as error:
            if fit is None or not fit.shrinks(request, error):
                raise
            shorter = compose()
            if shorter.prompt_bytes() >= request.prompt_bytes():  # there is nothing to leave out
                raise
            request = shorter
            continue
        if fit is not None:
            fit.learn(request.prompt_bytes(), completion.usage)
        return completion


def ask_shortened(
    complete: Complete, request: ModelRequest, place: str, fit: ContextFit | None
) -> Completion:
    """The answer to ``request``, whose long texts lose their middle where the model reads less.

    Raises what ``complete`` raises.
    """

    def composed() -> ModelRequest:
        if fit is None:
            return request
        cap = fit.longest(request.max_tokens)
        room = fit.room(cap) - size_of(request.tools)
        return request.replace(messages=shortened(request.messages, room), max_tokens=cap)

    return fitted(complete, composed, place, fit)


def _number(text: str) -> float:
    """``1.0`` is an integer to JSON Schema, and so to the tools."""
    value = float(text)
    return int(value) if value.is_integer() else value
