"""The turn loop: a model asks for tools, an environment answers, until the model is done.

The same completions lead to the same requests, byte for byte: no clock, no random id, nothing of
this process is in a message. So a run that was killed finds its answers again.

Whether an endpoint takes tools is asked with the first question that has some.
"""

from __future__ import annotations

import json
import re
from contextlib import nullcontext

from rlm_ci.environments import tool_calls
from rlm_ci.environments.conversation import shortened, size_of
from rlm_ci.environments.rewards import MISSING_ARGUMENT, UNSUPPORTED_ACTION
from rlm_ci.errors import RemoteError
from rlm_ci.models import ModelRequest, SpentError
from rlm_ci.runs.journal import spans
from rlm_ci.text.printable import count, printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from typing import Any, Protocol

    from rlm_ci.environments.answer_formats import AnswerFormat
    from rlm_ci.environments.conversation import Memory
    from rlm_ci.environments.tool_calls import ToolCall
    from rlm_ci.models import Completion
    from rlm_ci.models.context_length import ContextFit
    from rlm_ci.runs import Fact

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


#: A refusal that names tools, and one of these, means that there are none.
_OF_TOOLS = re.compile(r"(?<![a-z])tools?(?![a-z])|function[ _-]call")
_LACKING = (
    "support", "enable", "allow", "permitted", "unknown", "unexpected", "unrecognized", "extra",
)  # fmt: skip


def takes_tools(fact: Fact, step: str, model: str, ask: Callable[[], object]) -> bool:
    """Whether the endpoint of ``model`` takes tools: a fact of the run.

    ``ask`` puts the first question, with its tools. Raises what it raises, but for a refusal of
    them.
    """

    def produce() -> Mapping[str, Any]:
        try:
            ask()
        except RemoteError as error:
            if not _refuses_tools(error, model):
                raise
            return {"takes_tools": False, "said": printable(error.what[:500])}
        return {"takes_tools": True}

    return bool(fact("tools", step, {"model": model}, produce)["takes_tools"])


def _refuses_tools(error: RemoteError, model: str) -> bool:
    """Whether the endpoint says that it knows no tools."""
    if isinstance(error, SpentError):  # it was at work: that is no refusal
        return False
    text = _without_name(error.what.casefold(), model.casefold())
    return bool(_OF_TOOLS.search(text)) and any(word in text for word in _LACKING)


def _without_name(text: str, model: str) -> str:
    """What an endpoint says apart from the model's name, which may speak of tools itself."""
    if not model:
        return text
    before = r"(?<=\bmodel )" if model.isalpha() else r"(?<![\w.-])"
    quote = "[`'\"]?" if model.isalpha() else ""
    return re.sub(rf"{before}{quote}{re.escape(model)}(?![\w-])", " ", text)


