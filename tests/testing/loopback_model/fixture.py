"""The fixture ``llm``, for a conftest.py to import."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from testing.loopback_model.server import ModelServer

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def llm() -> Iterator[ModelServer]:
    """A model service at ``llm.url``; say what it answers by ``llm.script``.

    The test fails when OpenAI would have refused a request, unless it said so by ``llm.expect``.
    """
    with ModelServer() as served:
        yield served
    assert not served.unexpected(), "\n".join(served.unexpected())
