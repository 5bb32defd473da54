"""DSPy: its ReAct program, which calls tools in the text of answers."""

from __future__ import annotations

from typing import Any  # DSPy reads the annotations of tools

import dspy
from dspy.lm15 import Message, Response, TextPart, Usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from rlm_ci.lab.frameworks.episode import FrameworkEpisode

#: The tool by which ReAct ends.
_FINISH = "finish"


class _Engine:
    """Our model as DSPy asks one."""

    def __init__(self, episode: FrameworkEpisode) -> None:
        self._episode = episode

    def complete(self, request: Any) -> Any:
        system = request.system
        if system is not None and not isinstance(system, str):
            system = "".join(part.text for part in system)
        messages = [{"role": "system", "content": system}] if system else []
        messages += [
            {
                "role": "assistant" if message.role == "assistant" else "user",
                "content": message.text or "",
            }
            for message in request.messages
        ]
        completion = self._episode.ask(messages, tools=False)
        is_cut = completion.finish_reason == "length"
        return Response(
            id=None,
            model=self._episode.model,
            message=Message.assistant([TextPart(completion.text)]),
            finish_reason="length" if is_cut else "stop",
            usage=Usage(),
        )

    def close(self) -> None:
        """Nothing is open."""


def run(episode: FrameworkEpisode) -> str:
    """One episode: thoughts and tool calls in turn, then the answer from all of them."""
    tools = [
        dspy.Tool(
            _function(episode, tool["function"]["name"]),
            name=tool["function"]["name"],
            desc=tool["function"]["description"],
            args=tool["function"]["parameters"]["properties"],
            arg_types={},
        )
        for tool in episode.tools
    ]
    model = dspy.LM(episode.model, engine=_Engine(episode), cache=False, num_retries=0)
    signature = dspy.Signature("task -> answer", episode.system)
    with dspy.context(lm=model, adapter=dspy.ChatAdapter()):
        program = dspy.ReAct(signature, tools=tools, max_iters=episode.bounds.turns)
        prediction = program(task=episode.goal)
    steps = [name for name in prediction.trajectory if name.startswith("tool_name_")]
    if not steps or prediction.trajectory[steps[-1]] != _FINISH:
        # DSPy makes up an answer from what there is.
        episode.give_up("the model selected no tool that is there, and did not finish")
    return str(prediction.answer)


def _function(episode: FrameworkEpisode, name: str) -> Callable[..., str]:
    def call(**arguments: Any) -> str:
        return episode.call(name, arguments)

    return call