class NoTools:
    """An environment of a model that only answers."""

    def tools(self) -> tuple[dict[str, Any], ...]:
        return ()

    def act(self, name: str, arguments: Mapping[str, Any]) -> Observation:
        raise AssertionError(f"{name} was called with {arguments}")


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
    cut off. ``repairs`` are the answers that may lack what they are asked for; None: each of them
    is a mistake.
    """

    turns: int = 60
    mistakes: int = 3
    max_tokens: int = 8192
    usual_tokens: int = 4096
    repairs: int | None = None


class LoopEnd(Value):
    """The end of a loop: ``reason`` is empty if the model said that it was done.

    ``blocked``: it said that the goal cannot be reached. ``exhausted``: its turns were over.
    ``strayed``: it made too many mistakes. ``value`` is what its last answer was read as.
    """

    text: str
    reason: str
    turns: int
    blocked: bool = False
    exhausted: bool = False
    strayed: bool = False
    value: Any = None


class Limits:
    """The limits of one loop by ``bounds``; override what is limited in another way."""

    def __init__(self, bounds: TurnLimits) -> None:
        self.bounds = bounds

    def cap(self, fit: ContextFit | None, *, is_cut_off: bool) -> int:
        """The tokens that an answer may have: more after one that was cut off."""
        bounds = self.bounds
        if is_cut_off:
            return bounds.max_tokens if fit is None else fit.longest(bounds.max_tokens)
        usual = bounds.usual_tokens if fit is None else fit.answer(bounds.usual_tokens)
        return min(usual, bounds.max_tokens)

    def may_repair(self, number: int) -> bool:
        """Whether the model is asked again after its ``number``-th answer that lacks something."""
        return self.bounds.repairs is not None and number <= self.bounds.repairs

    def is_shorter(self, request: ModelRequest, refused: ModelRequest) -> bool:
        """Whether ``request`` may be sent after one that was ``refused`` for its length."""
        return request.prompt_bytes() < refused.prompt_bytes()

    def span(self, turn: int, name: str, *, has_tools: bool) -> AbstractContextManager[object]:
        """The step of a turn; a model that only answers has none."""
        if not has_tools:
            return nullcontext()
        return spans.span("turn", f"turn {turn}", key=name)

    def before(self) -> None:
        """Called before each request."""

    def answered(self) -> None:
        """Called when an answer is in the memory, before it is acted on."""

    def end(self, calls: Sequence[ToolCall]) -> str:  # noqa: ARG002 - for others
        """Why the loop ends instead of carrying out ``calls``; "" if it goes on."""
        return ""

    def refusal(self, call: ToolCall) -> str:  # noqa: ARG002 - for others
        """What the model is told instead of carrying out ``call``; "" if it is carried out.

        Called once for each call.
        """
        return ""

    def footer(self, turn: int) -> str:  # noqa: ARG002 - for others
        """What the model is told below the last result of ``turn``; "" for nothing."""
        return ""


#: Calls of one answer that are carried out.
CALLS_LIMIT = 32
#: The arguments that say what a call is about, and characters of them in its title.
_ABOUT = ("path", "command", "pattern", "query", "name", "summary", "reason", "code")
_TITLE = 120
_LINE_END = "\n"
#: Bytes of a call's arguments that are looked at.
ARGUMENTS_LIMIT = 2 << 20


class Actions:
    """Carries out the calls of a model in one environment, and tells a watcher of each."""

    def __init__(self, environment: Environment, watcher: LoopWatcher | None = None) -> None:
        self.tools = environment.tools()
        self.schemas = tool_calls.schemas_of(self.tools)
        self._checks = {name: tool_calls.checker(schema) for name, schema in self.schemas.items()}
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
        with spans.span("tool", _title(call.name, arguments or {})) as step:
            if arguments is None:
                reward = MISSING_ARGUMENT if call.name in self._checks else UNSUPPORTED_ACTION
                observation = Observation(error, reward=reward, failed=True)
            else:
                self._watcher.before(action)
                observation = self._environment.act(call.name, arguments)
            step.outcome = spans.FAILED if observation.failed else spans.DONE
            step.details |= {
                "tool": printable(call.name[:100]),
                "arguments": _in_lines(arguments) if arguments else call.arguments,
                "result": observation.text,
            }
            if call.origin == tool_calls.IN_TEXT:
                step.details["call"] = "read out of the text of the answer"
            self._watcher.after(action, observation)
        return observation, arguments is not None

    def checked(self, call: ToolCall) -> tuple[dict[str, Any] | None, str]:
        """The arguments of a call; None with what is wrong with it."""
        check = self._checks.get(call.name)
        if check is None:
            names = ", ".join(self._checks)
            name = printable(call.name[:100])
            return None, f"Error: there is no tool '{name}'; call one of: {names}."
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


def turn_place(step: str, turn: int) -> str:
    """The place of a turn's request in the record."""
    return f"{step}/turn-{turn}"


