"""The fixture ``github``, for a conftest.py to import."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from testing.loopback_github.server import GitHub

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def github() -> Iterator[GitHub]:
    """An empty GitHub at ``github.url``.

    The test fails when a request or an answer did not keep to GitHub's description, unless it
    said so by ``github.expect``.
    """
    with GitHub() as served:
        yield served
    assert not served.unexpected(), "\n".join(served.unexpected())
