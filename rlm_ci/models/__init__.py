"""What is asked of a model, and what it answers: one contract, whoever serves it.

Messages, tools and response formats are plain dicts in the format of OpenAI's chat API; they
are passed on as they are. Arguments of a tool call stay the text that the model wrote.
"""

from __future__ import annotations

import json

from rlm_ci.errors import RemoteError
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from decimal import Decimal
    from typing import Any, Protocol

    Message = dict[str, Any]
else:
    Protocol = object


class ModelRequest(Value):
    """One question. ``max_tokens`` caps what is written, hidden reasoning included.

    ``messages`` and ``tools`` must not be changed once they are here. ``seconds`` is how long
    the answer may take, all attempts together: no part of what is asked.
    """

    model: str
    messages: tuple[Message, ...]
    max_tokens: int
    tools: tuple[Message, ...] = ()
    temperature: float | None = None
    response_format: Message | None = None
    seconds: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """All that the answer depends on, as JSON has it."""
        return {
            "model": self.model,
            "messages": list(self.messages),
            "max_tokens": self.max_tokens,
            "tools": list(self.tools),
            "temperature": self.temperature,
            "response_format": self.response_format,
        }

    def prompt_bytes(self) -> int:
        """The bytes of all that the model reads, with the JSON around it: an upper estimate."""
        read = [self.messages, self.tools, self.response_format]
        # Lone surrogates, which UTF-8 has no bytes for, count as they are escaped.
        return len(json.dumps(read, ensure_ascii=False).encode("utf-8", "backslashreplace"))


class TokenUsage(Value):
    """Tokens of one answer; reasoning counts as completion, cached ones are among the prompt's.

    ``estimated`` when the endpoint said nothing: then they are what was reserved.
    """

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    estimated: bool = False

    def to_dict(self) -> dict[str, Any]:
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "cached_tokens": self.cached_tokens,
            "estimated": self.estimated,
        }


class Completion(Value):
    """One whole answer. ``tool_calls`` are ``{"id", "name", "arguments"}``, all of them texts.

    ``finish_reason`` is the endpoint's: ``stop``, ``tool_calls``, or ``length`` for a text that
    the cap cut off. ``usage`` is None only until the ledger has charged it; ``cost`` is in USD,
    None where the price is not known.
    """

    text: str
    tool_calls: tuple[dict[str, str], ...]
    finish_reason: str
    model: str
    usage: TokenUsage | None = None
    cost: Decimal | None = None

    def to_dict(self) -> dict[str, Any]:
        """As it is journalled; ``from_dict`` reads it back."""
        return {
            "text": self.text,
            "tool_calls": list(self.tool_calls),
            "finish_reason": self.finish_reason,
            "model": self.model,
            "usage": None if self.usage is None else self.usage.to_dict(),
            "cost": None if self.cost is None else str(self.cost),
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Completion:
        from decimal import Decimal

        usage, cost = value["usage"], value["cost"]
        return cls(
            value["text"],
            tuple(value["tool_calls"]),
            value["finish_reason"],
            value["model"],
            None if usage is None else TokenUsage(**usage),
            None if cost is None else Decimal(cost),
        )


class Model(Protocol):
    """Whoever answers. ``name`` is the provider's, such as ``openai``: part of a call's key."""

    name: str

    def complete(self, request: ModelRequest) -> Completion:
        """The answer; from many threads at once.

        Raises RemoteError when there is none and nothing was paid, SpentError when there is
        none that is of use and it may have been paid for.
        """


class SpentError(RemoteError):
    """The model was at work, and its answer was lost or is of no use: it may cost all the same.

    ``usage`` is what the endpoint said of it, None when it said nothing; ``again`` whether
    asking once more may help.
    """

    def __init__(
        self,
        what: str,
        *,
        where: str = "",
        hint: str = "",
        usage: TokenUsage | None = None,
        again: bool = False,
    ) -> None:
        super().__init__(what, where=where, hint=hint)
        self.usage = usage
        self.again = again
