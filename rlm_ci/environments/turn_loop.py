"""The turn loop: a model asks for tools, an environment answers, until the model is done.

The same completions lead to the same requests, byte for byte: no clock, no random id, nothing of
this process is in a message. So a run that was killed finds its answers again.
"""

from __future__ import annotations

import json

from rlm_ci.environments import tool_calls
from rlm_ci.models import ModelRequest
from rlm_ci.text.printable import count, printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Protocol

    from rlm_ci.environments.conversation import Conversation
    from rlm_ci.models import Completion

    #: ``complete(request, place)``: the answer, journalled and paid for. Raises LimitError.
    Complete = Callable[[ModelRequest, str], Completion]

    class Environment(Protocol):
        """How a model may act."""

        def tools(self) -> tuple[dict[str, Any], ...]:
            """Its tools, each as OpenAI describes a function; the same at every call."""

        def act(self, name: str, arguments: Mapping[str, Any]) -> Observation:
            """Carry out one call whose arguments fit the tool's schema."""


class Observation(Value):
    """The result of a call; ``final`` ends the loop, ``blocked`` by giving up."""

    text: str
    final: bool = False
    blocked: bool = False


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

    ``blocked``: it said that the goal cannot be reached.
    """

    text: str
    reason: str
    turns: int
    blocked: bool = False


#: Tokens of an answer that is of use.
MIN_TOKENS = 256
#: Calls of one answer that are carried out.
CALLS_LIMIT = 32
#: Bytes of a call's arguments that are looked at.
ARGUMENTS_LIMIT = 2 << 20


class TurnLoop:
    """One model in one environment. ``textual``: calls are JSON in the text of an answer."""

    def __init__(
        self,
        complete: Complete,
        environment: Environment,
        *,
        model: str,
        bounds: TurnLimits,
        textual: bool,
        on_call: Callable[[int, str, Mapping[str, Any]], None],
    ) -> None:
        self._complete = complete
        self._environment = environment
        self._tools = environment.tools()
        functions = [one["function"] for one in self._tools]
        self._checks = {one["name"]: tool_calls.checker(one["parameters"]) for one in functions}
        self._model = model
        self._bounds = bounds
        self._cap = min(bounds.usual_tokens, bounds.max_tokens)
        self._textual = textual
        self._on_call = on_call

    def request(self, history: Conversation) -> ModelRequest:
        """The next request to the model."""
        return ModelRequest(
            model=self._model,
            messages=history.messages(),
            tools=() if self._textual else self._tools,
            max_tokens=self._cap,
            min_tokens=MIN_TOKENS,
        )

    def run(self, history: Conversation, place: str) -> LoopEnd:
        """Continue ``history``, which ends with a prompt.

        ``place`` makes each request's place unique. Raises what ``complete`` raises.
        """
        mistakes = 0
        for turn in range(1, self._bounds.turns + 1):
            completion = self._complete(self.request(history), f"{place}/turn-{turn}")
            calls = self._calls(completion, turn)
            if completion.finish_reason == "length":
                self._cap = self._bounds.max_tokens
            history.answer(completion.text, () if self._textual else calls)
            understood, wrong, done = False, "", None
            for call in calls:
                if done is not None:  # a call without its result would end the conversation
                    self._tell(history, call, "Not carried out: you were done.")
                    continue
                observation, error = self._carry_out(turn, call)
                if observation is None:
                    wrong = wrong or error
                    self._tell(history, call, error)
                    continue
                understood = True
                done = observation if observation.final else None
                self._tell(history, call, "Done." if done is not None else observation.text)
            if done is not None:
                return LoopEnd(done.text, "", turn, done.blocked)
            if not calls:
                wrong = self._nothing_called(completion)
                history.correct(wrong)
            mistakes = 0 if understood else mistakes + 1
            if mistakes > self._bounds.mistakes:
                reason = f"the model did not keep to its tools: {printable(wrong[:300])}"
                return LoopEnd(completion.text, reason, turn)
        reason = f"not done after {count(self._bounds.turns, 'turn')}"
        return LoopEnd("", reason, self._bounds.turns)

    def _tell(self, history: Conversation, call: tool_calls.ToolCall, text: str) -> None:
        if self._textual:
            history.say_result(call.name, text)
        else:
            history.result(call, text)

    def _calls(self, completion: Completion, turn: int) -> list[tool_calls.ToolCall]:
        if self._textual:
            return tool_calls.from_text(completion.text, turn)
        return tool_calls.from_tools(completion.tool_calls, turn)

    def _nothing_called(self, completion: Completion) -> str:
        wrong = "Your answer called no tool. "
        if self._textual:
            wrong = 'Your answer had no JSON object with "tool" and "arguments". '
        if completion.finish_reason == "length":
            wrong += "It was cut off: be shorter. "
        return f"{wrong}Call one of: {', '.join(self._checks)}."

    def _carry_out(self, turn: int, call: tool_calls.ToolCall) -> tuple[Observation | None, str]:
        """The result of a call, or what is wrong with it."""
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
        self._on_call(turn, call.name, arguments)
        return self._environment.act(call.name, arguments), ""


def _number(text: str) -> float:
    """``1.0`` is an integer to JSON Schema, and so to the tools."""
    value = float(text)
    return int(value) if value.is_integer() else value
