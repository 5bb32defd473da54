"""Contexts of servers on one's own machine: what they count, and refuse, and in which words.

The rules and the words are those of real servers, with other figures.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any

from testing.loopback_model.replies import Raw, refusal

#: Tokens that a template adds to each message.
_OF_MESSAGE = 4


@dataclass(frozen=True)
class SmallContext:
    """A model that reads ``tokens``, each of so many bytes.

    ``refused`` is what it says of a prompt by its tokens and those that it reads; ``is_shared``:
    the cap of the answer counts, too, before anything is written.
    """

    tokens: int
    bytes_per_token: float = 3.0
    refused: Callable[[int, int], Raw] = lambda prompt, tokens: refusal(
        400, f"request ({prompt} tokens) exceeds the available context size ({tokens} tokens), try "
        "increasing it", code="exceed_context_size_error",
    )  # fmt: skip
    is_shared: bool = False

    def count(self, body: Mapping[str, Any]) -> int:
        """The tokens of a prompt: of its texts, its calls, and its tools as a template has them."""
        texts = [json.dumps(body["tools"])] if body.get("tools") else []
        for message in body["messages"]:
            content = message["content"] or ""
            texts.append(content if isinstance(content, str) else json.dumps(content))
            calls = (call["function"] for call in message.get("tool_calls", ()))
            texts += [f"{call['name']}{call['arguments']}" for call in calls]
        size = sum(len(text.encode()) for text in texts)
        return ceil(size / self.bytes_per_token) + _OF_MESSAGE * len(body["messages"])

    def refuses(self, body: Mapping[str, Any]) -> Raw | None:
        prompt, answer = self.count(body), cap_of(body)
        if prompt + (answer if self.is_shared else 0) <= self.tokens:
            return None
        return self.refused(prompt, self.tokens)


def cap_of(body: Mapping[str, Any]) -> int:
    return body.get("max_tokens") or body.get("max_completion_tokens") or 0


class NewVllm(SmallContext):
    """As vLLM does since 0.18: it counts a prompt no further than it has to."""

    def refuses(self, body: Mapping[str, Any]) -> Raw | None:
        prompt, answer = self.count(body), cap_of(body)
        if answer > self.tokens:
            return refusal(
                400,
                f"max_tokens={answer} cannot be greater than max_model_len="
                f"max_total_tokens={self.tokens}. Please request fewer output tokens.",
            )
        if prompt + answer <= self.tokens:
            return None
        counted = self.tokens - answer + 1
        return refusal(
            400,
            f"This model's maximum context length is {self.tokens} tokens. However, you "
            f"requested {answer} output tokens and your prompt contains at least {counted} input "
            f"tokens, for a total of at least {answer + counted} tokens. Please reduce the length "
            "of the input prompt or the number of requested output tokens.",
        )


def vllm(tokens: int, bytes_per_token: float = 3.0) -> SmallContext:
    """As vLLM counts: prompt and answer share the context."""
    return SmallContext(
        tokens,
        bytes_per_token,
        lambda prompt, limit: refusal(
            400, f"This model's maximum context length is {limit} tokens and your request has "
            f"{prompt} input tokens. Please reduce the length of the input messages.",
        ),
        is_shared=True,
    )  # fmt: skip
