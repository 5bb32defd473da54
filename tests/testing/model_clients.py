"""What the tests of models ask, and with how little patience."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rlm_ci.models import ModelRequest
from rlm_ci.models.openai.client import OpenAIModel, RetryLimits

if TYPE_CHECKING:
    from testing.loopback_model.server import ModelServer

SHORT = RetryLimits(connect=5, answer=8, total=20, attempts=3, pause=0.01, longest=5)
TOOL = {
    "type": "function",
    "function": {"name": "read", "parameters": {"type": "object", "properties": {}}},
}
#: Makes a client of a server; it is closed when the test ends.
Client = Callable[..., OpenAIModel]


def question(text: str = "What is wrong?", **more: Any) -> ModelRequest:
    fields: dict[str, Any] = {"model": "m-1", "max_tokens": 100, **more}
    return ModelRequest(messages=({"role": "user", "content": text},), **fields)


def client_of(served: ModelServer, **more: Any) -> OpenAIModel:
    """A client with its key; whoever asks for it closes it."""
    fields: dict[str, Any] = {
        "base_url": served.url, "api_key": served.key, "patience": SHORT, **more
    }  # fmt: skip
    return OpenAIModel(**fields)
