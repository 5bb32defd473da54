"""What a model is asked, and what it answers.

Messages, tools and response formats are plain dicts in the format of OpenAI's chat API and pass
unchanged. The arguments of a tool call stay the text that the model wrote.
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

    from rlm_ci.console.progress import ActiveAnswer

    Message = dict[str, Any]
else:
    Protocol = object


class ModelRequest(Value):
    """One question. ``max_tokens`` limits the answer, hidden reasoning included.

    Do not change ``messages`` and ``tools`` afterwards. ``seconds`` limits the time of all
    attempts together, ``active`` is told of an answer that comes in pieces; such an answer may go
    on for as long as that allows.
    """

    model: str
    messages: tuple[Message, ...]
    max_tokens: int
    tools: tuple[Message, ...] = ()
    temperature: float | None = None
    response_format: Message | None = None
    seconds: float | None = None
    active: ActiveAnswer | None = None

    def to_dict(self) -> dict[str, Any]:
        """What the answer depends on, as JSON has it: no limit of the run."""
        record = super().to_dict()
        del record["seconds"], record["active"]
        return record

    def prompt_bytes(self) -> int:
        """The bytes of all that the model reads, as JSON: an upper estimate."""
        read = [self.messages, self.tools, self.response_format]
        # Lone surrogates, which UTF-8 has no bytes for, count as they are escaped.
        return len(json.dumps(read, ensure_ascii=False).encode("utf-8", "backslashreplace"))


def is_wish(response_format: Message) -> bool:
    """Whether an endpoint that does not take the format of an answer may do without."""
    return response_format.get("json_schema", {}).get("strict") is False


class TokenUsage(Value):
    """Tokens of one call; reasoning counts as completion, ``cached_tokens`` are in the prompt's.

    ``estimated``: the endpoint gave no count, so these are the tokens reserved.
    """

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    estimated: bool = False


class Completion(Value):
    """One whole answer. ``tool_calls`` are ``{"id", "name", "arguments"}``, all texts.

    ``finish_reason`` is the endpoint's: ``stop``, ``tool_calls``, or ``length`` for a text that
    was cut off. ``usage`` is None until the ledger has charged it; ``cost`` is in USD, None
    where the price is not known; ``uncached_cost`` if the endpoint had cached nothing of a prompt
    of which it had.

    ``thoughts`` is reasoning that stood in the text. ``extra`` are the members of the message that
    only its endpoint knows, and wants back with it; its ``content`` are the parts of a text that
    are not all plain, or the text with its thoughts. ``extra`` of a call is the same; its
    ``function`` are those inside that. ``left_out`` names what was too large to keep.
    ``resumed_tokens``, about, came before the answer broke off, and it goes on from them;
    ``lost_tokens`` came and are paid for again.
    """

    _optional = (
        "uncached_cost", "thoughts", "extra", "left_out", "resumed_tokens", "lost_tokens",
    )  # fmt: skip

    text: str
    tool_calls: tuple[dict[str, Any], ...]
    finish_reason: str
    model: str
    usage: TokenUsage | None = None
    cost: Decimal | None = None
    uncached_cost: Decimal | None = None
    thoughts: str = ""
    extra: Mapping[str, Any] = {}
    left_out: str = ""
    resumed_tokens: int = 0
    lost_tokens: int = 0


def text_of(content: object) -> str:
    """The text of a message's content; some endpoints send it in parts."""
    if isinstance(content, list):
        texts = (part.get("text") for part in content if isinstance(part, dict))
        values = (text.get("value") if isinstance(text, dict) else text for text in texts)
        return "".join(text for text in values if isinstance(text, str))
    return content if isinstance(content, str) else ""


class Model(Protocol):
    """Answers requests. ``name`` is the provider's, such as ``openai``: part of a call's key."""

    name: str

    def complete(self, request: ModelRequest) -> Completion:
        """The answer; safe for many threads.

        Raises RemoteError for a call without an answer or a cost, SpentError for one without a
        usable answer that may have cost something.
        """


#: How the error of a prompt begins that its endpoint did not read whole, or not at all.
PROMPT_CUT = "the endpoint cut the prompt"
PROMPT_TOO_LONG = "the prompt is too long for the model"
#: What to do about it.
SHORTER = (
    "say by models.context_tokens what the model reads, or give its server a longer context; a "
    "review also has --depth quick and recursion.prompt_bytes, a question symbolic.prompt_bytes; "
    "models.max_completion_tokens makes answers shorter"
)


class SpentError(RemoteError):
    """An answer was lost or is of no use, and may cost all the same.

    ``usage`` is the endpoint's count, if it gave one; ``size`` the bytes of what had come, None
    where that is not known; ``tokens`` about how many had come; ``part`` the text of them, if an
    answer can go on from it; ``again``: asking once more may help.
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
        self.size: int | None = None
        self.tokens = 0
        self.part = ""
        self.again = again