class TurnLoop:
    """One model in one environment; ``answers`` reads its calls, or what it is asked for.

    With ``takes_words``, an answer in plain words, without a call, ends the loop as its result.
    """

    def __init__(
        self,
        complete: Complete,
        environment: Environment,
        *,
        model: str,
        bounds: TurnLimits | Limits,
        answers: AnswerFormat,
        watcher: LoopWatcher | None = None,
        translate: Translate | None = None,
        takes_words: bool = False,
        fit: ContextFit | None = None,
        place_of: Callable[[str, int], str] = turn_place,
    ) -> None:
        """``fit``: what the model reads; None for any length."""
        self._complete = complete
        self._takes_words = takes_words
        self._watcher = watcher or LoopWatcher()
        self.actions = Actions(environment, self._watcher)
        self._model = model
        self._limits = bounds if isinstance(bounds, Limits) else Limits(bounds)
        self._bounds = self._limits.bounds
        self._answers = answers
        self._translate = translate
        self._fit = fit
        self._place_of = place_of
        self._is_cut_off = False
        self._mistakes = self._repairs = 0
        self._first: Completion | None = None
        #: Answers so far.
        self.turn = 0

    def takes_tools(self, fact: Fact, at: str, memory: Memory, step: str) -> bool:
        """Whether the endpoint takes tools: asked with the first request, whose answer is kept.

        ``at`` is the place of the fact. Raises what ``complete`` raises, but for a refusal.
        """

        def ask() -> None:
            with self._span(step, 1):  # the turn opens it again
                self._first = self._request(memory, self._place_of(step, 1), self._tools())

        return takes_tools(fact, at, self._model, ask)

    def run(self, memory: Memory, step: str) -> LoopEnd:
        """Continue ``memory``, which ends with a prompt.

        ``step`` makes each request's place unique. Raises what ``complete`` raises.
        """
        end = None
        while end is None:
            end = self.exhausted()
            if end is None:
                with self._span(step, self.turn + 1):
                    end = self._turn(memory, step)
        return end

    def _span(self, step: str, turn: int) -> AbstractContextManager[object]:
        name = self._place_of(step, turn).rpartition("/")[2]
        return self._limits.span(turn, name, has_tools=bool(self.actions.tools))

    # ── one turn; a framework that has its own loop takes these ──

    def exhausted(self) -> LoopEnd | None:
        """The end, if all turns are over."""
        if self.turn < self._bounds.turns:
            return None
        reason = f"not done after {count(self._bounds.turns, 'turn')}"
        return LoopEnd("", reason, self.turn, exhausted=True)

    def ask(
        self, memory: Memory, step: str, tools: tuple[dict[str, Any], ...] | None = None
    ) -> Completion:
        """The answer of the next turn; a request that is too long for the model is made shorter.

        ``tools``: None for those that the format of answers has. Raises what ``complete`` raises.
        """
        self._limits.before()
        self.turn += 1
        tools = self._tools() if tools is None else tools
        completion, self._first = self._first, None
        if completion is None:
            completion = self._request(memory, self._place_of(step, self.turn), tools)
        self._is_cut_off = self._is_cut_off or completion.finish_reason == "length"
        return completion

    def calls(self, completion: Completion, turn: int) -> list[ToolCall]:
        """The calls of an answer, as its format has them."""
        if self._answers.native:
            return tool_calls.of_completion(completion, turn, self.actions.schemas)
        return self._answers.calls(completion, turn)

    def clip(self, text: str) -> str:
        """A result, without its middle where it takes too much of what the model reads."""
        return text if self._fit is None else self._fit.clip(text)

    def counted(self, wrong: str, *, is_sound: bool, text: str = "") -> LoopEnd | None:
        """Count a turn, or its mistake, which is ``wrong``; the end after too many in a row."""
        self._mistakes = 0 if is_sound else self._mistakes + 1
        if self._mistakes <= self._bounds.mistakes:
            return None
        reason = f"the model did not keep to its tools: {printable(wrong[:300])}"
        return LoopEnd(text, reason, self.turn, strayed=True)

    # ──

    def _tools(self) -> tuple[dict[str, Any], ...]:
        return self.actions.tools if self._answers.native else ()

    def _request(self, memory: Memory, step: str, tools: tuple[dict[str, Any], ...]) -> Completion:
        def compose() -> ModelRequest:
            cap = self._limits.cap(self._fit, is_cut_off=self._is_cut_off)
            room = None if self._fit is None else self._fit.room(cap) - size_of(tools)
            return ModelRequest(self._model, memory.messages(room), cap, tools)

        return fitted(self._complete, compose, step, self._fit, self._limits)

    def _turn(self, memory: Memory, step: str) -> LoopEnd | None:
        """Ask, and act on the answer; the end, if this was the last turn."""
        completion = self.ask(memory, step)
        calls = self.calls(completion, self.turn)
        memory.answer(completion.text, calls if self._answers.native else (), completion.extra)
        self._limits.answered()
        reason = self._limits.end(calls) if calls else ""
        end: LoopEnd | None
        if reason:
            end = LoopEnd(completion.text, reason, self.turn)
        elif calls:
            end = self._act_on(memory, completion, calls)
        else:
            end = self._read(memory, completion)
        self._watcher.answered(self.turn, completion)
        return end

    def _read(self, memory: Memory, completion: Completion) -> LoopEnd | None:
        """The end by an answer without a call; None where the model is asked for what it lacks."""
        if self._takes_words and self._is_plain(completion):
            return LoopEnd(completion.text, "", self.turn)
        value, wrong = self._answers.result(completion, self.actions.names)
        if value is not None:
            return LoopEnd(completion.text, "", self.turn, value=value)
        if self._bounds.repairs is not None:
            self._repairs += 1
            if not self._limits.may_repair(self._repairs):
                return LoopEnd(completion.text, wrong, self.turn)
        memory.correct(wrong)
        if self._bounds.repairs is not None:
            return None
        return self.counted(wrong, is_sound=False, text=completion.text)

    @staticmethod
    def _is_plain(completion: Completion) -> bool:
        return completion.finish_reason != "length" and tool_calls.is_plain(completion.text)

    def _act_on(
        self, memory: Memory, completion: Completion, calls: list[ToolCall]
    ) -> LoopEnd | None:
        """Carry out the calls of an answer; the end, where one of them ends the loop."""
        if self._translate is not None:
            calls = list(map(self._translate, calls))
        understood, all_well, wrong = False, True, ""
        done: Observation | None = None
        for call in calls:
            if done is not None:  # a call without its result would end the conversation
                text = "Not carried out: you were done."
            elif call.if_all_well and not all_well:
                text = "Not carried out: what came before it failed."
            elif text := self._limits.refusal(call):
                understood = understood or self.actions.checked(call)[0] is not None
            else:
                observation, is_sound = self.actions.carry_out(call, self.turn, completion)
                understood = understood or is_sound
                wrong = wrong or ("" if is_sound else observation.text)
                all_well = all_well and not observation.failed
                done = observation if observation.final else None
                text = self.clip("Done." if done is not None else observation.text)
            if call is calls[-1] and (footer := self._limits.footer(self.turn)):
                text += f"\n[{footer}]"
            self._answers.tell(memory, call, text)
        if done is not None:
            return LoopEnd(done.text, "", self.turn, done.blocked)
        return self.counted(wrong, is_sound=understood, text=completion.text)


