"""An answer that broke off while it was written, and the question that goes on from there."""

from __future__ import annotations

from rlm_ci.models.budget import SHORTEST

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

    from rlm_ci.models import Completion, ModelRequest

#: Characters by which an answer is seen to begin anew; it goes on from no fewer.
_SAME: Final = 24


class BrokenAnswer:
    """What is known of a question whose answer broke off. ``part`` is what it goes on from."""

    def __init__(self, request: ModelRequest) -> None:
        self._request = request
        self._tokens = 0
        self.part = ""

    def take(self, tokens: int, part: str) -> None:
        """Note that about ``tokens`` came, and the text to go on from, "" for none."""
        self._tokens += tokens
        self.part = part if len(part) >= _SAME else ""

    def question(self) -> ModelRequest:
        """The question, with the part as its answer so far."""
        if not self.part:
            return self._request
        so_far = {"role": "assistant", "content": self.part}
        left = max(self._request.max_tokens - self._tokens, min(SHORTEST, self._request.max_tokens))
        messages = (*self._request.messages, so_far)
        return self._request.replace(messages=messages, max_tokens=left)

    def joined(self, answer: Completion) -> Completion:
        """The whole answer; some models do not go on, but begin anew."""
        if not self._tokens:
            return answer
        if answer.text.lstrip().startswith(self.part[:_SAME].lstrip()):
            return answer.replace(lost_tokens=self._tokens)
        extra = {name: value for name, value in answer.extra.items() if name != "content"}
        text = self.part + answer.text
        return answer.replace(text=text, extra=extra, resumed_tokens=self._tokens)
