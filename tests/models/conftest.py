from __future__ import annotations

from contextlib import ExitStack
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest

from testing.loopback_model.fixture import llm
from testing.model_clients import client_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from rlm_ci.models.openai.client import OpenAIModel
    from testing.loopback_model.server import ModelServer

__all__ = ["client", "llm", "path"]


@pytest.fixture
def client() -> Iterator[Callable[..., OpenAIModel]]:
    """``client(server, **options)``: a client of it, closed when the test ends."""
    import_module("openai")  # takes a second, once: no test's patience is meant for that
    with ExitStack() as stack:

        def make(served: ModelServer, **more: Any) -> OpenAIModel:
            return stack.enter_context(client_of(served, **more))

        yield make


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a run records its calls."""
    return tmp_path / "calls.jsonl"
