"""Prompts of a run's calls, by place, and how a call shows its own."""

from __future__ import annotations

from rlm_ci.viewer.folder import call_step
from rlm_ci.viewer.steps import ViewedText

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from rlm_ci.viewer.folder import RecordedCall
    from rlm_ci.viewer.steps import ViewedStep

    Messages = Sequence[Mapping[str, Any]]


class Prompts:
    """The messages of requests, by the place of the call."""

    def __init__(self, known: Mapping[str, Messages]) -> None:
        self._known = known
        #: The last request of each conversation: its next one repeats it.
        self._last: dict[str, Messages] = {}
        #: Results of tools, by the ids of their calls, as the next request has them.
        self.results = {
            str(one.get("tool_call_id")): str(one.get("content") or "")
            for messages in known.values()
            for one in messages
            if one.get("role") == "tool"
        }

    def step(self, one: RecordedCall, title: str, conversation: str = "") -> ViewedStep:
        """A call with its prompt: what is new in it, where it goes on with a conversation."""
        step = call_step(one, title)
        messages = self._known.get(one.place)
        if messages is None:
            return step
        last = self._last.get(conversation, ()) if conversation else ()
        same = 0
        while same < min(len(last), len(messages)) and last[same] == messages[same]:
            same += 1
        if conversation:
            self._last[conversation] = messages
        if same:
            step.tell("prompt", f"{len(messages)} messages, the first {same} as in the last call")
        prompt = "\n\n".join(map(_told, messages[same:]))
        step.texts.insert(0, ViewedText("Prompt", prompt))
        return step


def _told(message: Mapping[str, Any]) -> str:
    """A message as a text: its role, what it says, what it calls."""
    lines = [f"── {message.get('role', '')} ──", str(message.get("content") or "")]
    for call in message.get("tool_calls") or ():
        function = call.get("function", {})
        lines.append(f"→ {function.get('name')} {function.get('arguments')}")
    return "\n".join(line for line in lines if line)