def fitted(
    complete: Complete,
    compose: Callable[[], ModelRequest],
    step: str,
    fit: ContextFit | None,
    limits: Limits,
) -> Completion:
    """The answer to what ``compose`` makes: anew and shorter while it is refused as too long.

    Raises what ``complete`` raises.
    """
    request = compose()
    while True:
        try:
            completion = complete(request, step)
        except RemoteError as error:
            if fit is None or not fit.shrinks(request, error):
                raise
            shorter = compose()
            if not limits.is_shorter(shorter, request):  # there is nothing to leave out
                raise
            request = shorter
            continue
        if fit is not None:
            fit.learn(request.prompt_bytes(), completion.usage)
        return completion


def ask_shortened(
    complete: Complete, request: ModelRequest, step: str, fit: ContextFit | None
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

    return fitted(complete, composed, step, fit, Limits(TurnLimits()))


def _title(name: str, arguments: Mapping[str, Any]) -> str:
    """A call in a line: its tool, and what it is about."""
    about = next((value for key in _ABOUT if isinstance(value := arguments.get(key), str)), "")
    return printable(f"{name} {about.strip().partition(_LINE_END)[0][:_TITLE]}".strip())


def _in_lines(arguments: Mapping[str, Any]) -> str:
    lines = (
        f"{name}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        for name, value in arguments.items()
    )
    return _LINE_END.join(lines)


def _number(text: str) -> float:
    """``1.0`` is an integer to JSON Schema, and so to the tools."""
    value = float(text)
    return int(value) if value.is_integer() else value
