"""Requests of a run's calls, by place, and what a call shows of its own."""

from __future__ import annotations

from rlm_ci.viewer.folder import call_step
from rlm_ci.viewer.steps import ViewedText

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from rlm_ci.models import ModelRequest
    from rlm_ci.viewer.folder import RecordedCall
    from rlm_ci.viewer.steps import ViewedStep

    Messages = Sequence[Mapping[str, Any]]


class Prompts:
    """The requests that are known, by the place of the call."""

    def __init__(self, requests: Mapping[str, ModelRequest]) -> None:
        self._known = requests
        #: The last request of each conversation: its next one repeats it.
        self._last: dict[str, Messages] = {}

    def step(self, call: RecordedCall, title: str, conversation: str = "") -> ViewedStep:
        """A call with its prompt: what is new in it, where it goes on with a conversation."""
        step = call_step(call, title)
        request = self._known.get(call.place)
        if request is None:
            return step
        messages = request.messages
        last = self._last.get(conversation, ()) if conversation else ()
        same = 0
        while same < min(len(last), len(messages)) and last[same] == messages[same]:
            same += 1
        if conversation:
            self._last[conversation] = messages
        if same:
            step.tell("prompt", f"{len(messages)} messages, the first {same} as in the last call")
        prompt = "\n\n".join(map(_message_text, messages[same:]))
        step.texts.insert(0, ViewedText("Prompt", prompt))
        return step


def _message_text(message: Mapping[str, Any]) -> str:
    """A message as a text: its role, what it says, what it calls."""
    lines = [f"── {message.get('role', '')} ──", str(message.get("content") or "")]
    for call in message.get("tool_calls") or ():
        function = call.get("function", {})
        lines.append(f"→ {function.get('name')} {function.get('arguments')}")
    return "\n".join(line for line in lines if line)
