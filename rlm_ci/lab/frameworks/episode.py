"""An episode in which a framework has the loop, and we have the model and the environment.

The framework asks our model, so each call is in the ledger and in the record, and it calls the
tools of our environment, so each action is checked, watched and rewarded as anywhere else.
"""

from __future__ import annotations

import json

from rlm_ci.environments.answer_formats import JsonCalls, NativeCalls
from rlm_ci.environments.conversation import Memory, shortened, with_members
from rlm_ci.environments.tool_calls import ToolCall
from rlm_ci.environments.turn_loop import LoopEnd, LoopWatcher, TurnLoop
from rlm_ci.text.printable import encodable, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, NoReturn

    from rlm_ci.environments.turn_loop import Complete, Environment, TurnLimits
    from rlm_ci.models import Completion
    from rlm_ci.models.context_length import ContextFit


class EpisodeEnded(BaseException):
    """Leaves a framework. It is no Exception, so that none of them takes it for a tool's error."""


class FrameworkEpisode:
    """What a framework gets: ``goal`` and ``system`` prompt, the tools, and the model.

    ``step`` makes each request's place unique. ``textual``: the model takes no tools, so it gets
    them in words, and its calls are read from its text.
    """

    def __init__(
        self,
        complete: Complete,
        environment: Environment,
        *,
        goal: str,
        system: str,
        model: str,
        bounds: TurnLimits,
        step: str,
        watcher: LoopWatcher | None = None,
        textual: bool = False,
        fit: ContextFit | None = None,
    ) -> None:
        self.goal = goal
        self.system = system
        self.model = model
        self.bounds = bounds
        self._watcher = watcher or LoopWatcher()
        self._textual = JsonCalls() if textual else None
        self._loop = TurnLoop(
            complete,
            environment,
            model=model,
            bounds=bounds,
            answers=self._textual or NativeCalls(),
            watcher=self._watcher,
            fit=fit,
        )
        self._place = step
        self._answered: Completion | None = None
        #: Where the calls of the last answer were found.
        self._origin = ""
        #: By the id of a call: what the endpoint wants back with its message, and with the call;
        #: and by the text of an answer that calls nothing.
        self._extras: dict[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {}
        self._plain_extras: dict[str, Mapping[str, Any]] = {}
        #: How it ended, once it has.
        self.end: LoopEnd | None = None
        self.error: BaseException | None = None

    @property
    def tools(self) -> tuple[dict[str, Any], ...]:
        """The tools as OpenAI describes functions."""
        return self._loop.actions.tools

    @property
    def turns(self) -> int:
        """Answers of the model so far."""
        return self._loop.turn

    def ask(self, messages: Sequence[dict[str, Any]], *, tools: bool) -> Completion:
        """Ask the model; with ``tools``, it may call them. Raises EpisodeEnded."""
        if not tools:
            return self._completion(messages, ())
        if self._textual is None:
            completion = self._completion(messages, self.tools)
            calls = self._loop.calls(completion, self.turns)
            for call in calls:
                self._extras[call.id] = completion.extra, call.extra
            self._origin = calls[0].origin if calls else ""
            text = completion.text if completion.tool_calls or not calls else ""
            return completion.replace(text=text, tool_calls=tuple(map(_native, calls)))
        dialogue = _in_words(messages, self._textual.prompt(self.tools))
        while True:
            completion = self._completion(dialogue, ())
            calls = self._loop.calls(completion, self.turns)
            if calls:
                return completion.replace(text="", tool_calls=tuple(map(_native, calls)))
            _, wrong = self._textual.result(completion, self._loop.actions.names)
            self._count(wrong, is_sound=False)
            dialogue = [*dialogue, _message("assistant", completion.text), _message("user", wrong)]

    def _completion(
        self, messages: Sequence[dict[str, Any]], tools: tuple[dict[str, Any], ...]
    ) -> Completion:
        self._require_open()
        self._tell_answered()
        if (end := self._loop.exhausted()) is not None:
            self._leave(end)
        memory = _RequestMessages([self._with_extras(_encodable(message)) for message in messages])
        try:
            self._answered = self._loop.ask(memory, self._place, tools)
        except BaseException as error:  # noqa: BLE001 - it is raised behind the framework
            self._fail(error)
        if not self._answered.tool_calls:
            self._plain_extras[encodable(self._answered.text)] = self._answered.extra
        return self._answered

    def _with_extras(self, message: dict[str, Any]) -> dict[str, Any]:
        """A message with the members that its endpoint wants back, which no framework keeps."""
        calls = message.get("tool_calls") or ()
        if message["role"] == "assistant" and not calls:
            return {**message, **self._plain_extras.get(message["content"], {})}
        extras = [self._extras.get(call["id"], ({}, {})) for call in calls]
        if not any(map(any, extras)):
            return message
        full_calls = [
            with_members(call, extra) for call, (_, extra) in zip(calls, extras, strict=True)
        ]
        return {**message, **extras[0][0], "tool_calls": full_calls}

    def call(self, name: str, arguments: Mapping[str, Any], ident: str = "") -> str:
        """Call a tool, and say what came of it. Raises EpisodeEnded."""
        self._require_open()
        if self._answered is None:
            raise RuntimeError("a tool is called by an answer of the model")
        written = json.dumps(arguments, default=str)
        call = ToolCall(ident or "call", name, written, origin=self._origin)
        try:
            observation, is_sound = self._loop.actions.carry_out(call, self.turns, self._answered)
        except BaseException as error:  # noqa: BLE001 - as above
            self._fail(error)
        if observation.final:
            self._leave(LoopEnd(observation.text, "", self.turns, observation.blocked))
        self._count(observation.text, is_sound=is_sound)
        return self._loop.clip(observation.text)

    def answer(self, text: str) -> NoReturn:
        """End with an answer, as the framework does it, which also takes one that was cut off."""
        answered, words = self._answered, text.strip()
        is_cut_off = answered is not None and answered.finish_reason == "length"
        if answered is not None and is_cut_off and words and words in answered.text:
            self.give_up("the answer was cut off at the cap on its tokens")
        if "final" in self._loop.actions.names:
            refusal = self.call("final", {"final_response": text})
            self.give_up(f"the answer was not taken: {refusal}")
        self._leave(LoopEnd(text.strip(), "", self.turns))

    def give_up(self, reason: str) -> NoReturn:
        """End without an answer."""
        self._require_open()
        self._leave(LoopEnd("", printable(reason[:500]), self.turns))

    def close(self) -> None:
        """Tell the watcher of the last answer."""
        self._tell_answered()

    def _count(self, wrong: str, *, is_sound: bool) -> None:
        if (end := self._loop.counted(wrong, is_sound=is_sound)) is not None:
            self._leave(end)

    def _require_open(self) -> None:
        if self.end is not None or self.error is not None:
            raise EpisodeEnded

    def _leave(self, end: LoopEnd) -> NoReturn:
        self.end = end
        raise EpisodeEnded

    def _fail(self, error: BaseException) -> NoReturn:
        self.error = error
        raise EpisodeEnded from None

    def _tell_answered(self) -> None:
        if self._answered is not None:
            self._watcher.answered(self.turns, self._answered)
            self._answered = None


class _RequestMessages(Memory):
    """The messages that a framework has made for one request."""

    def __init__(self, messages: Sequence[dict[str, Any]]) -> None:
        self._messages = tuple(messages)

    def messages(self, room: int | None = None) -> tuple[dict[str, Any], ...]:
        return self._messages if room is None else shortened(self._messages, room)


def _in_words(messages: Sequence[dict[str, Any]], tools: str) -> list[dict[str, Any]]:
    """Messages for a model without tools, which ``tools`` describes to it."""
    names: dict[str, str] = {}
    dialogue = [_message("system", tools)]
    for message in messages:
        text = message["content"] or ""
        if message["role"] == "tool":
            dialogue.append(
                _message("user", f"Result of {names[message['tool_call_id']]}:\n{text}")
            )
            continue
        for call in message.get("tool_calls", ()):
            function = call["function"]
            names[call["id"]] = function["name"]
            text += f'{{"tool": "{function["name"]}", "arguments": {function["arguments"]}}}'
        dialogue.append(_message(message["role"], text))
    if len(dialogue) > 1 and dialogue[1]["role"] == "system":
        dialogue[:2] = [_message("system", f"{dialogue[1]['content'].rstrip()}\n\n{tools}")]
    return dialogue


def _message(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "content": text}


def _native(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "name": call.name, "arguments": call.arguments}


def _encodable(message: dict[str, Any]) -> dict[str, Any]:
    """A message that endpoints take; they refuse an empty text."""
    content = message.get("content")
    if not isinstance(content, str):
        return message
    return {**message, "content": encodable(content) or "(empty)"}
