"""The formats in which a model may write its calls: native tools, JSON in the text, code blocks.

An environment takes one that is here, or brings its own.
"""

from __future__ import annotations

import json

from rlm_ci.environments import tool_calls
from rlm_ci.environments.tool_calls import ToolCall
from rlm_ci.models import thoughts
from rlm_ci.resources import loader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, Protocol

    from rlm_ci.environments.conversation import Memory
    from rlm_ci.models import Completion
else:
    Protocol = object


class AnswerFormat(Protocol):
    """How the calls of an answer are read, and how their results are told.

    ``native``: the endpoint gets the tools, and the messages its calls with their results.
    """

    native: bool = False

    def calls(self, completion: Completion, turn: int) -> list[ToolCall]:
        """The calls of an answer, in their order; none if it has none."""

    def missing(self, names: Sequence[str]) -> tuple[str, str]:
        """For an answer without a call: what it lacks, and what to do; ``names`` are the tools'."""

    def result(self, completion: Completion, names: Sequence[str]) -> tuple[Any, str]:
        """What an answer without a call is read as; None with what the model is told of it."""
        wrong, remedy = self.missing(names)
        cut_off = "It was cut off: be shorter. " if completion.finish_reason == "length" else ""
        return None, f"{wrong} {cut_off}{remedy}"

    def tell(self, history: Memory, call: ToolCall, text: str) -> None:
        """Add the result of a call."""
        history.say_result(call.name, text)


class NativeCalls(AnswerFormat):
    """The tool calls of OpenAI's chat API."""

    native = True

    def calls(self, completion: Completion, turn: int) -> list[ToolCall]:
        return tool_calls.from_tools(completion.tool_calls, turn)

    def missing(self, names: Sequence[str]) -> tuple[str, str]:
        return "Your answer called no tool.", f"Call one of: {', '.join(names)}."

    def tell(self, history: Memory, call: ToolCall, text: str) -> None:
        history.result(call, text)


class JsonCalls(AnswerFormat):
    """``{"tool": NAME, "arguments": {…}}`` in the text."""

    def calls(self, completion: Completion, turn: int) -> list[ToolCall]:
        return tool_calls.from_text(completion.text, turn)

    def missing(self, names: Sequence[str]) -> tuple[str, str]:
        wrong = 'Your answer had no JSON object with "tool" and "arguments".'
        return wrong, f"Call one of: {', '.join(names)}."

    @staticmethod
    def prompt(tools: Sequence[Mapping[str, Any]]) -> str:
        """What a model is told of its tools, and how to call them."""
        functions = [
            {**tool["function"], "arguments": json.dumps(tool["function"]["parameters"])}
            for tool in tools
        ]
        return loader.load_template("prompts/tools-as-json.md.j2")({"tools": functions})


class ValueAnswer(NativeCalls):
    """A value that ``read`` finds in an answer, or None and what the model is told of it.

    If ``native``, the model may call tools before it answers.
    """

    def __init__(
        self, read: Callable[[Completion], tuple[Any, str]], *, native: bool = False
    ) -> None:
        self.native = native
        self._read = read

    def calls(self, completion: Completion, turn: int) -> list[ToolCall]:  # noqa: ARG002
        return []  # there are no tools

    def result(self, completion: Completion, names: Sequence[str]) -> tuple[Any, str]:  # noqa: ARG002
        return self._read(completion)


#: Words of the reference's planner for the end.
_FINAL = ("final", "finish", "complete")
#: Keys of an action that are no arguments.
_NOTES = ("action", "done", "rationale", "reasoning", "thought")


class JsonActions(AnswerFormat):
    """``{"action": NAME, ARGUMENT: …, "done": …, "final_response": …}`` in the text.

    With ``done``, the call ``final`` follows; it is left out where the action fails.
    """

    def calls(self, completion: Completion, turn: int) -> list[ToolCall]:
        action = tool_calls.object_with("action", completion.text)
        if action is None:
            return []
        name = action["action"].strip()
        final = {"final_response": action.get("final_response") or ""}
        if name in _FINAL:
            return [_call(turn, 0, "final", final)]
        arguments = {
            key: value
            for key, value in action.items()
            if key not in _NOTES and key != "final_response" and value is not None
        }
        calls = [_call(turn, 0, name, arguments)]
        if action.get("done") is True:
            calls.append(_call(turn, 1, "final", final).replace(if_all_well=True))
        return calls

    def missing(self, names: Sequence[str]) -> tuple[str, str]:
        wrong = 'Your answer had no JSON object with an "action".'
        return wrong, f"Answer with one; the actions: {', '.join(names)}."


class CodeBlocks(AnswerFormat):
    """Code in fenced blocks, each a call of ``name`` with it as ``code``, in their order."""

    def __init__(self, name: str, languages: Sequence[str] = ("repl", "python")) -> None:
        self._name = name
        self._languages = languages

    def calls(self, completion: Completion, turn: int) -> list[ToolCall]:
        cut_off = completion.finish_reason == "length"
        blocks = code_blocks(completion.text, self._languages, cut_off=cut_off)
        return [self.call(turn, at, code) for at, code in enumerate(blocks)]

    def call(self, turn: int, index: int, code: str) -> ToolCall:
        """The call that runs ``code``."""
        return _call(turn, index, self._name, {"code": code})

    def missing(self, names: Sequence[str]) -> tuple[str, str]:  # noqa: ARG002 - of a protocol
        fence = f"```{self._languages[0]}"
        return f"Your answer had no {fence} block.", f"Write code between {fence} and ```."


def code_blocks(text: str, languages: Sequence[str], *, cut_off: bool) -> list[str]:
    """The contents of the fenced blocks of ``languages``.

    The last one may lack its closing fence, unless the text was ``cut_off``.
    """
    _, text = thoughts.split(text)
    blocks: list[str] = []
    lines: list[str] = []
    fence, is_code = "", False
    for line in text.split("\n"):
        bare = line.strip()
        if fence:
            if bare.startswith(fence) and not bare.strip(fence[0]):
                if is_code:
                    blocks.append("\n".join(lines))
                fence, lines = "", []
            else:
                lines.append(line.removesuffix("\r"))
        elif bare.startswith(("```", "~~~")):
            fence = bare[: len(bare) - len(bare.lstrip(bare[0]))]
            is_code = bare[len(fence) :].strip().casefold() in languages
    if fence and is_code and not cut_off:
        blocks.append("\n".join(lines))
    return [block for block in blocks if block.strip()]


def _call(turn: int, index: int, name: str, arguments: dict[str, Any]) -> ToolCall:
    text = json.dumps(arguments, ensure_ascii=False)
    return ToolCall(tool_calls.made_id(turn, index), name, text, index)
